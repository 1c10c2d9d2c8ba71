/** The channel of a wallet, as farebox proxy pays by it. */
import type { Hex } from 'viem'
import { decodeObject } from '../../../core/x402/mod.ts'
import type { Offer } from '../../buyer/signed_payment.ts'
import type { Channel } from '../../proxy/channels.ts'
import { channelWallet } from '../buy/channel.ts'
import { BuyError } from '../buy/gateway.ts'

/** In base units; `directory` has the channels' files. */
export type ChannelLimits = {
  readonly directory: string
  readonly deposit: bigint | undefined
  readonly maxDeposit: bigint
}

type Options = {
  readonly offer: Offer
  readonly rpcUrl: string | undefined
  readonly origin: string
  readonly limits: ChannelLimits
}

/** How long a channel is left alone that could not be used, in milliseconds. */
const RETRY_MS = 300_000

/**
 * The channel with the seller of an offer if the wallet can pay by it: a node answers, and the channel has the price,
 * or the wallet has the deposit and it is within the limits. The chain is read once, and whenever money is lacking.
 */
export function usableChannels(key: string, now: () => number) {
  const found = new Set<string>()
  const leftAloneUntil = new Map<string, number>()
  return async (options: Options): Promise<Channel | undefined> => {
    const { offer, rpcUrl } = options
    const name = `${offer.network} ${offer.payTo}`
    if (rpcUrl === undefined) return undefined
    if ((leftAloneUntil.get(name) ?? 0) > now()) return undefined
    try {
      const { made, wallet } = await opened(key, options)
      const price = BigInt(offer.amount)
      const left = found.has(made.id) ? await made.left() : undefined
      if (left !== undefined && left >= price) return made
      const deposit = await wallet.channel.lacking(price)
      const isFunded = deposit === 0n || (await wallet.balance()) >= deposit
      if (isFunded) found.add(made.id)
      return isFunded ? made : undefined
    } catch (error) {
      leftAloneUntil.set(name, now() + (error instanceof BuyError ? 0 : RETRY_MS))
      return undefined
    }
  }
}

/** Opens the channel with the seller of an offer. The chain is read when it is first signed for. */
export const proxyChannel = async (key: string, options: Options): Promise<Channel> => (await opened(key, options)).made

async function opened(key: string, { offer, rpcUrl, origin, limits }: Options) {
  const wallet = await channelWallet(key as Hex, { rpcUrl, offer, origin, channel: limits })
  const { channel, scheme } = wallet
  const { client } = scheme
  const made: Channel = {
    id: channel.id,
    maxDeposit: limits.deposit ?? limits.maxDeposit,
    sign: async (taken) => (await client.createPaymentPayload(2, taken as never)).payload,
    note: async (receipt, payment) => await channel.note(receipt, payment),
    left: async () => await channel.left(),
    async correct({ required, payment }) {
      const [paymentRequired, paymentPayload] = [required, payment].map((header) => decodeObject(header ?? ''))
      if (!paymentRequired) return false
      const refusal = { paymentPayload, requirements: offer, paymentRequired }
      const result = await client.schemeHooks.onPaymentResponse?.(refusal as never).catch(() => undefined)
      return result?.recovered === true
    },
  }
  return { made, wallet }
}
