/** What a wallet holds, and what it has spent here (contract 18.2). */
import { Type } from '@sinclair/typebox'
import { within } from '../../lib/timers.ts'
import { checksummed } from '../../lib/checksum.ts'
import { type Context, free } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import type { GatewayFacts } from '../../endpoint/gateway_info.ts'
import { ApiError } from '../../http/errors.ts'
import { clip } from '../../lib/text.ts'
import { print, type Usdc, usdc } from '../../x402/money.ts'
import type { Spend } from '../../ports/mod.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
const DAYS = 30
/** Longest wait for the chain. */
const LOOK_MS = 8_000

/** Shared by all lists of what a wallet has (contract 13.7). */
export const WALLET_LISTS = { requests: 20, windowMs: 60 * MINUTE_MS, bucket: 'wallet_lists' }

/** An address as payers are stored. Throws a 400 for what is none on the networks of this gateway. */
export function walletOf(given: string, { terms }: Pick<GatewayFacts, 'terms'>): string {
  const namespaces = terms().map(({ network }) => network.split(':', 1)[0])
  const isEvm = namespaces.length === 0 || namespaces.includes('eip155')
  if (isEvm && /^0x[0-9a-fA-F]{40}$/.test(given)) return checksummed(given)
  const isSolana = namespaces.length === 0 || namespaces.includes('solana')
  if (isSolana && /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(given)) return given
  const message = `address: must be ${isEvm ? '0x and 40 hex digits' : 'a base58 public key'}, got ${clip(given)}`
  throw new ApiError('INVALID_PARAMETER', { message, param: 'address', details: [{ path: 'address', message }] })
}

/** A wallet of the network that a gateway is paid on, for documents. */
export function sampleWallet({ networks = [] }: Pick<Context, 'networks'>): string {
  return networks.some((network) => network.startsWith('solana:'))
    ? '7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU'
    : '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
}

const balance = free({
  name: 'wallet.balance',
  path: '/api/v1/balance',
  summary: 'The USDC that a wallet holds',
  description: 'As the chain has it at this moment, in the asset that this gateway is paid in.',
  tag: 'wallet',
  limit: { requests: 60, windowMs: MINUTE_MS },
  input: Type.Object({ address: Type.String({ description: 'The address of a wallet.' }) }),
  sample: (offering) => ({ query: { address: sampleWallet(offering) } }),
  errors: ['INVALID_PARAMETER', 'NOT_CONFIGURED', 'NOT_READY'],
  output: Type.Object({
    object: Type.Literal('balance'),
    address: Type.String({ description: 'As it is stored: 0x addresses with their checksum.' }),
    balance: Type.String({ description: 'In USDC, six decimals.' }),
    base_units: Type.String({ description: 'The same in millionths.' }),
    asset: Type.Object({ symbol: Type.Literal('USDC'), address: Type.String(), decimals: Type.Literal(6) }),
    network: Type.String(),
    chain: Type.String({ description: 'CAIP-2.' }),
    timestamp: Type.String(),
  }),
  async answer({ query }, { chain, clock, gateway, log }) {
    const address = walletOf(query.get('address') ?? '', gateway)
    const [terms] = gateway.terms()
    if (!chain.balance)
      throw new ApiError('NOT_CONFIGURED', { message: 'The chain of this gateway cannot be asked for balances.' })
    if (!terms) throw away()
    const read = chain.balance
    const held = await within(clock, LOOK_MS, (signal) => read(address, { signal })).catch((error: Error) => {
      log.warn('a balance could not be read', { error: error.message })
      throw away()
    })
    const { network, asset } = terms
    const body = {
      object: 'balance',
      address,
      balance: print(held),
      base_units: held.toString(),
      asset: { symbol: 'USDC', address: asset, decimals: 6 },
    }
    return json(
      200,
      { ...body, network: gateway.label, chain: network, timestamp: new Date(clock.now()).toISOString() },
      { 'cache-control': 'no-store' },
    )
  },
})

function away(): ApiError {
  return new ApiError('NOT_READY', {
    message: 'The chain cannot be asked just now; try again.',
    headers: { 'retry-after': '5' },
  })
}

const sum = {
  usd: Type.String({ description: 'US dollars, six decimals, as they left the wallet.' }),
  calls: Type.Integer(),
  input_tokens: Type.Integer(),
  output_tokens: Type.Integer(),
}

const reconciliation = free({
  name: 'wallet.reconciliation',
  path: '/api/v1/wallet/{address}/reconciliation',
  summary: `What a wallet has spent here in ${DAYS} days, by model`,
  description: 'From the ledger of settled calls. What was answered but not settled is not in it.',
  tag: 'wallet',
  limit: WALLET_LISTS,
  sample: (offering) => ({ path: { address: sampleWallet(offering) } }),
  errors: ['INVALID_PARAMETER'],
  output: Type.Object({
    object: Type.Literal('usage_summary'),
    wallet: Type.String(),
    window: Type.Object({ from: Type.String(), to: Type.String(), days: Type.Literal(DAYS) }),
    totals: Type.Object(sum),
    per_model: Type.Array(Type.Object({ model: Type.String(), ...sum })),
    per_endpoint: Type.Array(Type.Object({ endpoint: Type.String({ description: 'As the menu calls it.' }), ...sum })),
    last_call_at: Type.Union([Type.String({ description: 'When the last of them settled.' }), Type.Null()]),
  }),
  async answer({ params }, { ledger, clock, gateway }) {
    const wallet = walletOf(params.address ?? '', gateway)
    const to = clock.now()
    const from = to - DAYS * DAY_MS
    const spent = (await ledger.spendByModel(wallet, from)).filter((each) => each.gateway === gateway.name)
    const last = spent.reduce((latest, { lastAt }) => Math.max(latest, lastAt), 0)
    const body = {
      object: 'usage_summary',
      wallet,
      window: { from: new Date(from).toISOString(), to: new Date(to).toISOString(), days: DAYS },
      totals: totalOf(spent),
      per_model: by(spent, ({ model }) => model).map(([model, part]) => ({ model, ...totalOf(part) })),
      per_endpoint: by(spent, ({ endpoint }) => endpoint).map(([endpoint, part]) => ({ endpoint, ...totalOf(part) })),
      last_call_at: last === 0 ? null : new Date(last).toISOString(),
    }
    return json(200, body, { 'cache-control': 'private, max-age=30' })
  },
})

export const wallet = [balance, reconciliation]

function totalOf(spent: readonly Spend[]) {
  const sumOf = (count: (each: Spend) => number) => spent.reduce((sum, each) => sum + count(each), 0)
  return {
    usd: print(paidIn(spent)),
    calls: sumOf(({ calls }) => calls),
    input_tokens: sumOf(({ inputTokens }) => inputTokens),
    output_tokens: sumOf(({ outputTokens }) => outputTokens),
  }
}

const paidIn = (spent: readonly Spend[]): Usdc => usdc(spent.reduce((sum, each) => sum + each.spent, 0n))

/** Groups by a name, dearest first; what has none, as a product without models, is in no group. */
function by(spent: readonly Spend[], nameOf: (each: Spend) => string | null): readonly [string, readonly Spend[]][] {
  const groups = new Map<string, Spend[]>()
  for (const each of spent) {
    const name = nameOf(each)
    if (name !== null) groups.set(name, [...(groups.get(name) ?? []), each])
  }
  return [...groups].sort(([, a], [, b]) => Number(paidIn(b) - paidIn(a)))
}
