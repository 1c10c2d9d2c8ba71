/** Settles a paid call once, fails overdue calls, and reconciles settlements whose outcome is unknown. */
import { noteHandedOut } from './sent_authorizations.ts'
import { Type } from '@sinclair/typebox'
import { recordKind } from '../endpoint/record_kind.ts'
import { sharedBy } from '../lib/per_process.ts'
import { forgiveCall } from './unpaid/unpaid_calls.ts'
import { isUnfinished, LOST } from './ledger.ts'
import { type ActiveCalls, takenBack } from './active_calls.ts'
import type { PrepaidCalls } from './prepaid_calls.ts'
import { type Meter, silent } from '../ports/meter.ts'
import { parseAtomic, type Usdc } from '../x402/money.ts'
import { chargesUse, isCumulative } from '../x402/offer.ts'
import type {
  Authorization,
  Call,
  Chain,
  Corrected,
  Log,
  Outcome,
  PaymentCode,
  Recorded,
  SettledBy,
  Settlement,
  Storage,
  Usage,
} from '../ports/mod.ts'
import type { Clock } from '../lib/clock.ts'
import type { Json } from '../lib/json.ts'
import type { Offer, Receipt } from '../x402/protocol.ts'
import { within } from '../lib/timers.ts'
import type { Timeouts } from './timeouts.ts'

export type SettleContext = {
  readonly storage: Storage
  readonly chain: Chain
  readonly clock: Clock
  readonly log: Log
  readonly meter?: Meter | undefined
  readonly timeouts: Timeouts
  readonly prepaid?: PrepaidCalls | undefined
}

/** The result of a settlement attempt. Only `settled` means that money moved. */
export type Paying =
  | { kind: 'settled'; receipt: Receipt; now: boolean }
  /** Its quote is zero: the result is stored and nothing is settled. */
  | { kind: 'free' }
  /** The authorization could not be settled. With a code, a new signature helps. */
  | { kind: 'refused'; reason: string; code?: PaymentCode }
  /** The new authorization of a poll did not verify. */
  | { kind: 'rejected'; code: PaymentCode; reason: string; corrected?: Corrected }
  /** The chain is temporarily unreachable; nothing was sent. */
  | { kind: 'unavailable'; reason: string }
  /** `isElsewhere`: the settlement goes on, and this caller did not wait for its end. */
  | { kind: 'unknown'; reason: string; isElsewhere?: true }
  /** Unknown for so long that the buyer gets the result without a settlement (decision 16). */
  | { kind: 'unresolved'; reason: string }
  /** The offered authorization serves another call. */
  | { kind: 'replayed'; call: Call }

/** `charge` is given where the call's offer is charged by use, and something else than the whole quote is due. */
export type Completion = {
  readonly result: Json
  readonly expiresAt: number
  readonly usage?: Usage | null
  readonly charge?: Usdc
}

/**
 * `retainUntil`: when a settled call's result is deleted. `isDelivered`: the buyer has the result, so what could not be
 * sent is retried later. `by` is noted in the ledger: by default the reply to the order.
 */
export type Settling = {
  readonly completion?: Completion
  readonly retainUntil: number
  readonly isDelivered?: boolean
  readonly by?: SettledBy
}

/**
 * Settles a completed call once, spending `offered` only when every earlier authorization of the call is proven dead
 * (decision 15). With `completion`, stores the result and claims in one step. Never rejects because of the chain; a
 * storage error rejects.
 */
export async function settleCall(
  context: SettleContext,
  call: Call,
  offered: Authorization,
  { completion, retainUntil, isDelivered = false, by = 'reply' }: Settling,
): Promise<Paying> {
  const { storage, clock, timeouts } = context
  if (call.quote === 0n) return await completeFree(context, call, completion)
  const drawn = completion && (await drawDown(context, call, { offered, completion, retainUntil }))
  if (drawn) return drawn
  const giveUpAt = clock.now() + timeouts.takenMs
  // Of a channel it may be another payment on the same base, such as one with a new deposit.
  let isVerified = offered.key === call.authorization && (completion !== undefined || !isCumulative(offered.offer))
  let pause = 20
  for (;;) {
    const now = clock.now()
    const until = now + timeouts.settleLeaseMs
    const isOffered = isVerified && offered.expiresAt > now
    const claim = await storage.claimSettlement(call.id, isOffered ? offered : undefined, {
      now,
      until,
      ...(completion && { result: completion, workerId: call.workerId }),
    })
    if (claim.kind === 'settled') return { kind: 'settled', receipt: claim.receipt, now: false }
    if (claim.kind === 'replayed') return claim
    if (claim.kind === 'nothing' && !isVerified) {
      const bad = await verify(context, call, offered)
      // Another poll may settle it meanwhile, or have settled it.
      const after = bad?.kind === 'rejected' ? await storage.getCall(call.id) : undefined
      if (after?.receipt && after.paymentStatus === 'settled')
        return { kind: 'settled', receipt: after.receipt, now: false }
      if (after?.paymentStatus === 'settling') return UNDER_WAY
      if (bad) return bad
      isVerified = true
      continue
    }
    if (claim.kind === 'nothing') return { kind: 'refused', reason: 'the authorization can no longer move money' }
    if (claim.kind === 'taken') {
      if (now >= giveUpAt) return UNDER_WAY
      await clock.wait(Math.min(pause, Math.max(1, Math.min(claim.until, giveUpAt) - now)))
      pause = Math.min(pause * 2, 500)
      continue
    }
    const authorization = claim.kind === 'yours' ? offered : claim.authorization
    if (claim.kind === 'yours' && offered.key !== call.authorization) await noteHandedOut(storage, offered, now)
    const stored = claim.kind === 'retry' ? claim : undefined
    const spent = await spend(context, authorization, { stored, charge: claim.charge })
    const ending = { token: claim.token, authorization, spent, retainUntil, isDelivered, by }
    const paying = await record(context, call, ending)
    const isDead = paying === 'dead' || paying === 'forgiven'
    if (isDead && (authorization.key !== offered.key || !isVerified)) continue
    if (isDead)
      return spent.kind === 'dead'
        ? { ...spent, kind: 'refused' }
        : { kind: 'refused', reason: 'the authorization is dead' }
    return paying
  }
}

const UNDER_WAY: Paying = { kind: 'unknown', reason: 'a settlement of this call is under way', isElsewhere: true }

/** The result of a settlement, if it is known after `ms`. Otherwise it goes on in the background. */
export async function knownWithin(
  ms: number,
  paying: Promise<Paying>,
  { clock, background }: { readonly clock: Clock; readonly background: (work: Promise<unknown>) => void },
): Promise<Paying> {
  const known = new AbortController()
  const late = clock.wait(ms, known.signal).then(() => undefined)
  const first = await Promise.race([paying, late]).finally(() => known.abort())
  if (first) return first
  background(paying)
  return UNDER_WAY
}

/** How often a record may change under a settlement before that goes the usual way. */
const MAX_RACES = 8

/** Stores a prepaid call with its result and its payment. Undefined where it is settled the usual way. */
async function drawDown(
  context: SettleContext,
  call: Call,
  { offered, completion, retainUntil }: { offered: Authorization; completion: Completion; retainUntil: number },
): Promise<Paying | undefined> {
  const { chain, clock, prepaid } = context
  const { payment, offer } = offered
  const { result, usage = null, charge } = completion
  for (let race = 0; race < MAX_RACES && prepaid?.has(call.id); race++) {
    const drawing = await chain.drawDown?.(payment, offer, { now: clock.now(), ...chargeFor(offer, charge) })
    if (!drawing) return undefined
    const { receipt, spent } = drawing
    let isStored = false
    let recorded: Recorded
    try {
      recorded = await prepaid.record(call.id, { result, usage, receipt, expiresAt: retainUntil, spent })
      isStored = recorded.kind === 'recorded'
    } finally {
      drawing.end(isStored)
    }
    if (recorded.kind === 'replayed') return recorded
    if (recorded.kind === 'moved') continue
    noteSettled(context, call, { receipt, by: 'reply' })
    return { kind: 'settled', receipt, now: true }
  }
  return undefined
}

function noteSettled(
  { log, meter = silent }: Pick<SettleContext, 'log' | 'meter'>,
  { id, payer, endpoint, model }: Call,
  { receipt, by }: { receipt: Receipt; by: SettledBy },
): void {
  const { amount, transaction } = receipt
  meter.attempted(endpoint, 'settled', parseAtomic(amount))
  log.info('a payment was settled', { call: id, payer, endpoint, model, amount, transaction, by })
}

/** Completes a free call. Its authorization proves the wallet: it stays bound to the call and is never sent. */
async function completeFree(
  context: Pick<SettleContext, 'storage' | 'clock' | 'timeouts'>,
  call: Call,
  completion: Completion | undefined,
): Promise<Paying> {
  if (!completion) return { kind: 'free' }
  const isWon = await complete(context, call, completion)
  return isWon ? { kind: 'free' } : { kind: 'refused', reason: 'the call had already ended' }
}

/**
 * Stores the result of a call without a settlement. False when the call had ended. A call declared lost meanwhile is
 * taken back where possible.
 */
export async function complete(
  { storage, clock, timeouts }: Pick<SettleContext, 'storage' | 'clock' | 'timeouts'>,
  call: Call,
  made: Completion,
): Promise<boolean> {
  const { result, expiresAt, usage = null, charge } = made
  const now = clock.now()
  const move = () =>
    storage.moveCall(
      call.id,
      { workStatus: ['queued', 'in_progress'], workerId: call.workerId, paymentStatus: 'verified' },
      { workStatus: 'completed', result, expiresAt, usage, endedAt: now, ...(charge !== undefined && { charge }) },
    )
  return (await move()) || ((await takenBack(storage, call, now + timeouts.workLeaseMs)) && (await move()))
}

/**
 * Undefined when a new authorization verifies. One that does not is never bound: after a crash the call would wait for
 * it to expire.
 */
async function verify(
  { storage, chain, clock, meter = silent, timeouts }: SettleContext,
  call: Call,
  { key, payment, offer }: Authorization,
): Promise<Paying | undefined> {
  const verdict = await within(clock, timeouts.verifyMs, (signal) =>
    chain.verify(payment, offer, { now: clock.now(), signal }),
  ).catch((error: Error) => ({ kind: 'unavailable' as const, reason: error.message }))
  meter.judged(verdict.kind === 'refused' ? verdict.code : verdict.kind)
  if (verdict.kind === 'valid') return undefined
  if (verdict.kind === 'unavailable') return verdict
  if (verdict.corrected) return { ...verdict, kind: 'rejected' }
  const served = await storage.callOf(key, clock.now())
  return served && served.id !== call.id ? { kind: 'replayed', call: served } : { ...verdict, kind: 'rejected' }
}

/**
 * `isUnsent`: this attempt sent nothing. `isRefused`: the chain refuses it as it stands, which is its payer's doing.
 * `isLate`: it ended by its own terms while it was being settled.
 */
type Spent = (Settlement | Dead) & {
  readonly isUnsent?: boolean
  readonly isRefused?: boolean
  readonly isLate?: boolean
}

/**
 * Sends one authorization; where it may have been sent before, asks the chain first what became of it. One that expired
 * before it was ever sent is not sent: its outcome would count as unknown, and an unknown outcome gives the result away
 * in the end. `stored` is given where it comes from storage; its expiry is then the one recorded first.
 */
async function spend(
  context: SettleContext,
  authorization: Authorization,
  { stored, charge }: { readonly stored: { readonly sent: boolean } | undefined; readonly charge: Usdc | undefined },
): Promise<Spent> {
  const { chain, clock, timeouts } = context
  const { payment, offer } = authorization
  const wasSent = stored?.sent ?? false
  const due = chargeFor(offer, charge)
  const end = { ...due, ...(stored && { expiresAt: authorization.expiresAt }) }
  try {
    const isOver = !wasSent && authorization.expiresAt <= clock.now()
    if (wasSent || isOver) {
      const fate = await askFate(context, authorization, end)
      // A deposit that has landed pays as long as its channel does.
      const isUnconfirmed = fate.kind === 'unknown' || (fate.kind === 'open' && !isCumulative(offer))
      if (isOver && isUnconfirmed)
        return { kind: 'unavailable', reason: 'the chain has not yet confirmed that the authorization is over' }
      const isLate = wasSent && authorization.expiresAt <= clock.now() && !isCumulative(offer)
      if (fate.kind !== 'open') return { ...fate, isUnsent: true, isLate }
    }
    const settlement = await within(clock, timeouts.settleMs, (signal) =>
      chain.settle(payment, offer, { now: clock.now(), signal, ...due }),
    )
    if (settlement.kind === 'unavailable' && wasSent)
      return { kind: 'unknown', reason: settlement.reason, isUnsent: true }
    if (settlement.kind !== 'refused') return settlement
    const fate = await askFate(context, authorization, end)
    if (fate.kind === 'settled') return fate
    if (fate.kind === 'dead') return { ...fate, ...settlement, kind: 'dead' }
    return wasSent ? { kind: 'unknown', reason: settlement.reason, isRefused: true } : settlement
  } catch (error) {
    return { kind: 'unknown', reason: (error as Error).message }
  }
}

/** What to charge with this authorization: the call's charge where its scheme allows that, else its whole amount. */
function chargeFor(offer: Offer, charge: Usdc | undefined): { readonly charge?: Usdc } {
  const most = parseAtomic(offer.amount)
  if (charge === undefined || most === undefined || !chargesUse(offer)) return {}
  return { charge: charge < most ? charge : most }
}

type Dead = { kind: 'dead'; reason: string; code?: PaymentCode }
type FateOf = { kind: 'settled'; receipt: Receipt } | { kind: 'open' } | Dead | { kind: 'unknown'; reason: string }

/** Asks the chain what became of an authorization. Never rejects. */
export async function askFate(
  { chain, clock, timeouts }: SettleContext,
  { payment, offer }: Authorization,
  end: { readonly expiresAt?: number; readonly charge?: Usdc } | undefined,
): Promise<FateOf> {
  try {
    const fate = await within(clock, timeouts.verifyMs, (signal) =>
      chain.fate(payment, offer, { now: clock.now(), signal, ...end }),
    )
    if (fate.kind === 'paid') return { kind: 'settled', receipt: fate.receipt }
    if (fate.kind === 'dead') return { reason: 'the authorization can no longer move money', ...fate }
    return fate
  } catch (error) {
    return { kind: 'unknown', reason: (error as Error).message }
  }
}

/**
 * Records the outcome. A stale token means that another process settles this call: its outcome counts, and this one is
 * unknown.
 */
async function record(
  context: SettleContext,
  call: Call,
  {
    token,
    authorization,
    spent,
    retainUntil,
    isDelivered,
    by,
  }: {
    token: number
    authorization: Authorization
    spent: Spent
    retainUntil: number
    isDelivered: boolean
    by: SettledBy
  },
): Promise<Paying | 'dead' | 'forgiven'> {
  const { storage, clock, log, meter = silent, timeouts } = context
  const now = clock.now()
  if (spent.kind === 'settled') {
    const isRecorded = await finish(context, call, {
      token,
      outcome: { kind: 'paid', receipt: spent.receipt },
      at: { now, expiresAt: retainUntil, by },
    })
    if (isRecorded) noteSettled(context, call, { receipt: spent.receipt, by })
    return { kind: 'settled', receipt: spent.receipt, now: true }
  }
  const isForgiven = await blame(context, call, spent)
  const isHopeless = spent.kind === 'unknown' && now > authorization.expiresAt + timeouts.unresolvedMs
  const kind = isHopeless ? 'unresolved' : endOf(spent, isDelivered)
  const reason = spent.reason.slice(0, MAX_REASON)
  const isOurs = await finish(context, call, { token, outcome: { kind }, at: { now, reason } })
  if (!isOurs) return { kind: 'unknown', reason: 'the settlement of this call goes on elsewhere' }
  const isUnsent = spent.kind === 'unknown' && spent.isUnsent === true
  const counted = isUnsent ? 'unavailable' : spent.kind
  meter.attempted(call.endpoint, isHopeless ? 'unresolved' : counted)
  if (spent.kind === 'dead') return isForgiven ? 'forgiven' : 'dead'
  if (spent.kind !== 'unknown') return spent
  if (!isHopeless) {
    if (retryOf(storage, call.id).reason !== spent.reason)
      log.warn('a settlement has an unknown outcome', { call: call.id, reason: spent.reason })
    retryOf(storage, call.id).reason = spent.reason
    return spent
  }
  if (call.paymentStatus !== 'unresolved') {
    log.alert('the outcome of a payment is unknown; look it up on the chain', {
      call: call.id,
      payment: authorization.key,
      reason: spent.reason,
    })
  }
  return { kind: 'unresolved', reason: spent.reason }
}

/** Settlements under way that the chain has refused at least once: it is their payer who does not pay. */
const REFUSED_SETTLEMENT = recordKind({ kind: 'refused_settlement', version: 1, schema: Type.Object({}) })

/**
 * Remembers that a chain has refused a payment. One that ends without that was never sent for lack of a key, of gas or
 * of a node: that is our fault, and its buyer owes nothing (contract 1.92). True where it is forgiven now.
 */
async function blame({ storage, clock, log, timeouts }: SettleContext, call: Call, spent: Spent): Promise<boolean> {
  const now = clock.now()
  if (spent.isRefused) {
    const record = { id: call.id, owner: call.payer, data: {}, expiresAt: now + timeouts.unpaidBlockMs }
    await REFUSED_SETTLEMENT.put(storage, record, now)
  }
  if (spent.kind !== 'dead' || !spent.isLate || (await REFUSED_SETTLEMENT.get(storage, call.id, now))) return false
  await forgiveCall(storage, call, now)
  log.alert('a payment could not be sent before its authorization ended; its buyer owes nothing', {
    call: call.id,
    payer: call.payer,
    amount: call.quote,
  })
  return true
}

function endOf({ kind }: Exclude<Spent, { kind: 'settled' }>, isDelivered: boolean): 'unknown' | 'refused' | 'dead' {
  if (kind !== 'unavailable') return kind
  return isDelivered ? 'unknown' : 'refused'
}

/** Ends a claim. False also when storage fails: the reconciler then asks the chain again. */
async function finish(
  { storage, log }: SettleContext,
  call: Call,
  { token, outcome, at }: { token: number; outcome: Outcome; at: Parameters<Storage['finishSettlement']>[3] },
): Promise<boolean> {
  try {
    return await storage.finishSettlement(call.id, token, outcome, at)
  } catch (error) {
    log.alert('the end of a settlement could not be recorded', {
      call: call.id,
      outcome,
      error: (error as Error).message,
    })
    return false
  }
}

/**
 * Reconciles a call left in `settling`: asks the chain, sends its authorization again where it is still open, or
 * alerts. `forgiven`: it ended unpaid, and not by its buyer's fault.
 */
export async function reconcile(
  context: SettleContext,
  call: Call,
  retainUntil: number,
): Promise<'forgiven' | undefined> {
  const { storage, clock, timeouts } = context
  const now = clock.now()
  if (now < (retries(storage).get(call.id)?.nextAt ?? now)) return undefined
  const claim = await storage.claimSettlement(call.id, undefined, { now, until: now + timeouts.settleLeaseMs })
  if (claim.kind !== 'retry') {
    retries(storage).delete(call.id)
    return undefined
  }
  const { authorization, token } = claim
  const spent = await spend(context, authorization, { stored: claim, charge: claim.charge })
  const ending = { token, authorization, spent, retainUntil, isDelivered: false, by: 'maintenance' } as const
  const paying = await record(context, call, ending)
  const isOpen = typeof paying === 'object' && (paying.kind === 'unknown' || paying.kind === 'unavailable')
  if (!isOpen) retries(storage).delete(call.id)
  if (!isOpen) return paying === 'forgiven' ? paying : undefined
  // Wake before an authorization expires, and when it is time to give up.
  const retry = retryOf(storage, call.id)
  const left = Math.max(MIN_PAUSE_MS, (authorization.expiresAt - now) / 2)
  const givesUpAt = authorization.expiresAt + timeouts.unresolvedMs + 1
  retry.nextAt = Math.min(now + Math.min(retry.pauseMs, left), Math.max(givesUpAt, now + 1))
  retry.pauseMs = Math.min(2 * retry.pauseMs, MAX_PAUSE_MS)
  return undefined
}

type Retry = { reason: string; pauseMs: number; nextAt: number }

const MIN_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 60_000
const MAX_RETRIES = 10_000

/** Pending settlement retries of this process, with their delays and what was logged. */
const retries = (storage: Storage): Map<string, Retry> =>
  sharedBy(storage, 'settlement retries', () => new Map<string, Retry>())

function retryOf(storage: Storage, id: string): Retry {
  const all = retries(storage)
  const retry = all.get(id) ?? { reason: '', pauseMs: MIN_PAUSE_MS, nextAt: 0 }
  all.set(id, retry)
  const [oldest] = all.keys()
  if (all.size > MAX_RETRIES && oldest !== undefined) all.delete(oldest)
  return retry
}

export const STALLED = 'Job stalled: it ran for more than an hour. Nothing was charged.'

/**
 * Why an unfinished call counts as failed; undefined while it may still succeed. `lostBy` replaces `now` after an
 * outage.
 */
export function overdue(call: Call, now: number, timeouts: Timeouts, lostBy = now): string | undefined {
  if (!isUnfinished(call.workStatus)) return undefined
  if (now - (call.startedAt ?? call.createdAt) > timeouts.maxJobMs) return STALLED
  if (call.leaseExpiresAt <= lostBy) return LOST
  return undefined
}

/** Why a call failed: as the buyer may read it, and what the operator's timeline shows of the vendor. */
export type Failure = { readonly error: string; readonly vendorError: string | undefined }

/** Longest reason and vendor error in characters that the ledger keeps. */
const MAX_REASON = 500

/** Fails a call, uncharged. False when it had ended. */
export function fail(
  storage: Storage,
  call: Pick<Call, 'id'>,
  failure: string | Failure,
  now: number,
): Promise<boolean> {
  const { error, vendorError } = typeof failure === 'string' ? { error: failure, vendorError: undefined } : failure
  return storage.moveCall(
    call.id,
    { workStatus: ['queued', 'in_progress'], paymentStatus: 'verified' },
    {
      workStatus: 'failed',
      error,
      endedAt: now,
      ...(vendorError !== undefined && { vendorError: vendorError.slice(0, MAX_REASON) }),
    },
  )
}

/** Fails a call whose worker died or that ran too long; returns the call as it is then stored. */
export async function failIfOverdue(
  storage: Storage,
  call: Call,
  { now, timeouts, activeCalls }: { now: number; timeouts: Timeouts; activeCalls: ActiveCalls },
): Promise<Call> {
  const error = overdue(
    call,
    now,
    timeouts,
    activeCalls.has(call.id) ? Number.NEGATIVE_INFINITY : activeCalls.lostBy(now),
  )
  if (!error) return call
  await fail(storage, call, error, now)
  return (await storage.getCall(call.id)) ?? call
}

/**
 * Fails a call whose work cannot start because storage failed, so that its authorization is free again. Throws `error`.
 */
export async function abandon(
  storage: Storage,
  call: Pick<Call, 'id'>,
  { error, now }: { error: unknown; now: number },
): Promise<never> {
  await fail(storage, call, LOST, now)
  throw error
}
