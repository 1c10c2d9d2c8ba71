/** What every purchase begins and ends with: the quote, the wallet that pays, and its balance. */
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { createPublicClient, erc20Abi, formatUnits, type Hex, http } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'

/** What went wrong, in words for the person at the keyboard. */
export class BuyError extends Error {}

const PAYMENT = 'payment-signature'

/** `fetch`, paying where it has to. */
export type Pay = (url: string, init?: RequestInit) => Promise<Response>
/** `most`: the dearest purchase that may be signed, in US dollars. */
export type Asked = { readonly origin: string; readonly prompt: string; readonly model: string | undefined; readonly rpc: string | undefined; readonly most: number | undefined }
type Offer = { readonly amount: string; readonly asset: Hex; readonly network: string; readonly payTo: string }
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
  const { error, message, details } = body as { error?: string | { message?: string }; message?: string; details?: unknown }
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

/** What is signed without a word from the person at the keyboard, in US dollars; play money has no limit. */
const USUAL_MOST = 1

/** Opens the wallet that pays, and prints what is in it. Throws for a price above the limit. */
export async function openPurse({ origin, rpc, most: said }: Asked, offer: Offer): Promise<Purse> {
  const { key, rpcUrl, isPlay } = await findWallet(origin, rpc)
  const most = said ?? (isPlay ? undefined : USUAL_MOST)
  const price = Number(formatUnits(BigInt(offer.amount), 6))
  if (most !== undefined && price > most) throw new BuyError(`This costs more than ${most} USDC. To pay it all the same, say --most ${Math.ceil(price)}`)
  const account = privateKeyToAccount(key)
  const before = await readBalance(rpcUrl, offer.asset, account.address)
  console.log(`wallet    ${account.address}${before === undefined ? '' : `, ${usd(before)} USDC`}`)
  let signed: string | null = null
  const watched = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init)
    signed = request.headers.get(PAYMENT) ?? signed
    return await fetch(request)
  }
  const pay: Pay = wrapFetchWithPaymentFromConfig(watched as typeof fetch, {
    schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(account) }],
    spendControls: { maxAmountPerPayment: most === undefined ? false : `$${most}` },
  })
  return {
    pay,
    async again(url) {
      if (signed === null) return await pay(url)
      const response = await fetch(url, { headers: { [PAYMENT]: signed } })
      return response.status === 402 ? await pay(url) : response
    },
    async spent() {
      const after = await readBalance(rpcUrl, offer.asset, account.address)
      if (before !== undefined && after !== undefined) console.log(`balance   ${usd(before)} -> ${usd(after)} USDC`)
    },
  }
}

async function findWallet(origin: string, rpc: string | undefined): Promise<{ key: Hex; rpcUrl: string | undefined; isPlay: boolean }> {
  const key = process.env.FAREBOX_BUYER_KEY
  if (key) return { key: key as Hex, rpcUrl: rpc, isPlay: false }
  const response = await fetch(`${origin}/devnet`)
  if (!response.ok) throw new BuyError('This gateway takes real money. Set FAREBOX_BUYER_KEY to the private key of the wallet that pays.')
  const devnet = (await response.json()) as { rpc_url: string; buyer: { private_key: Hex } }
  return { key: devnet.buyer.private_key, rpcUrl: rpc ?? devnet.rpc_url, isPlay: true }
}

async function readBalance(rpcUrl: string | undefined, asset: Hex, address: Hex): Promise<bigint | undefined> {
  if (!rpcUrl) return undefined
  return await createPublicClient({ transport: http(rpcUrl) }).readContract({ address: asset, abi: erc20Abi, functionName: 'balanceOf', args: [address] })
}

const usd = (micro: bigint): string => formatUnits(micro, 6)
