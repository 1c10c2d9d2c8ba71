/**
 * How buyers of a storm pay, by every scheme of a gateway on EVM: what the official clients sign for `upto` and for
 * channels, with one channel for each wallet. They read the chain past the bad wire.
 */
import { toClientEvmSigner } from '@x402/evm'
import {
  BatchSettlementEvmScheme,
  InMemoryClientChannelStorage,
  processPaymentResponse,
} from '@x402/evm/batch-settlement/client'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { createPublicClient, encodeFunctionData, type Hex, parseAbi, toHex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { EVM_SCHEMES, type EvmScheme, PERMIT2 } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { rpc } from '../../server/devnet/anvil.ts'
import { DEVNET_ASSET } from '../../server/devnet/mod.ts'
import { type Offer, signOffer } from '../server/clients/payer.ts'
import { steadyHttp } from './between_blocks.ts'

/** A payment as it is sent. Its payload is that of the scheme of its offer. */
export type Signed = {
  readonly x402Version: number
  readonly resource: unknown
  readonly accepted: Offer
  readonly payload: any
}

/** A decoded `PAYMENT-REQUIRED`. */
export type Demand = { readonly accepts: readonly Offer[]; readonly resource: unknown; readonly extensions?: unknown }

export type Payers = {
  sign(buyer: PrivateKeyAccount, scheme: EvmScheme, demand: Demand): Promise<Signed>
  /** Takes note of what a receipt says of a channel. */
  note(buyer: PrivateKeyAccount, payment: Signed, receipt: string): Promise<void>
  /** Takes over the state that a refusal proves. Resolves with whether it has, so that signing again makes sense. */
  correct(buyer: PrivateKeyAccount, payment: Signed, demand: Demand): Promise<boolean>
}

const schemeOf = ({ accepted }: Signed): EvmScheme =>
  EVM_SCHEMES.find((scheme) => scheme === accepted.scheme) ?? 'exact'

/** Key of a charge by this payment: the nonce of an authorization, or a channel and what it was charged. */
export function idOf(payment: Signed): string {
  const { payload, accepted } = payment
  const scheme = schemeOf(payment)
  if (scheme === 'exact') return payload.authorization.nonce.toLowerCase()
  if (scheme === 'upto') return toHex(BigInt(payload.permit2Authorization.nonce), { size: 32 })
  const { channelId, maxClaimableAmount } = payload.voucher
  return chargeId(channelId, BigInt(maxClaimableAmount) - BigInt(accepted.amount))
}

export const chargeId = (channelId: string, base: bigint | string): string => `${channelId}/${base}`.toLowerCase()

/** When it can no longer move money, in milliseconds. A voucher never ends, its deposit does. */
export function endOf(payment: Signed): number {
  const { payload } = payment
  const scheme = schemeOf(payment)
  if (scheme === 'exact') return Number(payload.authorization.validBefore) * 1000
  if (scheme === 'upto') return Number(payload.permit2Authorization.deadline) * 1000
  const deposit = payload.deposit?.authorization.erc3009Authorization
  return deposit ? Number(deposit.validBefore) * 1000 : Number.POSITIVE_INFINITY
}

/** Deposit of the payment into its channel; undefined if it brings none. */
export function depositOf({ payload }: Signed): { readonly channelId: string; readonly amount: bigint } | undefined {
  if (payload.type !== 'deposit') return undefined
  return { channelId: payload.voucher.channelId.toLowerCase(), amount: BigInt(payload.deposit.amount) }
}

type Client = {
  readonly upto: UptoEvmScheme
  readonly channel: BatchSettlementEvmScheme
  readonly storage: InMemoryClientChannelStorage
}

export function officialPayers(rpcUrl: string): Payers {
  const node = createPublicClient({ chain: baseSepolia, transport: steadyHttp(rpcUrl) })
  const clients = new Map<string, Client>()

  function clientOf(buyer: PrivateKeyAccount): Client {
    const before = clients.get(buyer.address)
    if (before) return before
    const signer = toClientEvmSigner(buyer, node as never)
    const storage = new InMemoryClientChannelStorage()
    const channel = new BatchSettlementEvmScheme(signer, { storage })
    const made = { upto: new UptoEvmScheme(signer), channel, storage }
    clients.set(buyer.address, made)
    return made
  }

  return {
    async sign(buyer, scheme, { accepts, resource, extensions }) {
      const offer = accepts.find((each) => each.scheme === scheme)
      if (!offer) throw new Error(`it is not sold by ${scheme}`)
      if (scheme === 'exact') return await signOffer(buyer, { offer, resource })
      const client = clientOf(buyer)
      const made =
        scheme === 'upto'
          ? await client.upto.createPaymentPayload(2, offer as never, { extensions } as never)
          : await client.channel.createPaymentPayload(2, offer as never)
      return { resource, accepted: offer, ...made }
    },

    async note(buyer, payment, receipt) {
      if (schemeOf(payment) !== 'batch-settlement') return
      const { channelId } = payment.payload.voucher
      const deposit = depositOf(payment)
      const local = { channelId, requestAmount: payment.accepted.amount }
      const whole = { ...local, ...(deposit && { depositAmount: String(deposit.amount) }) }
      await processPaymentResponse(clientOf(buyer).storage, () => receipt, whole).catch(() => {})
    },

    async correct(buyer, payment, demand) {
      if (schemeOf(payment) !== 'batch-settlement') return false
      const refusal = { paymentPayload: payment, requirements: payment.accepted, paymentRequired: demand }
      const hooks = clientOf(buyer).channel.schemeHooks
      const result = await hooks.onPaymentResponse?.(refusal as never).catch(() => undefined)
      return result?.recovered === true
    },
  }
}

const TOKEN = parseAbi(['function approve(address spender, uint256 value)'])

/** Every wallet lets Permit2 move its money, by transactions that the node takes for theirs. */
export async function approvePermit2(rpcUrl: string, buyers: readonly PrivateKeyAccount[]): Promise<void> {
  const data = encodeFunctionData({ abi: TOKEN, functionName: 'approve', args: [PERMIT2, 2n ** 256n - 1n] })
  const sent: Hex[] = []
  for (const { address } of buyers) {
    await rpc(rpcUrl, 'anvil_impersonateAccount', [address])
    await rpc(rpcUrl, 'anvil_setBalance', [address, toHex(10n ** 18n)])
    const transaction = { from: address, to: DEVNET_ASSET, data, gas: toHex(100_000) }
    sent.push(await rpc<Hex>(rpcUrl, 'eth_sendTransaction', [transaction]))
  }
  await rpc(rpcUrl, 'evm_mine', [])
  for (const hash of sent) {
    const receipt = await rpc<{ status: Hex } | null>(rpcUrl, 'eth_getTransactionReceipt', [hash])
    if (receipt?.status !== '0x1') throw new Error('a wallet could not let Permit2 move its money')
  }
}
