/**
 * Phone numbers that wallets rent. A number is bought upstream before it is paid for, so what a wallet may use is judged by what has become of the call that
 * paid for its latest term; and whatever is rented upstream and nobody's any more is given back by a chore.
 */
import { isOver } from '../../endpoint/records.ts'
import type { MaintenanceTask, Records } from '../../endpoint/call_context.ts'
import type { Call, Log, StoredRecord } from '../../ports/mod.ts'
import type { Line, PhoneVendor } from '../../ports/vendors/phone.ts'

/** Under its number in E.164, the wallet that rents it. */
export const NUMBER = 'phone_number'
/** Under the order, the call that buys a number: written before it is bought. */
export const NUMBER_ORDER = 'phone_order'
/** Numbers that a wallet has had, for its own list. */
const FORMER = 'phone_former'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
export const TERM_MS = 30 * DAY_MS
/** Nothing of this ends by itself: what the operator pays for must not be forgotten. */
export const UNTIL_GIVEN_BACK = Number.MAX_SAFE_INTEGER
/** A poll that began within the claim window may end after it, and the same signed request may come again after a failure. */
const GRACE_MS = HOUR_MS
const MAX = 1_000
/** A wallet rents at most so many at a time. */
export const MAX_NUMBERS = 100

/** `id` is the carrier's. `terms` are paid for beyond doubt; `payment` is the call that pays for one more, or has paid. */
export type Lease = {
  readonly id: string
  readonly order: string
  readonly chain: string
  readonly from: number
  readonly terms: number
  readonly payment: string
  readonly ending?: true
}
export type Order = { readonly call: string; readonly number?: string; readonly ending?: true }

export type Rented = {
  readonly number: string
  readonly record: StoredRecord
  readonly lease: Lease
  readonly expiresAt: number
  readonly isActive: boolean
  /** The call that pays for another term, unpaid so far. */ readonly unpaid?: Call
}

const leaseIn = ({ data }: StoredRecord): Lease => data as Lease

/** A call that has been paid for; also where nobody could find out in time (decision 16). */
const isPaid = (call: Call | undefined): boolean =>
  call?.paymentStatus === 'settled' || call?.paymentStatus === 'unresolved'

/** A number as it stands at this moment. */
export async function rentedOf(
  record: StoredRecord,
  { records, now }: { records: Pick<Records, 'getCall'>; now: number },
): Promise<Rented> {
  const lease = leaseIn(record)
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

/** What a wallet rents, oldest first, the expired and the unpaid among it. */
export async function rentedBy(wallet: string, at: { records: Records; now: number }): Promise<readonly Rented[]> {
  const records = await at.records.listRecords(NUMBER, wallet, { now: at.now, limit: MAX })
  const all = await Promise.all(records.map((record) => rentedOf(record, at)))
  return all
    .filter(({ lease }) => !lease.ending)
    .toSorted((one, other) => one.lease.from - other.lease.from || (one.number < other.number ? -1 : 1))
}

/** Numbers that a wallet has had and has no more. */
export async function formerOf(
  wallet: string,
  { records, now }: { records: Records; now: number },
): Promise<readonly { number: string; chain: string; expiresAt: number }[]> {
  const kept = await records.listRecords(FORMER, wallet, { now, limit: MAX })
  return kept
    .map(({ data }) => data as { number: string; chain: string; expiresAt: number })
    .toSorted((one, other) => other.expiresAt - one.expiresAt)
}

// ── beginning and ending ────────────────────────────────────────────────────────────────────────────────────────────

/** Makes a bought number the wallet's, as soon as this call is paid. False where somebody else has it. */
export async function rentOut(
  records: Records,
  { number, id, order }: Line,
  { owner, call, chain, now }: { owner: string; call: string; chain: string; now: number },
): Promise<boolean> {
  const lease: Lease = { id, order, chain, from: now, terms: 0, payment: call }
  const record: StoredRecord = { kind: NUMBER, id: number, owner, data: lease, expiresAt: UNTIL_GIVEN_BACK }
  if (await records.putRecord(record, now)) return true
  const held = await records.getRecord(NUMBER, number, now)
  if (!held) return await records.putRecord(record, now)
  const known = await rentedOf(held, { records, now })
  // The same number of the carrier's was bought for a call that came to nothing; or it was given back, bought anew, and its record left over.
  const isLeft =
    known.lease.id === id
      ? held.owner === owner && !known.isActive && !known.lease.ending
      : !known.isActive && !known.unpaid
  if (!isLeft) return false
  if (held.owner === owner) return await records.moveRecord(record, held.data, now)
  return (
    (await records.moveRecord({ ...held, expiresAt: now }, held.data, now)) && (await records.putRecord(record, now))
  )
}

/** Takes a number from use, so that only one goes on to give it back. Answers with its record, undefined where somebody else was first. */
export async function endLease(
  records: Records,
  { record, lease }: Pick<Rented, 'record' | 'lease'>,
  now: number,
): Promise<StoredRecord | undefined> {
  if (lease.ending) return record
  const ended: StoredRecord = { ...record, data: { ...lease, ending: true } }
  return (await records.moveRecord(ended, record.data, now)) ? ended : undefined
}

/** Forgets a number that was given back; its wallet still sees for a while that it had it. */
export async function forget(
  records: Records,
  record: StoredRecord,
  { expiresAt, now }: { expiresAt: number; now: number },
): Promise<void> {
  const { chain, order, from } = leaseIn(record)
  const data = { number: record.id, chain, expiresAt: Math.min(expiresAt, now) }
  if (expiresAt > from)
    await records.putRecord(
      { kind: FORMER, id: `${record.id}/${order}`, owner: record.owner, data, expiresAt: now + TERM_MS },
      now,
    )
  const ordered = await records.getRecord(NUMBER_ORDER, order, now)
  if (ordered) await records.moveRecord({ ...ordered, expiresAt: now }, ordered.data, now)
  await records.moveRecord({ ...record, expiresAt: now }, record.data, now)
}

// ── the chore ───────────────────────────────────────────────────────────────────────────────────────────────────────

type Sweeping = {
  readonly records: Records
  readonly phone: PhoneVendor
  readonly log: Log
  readonly signal: AbortSignal
  readonly now: number
}

/** Gives back what has expired, was not paid for in time, or was bought for a call that came to nothing. What it knows nothing of it leaves alone. */
export const giveBack: MaintenanceTask = {
  everyMs: 10 * 60_000,
  can: ({ phone }) => phone !== undefined,
  async do({ records, vendors, clock, log, signal }) {
    const { phone } = vendors
    if (!phone) return
    for (const line of await phone.lines({ signal })) {
      await handle(line, { records, phone, log, signal, now: clock.now() }).catch((error: Error) =>
        log.alert('a phone number that nobody rents could not be given back', {
          number: line.number,
          error: error.message,
        }),
      )
    }
  },
}

async function handle(line: Line, at: Sweeping): Promise<void> {
  const { records, phone, log, signal, now } = at
  const held = await records.getRecord(NUMBER, line.number, now)
  if (held && leaseIn(held).id === line.id) {
    const rented = await rentedOf(held, at)
    const isWanted =
      !rented.lease.ending &&
      (rented.expiresAt > now || rented.unpaid !== undefined || (await isWorkedOn(rented.lease.payment, at)))
    const ended = isWanted ? undefined : await endLease(records, rented, now)
    if (!ended) return
    await phone.release(line.id, { signal })
    await forget(records, ended, { expiresAt: rented.expiresAt, now })
    return log.info('a phone number was given back', {
      number: line.number,
      why: rented.lease.terms > 0 || rented.expiresAt > rented.lease.from ? 'expired' : 'not paid for',
    })
  }
  const ordered = await records.getRecord(NUMBER_ORDER, line.order, now)
  if (!ordered)
    return log.warn('a phone number at the carrier was bought by somebody whom this database does not know', {
      number: line.number,
    })
  const order = ordered.data as Order
  const isStray = order.number !== undefined && order.number !== line.number
  if (!isStray && !order.ending && (await isWorkedOn(order.call, at))) return
  const ending: StoredRecord = { ...ordered, data: { ...order, ending: true } }
  if (!isStray && !order.ending && !(await records.moveRecord(ending, ordered.data, now))) return
  await phone.release(line.id, { signal })
  if (!isStray) await records.moveRecord({ ...ending, expiresAt: now }, ending.data, now)
  log.info('a phone number was given back', { number: line.number, why: 'bought for a call that came to nothing' })
}

/** Its result may still be paid for, or the same signed request may come again and find the number. */
async function isWorkedOn(id: string, { records, now }: Pick<Sweeping, 'records' | 'now'>): Promise<boolean> {
  const call = await records.getCall(id)
  if (!call || isPaid(call)) return false
  if (call.workStatus === 'failed') return (call.endedAt ?? call.createdAt) > now - GRACE_MS
  return !isOver(call, now - GRACE_MS)
}
