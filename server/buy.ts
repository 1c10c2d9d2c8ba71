/**
 * The buyer's command: `bun run buy -- images "a red fox in the snow"`.
 * Pays with the official @x402/fetch client, unchanged; on devnet with the funded buyer, elsewhere with the key in FAREBOX_BUYER_KEY.
 */
import { access, constants, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { createPublicClient, erc20Abi, formatUnits, type Hex, http } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'

const USAGE = `usage: bun run buy -- images "<prompt>" [--model ID] [--size WxH] [--n N] [--out FILE] [--url URL] [--rpc URL]

  --url    the gateway (default FAREBOX_URL, or http://127.0.0.1:4020)
  --model  default vendor-a/image-1; the gateway lists them at /api/v1/images/models
  --out    where the first image goes (default farebox-<time>.<type>; further ones get -1, -2, ...)
  --rpc    the chain to read the balance from, where it is not devnet
  FAREBOX_BUYER_KEY  the wallet that pays, where it is not devnet`

const POLL_MS = 2_000
/** An authorization lives 600 seconds (spec 1); past that there is nothing to wait for. */
const GIVE_UP_MS = 600_000

/** `fetch`, paying where it has to. */
type Pay = (url: string, init?: RequestInit) => Promise<Response>
type Wallet = { readonly key: Hex; readonly rpcUrl: string | undefined }
type Quote = { readonly accepts: readonly { amount: string; asset: Hex; network: string; payTo: string }[]; readonly price: { amount: string } }
type Result = { readonly id: string; readonly data: readonly { url: string }[]; readonly payment: { status: string; tx_hash: string; network: string } }

/** What went wrong, in words for the person at the keyboard. */
class BuyError extends Error {}

async function buy(args: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { url: { type: 'string' }, model: { type: 'string' }, size: { type: 'string' }, n: { type: 'string' }, out: { type: 'string' }, rpc: { type: 'string' } },
  })
  const [product, ...words] = positionals
  const prompt = words.join(' ').trim()
  if (product !== 'images' || prompt === '') throw new BuyError(USAGE)
  if (values.n !== undefined && !/^\d+$/.test(values.n)) throw new BuyError(`--n takes a whole number, not ${JSON.stringify(values.n)}\n\n${USAGE}`)
  if (values.out !== undefined) await access(dirname(resolve(values.out)), constants.W_OK).catch(refuseOut)
  const origin = (values.url ?? process.env.FAREBOX_URL ?? 'http://127.0.0.1:4020').replace(/\/$/, '')
  const body = JSON.stringify({
    model: values.model ?? 'vendor-a/image-1',
    prompt,
    ...(values.size && { size: values.size }),
    ...(values.n && { n: Number(values.n) }),
  })

  const order = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
  const target = `${origin}/api/v1/images/generations`
  const { quote, offer } = await ask(target, order)
  console.log(`quote     ${quote.price.amount} USDC on ${offer.network}, to ${offer.payTo}`)

  const wallet = await findWallet(origin, values.rpc)
  const account = privateKeyToAccount(wallet.key)
  const balance = () => readBalance(wallet.rpcUrl, offer.asset, account.address)
  const before = await balance()
  console.log(`wallet    ${account.address}${before === undefined ? '' : `, ${usd(before)} USDC`}`)

  const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(account) }] })
  const result = await collect(pay, origin, await pay(target, order))
  console.log(`paid      ${result.payment.status} on ${result.payment.network}, transaction ${result.payment.tx_hash}`)
  const after = await balance()
  if (before !== undefined && after !== undefined) console.log(`balance   ${usd(before)} -> ${usd(after)} USDC`)
  for (const [index, { url }] of result.data.entries()) {
    console.log(`hosted    ${url.slice(0, 200)}`)
    console.log(`image     ${await save(url, values.out, index)}`)
  }
}

function refuseOut(): never {
  throw new BuyError('--out names a folder that cannot be written to')
}

async function ask(target: string, order: RequestInit): Promise<{ quote: Quote; offer: Quote['accepts'][number] }> {
  const response = await fetch(target, order).catch(() => {
    throw new BuyError(`There is no gateway at ${new URL(target).origin}. Start one with: npx -y bun@1.4.4 start`)
  })
  const quote = (await response.json()) as Quote & { message?: string; error?: string }
  const [offer] = quote.accepts ?? []
  if (response.status === 402 && offer) return { quote, offer }
  throw new BuyError(`${response.status} ${quote.error ?? ''}: ${quote.message ?? ''}`)
}

async function findWallet(origin: string, rpc: string | undefined): Promise<Wallet> {
  const key = process.env.FAREBOX_BUYER_KEY
  if (key) return { key: key as Hex, rpcUrl: rpc }
  const response = await fetch(`${origin}/devnet`)
  if (!response.ok) throw new BuyError('This gateway takes real money. Set FAREBOX_BUYER_KEY to the private key of the wallet that pays.')
  const devnet = (await response.json()) as { rpc_url: string; buyer: { private_key: Hex } }
  return { key: devnet.buyer.private_key, rpcUrl: rpc ?? devnet.rpc_url }
}

/** Follows a job to its result. Each poll is paid for by the same wallet, and charges at most once. */
async function collect(pay: Pay, origin: string, first: Response): Promise<Result> {
  const giveUpAt = Date.now() + GIVE_UP_MS
  let response = first
  while (response.status === 202 && Date.now() < giveUpAt) {
    const job = (await response.json()) as { id: string; poll_url?: string; status: string }
    const path: string = job.poll_url ?? new URL(response.url).pathname
    console.log(`waiting   ${job.id} is ${job.status}`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    response = await pay(`${origin}${path}`)
  }
  const body = (await response.json()) as Result & { error?: string; message?: string; details?: string }
  if (response.status === 200 && body.payment) return body
  throw new BuyError(`${response.status} ${body.error ?? 'no result'}: ${body.message ?? body.details ?? ''}`)
}

async function readBalance(rpcUrl: string | undefined, asset: Hex, address: Hex): Promise<bigint | undefined> {
  if (!rpcUrl) return undefined
  return await createPublicClient({ transport: http(rpcUrl) }).readContract({ address: asset, abi: erc20Abi, functionName: 'balanceOf', args: [address] })
}

async function save(url: string, out: string | undefined, index: number): Promise<string> {
  const response = await fetch(url)
  if (!response.ok) throw new BuyError(`${response.status}: the image could not be fetched; it stays at its URL`)
  const type = response.headers.get('content-type')?.split('/')[1] ?? 'png'
  const base = out ?? `farebox-${Date.now()}.${type}`
  const path = index === 0 ? base : base.replace(/(\.\w+)?$/, `-${index}$1`)
  await writeFile(path, new Uint8Array(await response.arrayBuffer()))
  return path
}

const usd = (micro: bigint): string => formatUnits(micro, 6)

try {
  await buy(process.argv.slice(2))
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
}
