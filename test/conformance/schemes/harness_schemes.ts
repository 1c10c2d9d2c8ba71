/** Batched payments and Solana, on what the laws of chains run them on: stand-ins and a local node in this process. */
import type { Payment } from '../../../core/mod.ts'
import { getBase58Encoder } from '@solana/kit'
import type { SolanaNode } from '../../../server/devnet/solana/node.ts'
import { harness as batchedHarness } from '../../adapters/chains/evm/batched/batched_kit.ts'
import { facilitatorHarness, referenceSolanaDesk } from '../../adapters/chains/solana/facilitator_kit.ts'
import { solanaHarness } from '../../adapters/chains/solana/solana_kit.ts'
import { testClock } from '../../kit.ts'
import type { ChainHarness } from '../chains.ts'
import { solanaChargeClient } from './charge_client.ts'
import type { Scheme, SchemeFactory } from './scheme.ts'

export const batchedScheme: SchemeFactory = async () => {
  const h = await batchedHarness()
  return schemeOn(h, { way: 'batched', close: h.close })
}

/** `node` is asked for when it is needed, because tests start it. */
export const solanaScheme =
  (way: 'solana/fee_payer' | 'solana/charge', node: () => SolanaNode): SchemeFactory =>
  async () => {
    const h = await solanaHarness(node())
    const scheme = schemeOn(h, { way, close: async () => h.chain.close() })
    return way === 'solana/charge' ? { ...scheme, ...solanaChargeClient } : scheme
  }

export const solanaFacilitatorScheme =
  (node: () => SolanaNode): SchemeFactory =>
  async () => {
    const desk = await referenceSolanaDesk(node())
    const h = await facilitatorHarness(node(), [desk])
    return schemeOn(h, {
      way: 'solana/facilitators',
      async close() {
        h.chain.close()
        await desk.close()
      },
    })
  }

/** A chain and its world, as a way to pay. */
export function schemeOn(h: ChainHarness, { way, close }: Pick<Scheme, 'way' | 'close'>): Scheme {
  return {
    way,
    scheme: h.offer.scheme,
    chain: h.chain,
    clock: testClock(h.now()),
    async buyer(calls, price) {
      // A balance without a block counts what was settled in the last seconds once more.
      const times = h.tellsBlocks === false && calls > 1 ? 2n : 1n
      const payer = await h.payer(price * BigInt(calls) * times)
      return {
        address: payer.address,
        pay: (offer) => h.sign(payer, offer),
        drain: () => h.fund(payer, 0n),
      }
    },
    async forged(victim, [offer = h.offer]) {
      const thief = await h.payer()
      return [inTheNameOf(victim, { thief: thief.address, payment: await h.sign(thief, offer) })]
    },
    async received() {
      await h.arrive?.()
      return await h.balanceOf(h.offer.payTo)
    },
    outage: h.outage,
    close,
  }
}

/** A payment of the thief's with the victim's address wherever its own stood. */
function inTheNameOf(
  victim: string,
  { thief, payment }: { readonly thief: string; readonly payment: Payment },
): Payment {
  const { authorization, transaction } = payment.payload as { authorization?: object; transaction?: string }
  if (authorization)
    return { ...payment, payload: { ...payment.payload, authorization: { ...authorization, from: victim } } }
  const bytes = Buffer.from(String(transaction), 'base64')
  const [own, other] = [thief, victim].map((each) => Buffer.from(getBase58Encoder().encode(each)))
  const at = bytes.indexOf(own as Buffer)
  if (at < 0 || !other) throw new Error('the payer is not in the transaction')
  other.copy(bytes, at)
  return { ...payment, payload: { ...payment.payload, transaction: bytes.toString('base64') } }
}
