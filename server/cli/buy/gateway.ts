/** The gateway as a purchase sees it: quotes, errors, and the wallet of a devnet. Loads no signing library. */
import type { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { print, usdc } from '../../../core/x402/mod.ts'
import type { Signature } from '../../buyer/journal.ts'
import type { Offer } from '../../buyer/signed_payment.ts'
import { CommandError } from '../command.ts'

/** An error whose message is printed to the user as it is, without a stack. */
export class BuyError extends CommandError {}

/** The scheme of offers that are paid by a channel. */
export const CHANNEL_SCHEME = 'batch-settlement'

export const BUY_COMMAND = 'farebox buy'

/** `deposit` in base units, as asked for; `directory` has the channels' files. */
export type ChannelOptions = { readonly deposit: bigint | undefined; readonly directory: string }

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

// ── wallets ─────────────────────────────────────────────────────────────────────────────────────────────────────────

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
