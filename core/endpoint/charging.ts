/** MPP in the requests and replies of a call: what its 402s offer, why a credential was refused, and its receipt. */
import { acceptanceOf } from '../mpp/accept_payment.ts'
import { type ChargeFor, endOf, OTHER_HEADER } from '../mpp/challenge.ts'
import { credentialsIn } from '../mpp/credential.ts'
import type { Problem } from '../mpp/problem.ts'
import { chargeReceipt } from '../mpp/receipt.ts'
import type { Call, PaymentCode } from '../ports/mod.ts'
import { fits } from '../x402/offer.ts'
import type { Offer, Payment, Receipt } from '../x402/protocol.ts'
import { credentialIn, type Presented, type RequestContext } from './request_context.ts'

export type Charging = {
  /** Realm and header of the challenges. Absent: the 402 has none. */
  readonly charge?: ChargeFor
  /** Whether `WWW-Authenticate` has the scheme `X402`, which clients of MPP cannot read. */
  readonly hasX402: boolean
}

/** `isOffered`: whether the gateway takes MPP. */
export function chargingOf(
  { request, origin }: Pick<RequestContext, 'request' | 'origin'>,
  isOffered: boolean,
): Charging {
  const { headers } = request
  const header = headers.get('accept-payment')
  const acceptance = acceptanceOf(header)
  if (acceptance === 'refused') return { hasX402: false }
  if (!isOffered) return { hasX402: header === null }
  const isTaken = headers.has('authorization') && credentialsIn(headers).length === 0
  const isElsewhere = isTaken || headers.has(OTHER_HEADER)
  return {
    charge: { realm: realmOf(origin), ...(isElsewhere && { header: OTHER_HEADER }) },
    hasX402: acceptance === 'unasked',
  }
}

/** The host that a challenge is of, without a port: clients compare it with the host of the URL. */
export const realmOf = (origin: string): string => /^[a-z]+:\/\/(\[[^\]]*\]|[^:/]*)/.exec(origin)?.[1] ?? ''

/** How close to its end a payment is refused as expired, in milliseconds (contract 1.63). */
const LIFE_MS = 6_000

/** The payment with the offer that it pays: a credential names the offer by its challenge alone. */
export function payingFor(payment: Payment, presented: Presented | undefined, offer: Offer): Payment {
  return credentialIn(presented) ? { ...payment, accepted: offer } : payment
}

/**
 * The receipt of MPP, for a request whose own credential has paid: its challenge is named. Empty for every other reply.
 */
export function chargeReceiptHeaders(
  presented: Presented | undefined,
  { authorization, settledAt }: Pick<Call, 'authorization' | 'settledAt'>,
  { receipt, isFirst, now }: { readonly receipt: Receipt | null; readonly isFirst: boolean; readonly now: number },
): Readonly<Record<string, string>> {
  const credential = credentialIn(presented)
  if (!credential || !receipt) return {}
  const isOwn = authorization.toLowerCase().endsWith(credential.payload.nonce.toLowerCase())
  if (!isOwn && !isFirst) return {}
  const { id } = credential.challenge
  return { 'payment-receipt': chargeReceipt(receipt, { challengeId: id, settledAt: settledAt ?? now }) }
}

/** Why a payment was refused, in the words of MPP. */
export function problemOf(
  presented: Presented | undefined,
  { code, offers, now }: { readonly code: PaymentCode; readonly offers: readonly Offer[]; readonly now: number },
): Problem {
  if (presented && !presented.ok) return 'problem' in presented ? presented.problem : 'malformed-credential'
  const credential = credentialIn(presented)
  if (!credential || !presented?.ok) return 'verification-failed'
  const end = (endOf(credential.challenge) ?? 0) * 1000
  if (code === 'PAYMENT_UNFUNDED' && end < now + LIFE_MS) return 'payment-expired'
  const { accepted } = presented.payment
  const due = offers.find((offer) => fits(offer, accepted))
  if (!due) return 'invalid-challenge'
  if (due.amount === accepted.amount) return 'verification-failed'
  return BigInt(accepted.amount) < BigInt(due.amount) ? 'payment-insufficient' : 'invalid-challenge'
}
