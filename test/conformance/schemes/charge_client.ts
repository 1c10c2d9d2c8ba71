/** What a client of MPP does with the offer of a 402: it takes the challenge, and signs what that prescribes. */
import { type Challenge, endOf, isChargeable, nonceOf } from '../../../core/mpp/mod.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { challengeIn, credentialOf, headerOf } from '../../core/mpp/mpp_kit.ts'

const challengeOf = ({ extra }: Offer) => extra?.challenge as Challenge | undefined

/** The offer carries its challenge to whoever signs it. */
export const chargeClient = {
  read: (offers: readonly Offer[], headers: Headers) =>
    offers
      .filter(isChargeable)
      .map((offer) => ({ ...offer, extra: { ...offer.extra, challenge: challengeIn(headers) } })),
  headers(payment: Payment) {
    const challenge = challengeOf(payment.accepted)
    if (!challenge) throw new Error('the offer has no challenge')
    return { authorization: headerOf(credentialOf(challenge, payment)) }
  },
}

/** What a challenge leaves no choice of. Nothing for an offer without one. */
export function prescribed(offer: Offer): { readonly nonce?: string; readonly validBefore?: bigint } {
  const challenge = challengeOf(offer)
  return challenge ? { nonce: nonceOf(challenge), validBefore: BigInt(endOf(challenge) ?? 0) } : {}
}
