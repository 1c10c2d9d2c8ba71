/** A client of MPP takes the challenge of a 402 and signs the payment that it prescribes. */
import { evmCharge, nonceOf } from '../../../adapters/chains/evm/charge.ts'
import { solanaCharge } from '../../../adapters/chains/solana/charge.ts'
import { type Challenge, type ChargeMethod, decodeUrl, endOf } from '../../../core/mpp/mod.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { challengeIn, credentialOf, headerOf } from '../../core/mpp/mpp_kit.ts'

const challengeOf = ({ extra }: Offer) => extra?.challenge as Challenge | undefined

/** The offer carries its challenge to whoever signs it, and what that prescribes of a transaction. */
const clientOf = (method: ChargeMethod, credential: (challenge: Challenge, payment: Payment) => object) => ({
  read: (offers: readonly Offer[], headers: Headers) =>
    offers.filter(method.isFor).map((offer) => {
      const challenge = challengeIn(headers)
      const memo = decodeUrl(challenge.request)?.externalId
      return { ...offer, extra: { ...offer.extra, challenge, ...(memo !== undefined && { memo }) } }
    }),
  headers(payment: Payment) {
    const challenge = challengeOf(payment.accepted)
    if (!challenge) throw new Error('the offer has no challenge')
    return { authorization: headerOf(credential(challenge, payment)) }
  },
})

export const chargeClient = clientOf(evmCharge, credentialOf)
export const solanaChargeClient = clientOf(solanaCharge, (challenge, { payload: { transaction } }) => ({
  challenge,
  payload: { type: 'transaction', transaction },
}))

/** Fields that a challenge prescribes. Nothing for an offer without one. */
export function prescribed(offer: Offer): { readonly nonce?: string; readonly validBefore?: bigint } {
  const challenge = challengeOf(offer)
  return challenge ? { nonce: nonceOf(challenge), validBefore: BigInt(endOf(challenge) ?? 0) } : {}
}
