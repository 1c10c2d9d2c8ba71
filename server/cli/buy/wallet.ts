/**
 * The quote, the paying wallet and its balance, for every product. Signing libraries are loaded only when there is
 * something to sign.
 */
import { CommandError } from '../command.ts'
import type { ChannelOptions, channelWallet } from './channel.ts'
import { optional } from '../../../core/lib/mod.ts'
import { print, usdc } from '../../../core/x402/mod.ts'
import type { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import type { Hex } from 'viem'
import type { Signature } from '../../buyer/journal.ts'
import type { Offer } from '../../buyer/signed_payment.ts'

/** An error whose message is printed to the user as it is, without a stack. */
export class BuyError extends CommandError {}

/** The scheme of offers that are paid by a channel. */
export const CHANNEL_SCHEME = 'batch-settlement'
const PAYMENT_HEADER = 'payment-signature'

/** `fetch` that answers a 402 with a payment. */
export type Pay = (url: string, init?: RequestInit) => Promise<Response>
/** Options of every product. `maxPrice`: the highest price to sign for, in US dollars. */
export type PurchaseOptions = {
  readonly origin: string
  readonly prompt: string
  readonly model: string | undefined
  readonly rpc: string | undefined
  readonly maxPrice: number | undefined
  /** The private key to pay with; undefined for devnet's buyer. */
  readonly key: string | undefined
  /** Pays by a channel. */
  readonly channel?: ChannelOptions | undefined
}
export type { Offer }
type Quote = { readonly accepts?: readonly Offer[]; readonly price: { readonly amount: string } }

/** Sends a request without a payment. Throws BuyError when the gateway cannot be reached. */
export async function fetchGateway(url: string, init?: RequestInit): Promise<Response> {
  return await fetch(url, init).catch(() => {
    throw new BuyError(`Cannot reach a gateway at ${new URL(url).origin}. Start one with: npx -y bun@1.4.4 start`)
  })
}

export function postJson(body: unknown): RequestInit {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

/**
 * Prints the quote of a 402 response and returns its first offer, or the one for channels. Throws BuyError for any
 * other response.
 */
export async function readQuote(
  response: Response,
  { channel }: Pick<PurchaseOptions, 'channel'> = {},
): Promise<Offer> {
  const quote = (await response.json()) as Quote
  const { accepts = [] } = quote
  const offer = channel ? accepts.find(({ scheme }) => scheme === CHANNEL_SCHEME) : accepts[0]
  if (response.status !== 402 || accepts.length === 0) throw errorFrom(response.status, quote)
  if (!offer) throw new BuyError('This gateway sells nothing by channels. Leave out --channel.')
  const most = channel ? 'at most ' : ''
  console.log(`quote     ${most}${quote.price.amount} USDC on ${offer.network}, to ${offer.payTo}`)
  return offer
}

/** How a call was paid, as its result says. A voucher has no transaction. */
export const paidLine = (status: string, { network, tx_hash }: { network: string; tx_hash: string }): string =>
  `paid      ${status} on ${network}, ${tx_hash === '' ? 'from the channel' : `transaction ${tx_hash}`}`

/** The error of a response, whichever API's error format it has. */
export function errorFrom(status: number, body: unknown): BuyError {
  const { error, message, details, code } = body as {
    code?: string
    error?: string | { message?: string }
    message?: string
    details?: unknown
  }
  if (typeof error === 'object') return new BuyError(`${status}: ${error.message ?? 'no result'}`)
  if (status === 402)
    return new BuyError(
      `The gateway refused the payment: ${error ?? 'no reason given'}${code ? ` (${code})` : ''}. ${message ?? (typeof details === 'string' ? details : '')}`.trim(),
    )
  return new BuyError(`${status} ${error ?? 'no result'}: ${message ?? (typeof details === 'string' ? details : '')}`)
}

export type PaymentClient = {
  readonly pay: Pay
  /** Sends the last signed payment again; signs a new one if that is no longer accepted. */
  readonly poll: Pay
  /** Prints the wallet's balance before and now, if a node to read it from is known, and that of its channel. */
  printBalance(): Promise<void>
  /** Takes note of a receipt that came without headers, at the end of a stream. Only channels have to. */
  note(receipt: string | undefined): Promise<void>
}

export const BUY_COMMAND = 'farebox buy'

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

export type QuietPayment = {
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

type Scheme = Parameters<typeof wrapFetchWithPaymentFromConfig>[1]['schemes'][number]
/** `balance` resolves to undefined when no RPC node is known. */
export type Wallet = {
  readonly address: string
  readonly scheme: Scheme
  balance(): Promise<bigint | undefined>
  /** Whether the chain says that a signature was not spent and cannot be any longer. False where nobody can tell. */
  isUnspent?(signature: Signature): Promise<boolean>
}
export type WalletOptions = { readonly rpcUrl: string | undefined; readonly offer: Offer }
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

/** US dollars without zeros at the end. */
export const usd = (micro: bigint): string => print(usdc(micro)).replace(/\.?0+$/, '')

/** US dollars in base units. */
export const atomic = (dollars: number): bigint => BigInt(Math.round(dollars * 1e6))

type Chain = { readonly rpc_url: string; readonly buyer: { readonly private_key: string } }
type Devnet = Chain & { readonly gateways: readonly (Chain & { readonly name: string; readonly base_url: string })[] }

/** The base URL of the devnet gateway with this name. */
export async function gatewayUrl(url: string, name: string): Promise<string> {
  const { gateways } = (await fetchDevnet(url)) ?? { gateways: [] }
  const found = gateways.find((each) => each.name === name)
  if (found) return found.base_url
  throw new BuyError(
    gateways.length === 0
      ? '--gateway works on devnet only. Use --url to choose another gateway.'
      : `Unknown gateway ${name}. --gateway takes one of: ${gateways.map((each) => each.name).join(', ')}.`,
  )
}

async function fetchDevnet(url: string): Promise<Devnet | undefined> {
  const response = await fetchGateway(`${url}/devnet`)
  return response.ok ? ((await response.json()) as Devnet) : undefined
}

export async function findWallet({ origin, rpc, key }: Pick<PurchaseOptions, 'origin' | 'rpc' | 'key'>): Promise<{
  key: string
  rpcUrl: string | undefined
  isTestMoney: boolean
}> {
  if (key) return { key, rpcUrl: rpc, isTestMoney: false }
  const devnet = await fetchDevnet(origin)
  if (!devnet)
    throw new BuyError(
      'This gateway takes real money. Set FAREBOX_BUYER_KEY to the private key of the wallet to pay from.',
    )
  const { rpc_url: rpcUrl, buyer } = devnet.gateways.find((each) => each.base_url === origin) ?? devnet
  return { key: buyer.private_key, rpcUrl: rpc ?? rpcUrl, isTestMoney: true }
}
