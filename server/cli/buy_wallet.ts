/** What every purchase begins and ends with: the quote, the wallet that pays, and its balance. What signs is loaded when something is to be signed. */
import { optional } from '../../core/lib/optional.ts'
import type { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import type { Hex } from 'viem'

/** What went wrong, in words for the person at the keyboard. */
export class BuyError extends Error {}

const PAYMENT = 'payment-signature'

/** `fetch`, paying where it has to. */
export type Pay = (url: string, init?: RequestInit) => Promise<Response>
/** `most`: the dearest purchase that may be signed, in US dollars. */
export type Asked = {
  readonly origin: string
  readonly prompt: string
  readonly model: string | undefined
  readonly rpc: string | undefined
  readonly most: number | undefined
}
type Offer = { readonly amount: string; readonly asset: string; readonly network: string; readonly payTo: string }
type Quote = { readonly accepts?: readonly Offer[]; readonly price: { readonly amount: string } }

/** Asks without paying. A reply that is no quote is handed on. */
export async function ask(target: string, init?: RequestInit): Promise<Response> {
  return await fetch(target, init).catch(() => {
    throw new BuyError(`There is no gateway at ${new URL(target).origin}. Start one with: npx -y bun@1.4.4 start`)
  })
}

export function postJson(body: unknown): RequestInit {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

/** Prints the quote of a 402, and gives the offer. Throws what else was answered. */
export async function quoted(response: Response): Promise<Offer> {
  const quote = (await response.json()) as Quote
  const [offer] = quote.accepts ?? []
  if (response.status !== 402 || !offer) throw refusal(response.status, quote)
  console.log(`quote     ${quote.price.amount} USDC on ${offer.network}, to ${offer.payTo}`)
  return offer
}

/** In the dialect of any surface. */
export function refusal(status: number, body: unknown): BuyError {
  const { error, message, details } = body as {
    error?: string | { message?: string }
    message?: string
    details?: unknown
  }
  if (typeof error === 'object') return new BuyError(`${status}: ${error.message ?? 'no result'}`)
  return new BuyError(`${status} ${error ?? 'no result'}: ${message ?? (typeof details === 'string' ? details : '')}`)
}

export type Purse = {
  readonly pay: Pay
  /** Asks with the payment that was signed last; pays anew where that one will no longer do. */
  readonly again: Pay
  /** Prints what the wallet had and has, where that can be read. */
  spent(): Promise<void>
}

const BUYING = 'the buyer’s command'

/** What is signed without a word from the person at the keyboard, in US dollars; play money has no limit. */
const USUAL_MOST = 1

/** Opens the wallet that pays, and prints what is in it. Throws for a price above the limit. */
export async function openPurse({ origin, rpc, most: said }: Asked, offer: Offer): Promise<Purse> {
  const { key, rpcUrl, isPlay } = await findWallet(origin, rpc)
  const most = said ?? (isPlay ? undefined : USUAL_MOST)
  const { formatUnits } = await import('viem')
  const usd = (micro: bigint): string => formatUnits(micro, 6)
  const price = Number(usd(BigInt(offer.amount)))
  if (most !== undefined && price > most)
    throw new BuyError(`This costs more than ${most} USDC. To pay it all the same, say --most ${Math.ceil(price)}`)
  const wallet = offer.network.startsWith('solana:')
    ? await solanaWallet(key, { rpcUrl, offer })
    : await evmWallet(key as Hex, { rpcUrl, offer })
  const before = await wallet.balance()
  console.log(`wallet    ${wallet.address}${before === undefined ? '' : `, ${usd(before)} USDC`}`)
  let signed: string | null = null
  const watched = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init)
    signed = request.headers.get(PAYMENT) ?? signed
    return await fetch(request)
  }
  const { wrapFetchWithPaymentFromConfig } = await optional('@x402/fetch', BUYING, () => import('@x402/fetch'))
  const spendControls = { maxAmountPerPayment: most === undefined ? (false as const) : `$${most}` }
  const pay: Pay = wrapFetchWithPaymentFromConfig(watched as typeof fetch, { schemes: [wallet.scheme], spendControls })
  return {
    pay,
    async again(url) {
      if (signed === null) return await pay(url)
      const response = await fetch(url, { headers: { [PAYMENT]: signed } })
      return response.status === 402 ? await pay(url) : response
    },
    async spent() {
      const after = await wallet.balance()
      if (before !== undefined && after !== undefined) console.log(`balance   ${usd(before)} -> ${usd(after)} USDC`)
    },
  }
}

type Scheme = Parameters<typeof wrapFetchWithPaymentFromConfig>[1]['schemes'][number]
/** `balance` is undefined where no node is known that could be asked. */
type Wallet = { readonly address: string; readonly scheme: Scheme; balance(): Promise<bigint | undefined> }
type Reading = { readonly rpcUrl: string | undefined; readonly offer: Offer }

async function evmWallet(key: Hex, { rpcUrl, offer: { asset } }: Reading): Promise<Wallet> {
  const { createPublicClient, erc20Abi, http } = await import('viem')
  const { privateKeyToAccount } = await import('viem/accounts')
  const { ExactEvmScheme } = await optional('@x402/evm', BUYING, () => import('@x402/evm'))
  const account = privateKeyToAccount(key)
  return {
    address: account.address,
    scheme: { network: 'eip155:*', client: new ExactEvmScheme(account) },
    async balance() {
      if (!rpcUrl) return undefined
      return await createPublicClient({ transport: http(rpcUrl) }).readContract({
        address: asset as Hex,
        abi: erc20Abi,
        functionName: 'balanceOf',
        args: [account.address],
      })
    },
  }
}

async function solanaWallet(key: string, { rpcUrl, offer: { asset } }: Reading): Promise<Wallet> {
  const { address, createKeyPairSignerFromBytes, createSolanaRpc, getBase58Encoder } = await import('@solana/kit')
  const { ExactSvmScheme } = await optional('@x402/svm', BUYING, () => import('@x402/svm'))
  const signer = await createKeyPairSignerFromBytes(new Uint8Array(getBase58Encoder().encode(key)))
  return {
    address: signer.address,
    scheme: { network: 'solana:*', client: new ExactSvmScheme(signer, { ...(rpcUrl && { rpcUrl }) }) },
    async balance() {
      if (!rpcUrl) return undefined
      const { value } = await createSolanaRpc(rpcUrl)
        .getTokenAccountsByOwner(signer.address, { mint: address(asset) }, { encoding: 'jsonParsed' })
        .send()
      return value.reduce((sum, { account }) => sum + BigInt(account.data.parsed.info.tokenAmount.amount), 0n)
    },
  }
}

type Chain = { readonly rpc_url: string; readonly buyer: { readonly private_key: string } }
type Devnet = Chain & { readonly gateways: readonly (Chain & { readonly name: string; readonly base_url: string })[] }

/** Where the gateway of this name listens. */
export async function gatewayAt(url: string, name: string): Promise<string> {
  const { gateways } = (await devnetAt(url)) ?? { gateways: [] }
  const found = gateways.find((each) => each.name === name)
  if (found) return found.base_url
  throw new BuyError(
    gateways.length === 0
      ? '--gateway names one of a devnet; elsewhere, --url says where a gateway is.'
      : `There is no gateway ${name} here, but ${gateways.map((each) => each.name).join(', ')}.`,
  )
}

async function devnetAt(url: string): Promise<Devnet | undefined> {
  const response = await ask(`${url}/devnet`)
  return response.ok ? ((await response.json()) as Devnet) : undefined
}

async function findWallet(
  origin: string,
  rpc: string | undefined,
): Promise<{ key: string; rpcUrl: string | undefined; isPlay: boolean }> {
  const key = process.env.FAREBOX_BUYER_KEY
  if (key) return { key, rpcUrl: rpc, isPlay: false }
  const devnet = await devnetAt(origin)
  if (!devnet)
    throw new BuyError(
      'This gateway takes real money. Set FAREBOX_BUYER_KEY to the private key of the wallet that pays.',
    )
  const { rpc_url: rpcUrl, buyer } = devnet.gateways.find((each) => each.base_url === origin) ?? devnet
  return { key: buyer.private_key, rpcUrl: rpc ?? rpcUrl, isPlay: true }
}
