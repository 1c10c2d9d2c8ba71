/**
 * Made-up data in the shapes of the services that are passed on: each answer, and each row of it, says that it is a
 * sample.
 */
import { type Clock, type DataVendor, ApiError, type PassthroughRequest } from '../../../core/mod.ts'

const NOTE = 'Sample data of a Farebox without a data service: names and numbers are made up.'

/** The same question has the same answer within a minute, on every machine. */
type Maker = (request: PassthroughRequest, now: number) => unknown

function sampled(clock: Pick<Clock, 'now'>, make: Maker): DataVendor {
  return {
    async ask(request, { signal }) {
      signal.throwIfAborted()
      const made = make(request, Math.floor(clock.now() / 60_000) * 60)
      if (made === undefined)
        throw new ApiError('PASSED_ON', {
          status: 400,
          message: 'The sample data has nothing there (payment NOT charged)',
          fields: { status: 400 },
        })
      return JSON.stringify(made)
    },
  }
}

// ── prediction markets ──────────────────────────────────────────────────────────────────────────────────────────────

const QUESTIONS = [
  'Will a sample coin land on heads?',
  'Will it rain on the sample town tomorrow?',
  'Will the sample fox reach the river?',
] as const

export const demoPrediction = ({ clock }: { clock: Pick<Clock, 'now'> }): DataVendor => sampled(clock, predicted)

function predicted({ path, body }: PassthroughRequest, time: number): unknown {
  const [venue = '', word = '', ...rest] = path.split('/')
  const label = { sample: true, note: NOTE }
  if (body)
    return { ...label, identities: (body.addresses as readonly string[]).map((address) => ({ address, known: false })) }
  const markets = QUESTIONS.map((question, index) => ({
    sample: true,
    id: `sample-${venue}-${index + 1}`,
    question,
    yes_price: (25 + 20 * index) / 100,
    updated_at: time,
  }))
  if (['markets', 'events'].includes(word) && rest.length === 0) return { ...label, [word]: markets }
  return { ...label, path, data: [] }
}

// ── DeFi ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const PROTOCOLS = [
  {
    id: 'sample-1',
    name: 'Aave (sample)',
    slug: 'aave',
    category: 'Lending',
    chains: ['Ethereum', 'Base'],
    tvl: 1_000_000,
    change_1d: 0.5,
    change_7d: -1.25,
  },
  {
    id: 'sample-2',
    name: 'Uniswap (sample)',
    slug: 'uniswap',
    category: 'Dexs',
    chains: ['Ethereum', 'Base'],
    tvl: 500_000,
    change_1d: -0.25,
    change_7d: 2,
  },
  {
    id: 'sample-3',
    name: 'Lido (sample)',
    slug: 'lido',
    category: 'Liquid Staking',
    chains: ['Ethereum'],
    tvl: 2_000_000,
    change_1d: 0,
    change_7d: 0.75,
  },
] as const
const PRICES: Readonly<Record<string, { readonly price: number; readonly symbol: string }>> = {
  'coingecko:bitcoin': { price: 60_000.25, symbol: 'BTC' },
  'coingecko:ethereum': { price: 3_000.5, symbol: 'ETH' },
  'coingecko:usd-coin': { price: 1, symbol: 'USDC' },
  'base:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913': { price: 1, symbol: 'USDC' },
}
const LABEL = { sample: true, note: NOTE } as const

export const demoDefi = ({ clock }: { clock: Pick<Clock, 'now'> }): DataVendor => sampled(clock, locked)

function locked({ path }: PassthroughRequest, time: number): unknown {
  const [what = '', name = ''] = path.split('/')
  if (what === 'protocols') return PROTOCOLS.map((each) => ({ ...each, ...LABEL }))
  if (what === 'chains')
    return ['Ethereum', 'Base'].map((chain, index) => ({
      name: chain,
      tvl: 3_000_000 / (index + 1),
      tokenSymbol: 'ETH',
      ...LABEL,
    }))
  if (what === 'yields')
    return {
      status: 'success',
      ...LABEL,
      data: PROTOCOLS.map(({ id, slug, tvl }) => ({
        pool: id,
        chain: 'Base',
        project: slug,
        symbol: 'USDC',
        tvlUsd: tvl,
        apy: 4.25,
        ...LABEL,
      })),
    }
  if (what === 'prices')
    return { coins: Object.fromEntries(name.split(',').flatMap((coin) => pricedCoin(coin, time))), ...LABEL }
  const known = PROTOCOLS.find(({ slug }) => slug === name)
  return known && { ...known, ...LABEL, tvl: [{ date: time, totalLiquidityUSD: known.tvl }] }
}

/** A coin that nobody knows is absent. */
function pricedCoin(coin: string, timestamp: number): readonly [string, unknown][] {
  const known = Object.hasOwn(PRICES, coin) ? PRICES[coin] : undefined
  return known ? [[coin, { ...known, decimals: 8, confidence: 0.99, timestamp, sample: true }]] : []
}
