/** Records how an attempt to settle ended, and whose fault it was that it did not pay. */
import { Type } from '@sinclair/typebox'
import { recordKind } from '../../endpoint/record_kind.ts'
import { silent } from '../../ports/meter.ts'
import type { Authorization, Call, CallStorage, Outcome, SettledBy } from '../../ports/mod.ts'
import { parseAtomic } from '../../x402/money.ts'
import type { Receipt } from '../../x402/protocol.ts'
import { forgiveCall } from '../unpaid/unpaid_calls.ts'
import { MAX_REASON } from './fail.ts'
import type { Paying } from '../outcome.ts'
import type { SettleContext } from './context.ts'
import { retryOf } from './retries.ts'
import type { Spent } from './send.ts'

/** The end of one attempt: of which claim, by which authorization, and what is kept of it. */
type Attempt = {
  readonly token: number
  readonly authorization: Authorization
  readonly spent: Spent
  /** In milliseconds. An attempt is given up by when it began: its process may have stood still meanwhile. */
  readonly startedAt: number
  readonly retainUntil: number
  readonly isDelivered: boolean
  readonly by: SettledBy
}

/**
 * Records the outcome. A stale token means that another process settles this call: its outcome counts, and this one is
 * unknown.
 */
export async function record(
  context: SettleContext,
  call: Call,
  { spent, ...attempt }: Attempt,
): Promise<Paying | 'dead' | 'forgiven'> {
  const { clock } = context
  const now = clock.now()
  if (spent.kind !== 'settled') return await recordUnpaid(context, call, { ...attempt, spent, now })
  const { token, authorization, retainUntil, by } = attempt
  const isRecorded = await finish(context, call, {
    token,
    outcome: { kind: 'paid', receipt: spent.receipt },
    at: { now, expiresAt: retainUntil, by },
  })
  if (isRecorded) context.chain.apiKeys?.recorded(authorization.key)
  if (isRecorded) noteSettled(context, call, { receipt: spent.receipt, by })
  return { kind: 'settled', receipt: spent.receipt, now: true }
}

type Unpaid = Exclude<Spent, { kind: 'settled' }>

async function recordUnpaid(
  context: SettleContext,
  call: Call,
  { token, authorization, spent, startedAt, isDelivered, now }: Omit<Attempt, 'spent'> & { spent: Unpaid; now: number },
): Promise<Paying | 'dead' | 'forgiven'> {
  const { meter = silent, timeouts } = context
  const isForgiven = await blame(context, call, spent)
  const isHopeless = spent.kind === 'unknown' && startedAt > authorization.expiresAt + timeouts.unresolvedMs
  const kind = isHopeless ? 'unresolved' : endOf(spent, isDelivered)
  const reason = spent.reason.slice(0, MAX_REASON)
  const isOurs = await finish(context, call, { token, outcome: { kind }, at: { now, reason } })
  if (!isOurs) return { kind: 'unknown', reason: 'the settlement of this call goes on elsewhere' }
  const isUnsent = spent.kind === 'unknown' && spent.isUnsent === true
  const counted = isUnsent ? 'unavailable' : spent.kind
  meter.attempted(call.endpoint, isHopeless ? 'unresolved' : counted)
  if (spent.kind === 'dead') return isForgiven ? 'forgiven' : 'dead'
  if (spent.kind !== 'unknown') return spent
  logDoubt(context, call, { authorization, reason: spent.reason, isHopeless })
  return isHopeless ? { kind: 'unresolved', reason: spent.reason } : spent
}

/** Logs an unknown outcome once for each reason, and alerts the operator when it is given up. */
function logDoubt(
  { retries, log }: SettleContext,
  call: Call,
  { authorization, reason, isHopeless }: { authorization: Authorization; reason: string; isHopeless: boolean },
): void {
  if (!isHopeless) {
    const retry = retryOf(retries, call.id)
    if (retry.reason !== reason) log.warn('a settlement has an unknown outcome', { call: call.id, reason })
    retry.reason = reason
    return
  }
  if (call.paymentStatus === 'unresolved') return
  log.alert('the outcome of a payment is unknown; look it up on the chain', {
    call: call.id,
    payment: authorization.key,
    reason,
  })
}

/** Settlements under way that the chain has refused at least once: it is their payer who does not pay. */
const REFUSED_SETTLEMENT = recordKind({ kind: 'refused_settlement', version: 1, schema: Type.Object({}) })

/**
 * Remembers that a chain has refused a payment. One that ends without that was never sent for lack of a key, of gas or
 * of a node: that is our fault, and its buyer owes nothing (contract 1.92). True where it is forgiven now.
 */
async function blame({ storage, clock, log, timeouts }: SettleContext, call: Call, spent: Unpaid): Promise<boolean> {
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

function endOf({ kind }: Unpaid, isDelivered: boolean): 'unknown' | 'refused' | 'dead' {
  if (kind !== 'unavailable') return kind
  return isDelivered ? 'unknown' : 'refused'
}

/** Ends a claim. False also when storage fails: the reconciler then asks the chain again. */
async function finish(
  { storage, log }: SettleContext,
  call: Call,
  { token, outcome, at }: { token: number; outcome: Outcome; at: Parameters<CallStorage['finishSettlement']>[3] },
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

export function noteSettled(
  { log, meter = silent }: Pick<SettleContext, 'log' | 'meter'>,
  { id, payer, endpoint, model }: Call,
  { receipt, by }: { receipt: Receipt; by: SettledBy },
): void {
  const { amount, transaction } = receipt
  meter.attempted(endpoint, 'settled', parseAtomic(amount))
  log.info('a payment was settled', { call: id, payer, endpoint, model, amount, transaction, by })
}
