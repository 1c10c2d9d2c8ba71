/** Offers: the terms of a gateway at a price, and which offer a payment accepts. */
import { type Offer, type Payment, withoutHint } from './protocol.ts'
import type { Usdc } from './money.ts'

/**
 * Fields of an offer besides price and time. `minValiditySeconds` is the life that an authorization must still have
 * when it is settled; it is added to the time that the work takes.
 */
export type Terms = Pick<Offer, 'scheme' | 'network' | 'asset' | 'payTo'> & {
  extra: Record<string, unknown>
  minValiditySeconds?: number
}

/** Schemes of the protocol that charge what was used; their `amount` is the most that may be charged. */
const BY_USE: ReadonlySet<string> = new Set(['upto', 'batch-settlement'])

/**
 * Whether an offer, or the terms of one, charges what was used. Every other scheme charges its whole amount (decision
 * 128).
 */
export const chargesUse = ({ scheme }: Pick<Offer, 'scheme'>): boolean => BY_USE.has(scheme)

/** The token that an offer is paid in, on its network. A wallet's unpaid calls are counted over it, however it pays. */
export const tokenKeyOf = ({ network, asset }: Pick<Offer, 'network' | 'asset'>): string =>
  `${network}/${asset.toLowerCase()}`

/**
 * Whether a payment of an offer signs for everything so far, so that it depends on the one before, and a buyer that is
 * out of step can be corrected.
 */
export const isCumulative = ({ scheme }: Pick<Offer, 'scheme'>): boolean => scheme === 'batch-settlement'

/**
 * Whether a payment buys nothing and asks for what is left of the money that was deposited for offers like the accepted
 * one.
 */
export const isRefundRequest = ({ accepted, payload }: Payment): boolean =>
  isCumulative(accepted) && payload.type === 'refund'

/** The price, and how long the signed authorization must live. */
export type OfferTerms = { readonly amount: Usdc; readonly maxTimeoutSeconds: number }

/** An offer whose authorization lives as long as the work takes, plus the time that settlement needs. */
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
 * Whether two offers are paid the same way to the same recipient, whatever their amounts. A new fee payer makes a
 * difference.
 */
export function isSamePaymentMethod(one: Offer, other: Offer): boolean {
  const isSameWay = one.extra?.name === other.extra?.name && one.extra?.feePayer === other.extra?.feePayer
  if (one.scheme !== other.scheme) return false
  return one.network === other.network && one.asset === other.asset && one.payTo === other.payTo && isSameWay
}

export const withoutHints = (terms: readonly Terms[]): readonly Terms[] => terms.map(withoutHint)

/**
 * Not deep equality: public clients echo other timeouts and extras (contract 1.18). The signature is checked, not the
 * echo.
 */
export function fits(offer: Pick<Offer, 'scheme' | 'network' | 'asset'>, accepted: Offer): boolean {
  return (
    offer.scheme === accepted.scheme &&
    offer.network === accepted.network &&
    offer.asset.toLowerCase() === accepted.asset.toLowerCase()
  )
}

/** The offers with this one first, its `extra` corrected: clients read the first offer of their scheme. */
export function withCorrected(
  offers: readonly Offer[],
  { offer, extra }: { readonly offer: Offer; readonly extra: Readonly<Record<string, unknown>> },
): readonly Offer[] {
  const current = offers.find((each) => isSamePaymentMethod(each, offer)) ?? offer
  return [{ ...current, extra: { ...current.extra, ...extra } }, ...offers.filter((each) => each !== current)]
}

/** Says why no offer matches the payment. */
export function notOnOffer(accepted: Offer, offers: readonly Offer[]): string {
  const name = ({ scheme, network, asset }: Offer) => `${scheme} on ${network} in ${asset}`.slice(0, 160)
  return `the payment accepts ${name(accepted)}, but this gateway offers ${offers.map(name).join(', or ')}`
}
