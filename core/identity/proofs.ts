/**
 * Which authorizations prove a wallet (contract 1.41). A settlement publishes the whole authorization, so one that was
 * sent to a chain or a facilitator proves nothing: anyone who reads the chain can resend it.
 */
import type { SettleContext } from '../payment/settlement/context.ts'
import { askFate } from '../payment/settlement/send.ts'
import { isNotedHandedOut } from '../payment/settlement/sent_authorizations.ts'
import type { Authorization, Call, PaymentCode } from '../ports/mod.ts'
import { SIGN_AFRESH } from '../endpoint/demands.ts'

export type Judged =
  | { readonly kind: 'proof' }
  /** `served`: the other call that it is bound to. */
  | { readonly kind: 'none'; readonly code: PaymentCode; readonly reason: string; readonly served?: Call }
  /** The chain could not say whether it has seen the authorization. */
  | { readonly kind: 'unavailable' }

/**
 * Whether the authorization of a call was ever sent. The claim before every settlement records this (the payment status
 * leaves `verified`), and nothing undoes it. The authorization of a free call is never sent.
 */
export function wasHandedOut({ paymentStatus }: Pick<Call, 'paymentStatus'>): boolean {
  return paymentStatus !== 'verified'
}

/**
 * Whether the authorization proves that its sender is the wallet of this call. The call's own proves it while it was
 * never sent; another proves it when no call has used it, it has not expired, and the chain has not seen it. The
 * balance of the wallet does not matter.
 */
export async function judgeProof(context: SettleContext, call: Call, authorization: Authorization): Promise<Judged> {
  const { storage, clock } = context
  const { key, expiresAt } = authorization
  if (key === call.authorization)
    return (await isOwnPublic(context, call)) ? none('PAYMENT_REPLAY', SIGN_AFRESH) : { kind: 'proof' }
  const served = await storage.callOf(key, clock.now())
  if (served)
    return served.id === call.id
      ? none('PAYMENT_REPLAY', SIGN_AFRESH)
      : { ...none('PAYMENT_REPLAY', 'the payment authorization was already used for another call'), served }
  if (await isNotedHandedOut(storage, key, clock.now())) return none('PAYMENT_REPLAY', SIGN_AFRESH)
  if (expiresAt <= clock.now())
    return none('PAYMENT_UNFUNDED', 'the authorization has expired, so it proves no wallet; sign a fresh one')
  const fate = await askFate(context, authorization, undefined)
  if (fate.kind === 'open') return { kind: 'proof' }
  if (fate.kind === 'unknown') return { kind: 'unavailable' }
  return none(
    (fate.kind === 'dead' && fate.code) || 'PAYMENT_REPLAY',
    'the chain has seen the authorization, or it can no longer move money, so it proves no wallet; sign a fresh one',
  )
}

/** A failed call frees its authorization, which another call may have sent since. */
async function isOwnPublic({ storage, clock }: SettleContext, call: Call): Promise<boolean> {
  if (wasHandedOut(call)) return true
  if (call.workStatus !== 'failed') return false
  const successor = await storage.callOf(call.authorization, clock.now())
  return successor !== undefined && wasHandedOut(successor)
}

const none = (code: PaymentCode, reason: string) => ({ kind: 'none', code, reason }) as const
