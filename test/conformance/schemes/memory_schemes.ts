/** `exact` and `upto` on the chain in memory, which passes the laws of chains: for the quick tests. */
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { type Challenge, endOf, nonceOf } from '../../../core/mpp/mod.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { challengeIn, credentialOf, headerOf } from '../../core/mpp/mpp_kit.ts'
import { testClock } from '../../kit.ts'
import type { SchemeFactory, WayToPay } from './scheme.ts'

let wallets = 0

const challengeOf = ({ extra }: Offer) => extra?.challenge as Challenge | undefined

/** The offer carries its challenge to whoever signs it. */
const mpp = {
  read: (offers: readonly Offer[], headers: Headers) =>
    offers.map((offer) => ({ ...offer, extra: { ...offer.extra, challenge: challengeIn(headers) } })),
  headers(payment: Payment) {
    const challenge = challengeOf(payment.accepted)
    if (!challenge) throw new Error('the offer has no challenge')
    return { authorization: headerOf(credentialOf(challenge, payment)) }
  },
}

/** What a challenge leaves no choice of. */
function prescribed(offer: Offer) {
  const challenge = challengeOf(offer)
  return challenge ? { nonce: nonceOf(challenge), validBefore: BigInt(endOf(challenge) ?? 0) } : {}
}

export const memoryScheme =
  (way: WayToPay & `evm/${'exact' | 'upto' | 'charge'}`): SchemeFactory =>
  async () => {
    const scheme = way === 'evm/upto' ? 'upto' : 'exact'
    const clock = testClock()
    const chain = memoryChain({ schemes: [scheme] })
    const seller = String(chain.terms(clock.now())[0]?.payTo)
    return {
      way,
      scheme,
      chain,
      clock,
      async buyer(calls, price) {
        const address = chain.wallet(`wallet ${wallets++}`)
        chain.fund(address, price * BigInt(calls))
        return {
          address,
          pay: async (offer) => chain.sign(offer, { from: address, now: clock.now(), ...prescribed(offer) }),
          drain: async () => chain.drain(address),
        }
      },
      async forged(victim, offers) {
        const by = chain.wallet(`wallet ${wallets++}`)
        return offers.map((offer) => chain.sign(offer, { from: victim, now: clock.now(), by }))
      },
      ...(way === 'evm/charge' && mpp),
      received: async () => chain.balanceOf(seller),
      outage: chain.outage,
      async close() {},
    }
  }
