/** What a gateway asks to be paid: its terms as offers, and the offer that a payment accepts. */
import { type Offer, withoutHint } from './protocol.ts'
import type { Usdc } from './money.ts'

/**
 * What an offer needs beyond price and time. `minValiditySeconds` is the life that an authorization must still have
 * when it settles: an offer asks for so much more than its work takes.
 */
export type Terms = Pick<Offer, 'scheme' | 'network' | 'asset' | 'payTo'> & {
  extra: Record<string, unknown>
  minValiditySeconds?: number
}

/** What is asked for, and how long the signed authorization must live. */
export type OfferTerms = { readonly amount: Usdc; readonly maxTimeoutSeconds: number }

/** An authorization for it lives as long as the work takes, and beyond that as long as it must to settle. */
export function offerOf(
  { scheme, network, asset, payTo, extra, minValiditySeconds = 0 }: Terms,
  { amount, maxTimeoutSeconds }: OfferTerms,
): Offer {
  return {
    scheme,
    network,
    amount: amount.toString(),
    asset,
    payTo,
    maxTimeoutSeconds: maxTimeoutSeconds + minValiditySeconds,
    extra,
  }
}

/**
 * Whether two offers are paid in the same way to the same one, whatever they ask. A fee payer that was replaced makes
 * another way.
 */
export function isSamePaymentMethod(one: Offer, other: Offer): boolean {
  const isSameWay = one.extra?.name === other.extra?.name && one.extra?.feePayer === other.extra?.feePayer
  return one.network === other.network && one.asset === other.asset && one.payTo === other.payTo && isSameWay
}

export const withoutHints = (terms: readonly Terms[]): readonly Terms[] => terms.map(withoutHint)

/**
 * Not deep equality: public clients echo other timeouts and extras (contract 1.18). The signature is judged, not the
 * echo.
 */
export function fits(offer: Pick<Offer, 'scheme' | 'network' | 'asset'>, accepted: Offer): boolean {
  return (
    offer.scheme === accepted.scheme &&
    offer.network === accepted.network &&
    offer.asset.toLowerCase() === accepted.asset.toLowerCase()
  )
}

/** Why no offer of ours fits. */
export function notOnOffer(accepted: Offer, offers: readonly Offer[]): string {
  const name = ({ scheme, network, asset }: Offer) => `${scheme} on ${network} in ${asset}`.slice(0, 160)
  return `the payment accepts ${name(accepted)}, but on offer is ${offers.map(name).join(', or ')}`
}
