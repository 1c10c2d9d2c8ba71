/** The balance of a wallet and its spend at this gateway (contract 18.2). */
import { Type } from '@sinclair/typebox'
import { within } from '../../lib/timers.ts'
import { free } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import { print, type Usdc, usdc } from '../../x402/money.ts'
import type { Spend } from '../../ports/mod.ts'
import { WALLET_LISTS, walletOf, sampleWallet } from '../lib/wallet_lists.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
const DAYS = 30
/** Timeout of chain reads. */
const CHAIN_TIMEOUT_MS = 8_000

const balance = free({
  name: 'wallet.balance',
  path: '/api/v1/balance',
  summary: 'The USDC that a wallet holds',
  description: 'As the chain has it at this moment, in the asset that this gateway is paid in.',
  tag: 'wallet',
  limit: { requests: 60, windowMs: MINUTE_MS },
  input: Type.Object({ address: Type.String({ description: 'The address of a wallet.' }) }),
  sample: (offering) => ({ query: { address: sampleWallet(offering) } }),
  errors: ['INVALID_BODY', 'NOT_CONFIGURED', 'NOT_READY'],
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
      throw new ApiError('NOT_CONFIGURED', {
        message: 'balance: the chain of this gateway does not support balance reads.',
      })
    if (!terms) throw chainUnavailable()
    const read = chain.balance
    const baseUnits = await within(clock, CHAIN_TIMEOUT_MS, (signal) => read(address, { signal })).catch(
      (error: Error) => {
        log.warn('a balance could not be read', { error: error.message })
        throw chainUnavailable()
      },
    )
    const { network, asset } = terms
    const body = {
      object: 'balance',
      address,
      balance: print(baseUnits),
      base_units: baseUnits.toString(),
      asset: { symbol: 'USDC', address: asset, decimals: 6 },
    }
    return json(
      200,
      { ...body, network: gateway.label, chain: network, timestamp: new Date(clock.now()).toISOString() },
      { 'cache-control': 'no-store' },
    )
  },
})

function chainUnavailable(): ApiError {
  return new ApiError('NOT_READY', {
    message: 'The chain is temporarily unreachable; try again.',
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
  errors: ['INVALID_BODY'],
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
      per_model: groupBy(spent, ({ model }) => model).map(([model, part]) => ({ model, ...totalOf(part) })),
      per_endpoint: groupBy(spent, ({ endpoint }) => endpoint).map(([endpoint, part]) => ({
        endpoint,
        ...totalOf(part),
      })),
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

/** Groups by name, highest spend first. Entries without a name are left out. */
function groupBy(
  spent: readonly Spend[],
  nameOf: (each: Spend) => string | null,
): readonly [string, readonly Spend[]][] {
  const groups = new Map<string, Spend[]>()
  for (const each of spent) {
    const name = nameOf(each)
    if (name !== null) groups.set(name, [...(groups.get(name) ?? []), each])
  }
  return [...groups].sort(([, a], [, b]) => Number(paidIn(b) - paidIn(a)))
}
