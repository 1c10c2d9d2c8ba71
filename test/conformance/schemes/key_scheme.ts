/** API keys on a real node: each wallet has one key, which it funds before its first call. */
import { type Hex, keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { lower } from '../../../adapters/chains/lib/hex.ts'
import { systemClock } from '../../../adapters/local.ts'
import type { Offer, Payment } from '../../../core/mod.ts'
import { keySalt, keyText, privateKeyOf } from '../../../core/x402/api_key.ts'
import { line, type World } from '../../adapters/chains/evm/evm_kit.ts'
import { encodePayment } from '../../kit.ts'
import { balanceIn, chainOf, forgedOn, gasOf } from './evm_schemes.ts'
import type { SchemeFactory } from './scheme.ts'
import { channelOf, signDeposit } from './signers.ts'

/** A client sends nothing but its key; the tests pass it on like a payment. */
const keyPayment = (accepted: Offer, key: string): Payment => ({ x402Version: 2, accepted, payload: { key } })

const seedOf = (account: Hex): Uint8Array => Buffer.from(keccak256(toHex(`the key of ${account}`)).slice(2), 'hex')

/** `node` is asked for when it is needed, because tests start it. */
export const evmKeyScheme =
  (node: () => World): SchemeFactory =>
  async (storage) => {
    const world = node()
    const network = line()
    const chain = await chainOf({ world, network, storage, channels: { apiKeys: true, minDeposit: 1_000n } })
    const payTo = String(chain.terms(world.now())[0]?.payTo)
    const channels = new Set<Hex>()

    /** Funds the key of a wallet, if the wallet has the money. */
    async function fund(payer: ReturnType<typeof privateKeyToAccount>, { offer, amount }: Funding): Promise<boolean> {
      const key = privateKeyToAccount(toHex(privateKeyOf(seedOf(payer.address))))
      const salt = BigInt(keySalt(lower(key.address)))
      const channel = channelOf(offer, { payer: payer.address, authorizer: key.address, salt })
      const payment = await signDeposit(key, { offer: { ...offer, amount: '0' }, channel, amount, by: payer })
      const deposit = await chain.apiKeys?.deposit(payment, { now: world.now(), signal: AbortSignal.timeout(20_000) })
      if (deposit?.kind === 'deposited') channels.add(channel.id)
      return deposit?.kind === 'deposited'
    }

    return {
      way: 'evm/keys',
      scheme: 'batch-settlement',
      chain,
      clock: { ...systemClock, now: world.now },
      async buyer(calls, price) {
        const payer = privateKeyToAccount(world.key())
        const amount = price * BigInt(calls)
        await world.setBalance(payer.address, amount)
        let isFunded = false
        return {
          address: payer.address,
          drain: () => world.setBalance(payer.address, 0n),
          async pay(offer) {
            isFunded ||= await fund(payer, { offer, amount })
            return keyPayment(offer, keyText(seedOf(payer.address), 'test'))
          },
        }
      },
      async forged(victim, offers) {
        const accepted = offers[0] as Offer
        // The address of the victim's wallet as a seed, a key that nobody has funded, and vouchers in its name.
        const seeds = [Buffer.concat([Buffer.alloc(12), Buffer.from(victim.slice(2), 'hex')]), seedOf(world.key())]
        const keys = seeds.map((seed) => keyPayment(accepted, keyText(seed, 'test')))
        return [...keys, ...(await forgedOn(world, victim, offers))]
      },
      headers: (payment) => {
        const { key } = payment.payload
        return typeof key === 'string'
          ? { authorization: `Bearer ${key}` }
          : { 'payment-signature': encodePayment(payment) }
      },
      async received() {
        let all = await world.balanceOf(payTo)
        for (const id of channels) all += await balanceIn(world, id)
        return all
      },
      outage: (isOn) => void (network.judge = isOn ? () => 'lost' : undefined),
      gas: await gasOf({ world, network, chain }),
      close: async () => chain.close(),
    }
  }

type Funding = { readonly offer: Offer; readonly amount: bigint }
