/** The categories of market data as rows, and the lengths of bars (contract 10.11). */
import {
  RESOLUTIONS,
  type Resolution,
  type MarketKind,
  STOCK_MARKETS,
  type StockMarket,
} from '../../ports/vendors/market.ts'

/** One category of feeds. `example` is a symbol in its format, `root` the path of its endpoints. */
export type MarketRow = {
  readonly kind: MarketKind
  readonly category: 'crypto' | 'fx' | 'commodity' | 'stocks'
  readonly label: string
  readonly example: string
  readonly root: string
  /** Description of its symbols, for errors about unknown ones. */
  readonly format: string
}

export const openMarkets = [
  {
    kind: 'crypto',
    category: 'crypto',
    label: 'Crypto',
    example: 'BTC-USD',
    root: '/api/v1/crypto',
    format: 'BASE-QUOTE',
  },
  {
    kind: 'fx',
    category: 'fx',
    label: 'Foreign exchange',
    example: 'EUR-USD',
    root: '/api/v1/fx',
    format: 'BASE-QUOTE',
  },
  {
    kind: 'commodity',
    category: 'commodity',
    label: 'Commodities',
    example: 'XAU-USD',
    root: '/api/v1/commodity',
    format: 'METAL-USD or a ticker',
  },
] as const satisfies readonly MarketRow[]

const stocks = (
  kind: StockMarket,
  label: string,
  { example, format }: Pick<MarketRow, 'example' | 'format'>,
): MarketRow => {
  return { kind, category: 'stocks', label, example, root: `/api/v1/stocks/${kind}`, format }
}

const letters = (example: string) => ({ example, format: 'letters' })
const digits = (count: number, example: string) => ({ example, format: `${count} digits` })

const stockMarkets: Readonly<Record<StockMarket, MarketRow>> = {
  us: stocks('us', 'US equities', { example: 'AAPL', format: 'a plain ticker' }),
  hk: stocks('hk', 'Hong Kong equities', { example: '0700-HK', format: 'digits with the suffix -HK' }),
  jp: stocks('jp', 'Japanese equities', digits(4, '7203')),
  kr: stocks('kr', 'Korean equities', digits(6, '005930')),
  gb: stocks('gb', 'British equities', letters('VOD')),
  de: stocks('de', 'German equities', letters('SAP')),
  fr: stocks('fr', 'French equities', letters('MC')),
  nl: stocks('nl', 'Dutch equities', letters('ASML')),
  ie: stocks('ie', 'Irish equities', letters('RYA')),
  lu: stocks('lu', 'Luxembourg equities', letters('SESG')),
  cn: stocks('cn', 'Chinese equities', digits(6, '600519')),
  ca: stocks('ca', 'Canadian equities', letters('SHOP')),
}

/** The row of a stock market; undefined for an unknown one. */
export function stockMarket(market: unknown): MarketRow | undefined {
  const known = STOCK_MARKETS.find((each) => each === market)
  return known && stockMarkets[known]
}

export const isResolution = (value: unknown): value is Resolution => RESOLUTIONS.includes(value as Resolution)
