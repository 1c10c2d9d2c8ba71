/**
 * Made-up prediction and DeFi data in the shapes of the real services: each answer, and each row, is labelled a sample.
 */
import { type Clock, type DataVendor, ApiError, type PassthroughRequest } from '../../../core/mod.ts'

const LABEL = { sample: true, note: 'Sample data: names and numbers are made up.' } as const

/** Equal questions have equal answers within a minute, on every machine. `time` is in seconds since 1970. */
function sampleData(answer: (request: PassthroughRequest, time: number) => unknown) {
  return ({ clock }: { readonly clock: Pick<Clock, 'now'> }): DataVendor => ({
    async ask(request, { signal }) {
      signal.throwIfAborted()
      const data = answer(request, Math.floor(clock.now() / 60_000) * 60)
      if (data !== undefined) return JSON.stringify(data)
      const message = 'The sample data has nothing there (payment NOT charged)'
      throw new ApiError('PASSED_ON', { status: 400, message, fields: { status: 400 } })
    },
  })
}

const QUESTIONS = ['Will a sample coin land on heads?', 'Will it rain on the sample town?', 'Will the fox sleep?']

export const demoPrediction = sampleData(({ path, body }, time) => {
  const [venue = '', list = '', ...rest] = path.split('/')
  if (body)
    return { ...LABEL, identities: (body.addresses as readonly string[]).map((address) => ({ address, known: false })) }
  if (!['markets', 'events'].includes(list) || rest.length > 0) return { ...LABEL, path, data: [] }
  const rows = QUESTIONS.map((question, index) => {
    const id = `sample-${venue}-${index + 1}`
    return { sample: true, id, question, yes_price: (25 + 20 * index) / 100, updated_at: time }
  })
  return { ...LABEL, [list]: rows }
})

type Protocol = readonly [name: string, category: string, tvl: number, change_1d: number, change_7d: number]
const ROWS: readonly Protocol[] = [
  ['Aave', 'Lending', 1_000_000, 0.5, -1.25],
  ['Uniswap', 'Dexs', 500_000, -0.25, 2],
  ['Lido', 'Liquid Staking', 2_000_000, 0, 0.75],
]
const CHAINS = ['Ethereum', 'Base']
const PROTOCOLS = ROWS.map(([name, category, tvl, change_1d, change_7d], index) => {
  const id = `sample-${index + 1}`
  return { id, name: `${name} (sample)`, slug: name.toLowerCase(), category, chains: CHAINS, tvl, change_1d, change_7d }
})
const PRICES: Readonly<Record<string, { readonly price: number; readonly symbol: string }>> = {
  'coingecko:bitcoin': { price: 60_000.25, symbol: 'BTC' },
  'coingecko:ethereum': { price: 3_000.5, symbol: 'ETH' },
  'coingecko:usd-coin': { price: 1, symbol: 'USDC' },
  'base:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913': { price: 1, symbol: 'USDC' },
}

export const demoDefi = sampleData(({ path }, time) => {
  const [list = '', name = ''] = path.split('/')
  if (list === 'protocols') return PROTOCOLS.map((each) => ({ ...each, ...LABEL }))
  if (list === 'chains')
    return CHAINS.map((chain, index) => ({ name: chain, tvl: 3_000_000 / (index + 1), tokenSymbol: 'ETH', ...LABEL }))
  if (list === 'yields') {
    const pool = { chain: 'Base', symbol: 'USDC', apy: 4.25, ...LABEL }
    const data = PROTOCOLS.map(({ id, slug, tvl }) => ({ pool: id, project: slug, tvlUsd: tvl, ...pool }))
    return { status: 'success', ...LABEL, data }
  }
  if (list === 'prices')
    return { coins: Object.fromEntries(name.split(',').flatMap((coin) => priceOf(coin, time))), ...LABEL }
  const known = PROTOCOLS.find(({ slug }) => slug === name)
  return known && { ...known, ...LABEL, tvl: [{ date: time, totalLiquidityUSD: known.tvl }] }
})

/** Empty for an unknown coin. */
function priceOf(coin: string, timestamp: number): readonly [string, unknown][] {
  const known = Object.hasOwn(PRICES, coin) ? PRICES[coin] : undefined
  return known ? [[coin, { ...known, decimals: 8, confidence: 0.99, timestamp, sample: true }]] : []
}
