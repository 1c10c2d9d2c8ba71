/** The wallet that pays, and its balance. Loads signing libraries when there is something to sign. */
import type { Hex } from 'viem'
import { optional } from '../../../core/lib/mod.ts'
import type { channelWallet } from './channel.ts'
import {
  atomic,
  BUY_COMMAND,
  BuyError,
  type ChannelOptions,
  findWallet,
  type Offer,
  type PurchaseOptions,
  usd,
  type Wallet,
  type WalletOptions,
} from './gateway.ts'

const PAYMENT_HEADER = 'payment-signature'

/** `fetch` that answers a 402 with a payment. */
export type Pay = (url: string, init?: RequestInit) => Promise<Response>
export type PaymentClient = {
  readonly pay: Pay
  /** Sends the last signed payment again; signs a new one if that is no longer accepted. */
  readonly poll: Pay
  /** Prints the wallet's balance before and now, if a node to read it from is known, and that of its channel. */
  printBalance(): Promise<void>
  /** Takes note of a receipt that came without headers, at the end of a stream. Only channels have to. */
  note(receipt: string | undefined): Promise<void>
}

/** The highest price, in US dollars, that is signed without --max-price. Test money has no limit. */
const DEFAULT_MAX_PRICE = 1

const EVM_KEY = { pattern: /^0x[0-9a-fA-F]{64}$/, words: '0x and 64 hex digits' }
const SOLANA_KEY = { pattern: /^[1-9A-HJ-NP-Za-km-z]{64,88}$/, words: 'a keypair of 64 bytes in base58' }

/** Opens the wallet that pays, and prints its balance. Throws BuyError for a price above the limit. */
export async function createPaymentClient(options: PurchaseOptions, offer: Offer): Promise<PaymentClient> {
  const { key, rpcUrl, isTestMoney } = await findWallet(options)
  const maxPrice = options.maxPrice ?? (isTestMoney ? undefined : DEFAULT_MAX_PRICE)
  const price = Number(usd(BigInt(offer.amount)))
  if (maxPrice !== undefined && price > maxPrice)
    throw new BuyError(
      `The price is ${price} USDC, above the limit of ${maxPrice} USDC. To pay it, add --max-price ${Math.ceil(price)}`,
    )
  const form = offer.network.startsWith('solana:') ? SOLANA_KEY : EVM_KEY
  if (!form.pattern.test(key))
    throw new BuyError(
      `The gateway is paid on ${offer.network}, and FAREBOX_BUYER_KEY is no key for that network: it must be ${form.words} (its value is not shown).`,
    )
  const limits = { maxDeposit: maxPrice === undefined ? undefined : atomic(maxPrice) }
  const channel = options.channel && { ...options.channel, ...limits }
  const wallet = await walletOf(key, { rpcUrl, offer, origin: options.origin, ...(channel && { channel }) })
  const deposit = await wallet.channel?.lacking(BigInt(offer.amount))
  const needed = deposit ?? BigInt(offer.amount)
  const before = await wallet.balance()
  if (before !== undefined && before < needed)
    throw new BuyError(
      `The wallet ${wallet.address} holds ${usd(before)} USDC on ${offer.network}, and the ${deposit === undefined ? 'price' : 'deposit'} is ${usd(needed)} USDC. Send USDC to it, or pay with another key. Nothing was charged.`,
    )
  console.log(`wallet    ${wallet.address}${before === undefined ? '' : `, ${usd(before)} USDC`}`)
  if (deposit) console.log(`deposit   ${usd(deposit)} USDC into channel ${wallet.channel?.id}`)
  let lastPayment: string | null = null
  const recordingFetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init)
    lastPayment = request.headers.get(PAYMENT_HEADER) ?? lastPayment
    return await fetch(request)
  }
  const { wrapFetchWithPaymentFromConfig } = await optional('@x402/fetch', BUY_COMMAND, () => import('@x402/fetch'))
  const spendControls = { maxAmountPerPayment: maxPrice === undefined ? (false as const) : `$${maxPrice}` }
  const schemes = [wallet.scheme]
  const pay: Pay = wrapFetchWithPaymentFromConfig(recordingFetch as typeof fetch, { schemes, spendControls })
  return {
    pay,
    async poll(url) {
      if (lastPayment === null) return await pay(url)
      const response = await fetch(url, { headers: { [PAYMENT_HEADER]: lastPayment } })
      if (response.status === 402) return await pay(url)
      await wallet.channel?.note(response.headers.get('payment-response'), lastPayment)
      return response
    },
    async printBalance() {
      const after = await wallet.balance()
      if (before !== undefined && after !== undefined) console.log(`balance   ${usd(before)} -> ${usd(after)} USDC`)
      if (!wallet.channel) return
      const { deposited, charged } = await wallet.channel.balance()
      console.log(
        `channel   ${usd(deposited)} USDC deposited, ${usd(charged)} charged, ${usd(deposited - charged)} left`,
      )
    },
    note: async (receipt) => await wallet.channel?.note(receipt, lastPayment),
  }
}

type QuietPayment = {
  /** The 402 that is answered. It is not asked for again: the gateway could ask for something else. */
  readonly demand: Response
  readonly maxUsd: string
  /** Sees the header of what was signed before it is sent. Throws where it must not be. */
  check(payment: string): void
}

/**
 * A wallet that pays without printing anything, and signs once for a request. Throws BuyError where there is no key.
 * `payment` is the header that was sent.
 */
export async function openWallet(
  { origin, key: own, rpc }: Pick<PurchaseOptions, 'origin' | 'key'> & Partial<Pick<PurchaseOptions, 'rpc'>>,
  offer: Offer,
) {
  const { key, rpcUrl } = await findWallet({ origin, key: own, rpc })
  const { scheme, isUnspent } = await walletOf(key, { rpcUrl, offer, origin })
  const { wrapFetchWithPaymentFromConfig } = await optional('@x402/fetch', BUY_COMMAND, () => import('@x402/fetch'))
  async function pay(
    request: Request,
    { demand, maxUsd, check }: QuietPayment,
  ): Promise<{ reply: Response; payment: string | null }> {
    let payment: string | null = null
    let isDemanded = false
    const checkedFetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
      const sent = new Request(input, init)
      const signed = sent.headers.get(PAYMENT_HEADER) ?? sent.headers.get('x-payment')
      if (signed === null && !isDemanded) {
        isDemanded = true
        return demand
      }
      if (signed === null || payment !== null) throw new BuyError('The gateway asked for a second payment of one call.')
      check(signed)
      payment = signed
      return await fetch(sent)
    }
    const spendControls = { maxAmountPerPayment: `$${maxUsd}` as const }
    const paying = wrapFetchWithPaymentFromConfig(checkedFetch as typeof fetch, { schemes: [scheme], spendControls })
    return { reply: await paying(request), payment }
  }
  return { pay, isUnspent }
}

/** `maxDeposit` in base units; undefined for no limit. */
type ChannelLimits = ChannelOptions & { readonly maxDeposit: bigint | undefined }
type ChannelWallet = Awaited<ReturnType<typeof channelWallet>>

export async function walletOf(
  key: string,
  { channel, origin, ...options }: WalletOptions & { readonly origin: string; readonly channel?: ChannelLimits },
): Promise<Wallet & Partial<Pick<ChannelWallet, 'channel'>>> {
  if (channel) {
    const { channelWallet } = await import('./channel.ts')
    return await channelWallet(key as Hex, { ...options, origin, channel })
  }
  if (options.offer.network.startsWith('solana:')) {
    const { solanaWallet } = await import('./solana_wallet.ts')
    return await solanaWallet(key, options)
  }
  const { evmWallet } = await import('./evm_wallet.ts')
  return await evmWallet(key as Hex, options)
}
