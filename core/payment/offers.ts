/**
 * The offers of a gateway, and who signed for one: steps 3, 4 and 6 of a paid call, for orders and for polls (decision
 * 11).
 */
import { within } from '../lib/timers.ts'
import { ApiError } from '../http/errors.ts'
import type { Identity, Ports, Verdict } from '../ports/mod.ts'
import { fits, notOnOffer, offerOf, type OfferTerms, type Terms } from '../x402/offer.ts'
import type { Offer, Payment } from '../x402/protocol.ts'
import type { Timeouts } from './timeouts.ts'

type Identified =
  | (Extract<Identity, { kind: 'known' }> & { offer: Offer })
  | (Exclude<Identity, { kind: 'known' }> & { offer?: Offer })

/** The key over which exposure is summed: the balance that pays an authorization, on its network. */
export const balanceKeyOf = ({ offer, fundedBy = offer.asset }: Extract<Identified, { kind: 'known' }>): string =>
  `${offer.network}/${fundedBy.toLowerCase()}`

export type Offers = {
  /**
   * Our offers at this price. While the chain is not ready: `otherwise`, or NOT_READY, because a paid route needs an
   * offer. With offers of an earlier sale, the price's lifetime is theirs.
   */
  at(price: OfferTerms, otherwise?: readonly Offer[]): readonly Offer[]
  /**
   * Identifies the signer against the offers that the payment fits. When several are alike, the one that the payment
   * names comes first.
   */
  identify(payment: Payment, offers: readonly Offer[]): Promise<Identified>
  verify(payment: Payment, offer: Offer): Promise<Verdict>
}

const CLOSED = 'The gateway cannot settle payments at the moment. Nothing was charged. Retry later.'
/**
 * Seconds until a retry makes sense: a free key is looked for every few seconds, the balance of an empty one every
 * minute.
 */
const CLOSED_RETRY_SECONDS = { no_key: '5', no_gas: '60', clock: '5', newer_schema: '5', storage: '60' } as const

/** Parts that offers are built from. */
export type OffersContext = {
  readonly ports: Pick<Ports, 'chain' | 'clock'>
  readonly timeouts: Pick<Timeouts, 'verifyMs'>
}

export function offersOf({ ports: { chain, clock }, timeouts }: OffersContext): Offers {
  const written = offersOfPrice()
  return {
    at(given, otherwise = []) {
      const terms = chain.terms(clock.now())
      if (terms.length > 0 && otherwise.length === 0) return written(terms, given)
      const { amount, maxTimeoutSeconds } = given
      const [sold] = otherwise
      const before = sold && terms.find((each) => fits(each, sold) && isNamed(each, sold))
      const price = { amount, maxTimeoutSeconds: maxTimeoutSeconds - (before?.minValiditySeconds ?? 0) }
      const offers = terms.length > 0 ? terms.map((each) => offerOf(each, price)) : otherwise
      if (offers.length > 0) return offers
      const closed = chain.closed?.(clock.now())
      if (closed)
        throw new ApiError('NOT_READY', {
          message: CLOSED,
          headers: { 'retry-after': CLOSED_RETRY_SECONDS[closed.code] },
        })
      throw new ApiError('NOT_READY', {
        message: 'The gateway has not yet been able to check its chain. Nothing was charged.',
        headers: { 'retry-after': '5' },
      })
    },

    async identify(payment, offers) {
      const { accepted } = payment
      const fitting = offers
        .filter((offer) => fits(offer, accepted))
        .toSorted((a, b) => Number(isNamed(b, accepted)) - Number(isNamed(a, accepted)))
      let refused: Identified | undefined
      for (const offer of fitting) {
        const identity = await within(clock, timeouts.verifyMs, (signal) =>
          chain.identify(payment, offer, { now: clock.now(), signal }),
        ).catch(couldNotAsk)
        if (identity.kind === 'known') return { ...identity, offer }
        if (identity.kind === 'unavailable') return identity
        refused ??= identity.corrected ? { ...identity, offer } : identity
      }
      return refused ?? { kind: 'refused', code: 'PAYMENT_INVALID', reason: notOnOffer(accepted, offers) }
    },

    verify: (payment, offer) =>
      within(clock, timeouts.verifyMs, (signal) => chain.verify(payment, offer, { now: clock.now(), signal })).catch(
        couldNotAsk,
      ),
  }
}

/** Builds the offers of a price once while the terms are unchanged. Orders that cost the same share a price. */
function offersOfPrice(): (terms: readonly Terms[], price: OfferTerms) => readonly Offer[] {
  let known = new WeakMap<OfferTerms, readonly Offer[]>()
  let current: readonly Terms[] = []
  return (terms, price) => {
    if (terms.length !== current.length || terms.some((each, index) => each !== current[index])) known = new WeakMap()
    current = terms
    const before = known.get(price)
    if (before) return before
    const offers = terms.map((each) => offerOf(each, price))
    known.set(price, offers)
    return offers
  }
}

const couldNotAsk = (error: Error) => ({ kind: 'unavailable' as const, reason: error.message })

/** Offers with the same network and asset differ in the data that is signed. */
const isNamed = ({ extra }: Pick<Offer, 'extra'>, accepted: Offer): boolean => extra?.name === accepted.extra?.name
