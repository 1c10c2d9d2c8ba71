/** Wallets with unpaid answers. An unpaid call counts until it is paid, or for a day (decision 41). */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { Type } from '@sinclair/typebox'
import { type Abandoned, judgeAbandoned, USUAL_ABANDONED } from './abandoned_calls.ts'
import { type ReadRecord, recordKind, type RecordKind } from '../../endpoint/record_kind.ts'
import { type Usdc, usdc } from '../../x402/money.ts'
import type { Call, CallStorage, LedgerReads, Log, RecordStorage } from '../../ports/mod.ts'
import { tokenKeyOf } from '../../x402/offer.ts'

const schema = Type.Object({
  calls: Type.Array(
    Type.Object({
      call: Type.String(),
      until: Type.Number(),
      from: Type.Optional(Type.Number()),
      worth: Type.Optional(Type.String({ pattern: '^[0-9]+$' })),
    }),
  ),
})
/** Answers that were delivered, until their payment is known. */
const UNPAID = recordKind({ kind: 'unpaid_call', version: 1, schema })
/** Jobs that were started. Each counts as uncollected once its authorization has expired. */
const UNCOLLECTED = recordKind({ kind: 'uncollected_jobs', version: 1, schema })
/** Maximum number of calls recorded per wallet; newer ones replace the oldest. */
const MAX_CALLS = 100

/** Uncollected results that a wallet may have, because a buyer may lose a connection now and then. */
const MAX_UNCOLLECTED = 5

/** Whatever balance pays: a wallet has as many channels as it likes. */
type Wallet = Pick<Call, 'payer' | 'offer'>
/** With `worth`, it is an abandoned call: it has no answer, and `worth` is its quote. */
type Unpaid = { readonly call: string; readonly until: number; readonly from?: number; readonly worth?: string }
type Noted = { calls: Unpaid[] }

/** One record per wallet and token. */
const idOf = ({ payer, offer }: Wallet): string => bytesToHex(sha256(utf8ToBytes(`${tokenKeyOf(offer)}\n${payer}`)))
const unpaidIn = ({ data }: ReadRecord<Noted>): readonly Unpaid[] => data.calls
const latest = (calls: readonly Unpaid[]): Noted => ({ calls: calls.slice(-MAX_CALLS) })

/**
 * Records an answer that was delivered and is not known to be paid. It counts as unpaid once its payment is refused,
 * until `until`.
 */
export function recordUnpaidCall(
  storage: CallStorage & LedgerReads & RecordStorage,
  call: Wallet & Pick<Call, 'id'>,
  { now, until }: { now: number; until: number },
): Promise<void> {
  return note(storage, call, { kind: UNPAID, unpaid: { call: call.id, until }, now })
}

async function note(
  storage: CallStorage & LedgerReads & RecordStorage,
  call: Wallet,
  { kind, unpaid, now }: { kind: RecordKind<Noted>; unpaid: Unpaid; now: number },
): Promise<void> {
  const { until } = unpaid
  const record = { id: idOf(call), owner: call.payer, data: latest([unpaid]), expiresAt: until }
  // Every further round means that another writer made progress.
  for (;;) {
    if (await kind.put(storage, record, now)) return
    const stored = await kind.get(storage, record.id, now)
    if (!stored) continue
    const known = unpaidIn(stored)
    if (known.some(({ call: id }) => id === unpaid.call)) return
    const data = latest([...known, unpaid])
    if (await kind.move(storage, stored, { data, expiresAt: Math.max(stored.expiresAt, until) }, now)) return
  }
}

/** Takes a call back from the unpaid ones of its wallet: that it was not paid is not its buyer's fault. */
export async function forgiveCall(
  storage: CallStorage & LedgerReads & RecordStorage,
  call: Wallet & Pick<Call, 'id'>,
  now: number,
): Promise<void> {
  for (;;) {
    const stored = await UNPAID.get(storage, idOf(call), now)
    if (!stored) return
    const data = latest(unpaidIn(stored).filter(({ call: id }) => id !== call.id))
    if (data.calls.length === unpaidIn(stored).length) return
    if (await UNPAID.move(storage, stored, { data }, now)) return
  }
}

/** `recordUnpaidCall` for an answer that is already being sent: a storage error is alerted and otherwise ignored. */
export async function noteUnpaidCall(
  { storage, log }: { storage: CallStorage & LedgerReads & RecordStorage; log: Log },
  call: Call,
  at: { now: number; until: number },
): Promise<void> {
  await recordUnpaidCall(storage, call, at).catch((error: Error) =>
    log.alert('an unpaid call could not be recorded', { call: call.id, payer: call.payer, error: error.message }),
  )
}

/** Records a job whose authorization expires at `from`. A storage error is alerted and otherwise ignored. */
export async function noteUncollectedJob(
  { storage, log }: { storage: CallStorage & LedgerReads & RecordStorage; log: Log },
  call: Call,
  { from, until, now }: { from: number; until: number; now: number },
): Promise<void> {
  if (call.quote === 0n) return
  const noting = note(storage, call, { kind: UNCOLLECTED, unpaid: { call: call.id, until, from }, now })
  await noting.catch((error: Error) =>
    log.alert('an uncollected job could not be recorded', { call: call.id, payer: call.payer, error: error.message }),
  )
}

/**
 * An uncollected job of a wallet whose authorization has expired. Undefined while there are few of them, or while the
 * wallet's balance (`holds`) covers them and the `next` call. A buyer may forget a job, but may not order many with the
 * balance for one.
 */
export async function uncollectedJobOf(
  storage: CallStorage & LedgerReads & RecordStorage,
  wallet: Wallet,
  { now, next, holds }: { now: number; next: bigint; holds: bigint },
): Promise<Call | undefined> {
  const stored = await UNCOLLECTED.get(storage, idOf(wallet), now)
  const ended = stored ? unpaidIn(stored).filter(({ until, from = 0 }) => until > now && from <= now) : []
  if (ended.length < MAX_UNCOLLECTED) return undefined
  const calls = await Promise.all(ended.map(({ call }) => storage.getCall(call)))
  const unpaid = calls.filter(
    (call) => call !== undefined && call.workStatus !== 'failed' && call.paymentStatus !== 'settled',
  ) as readonly Call[]
  const waiting = unpaid.filter(({ paymentStatus }) => paymentStatus === 'verified' || paymentStatus === 'refused')
  const over = new Set(ended.map(({ call }) => call).filter((id) => !unpaid.some((call) => call.id === id)))
  if (stored && over.size > 0)
    await UNCOLLECTED.move(
      storage,
      stored,
      { data: latest(unpaidIn(stored).filter(({ call }) => !over.has(call))) },
      now,
    )
  const sum = waiting.reduce((costs, { quote }) => costs + quote, next)
  return waiting.length >= MAX_UNCOLLECTED && sum > holds ? waiting[0] : undefined
}

/**
 * Records a call whose payment was in doubt and is now refused. A job is not recorded: its result was never delivered.
 */
export async function recordIfRefused(
  storage: CallStorage & LedgerReads & RecordStorage,
  id: string,
  at: { now: number; until: number },
): Promise<void> {
  const call = await storage.getCall(id)
  if (call?.paymentStatus === 'refused' && call.startedAt === null) await recordUnpaidCall(storage, call, at)
}

/**
 * Records a call that its buyer abandoned or cancelled after the vendor was asked. Called before its authorization is
 * freed, so that it counts without a gap. A storage error is alerted and otherwise ignored.
 */
export async function noteAbandonedCall(
  { storage, log }: { storage: CallStorage & LedgerReads & RecordStorage; log: Log },
  call: Wallet & Pick<Call, 'id' | 'quote'>,
  { now, until }: { now: number; until: number },
): Promise<void> {
  if (call.quote === 0n) return
  const unpaid = { call: call.id, until, worth: String(call.quote) }
  await note(storage, call, { kind: UNPAID, unpaid, now }).catch((error: Error) =>
    log.alert('an abandoned call could not be recorded', {
      call: call.id,
      payer: call.payer,
      error: error.message,
    }),
  )
}

/** Whether a failed call cost its vendor's work, because its buyer abandoned or cancelled it. */
export async function wasAbandoned(
  storage: CallStorage & LedgerReads & RecordStorage,
  call: Wallet & Pick<Call, 'id'>,
  now: number,
): Promise<boolean> {
  const stored = await UNPAID.get(storage, idOf(call), now)
  return stored !== undefined && unpaidIn(stored).some(({ call: id, worth }) => id === call.id && worth !== undefined)
}

/** Why a wallet is blocked: an unpaid answer, or too many abandoned calls. */
type Block = { readonly kind: 'unpaid'; readonly call: Call } | ({ readonly kind: 'abandoned' } & Abandoned)

/** Payments since `since` cover abandoned calls; for `newWorth` see `judgeAbandoned`. */
export async function blockOf(
  storage: CallStorage & LedgerReads & RecordStorage,
  wallet: Wallet,
  { now, since, newWorth }: { now: number; since: number; newWorth: Usdc },
): Promise<Block | undefined> {
  const stored = await UNPAID.get(storage, idOf(wallet), now)
  if (!stored) return undefined
  const call = await unpaidCallIn(storage, stored, now)
  if (call) return { kind: 'unpaid', call }
  const left = unpaidIn(stored).flatMap(({ worth, until }) =>
    worth === undefined || until <= now ? [] : [{ worth: usdc(BigInt(worth)), until }],
  )
  if (left.length < USUAL_ABANDONED) return undefined
  const spends = await storage.spendByModel(wallet.payer, since)
  const spent = spends.reduce((sum, { spent: paid }) => sum + paid, 0n)
  const abandoned = judgeAbandoned(
    left.toSorted((a, b) => a.until - b.until),
    { spent: usdc(spent), newWorth },
  )
  return abandoned && { kind: 'abandoned', ...abandoned }
}

/**
 * An answered call of this wallet whose payment was refused, or one of too many uncollected ones; otherwise undefined.
 */
export async function unpaidCallOf(
  storage: CallStorage & LedgerReads & RecordStorage,
  wallet: Wallet,
  now: number,
): Promise<Call | undefined> {
  const stored = await UNPAID.get(storage, idOf(wallet), now)
  return stored && (await unpaidCallIn(storage, stored, now))
}

async function unpaidCallIn(
  storage: CallStorage & LedgerReads & RecordStorage,
  stored: ReadRecord<Noted>,
  now: number,
): Promise<Call | undefined> {
  const standing = unpaidIn(stored).filter(({ until }) => until > now)
  const paid = new Set<string>()
  const uncollected: Call[] = []
  let found: Call | undefined
  for (const { call: id, worth } of standing) {
    if (worth !== undefined) continue
    const call = await storage.getCall(id)
    // Its work status does not matter: the answer was delivered.
    if (!call || call.paymentStatus === 'settled') paid.add(id)
    if (call?.paymentStatus === 'refused') found = call
    if (call?.paymentStatus === 'verified') uncollected.push(call)
    if (found) break
  }
  if (uncollected.length >= MAX_UNCOLLECTED) found ??= uncollected[0]
  const rest = standing.filter(({ call }) => !paid.has(call))
  const isShorter = rest.length < unpaidIn(stored).length
  if (isShorter)
    await UNPAID.move(storage, stored, { data: latest(rest), expiresAt: rest.length > 0 ? stored.expiresAt : now }, now)
  return found
}
