/** Decides who settles a call, and with which authorization (decision 136). */
import type { Usdc } from '../../x402/money.ts'
import { isCumulative } from '../../x402/offer.ts'
import type { Authorization } from '../../ports/mod.ts'
import type { Receipt } from '../../x402/protocol.ts'
import { isSpendable } from './exposure.ts'
import type { AuthorizationBinding, RowPatch, Head } from './rows.ts'
import { isUnfinished, wasLost, isFree } from './states.ts'
import { bindingOf, completed, type Decision, failLost, type Made, withoutWrites, type Write } from './decision.ts'

/** `Claim`, with ids and keys of what the storage still has to read. */
export type ClaimAnswer =
  | { kind: 'yours'; token: number; charge?: Usdc }
  | { kind: 'retry'; token: number; key: string; sent: boolean; charge?: Usdc }
  | { kind: 'taken'; until: number }
  | { kind: 'settled'; receipt: Receipt }
  | { kind: 'replayed'; id: string }
  | { kind: 'nothing' }

type Seen = {
  readonly bindings: readonly AuthorizationBinding[]
  readonly offered: Authorization | undefined
  readonly bound: Head | undefined
}

/**
 * Decides who settles a call, and with which authorization: always the earliest that is neither dead nor paid.
 * `bindings` are those of the call, by position; `bound` is the other call that `offered` serves so far. With
 * `workerId`, the worker that made the result, a call of that worker that was declared lost is completed too, and
 * settled with its authorization unless that now serves another call.
 */
export function decideClaim(
  call: Head | undefined,
  seen: Seen,
  at: { now: number; until: number; lostBy?: number; result?: Made; workerId?: string },
): Decision<ClaimAnswer> {
  if (!call) return withoutWrites({ kind: 'nothing' })
  const isBack = at.workerId === call.workerId && wasLost(call)
  const done =
    at.result && (isUnfinished(call.workStatus) || isBack)
      ? { ...completed(at.result, at.now), ...(isBack && { error: null }) }
      : undefined
  const completion: readonly Write[] = done ? [{ kind: 'patch', id: call.id, patch: done }] : []
  if (!done && call.workStatus !== 'completed') return withoutWrites({ kind: 'nothing' })
  if (call.receipt && call.paymentStatus === 'settled')
    return { answer: { kind: 'settled', receipt: call.receipt }, writes: completion }
  if (call.claimKey !== null && call.claimExpiresAt !== null && call.claimExpiresAt > at.now) {
    return { answer: { kind: 'taken', until: call.claimExpiresAt }, writes: completion }
  }

  const token = call.claimToken + 1
  const amount = done?.charge ?? call.charge
  const charge = amount === null ? {} : { charge: amount }
  const claim = {
    ...done,
    ...(call.claimToken === 0 && { settlingAt: at.now }),
    paymentStatus: 'settling',
    claimToken: token,
    claimExpiresAt: at.until,
  } as const
  const next = { claim, token, charge }
  const first = seen.bindings.find((binding) => isSpendable(binding.status))
  if (first) return claimBound(call, first, { ...next, offered: seen.offered, now: at.now })
  return claimOffered(call, seen, { ...next, ...at, completion })
}

/** The new state of a call that is claimed, and the answer to its claimant. */
type Next = {
  readonly claim: RowPatch
  readonly token: number
  readonly charge: { readonly charge?: Usdc }
}

/** Claims with the earliest authorization of the call that is neither dead nor paid. */
function claimBound(
  call: Head,
  first: AuthorizationBinding,
  { claim, token, charge, offered, now }: Next & { offered: Authorization | undefined; now: number },
): Decision<ClaimAnswer> {
  const fresh = first.status === 'open'
  // An expired authorization is looked up, not sent (`spend` in send.ts): it must not count as sent after a crash.
  const isOver = first.expiresAt <= now
  const patch: RowPatch = { ...claim, claimKey: first.key, claimFresh: fresh }
  const mine = fresh && first.key === offered?.key
  return {
    answer: mine
      ? { kind: 'yours', token, ...charge }
      : { kind: 'retry', token, key: first.key, sent: !fresh, ...charge },
    writes: [
      { kind: 'patch', id: call.id, patch },
      ...(fresh && !isOver ? [{ kind: 'mark', key: first.key, status: 'sent' } as const] : []),
    ],
  }
}

/** Claims with the offered authorization, where it may follow those of the call and serves no other. */
function claimOffered(
  call: Head,
  seen: Seen,
  at: Next & { completion: readonly Write[]; now: number; lostBy?: number },
): Decision<ClaimAnswer> {
  const { claim, token, charge, completion } = at
  const { offered } = seen
  // A binding of this call that is not spendable is dead or paid: there is nothing left to send. A channel's key is of
  // what was charged before: another payment, such as one with a new deposit, may follow a dead one.
  const before = seen.bindings.find((binding) => binding.key === offered?.key)
  const isOver = before && !(before.status === 'dead' && offered && isCumulative(offered.offer))
  if (!offered || isOver) return { answer: { kind: 'nothing' }, writes: completion }
  if (seen.bound && !isFree(seen.bound, at.lostBy ?? at.now))
    return { answer: { kind: 'replayed', id: seen.bound.id }, writes: completion }
  const position = before?.position ?? 1 + Math.max(-1, ...seen.bindings.map((binding) => binding.position))
  return {
    answer: { kind: 'yours', token, ...charge },
    writes: [
      ...failLost(seen.bound, at.now),
      {
        kind: 'bind',
        binding: { ...bindingOf(offered, call), position: position, status: 'sent' },
        authorization: offered,
      },
      { kind: 'patch', id: call.id, patch: { ...claim, claimKey: offered.key, claimFresh: true } },
    ],
  }
}
