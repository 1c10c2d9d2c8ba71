/** MPP in the requests and replies of a call: what its 402s offer, why a credential was refused, and its receipt. */
import { acceptanceOf } from '../mpp/accept_payment.ts'
import { type ChargeFor, endOf, OTHER_HEADER } from '../mpp/challenge.ts'
import { credentialsIn } from '../mpp/credential.ts'
import type { ChargeMethod } from '../mpp/method.ts'
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

/** `methods`: those that one of the offers can be paid by. */
export function chargingOf(
  { request, origin }: Pick<RequestContext, 'request' | 'origin'>,
  methods: readonly ChargeMethod[],
): Charging {
  const { headers } = request
  const header = headers.get('accept-payment')
  if (methods.length === 0) return { hasX402: header === null }
  const isPlain = header === null && !headers.has('authorization') && !headers.has(OTHER_HEADER)
  if (isPlain) return plainCharging(origin, methods)
  const offered = methods.map((method) => ({ method, acceptance: acceptanceOf(header, method.name) }))
  const isAccepting = offered.some(({ acceptance }) => acceptance === 'accepted')
  const wanted = offered.filter(({ acceptance }) => acceptance === (isAccepting ? 'accepted' : 'unasked'))
  if (wanted.length === 0) return { hasX402: false }
  const isTaken = headers.has('authorization') && credentialsIn(headers).length === 0
  const isElsewhere = isTaken || headers.has(OTHER_HEADER)
  const known = wanted.length === methods.length ? methods : wanted.map(({ method }) => method)
  return {
    charge: { realm: realmOf(origin), methods: known, ...(isElsewhere && { header: OTHER_HEADER }) },
    hasX402: !isAccepting,
  }
}

type Plain = { readonly origin: string; readonly charging: Charging }
const plain = new WeakMap<readonly ChargeMethod[], Plain>()

/** For a request that says nothing of MPP. The same object while the methods and the origin are the same. */
function plainCharging(origin: string, methods: readonly ChargeMethod[]): Charging {
  const known = plain.get(methods)
  if (known?.origin === origin) return known.charging
  const charging = { charge: { realm: realmOf(origin), methods }, hasX402: true }
  plain.set(methods, { origin, charging })
  return charging
}

/** The host that a challenge is of, without a port: clients compare it with the host of the URL. */
export const realmOf = (origin: string): string => /^[a-z]+:\/\/(\[[^\]]*\]|[^:/]*)/.exec(origin)?.[1] ?? ''

/** How close to its end a payment is refused as expired, in milliseconds (contract 1.63). */
const LIFE_MS = 6_000

/**
 * The payment with the offer that it pays: a credential names the offer by its challenge alone, and keeps what that
 * prescribes.
 */
export function payingFor(payment: Payment, presented: Presented | undefined, offer: Offer): Payment {
  if (!credentialIn(presented)) return payment
  const extra = { ...offer.extra, ...payment.accepted.extra }
  return { ...payment, accepted: { ...offer, ...(Object.keys(extra).length > 0 && { extra }) } }
}

/** Whether the challenge of a credential has ended, or is about to: it buys nothing any more. */
export function isChargeOver(presented: Presented | undefined, now: number): boolean {
  const credential = credentialIn(presented)
  return credential !== undefined && (endOf(credential.challenge) ?? 0) * 1000 < now + LIFE_MS
}

/**
 * The receipt of MPP, for a request whose own credential has paid: its challenge is named. Empty for every other reply.
 */
export function chargeReceiptHeaders(
  presented: Presented | undefined,
  { authorization, settledAt }: Pick<Call, 'authorization' | 'settledAt'>,
  { receipt, isFirst, now }: { readonly receipt: Receipt | null; readonly isFirst: boolean; readonly now: number },
): Readonly<Record<string, string>> {
  if (!presented?.ok || !('credential' in presented) || !receipt) return {}
  const { credential, method } = presented
  if (!isFirst && !method.isKey(credential, authorization)) return {}
  const { id: challengeId } = credential.challenge
  return { 'payment-receipt': chargeReceipt(receipt, { method, challengeId, settledAt: settledAt ?? now }) }
}

/** Why a payment was refused, in the words of MPP. */
export function problemOf(
  presented: Presented | undefined,
  { code, offers, now }: { readonly code: PaymentCode; readonly offers: readonly Offer[]; readonly now: number },
): Problem {
  if (presented && !presented.ok) return 'problem' in presented ? presented.problem : 'malformed-credential'
  const credential = credentialIn(presented)
  if (!credential || !presented?.ok) return 'verification-failed'
  if (code === 'PAYMENT_UNFUNDED' && isChargeOver(presented, now)) return 'payment-expired'
  const { accepted } = presented.payment
  const due = offers.find((offer) => fits(offer, accepted))
  if (!due) return 'invalid-challenge'
  if (due.amount === accepted.amount) return 'verification-failed'
  return BigInt(accepted.amount) < BigInt(due.amount) ? 'payment-insufficient' : 'invalid-challenge'
}
