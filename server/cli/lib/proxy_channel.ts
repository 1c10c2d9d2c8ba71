/** The channel of a wallet, as farebox proxy pays by it. */
import type { Hex } from 'viem'
import { decodeObject } from '../../../core/x402/mod.ts'
import type { Offer } from '../../buyer/signed_payment.ts'
import type { Channel } from '../../proxy/channels.ts'
import { channelWallet } from '../buy/channel.ts'

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

/** Opens the channel with the seller of an offer. The chain is read when it is first signed for. */
export async function proxyChannel(key: string, { offer, rpcUrl, origin, limits }: Options): Promise<Channel> {
  const { channel, scheme } = await channelWallet(key as Hex, { rpcUrl, offer, origin, channel: limits })
  const { client } = scheme
  return {
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
}
