/** Who has had an answer and not paid for it. A debt ends when its call is paid, or after a day (decision 41). */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import type { Call, Log, StoredRecord, Storage } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'

const KIND = 'debt'
/** Jobs that were begun; each is waited for from when its authorization has ended. */
const JOB = 'job'
/** Of one wallet; the oldest give way to newer ones. */
const MAX_CALLS = 100

/** Results that were made and never collected: a buyer may lose a connection, but not all of them. */
const MAX_LYING = 5

type Wallet = Pick<Call, 'payer' | 'asset'>
type Unpaid = { readonly call: string; readonly until: number; readonly from?: number }

/** One record per wallet and asset. */
const idOf = ({ payer, asset }: Wallet): string => bytesToHex(sha256(utf8ToBytes(`${asset}\n${payer}`)))
const unpaidIn = ({ data }: StoredRecord): readonly Unpaid[] => (data as { readonly calls: readonly Unpaid[] }).calls
const written = (calls: readonly Unpaid[]): Json => ({ calls: calls.slice(-MAX_CALLS) as unknown as Json })

/** Notes an answer that was delivered and is not known to be paid. It counts as a debt from when its payment is refused, until then. */
export function recordUnpaidCall(
  storage: Storage,
  call: Wallet & Pick<Call, 'id'>,
  { now, until }: { now: number; until: number },
): Promise<void> {
  return note(storage, call, { kind: KIND, unpaid: { call: call.id, until }, now })
}

async function note(
  storage: Storage,
  call: Wallet,
  { kind, unpaid, now }: { kind: string; unpaid: Unpaid; now: number },
): Promise<void> {
  const { until } = unpaid
  const record: StoredRecord = { kind, id: idOf(call), owner: call.payer, data: written([unpaid]), expiresAt: until }
  // Each further round means that somebody else has got on.
  for (;;) {
    if (await storage.putRecord(record, now)) return
    const held = await storage.getRecord(kind, record.id, now)
    if (!held) continue
    const known = unpaidIn(held)
    if (known.some(({ call: id }) => id === unpaid.call)) return
    if (
      await storage.moveRecord(
        { ...held, data: written([...known, unpaid]), expiresAt: Math.max(held.expiresAt, until) },
        held.data,
        now,
      )
    )
      return
  }
}

/** The same where an answer is already on its way: what storage then refuses is told to a person, and stops nothing. */
export async function noteUnpaidCall(
  { storage, log }: { storage: Storage; log: Log },
  call: Call,
  at: { now: number; until: number },
): Promise<void> {
  await recordUnpaidCall(storage, call, at).catch((error: Error) =>
    log.alert('a debt could not be recorded', { call: call.id, payer: call.payer, error: error.message }),
  )
}

/** A job was begun under an authorization that lives until `from`. A note that cannot be kept stops nothing. */
export async function noteUncollectedJob(
  { storage, log }: { storage: Storage; log: Log },
  call: Call,
  { from, until, now }: { from: number; until: number; now: number },
): Promise<void> {
  if (call.quote === 0n) return
  const noting = note(storage, call, { kind: JOB, unpaid: { call: call.id, until, from }, now })
  await noting.catch((error: Error) =>
    log.alert('a job could not be noted', { call: call.id, payer: call.payer, error: error.message }),
  )
}

/**
 * Jobs of a wallet that nothing pays for any more until it collects them. While that is a few, or while it holds what they cost beside the
 * `next` one, nothing is said: a buyer may forget a job, but nobody has the work of a day done with the price of one.
 */
export async function uncollectedJobOf(
  storage: Storage,
  wallet: Wallet,
  { now, next, holds }: { now: number; next: bigint; holds: bigint },
): Promise<Call | undefined> {
  const held = await storage.getRecord(JOB, idOf(wallet), now)
  const ended = held ? unpaidIn(held).filter(({ until, from = 0 }) => until > now && from <= now) : []
  if (ended.length < MAX_LYING) return undefined
  const calls = await Promise.all(ended.map(({ call }) => storage.getCall(call)))
  const unpaid = calls.filter(
    (call) => call !== undefined && call.workStatus !== 'failed' && call.paymentStatus !== 'settled',
  ) as readonly Call[]
  const waiting = unpaid.filter(({ paymentStatus }) => paymentStatus === 'verified' || paymentStatus === 'refused')
  const over = new Set(ended.map(({ call }) => call).filter((id) => !unpaid.some((call) => call.id === id)))
  if (held && over.size > 0)
    await storage.moveRecord(
      { ...held, data: written(unpaidIn(held).filter(({ call }) => !over.has(call))) },
      held.data,
      now,
    )
  const sum = waiting.reduce((costs, { quote }) => costs + quote, next)
  return waiting.length >= MAX_LYING && sum > holds ? waiting[0] : undefined
}

/** The same for a call whose money was in doubt; nothing, where it was paid after all, or made in the background and so never delivered. */
export async function recordIfRefused(storage: Storage, id: string, at: { now: number; until: number }): Promise<void> {
  const call = await storage.getCall(id)
  if (call?.paymentStatus === 'refused' && call.startedAt === null) await recordUnpaidCall(storage, call, at)
}

/** An answered call of this wallet whose payment was refused; undefined where it owes nothing. */
export async function unpaidCallOf(storage: Storage, wallet: Wallet, now: number): Promise<Call | undefined> {
  const held = await storage.getRecord(KIND, idOf(wallet), now)
  if (!held) return undefined
  const standing = unpaidIn(held).filter(({ until }) => until > now)
  const paid = new Set<string>()
  const lying: Call[] = []
  let owed: Call | undefined
  for (const { call: id } of standing) {
    const call = await storage.getCall(id)
    // What became of its work does not count: the answer was delivered.
    if (!call || call.paymentStatus === 'settled') paid.add(id)
    if (call?.paymentStatus === 'refused') owed = call
    if (call?.paymentStatus === 'verified') lying.push(call)
    if (owed) break
  }
  if (lying.length >= MAX_LYING) owed ??= lying[0]
  const rest = standing.filter(({ call }) => !paid.has(call))
  const isShorter = rest.length < unpaidIn(held).length
  if (isShorter)
    await storage.moveRecord(
      { ...held, data: written(rest), expiresAt: rest.length > 0 ? held.expiresAt : now },
      held.data,
      now,
    )
  return owed
}
