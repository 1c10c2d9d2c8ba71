/** The feeds of a market: which symbol is meant, and their list. */
import type { MarketRow } from './catalog.ts'
import { ApiError } from '../../http/errors.ts'
import { clip } from '../../lib/text.ts'
import type { Json } from '../../lib/json.ts'
import type { Log } from '../../ports/mod.ts'
import type { Feed, MarketVendor, Session } from '../../ports/vendors/market.ts'
import type { Vendors } from '../../ports/vendors/mod.ts'

export type Fields = Readonly<Record<string, Json>>

export function marketOf({ market }: Vendors): MarketVendor {
  if (market) return market
  throw new ApiError('NOT_CONFIGURED', {
    message: 'market data: the operator has not configured it. Nothing was charged.',
  })
}

/** Maps all vendor failures to FEED_UNAVAILABLE (contract 10.18). */
export async function withFeedErrors<T>(work: Promise<T>, log?: Log): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof ApiError) throw error
    log?.warn('a price feed failed', { error: (error as Error).message })
    throw new ApiError('FEED_UNAVAILABLE', {
      message: 'The price feed did not answer. Nothing was charged; try again.',
    })
  }
}

export type SpotRequest = { readonly row: MarketRow; readonly symbol: string; readonly session: Session | undefined }

export async function find(
  market: MarketVendor,
  { row, symbol }: Pick<SpotRequest, 'row' | 'symbol'>,
  signal: AbortSignal,
): Promise<Feed> {
  const feeds = await market.feeds(row.kind, { signal })
  const { exact, upper } = indexOf(feeds)
  const query = symbol.toUpperCase()
  const feed = exact.get(symbol) ?? upper.get(query)
  if (feed) return feed
  const similar = similarSymbols(feeds, query)
  const suggestion = similar.length > 0 ? ` Near to it: ${similar.join(', ')}.` : ''
  throw symbolNotFound(row, {
    symbol: clip(symbol),
    hint: `Symbols here are written as ${row.format}, for example ${row.example}.${suggestion}`,
    similar,
  })
}

type Index = { readonly exact: ReadonlyMap<string, Feed>; readonly upper: ReadonlyMap<string, Feed> }

const indexes = new WeakMap<readonly Feed[], Index>()

/** Cached per list. Of feeds with the same symbol the first is used. */
export function indexOf(feeds: readonly Feed[]): Index {
  const known = indexes.get(feeds)
  if (known) return known
  const last = feeds.toReversed()
  const index = {
    exact: new Map(last.map((feed) => [feed.symbol, feed])),
    upper: new Map(last.map((feed) => [feed.symbol.toUpperCase(), feed])),
  }
  indexes.set(feeds, index)
  return index
}

function symbolNotFound(
  { root, label }: MarketRow,
  { symbol, hint, similar = [] }: { symbol: string; hint: string; similar?: readonly string[] },
): ApiError {
  const message = `${symbol} is not among the feeds of ${label}. Nothing was charged.`
  return new ApiError('NOT_FOUND', {
    error: 'Symbol not found',
    message,
    fields: { hint: `${hint} All symbols: GET ${root}/list`, ...(similar.length > 0 && { nearest: similar }) },
  })
}

/** Up to five similar symbols, by shared pairs of letters. Linear in the list. */
function similarSymbols(feeds: readonly Feed[], query: string): readonly string[] {
  const given = pairs(query)
  const ranked = feeds
    .map(({ symbol }) => ({ symbol, score: similarity(given, pairs(symbol.toUpperCase())) }))
    .filter(({ score }) => score > 0.3)
  ranked.sort((a, b) => b.score - a.score || (a.symbol < b.symbol ? -1 : 1))
  return ranked.slice(0, 5).map(({ symbol }) => symbol)
}

function pairs(word: string): ReadonlySet<string> {
  const framed = ` ${word.replace(/[^A-Z0-9]/g, '')} `
  return new Set(Array.from({ length: framed.length - 1 }, (_, index) => framed.slice(index, index + 2)))
}

function similarity(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let shared = 0
  for (const pair of b) if (a.has(pair)) shared++
  return (2 * shared) / (a.size + b.size)
}

export const marketFields = ({ category, kind }: MarketRow): Fields => ({
  category,
  ...(category === 'stocks' && { market: kind }),
})

/** `count` is the number of all matches, of which `limit` are listed (contract 10.7). */
export async function listing(
  market: MarketVendor,
  { row, q, limit }: { row: MarketRow; q: string; limit: number },
  signal: AbortSignal,
): Promise<Fields> {
  const query = q.toLowerCase()
  const feeds = await market.feeds(row.kind, { signal })
  const found = feeds.filter(
    ({ symbol, description }) => symbol.toLowerCase().includes(query) || description.toLowerCase().includes(query),
  )
  const symbols = found.slice(0, limit).map(({ symbol, description }) => ({ symbol, description }))
  const endpoints = {
    list: `${row.root}/list`,
    price: `${row.root}/price/{symbol}`,
    history: `${row.root}/history/{symbol}`,
  }
  return { ...marketFields(row), label: row.label, count: found.length, example: row.example, endpoints, symbols }
}
