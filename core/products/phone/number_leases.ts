/**
 * Phone numbers that wallets lease (decision 59). A number is bought upstream before it is paid for, so a wallet's
 * rights depend on the call that paid for its latest term. A maintenance task releases numbers that are rented upstream
 * and belong to nobody.
 */
import { Type } from '@sinclair/typebox'
import { type ReadRecord, recordKind } from '../../endpoint/record_kind.ts'
import { isOver } from '../../endpoint/records.ts'
import type { MaintenanceTask, Records } from '../../endpoint/call_context.ts'
import type { Call, Log } from '../../ports/mod.ts'
import type { Line, PhoneVendor } from '../../ports/vendors/phone.ts'

/** The wallet that leases a number, stored under the number in E.164. */
export const NUMBER = recordKind({
  kind: 'phone_number',
  version: 1,
  /**
   * `id` is the carrier's. `terms` are the terms that are certainly paid for; `payment` is the call that pays for one
   * more, or has paid.
   */
  schema: Type.Object({
    id: Type.String(),
    order: Type.String(),
    chain: Type.String(),
    from: Type.Number(),
    terms: Type.Number(),
    payment: Type.String(),
    ending: Type.Optional(Type.Literal(true)),
  }),
})
type Lease = Parameters<typeof NUMBER.put>[1]['data']
type LeaseRecord = ReadRecord<Lease>

/** The call that buys a number, stored under its order before the number is bought. */
export const NUMBER_ORDER = recordKind({
  kind: 'phone_order',
  version: 1,
  schema: Type.Object({
    call: Type.String(),
    number: Type.Optional(Type.String()),
    ending: Type.Optional(Type.Literal(true)),
  }),
})
export type NumberOrder = ReadRecord<Parameters<typeof NUMBER_ORDER.put>[1]['data']>

/** Numbers that a wallet has leased, for its own list. */
const FORMER = recordKind({
  kind: 'phone_former',
  version: 1,
  schema: Type.Object({ number: Type.String(), chain: Type.String(), expiresAt: Type.Number() }),
})

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
export const TERM_MS = 30 * DAY_MS
/** Records of numbers that the operator pays for never expire on their own. */
export const NO_EXPIRY = Number.MAX_SAFE_INTEGER
/**
 * Covers a poll that began within the claim window and ends after it, and a repeat of the signed request after a
 * failure.
 */
const GRACE_MS = HOUR_MS
const MAX = 1_000
/** Maximum number of numbers per wallet. */
export const MAX_NUMBERS = 100

export type LeasedNumber = {
  readonly number: string
  readonly record: LeaseRecord
  readonly lease: Lease
  readonly expiresAt: number
  readonly isActive: boolean
  /** The call that pays for another term and has not settled yet. */
  readonly unpaid?: Call
}

/** Whether a call is paid; also if its settlement could not be confirmed in time (decision 16). */
const isPaid = (call: Call | undefined): boolean =>
  call?.paymentStatus === 'settled' || call?.paymentStatus === 'unresolved'

/** The current state of a lease. */
export async function leaseStatusOf(
  record: LeaseRecord,
  { records, now }: { records: Pick<Records, 'getCall'>; now: number },
): Promise<LeasedNumber> {
  const lease = record.data
  const call = await records.getCall(lease.payment)
  const expiresAt = lease.from + TERM_MS * (lease.terms + (isPaid(call) ? 1 : 0))
  const unpaid = call && !isPaid(call) && !isOver(call, now - GRACE_MS) ? call : undefined
  return {
    number: record.id,
    record,
    lease,
    expiresAt,
    isActive: !lease.ending && expiresAt > now,
    ...(unpaid && { unpaid }),
  }
}

/** The leases of a wallet, oldest first, including expired and unpaid ones. */
export async function numbersOf(
  wallet: string,
  at: { records: Records; now: number },
): Promise<readonly LeasedNumber[]> {
  const records = await NUMBER.list(at.records, wallet, { now: at.now, limit: MAX })
  const all = await Promise.all(records.map((record) => leaseStatusOf(record, at)))
  return all
    .filter(({ lease }) => !lease.ending)
    .toSorted((one, other) => one.lease.from - other.lease.from || (one.number < other.number ? -1 : 1))
}

/** Numbers that a wallet leased in the past. */
export async function formerOf(
  wallet: string,
  { records, now }: { records: Records; now: number },
): Promise<readonly { number: string; chain: string; expiresAt: number }[]> {
  const former = await FORMER.list(records, wallet, { now, limit: MAX })
  return former.map(({ data }) => data).toSorted((one, other) => other.expiresAt - one.expiresAt)
}

// ── start and end ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Assigns a bought number to the wallet once this call is paid. False if another wallet has it. */
export async function rentOut(
  records: Records,
  { number, id, order }: Line,
  { owner, call, chain, now }: { owner: string; call: string; chain: string; now: number },
): Promise<boolean> {
  const data: Lease = { id, order, chain, from: now, terms: 0, payment: call }
  const record = { id: number, owner, data, expiresAt: NO_EXPIRY }
  const put = async () => (await NUMBER.put(records, record, now)) !== undefined
  if (await put()) return true
  const existing = await NUMBER.get(records, number, now)
  if (!existing) return await put()
  const known = await leaseStatusOf(existing, { records, now })
  // The carrier's number was bought before for a call that failed; or it was released and bought again, and its old
  // record is left over.
  const isReusable =
    known.lease.id === id
      ? existing.owner === owner && !known.isActive && !known.lease.ending
      : !known.isActive && !known.unpaid
  if (!isReusable) return false
  if (existing.owner === owner) return (await NUMBER.move(records, existing, record, now)) !== undefined
  return (await NUMBER.move(records, existing, { expiresAt: now }, now)) !== undefined && (await put())
}

/**
 * Marks a number as being released, so that only one process releases it. Returns its record; undefined when another
 * process was first.
 */
export async function endLease(
  records: Records,
  { record, lease }: Pick<LeasedNumber, 'record' | 'lease'>,
  now: number,
): Promise<LeaseRecord | undefined> {
  if (lease.ending) return record
  return await NUMBER.move(records, record, { data: { ...lease, ending: true } }, now)
}

/** Deletes the lease of a released number; for a while its wallet still sees that it had the number. */
export async function forget(
  records: Records,
  record: LeaseRecord,
  { expiresAt, now }: { expiresAt: number; now: number },
): Promise<void> {
  const { chain, order, from } = record.data
  const data = { number: record.id, chain, expiresAt: Math.min(expiresAt, now) }
  if (expiresAt > from)
    await FORMER.put(records, { id: `${record.id}/${order}`, owner: record.owner, data, expiresAt: now + TERM_MS }, now)
  const ordered = await NUMBER_ORDER.get(records, order, now)
  if (ordered) await NUMBER_ORDER.move(records, ordered, { expiresAt: now }, now)
  await NUMBER.move(records, record, { expiresAt: now }, now)
}

// ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────────────────

type ReleaseContext = {
  readonly records: Records
  readonly phone: PhoneVendor
  readonly log: Log
  readonly signal: AbortSignal
  readonly now: number
}

/**
 * Releases numbers that expired, were not paid for in time, or were bought for a failed call. Leaves unknown numbers
 * alone.
 */
export const releaseUnusedNumbers: MaintenanceTask = {
  everyMs: 10 * 60_000,
  can: ({ phone }) => phone !== undefined,
  async do({ records, vendors, clock, log, signal }) {
    const { phone } = vendors
    if (!phone) return
    for (const line of await phone.lines({ signal })) {
      await handle(line, { records, phone, log, signal, now: clock.now() }).catch((error: Error) =>
        log.alert('an unused phone number could not be released', {
          number: line.number,
          error: error.message,
        }),
      )
    }
  },
}

async function handle(line: Line, at: ReleaseContext): Promise<void> {
  const { records, phone, log, signal, now } = at
  const existing = await NUMBER.get(records, line.number, now)
  if (existing && existing.data.id === line.id) {
    const leased = await leaseStatusOf(existing, at)
    const isWanted =
      !leased.lease.ending &&
      (leased.expiresAt > now || leased.unpaid !== undefined || (await mayStillBePaid(leased.lease.payment, at)))
    const ended = isWanted ? undefined : await endLease(records, leased, now)
    if (!ended) return
    await phone.release(line.id, { signal })
    await forget(records, ended, { expiresAt: leased.expiresAt, now })
    return log.info('a phone number was released', {
      number: line.number,
      why: leased.lease.terms > 0 || leased.expiresAt > leased.lease.from ? 'expired' : 'not paid for',
    })
  }
  const ordered = await NUMBER_ORDER.get(records, line.order, now)
  if (!ordered)
    return log.warn('the carrier has a phone number that this database does not know', {
      number: line.number,
    })
  const order = ordered.data
  const isStray = order.number !== undefined && order.number !== line.number
  if (!isStray && !order.ending && (await mayStillBePaid(order.call, at))) return
  const isMarked = isStray || order.ending
  const ending = isMarked
    ? ordered
    : await NUMBER_ORDER.move(records, ordered, { data: { ...order, ending: true } }, now)
  if (!ending) return
  await phone.release(line.id, { signal })
  if (!isStray) await NUMBER_ORDER.move(records, ending, { expiresAt: now }, now)
  log.info('a phone number was released', { number: line.number, why: 'bought for a call that came to nothing' })
}

/** Its result may still be paid for, or a repeat of the signed request may find the number. */
async function mayStillBePaid(id: string, { records, now }: Pick<ReleaseContext, 'records' | 'now'>): Promise<boolean> {
  const call = await records.getCall(id)
  if (!call || isPaid(call)) return false
  if (call.workStatus === 'failed') return (call.endedAt ?? call.createdAt) > now - GRACE_MS
  return !isOver(call, now - GRACE_MS)
}
