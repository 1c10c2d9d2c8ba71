/** Whoever attacks: HTTP requests, wallets with test money, and what the public chain tells. */
import { encodeFunctionData, type Hex, keccak256, pad, parseAbi, toHex } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { BATCH_SETTLEMENT, batchSettlementAbi, PERMIT2 } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { LAST_WORDS } from './vendor.ts'
import { BY_USE_MODEL, CHAT_MODEL, SECOND, type Target } from './target.ts'

export type Scheme = 'exact' | 'upto' | 'batch-settlement'
export const SCHEMES: readonly Scheme[] = ['exact', 'upto', 'batch-settlement']

export type Answer = { readonly status: number; readonly headers: Headers; readonly text: string; readonly body: any }
export type Order = At & { readonly path: string; readonly body: Readonly<Record<string, unknown>> }
/** Where a request goes, and the address that it comes from: that of the attacker unless reply. */
type At = { readonly host?: string; readonly ip?: string }

const MESSAGES = [{ role: 'user', content: 'Tell me what costs money.' }]
/** Products for sale, by how it is delivered. */
export const ORDERS = {
  chat: { path: '/api/v1/chat/completions', body: { model: CHAT_MODEL, messages: MESSAGES, max_tokens: 100 } },
  byUse: { path: '/api/v1/chat/completions', body: { model: BY_USE_MODEL, messages: MESSAGES, max_tokens: 100 } },
  stream: {
    path: '/api/v1/chat/completions',
    body: { model: CHAT_MODEL, messages: MESSAGES, max_tokens: 100, stream: true },
  },
  image: { path: '/api/v1/images/generations', body: { model: 'vendor-a/image-2', prompt: 'a red fox in the snow' } },
  video: { path: '/api/v1/videos/generations', body: { model: 'vendor-e/video-2.5', prompt: 'a red fox in the snow' } },
} as const satisfies Record<string, Order>

export const atSecond = (order: Order): Order => ({ ...order, host: SECOND })
/** The same order in other words, so that no two are one request. */
export const variant = ({ body, ...order }: Order, number: number): Order => ({
  ...order,
  body: 'prompt' in body ? { ...body, prompt: `a red fox, ${number}` } : { ...body, max_tokens: 100 + number },
})

const encode = (payment: Payment): string => Buffer.from(JSON.stringify(payment)).toString('base64')

export async function read(response: Response): Promise<Answer> {
  const text = await response.text()
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    // Streams and images are no JSON.
  }
  return { status: response.status, headers: response.headers, text, body }
}

/** The attacker's own address, and that of a customer. */
export const [ATTACKER, CUSTOMER] = ['203.0.113.66', '198.51.100.1']

const headersOf = ({ host, ip = ATTACKER }: At, payment: Payment | undefined) => ({
  'x-forwarded-for': ip,
  ...(host && { host }),
  ...(payment && { 'payment-signature': encode(payment) }),
})

export async function post(target: Target, { path, body, ...at }: Order, payment?: Payment): Promise<Answer> {
  const headers = { 'content-type': 'application/json', ...headersOf(at, payment) }
  return await read(await fetch(target.origin + path, { method: 'POST', headers, body: JSON.stringify(body) }))
}

/** `path` may be a whole URL, as the gateway writes it for its host. */
export async function get(
  target: Target,
  path: string,
  { payment, ...at }: At & { readonly payment?: Payment } = {},
): Promise<Answer> {
  const { pathname, search } = new URL(path, target.origin)
  return await read(await fetch(target.origin + pathname + search, { headers: headersOf(at, payment) }))
}

export async function offerFor(target: Target, order: Order, scheme: Scheme): Promise<Offer> {
  const { status, text, body } = await post(target, order)
  const offer = (body?.accepts as readonly Offer[] | undefined)?.find((each) => each.scheme === scheme)
  if (!offer) throw new Error(`no offer of ${scheme} for ${order.path}: ${status} ${text.slice(0, 300)}`)
  return offer
}

/** Whether the reply has the whole answer in it, paid for or not. */
export const isWhole = ({ status, text, body }: Answer): boolean =>
  status === 200 &&
  (text.includes(LAST_WORDS) || typeof body?.data?.[0]?.url === 'string' || body?.data?.[0]?.b64_json !== undefined)

// ── wallets ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Fields of an EIP-3009 transfer, as typed data has them. */
export const TRANSFER = [
  'address from',
  'address to',
  'uint256 value',
  'uint256 validAfter',
  'uint256 validBefore',
  'bytes32 nonce',
]
  .map((field) => field.split(' '))
  .map(([type = '', name = '']) => ({ type, name }))

export const newAccount = (): PrivateKeyAccount => privateKeyToAccount(generatePrivateKey())
const slotOf = (address: string, slot: bigint | Hex): Hex =>
  keccak256(`0x${pad(address.toLowerCase() as Hex).slice(2)}${pad(toHex(BigInt(slot))).slice(2)}`)

/** Balance that transfers of the token would have made of it. */
export const setBalance = (target: Target, address: string, value: bigint): Promise<unknown> =>
  target.chain('anvil_setStorageAt', [target.asset, slotOf(address, 1n), pad(toHex(value))])

export const balanceOf = async (target: Target, address: string): Promise<bigint> =>
  BigInt(await target.chain<Hex>('eth_getStorageAt', [target.asset, slotOf(address, 1n), 'latest']))

const TOKEN = parseAbi(['function approve(address spender, uint256 value)'])
const MAX = 2n ** 256n - 1n

/** A wallet with this much of the token, which Permit2 may move. */
export async function walletWith(target: Target, value: bigint): Promise<PrivateKeyAccount> {
  const account = newAccount()
  await setBalance(target, account.address, value)
  await target.chain('anvil_setBalance', [account.address, toHex(10n ** 18n)])
  await send(target, account, {
    to: target.asset,
    data: encodeFunctionData({ abi: TOKEN, functionName: 'approve', args: [PERMIT2, MAX] }),
  })
  return account
}

/** A transaction of the account's own. */
export async function send(
  target: Target,
  account: PrivateKeyAccount,
  { to, data }: { to: Hex; data: Hex },
): Promise<void> {
  const nonce = Number(await target.chain<Hex>('eth_getTransactionCount', [account.address, 'pending']))
  const fees = { gas: 500_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 0n }
  const raw = await account.signTransaction({ chainId: 84_532, nonce, to, data, ...fees })
  const receipt = await target.chain<{ status: Hex }>('eth_sendRawTransactionSync', [raw])
  if (receipt.status !== '0x1') throw new Error('a transaction of a wallet reverted')
}

// ── the chain, as anybody reads it ──────────────────────────────────────────────────────────────────────────────────

type Transaction = { readonly hash: Hex; readonly from: Hex; readonly to: Hex | null; readonly input: Hex }
type Receipt = { readonly status: Hex; readonly gasUsed: Hex; readonly effectiveGasPrice: Hex }

/** Every transaction of the chain, in order. */
export async function transactions(target: Target): Promise<readonly Transaction[]> {
  const last = Number(await target.chain<Hex>('eth_blockNumber', []))
  const found: Transaction[] = []
  for (let block = 0; block <= last; block++) {
    const { transactions: here } = await target.chain<{ transactions: readonly Transaction[] }>(
      'eth_getBlockByNumber',
      [toHex(block), true],
    )
    found.push(...here)
  }
  return found
}

type Spent = { readonly sent: number; readonly reverted: number; readonly gas: bigint; readonly wei: bigint }

/** Transactions of the gateways' own accounts, and their cost. */
export async function spentBy(target: Target, accounts: readonly Hex[] = target.relayers): Promise<Spent> {
  const own = new Set(accounts.map((each) => each.toLowerCase()))
  let spent: Spent = { sent: 0, reverted: 0, gas: 0n, wei: 0n }
  for (const { hash, from } of await transactions(target)) {
    if (!own.has(from.toLowerCase())) continue
    const receipt = await target.chain<Receipt>('eth_getTransactionReceipt', [hash])
    const gas = BigInt(receipt.gasUsed)
    spent = {
      sent: spent.sent + 1,
      reverted: spent.reverted + (receipt.status === '0x1' ? 0 : 1),
      gas: spent.gas + gas,
      wei: spent.wei + gas * BigInt(receipt.effectiveGasPrice),
    }
  }
  return spent
}

const TRANSFER_WITH_SIGNATURE = 'e3ee160e'

/** Authorizations of `exact` that the chain has published, as payments of an offer: alone or in a batch. */
export async function publishedExact(target: Target, offer: Offer): Promise<readonly Payment[]> {
  const inputs = (await transactions(target)).map(({ input }) => input)
  return inputs.flatMap((input) =>
    input
      .split(TRANSFER_WITH_SIGNATURE)
      .slice(1)
      .map((data) => publishedIn(data.match(/.{64}/g) ?? [], offer)),
  )
}

function publishedIn(words: readonly string[], accepted: Offer): Payment {
  const [from, to] = words.map((each): Hex => `0x${each.slice(24)}`)
  const [value, validAfter, validBefore] = words.slice(2, 5).map((each) => String(BigInt(`0x${each}`)))
  const [nonce, v, r, s] = words.slice(5)
  const authorization = { from, to, value, validAfter, validBefore, nonce: `0x${nonce}` }
  const signature = `0x${r}${s}${v?.slice(62)}`
  return { x402Version: 2, accepted, payload: { signature, authorization } } as Payment
}

/** Balance that the settlement contract holds for a channel. */
export async function channelBalance(target: Target, id: Hex): Promise<bigint> {
  const data = encodeFunctionData({ abi: batchSettlementAbi, functionName: 'channels', args: [id] })
  const words = await target.chain<Hex>('eth_call', [{ to: BATCH_SETTLEMENT, data }, 'latest'])
  return BigInt(words.slice(0, 66))
}
