/** What a gateway asks for, and who signed for it: steps 3, 4 and 6 of a paid call, for orders and for polls. */
import { within } from './calls.ts'
import type { Price } from './endpoint.ts'
import { Fault } from './faults.ts'
import type { House } from './house.ts'
import type { Identity, Terms, Verdict } from './ports.ts'
import { fits, notOnOffer } from './visit.ts'
import type { Offer, Payment } from './x402.ts'

export type Identified = (Extract<Identity, { kind: 'known' }> & { offer: Offer }) | Exclude<Identity, { kind: 'known' }>

export type Offers = {
  /** Our offers at this price. While the chain is not ready: `otherwise`, or NOT_READY, for a paid route opens only with an offer. */
  at(price: Pick<Price, 'amount' | 'maxTimeoutSeconds'>, otherwise?: readonly Offer[]): readonly Offer[]
  /** Who signed, judged against the first of the offers that the payment fits. */
  identify(payment: Payment, offers: readonly Offer[]): Promise<Identified>
  verify(payment: Payment, offer: Offer): Promise<Verdict>
}

export function offersOf({ ports: { chain, clock }, patience }: House): Offers {
  return {
    at({ amount, maxTimeoutSeconds }, otherwise = []) {
      const today = chain.terms(clock.now()).map(({ scheme, network, asset, payTo, extra }) => {
        return { scheme, network, amount: amount.toString(), asset, payTo, maxTimeoutSeconds, extra }
      })
      const offers = today.length > 0 ? today : otherwise
      if (offers.length > 0) return offers
      throw new Fault('NOT_READY', { message: 'The gateway has not yet been able to check its chain. Nothing was charged.', headers: { 'retry-after': '5' } })
    },

    async identify(payment, offers) {
      const fitting = offers.filter((offer) => fits(offer, payment.accepted))
      let refused: Identified = { kind: 'refused', code: 'PAYMENT_INVALID', reason: notOnOffer(payment.accepted, offers) }
      for (const offer of fitting) {
        const identity = await within(clock, patience.verifyMs, (signal) => chain.identify(payment, offer, { now: clock.now(), signal })).catch(couldNotAsk)
        if (identity.kind === 'known') return { ...identity, offer }
        if (identity.kind === 'unavailable') return identity
        refused = identity
      }
      return refused
    },

    verify: (payment, offer) => within(clock, patience.verifyMs, (signal) => chain.verify(payment, offer, { now: clock.now(), signal })).catch(couldNotAsk),
  }
}

/** What helps a client for seconds only (reference x402 1.5); documents that are written once leave it out. */
const HINTS: ReadonlySet<string> = new Set(['recentBlockhash', 'lastValidBlockHeight'])

export function withoutHints(terms: readonly Terms[]): readonly Terms[] {
  return terms.map((each) => ({ ...each, extra: Object.fromEntries(Object.entries(each.extra).filter(([name]) => !HINTS.has(name))) }))
}

const couldNotAsk = (error: Error) => ({ kind: 'unavailable' as const, reason: error.message })
