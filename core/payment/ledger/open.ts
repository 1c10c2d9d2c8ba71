/** Decides whether a call opens. */
import { parseAtomic, type Usdc } from '../../x402/money.ts'
import type { Authorization, Call, Cap, NewCall, OverWhy, PaidWork, StoredRecord } from '../../ports/mod.ts'
import { type ExposedCall, judgeCap, type Settled } from './exposure.ts'
import { type AuthorizationBinding, type RowPatch, type Head, NO_NOTES } from './rows.ts'
import { isFree } from './states.ts'
import { bindingOf, completed, type Decision, failLost, withoutWrites } from './decision.ts'
import { mayMoveRecord } from './records.ts'

/** `Opened`, with the id of a call that the storage still has to read. */
export type OpenAnswer =
  | { kind: 'opened'; call: Call; atLimit?: true; isNew?: true }
  | { kind: 'replayed'; id: string }
  | { kind: 'over'; sum: Usdc; why?: OverWhy }

/** `Recorded`, with the id of a call that the storage still has to read. */
export type PaidAnswer = { kind: 'recorded' } | { kind: 'replayed'; id: string } | { kind: 'moved' }

/**
 * Decides whether a call opens. `bound` is the call that the authorization serves so far. `exposedCalls` are the calls
 * that may count against the payer in this asset, needed only with a cap; `settled` is what the payer's newest settled
 * calls in it came to, absent where there are none, and needed only where `needsSettled(cap)`. An extra row does no
 * harm; a missing one lets a payer spend the same balance twice.
 */
export function decideOpen(
  order: { call: NewCall; authorization: Authorization },
  seen: { bound: Head | undefined; exposedCalls: Iterable<ExposedCall>; settled?: Settled },
  at: { now: number; until: number; lostBy?: number; cap?: Cap },
): Decision<OpenAnswer> {
  const { authorization } = order
  const { bound } = seen
  if (bound && !isFree(bound, at.lostBy ?? at.now)) return withoutWrites({ kind: 'replayed', id: bound.id })
  const judged =
    at.cap &&
    judgeCap(
      order.call,
      { exposedCalls: seen.exposedCalls, settled: seen.settled },
      { now: at.now, without: bound?.id, cap: at.cap },
    )
  if (judged?.kind === 'over') return withoutWrites(judged)
  const { quotedAt = null, verifiedAt = null } = order.call
  const call = openedCall(order.call, authorization, at.until)
  const binding: AuthorizationBinding = { ...bindingOf(authorization, call), position: 0, status: 'open' }
  return {
    answer: { kind: 'opened', call, ...(judged?.atLimit && { atLimit: true }), ...(judged?.isNew && { isNew: true }) },
    writes: [
      ...failLost(bound, at.now),
      { kind: 'insert', call, notes: { ...NO_NOTES, quotedAt, verifiedAt } },
      { kind: 'bind', binding, authorization },
    ],
  }
}

/** The call as it is opened, with a lease until `until`. */
export function openedCall(order: NewCall, { key }: Pick<Authorization, 'key'>, until: number): Call {
  const { quotedAt, verifiedAt, ...call } = order
  return {
    ...call,
    authorization: key,
    workStatus: 'queued',
    paymentStatus: 'verified',
    leaseExpiresAt: until,
    startedAt: null,
    endedAt: null,
    result: null,
    error: null,
    usage: null,
    charge: null,
    receipt: null,
    settledAt: null,
  }
}

/**
 * Decides whether a call is stored that is worked on and paid already. `record` is the one that paid for it, as it is
 * stored now.
 */
export function decidePaid(
  order: { call: NewCall; authorization: Authorization; paid: PaidWork },
  seen: { bound: Head | undefined; record: StoredRecord | undefined },
  at: { now: number; lostBy?: number },
): Decision<PaidAnswer> {
  const { result, usage, receipt, expiresAt, spent } = order.paid
  const { call: ordered, authorization } = order
  const { bound, record } = seen
  if (bound && !isFree(bound, at.lostBy ?? at.now)) return withoutWrites({ kind: 'replayed', id: bound.id })
  if (!mayMoveRecord(record, { ...spent, now: at.now })) return withoutWrites({ kind: 'moved' })
  const call = openedCall(ordered, authorization, at.now)
  const { quotedAt = null, verifiedAt = null } = ordered
  const binding: AuthorizationBinding = { ...bindingOf(authorization, call), position: 0, status: 'paid' }
  const patch: RowPatch = {
    ...completed({ result, expiresAt, usage }, at.now),
    paymentStatus: 'settled',
    receipt,
    charge: parseAtomic(receipt.amount) ?? null,
    settledAt: at.now,
    settlingAt: at.now,
    settledBy: 'reply',
  }
  return {
    answer: { kind: 'recorded' },
    writes: [
      ...failLost(bound, at.now),
      { kind: 'insert', call, notes: { ...NO_NOTES, quotedAt, verifiedAt } },
      { kind: 'bind', binding, authorization: null },
      // A change of its own, because what changes is counted in the sums.
      { kind: 'patch', id: call.id, patch },
      { kind: 'record', record: spent.record },
    ],
  }
}
