/** `exact` and `upto` on the chain in memory, which passes the laws of chains: for the quick tests. */
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { testClock } from '../../kit.ts'
import { chargeClient, prescribed } from './charge_client.ts'
import type { SchemeFactory, WayToPay } from './scheme.ts'

let wallets = 0

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
      ...(way === 'evm/charge' && chargeClient),
      received: async () => chain.balanceOf(seller),
      outage: chain.outage,
      async close() {},
    }
  }
