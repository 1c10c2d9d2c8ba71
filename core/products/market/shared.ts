/** Shared by all market endpoints: parsing requests, finding the symbol, calling the vendor, and the replies. */
import { type Static, Type } from '@sinclair/typebox'
import { isResolution, type MarketRow } from './catalog.ts'
import type { Reply } from '../../http/reply.ts'
import { exact, exactJson } from '../../lib/decimal_json.ts'
import { ApiError } from '../../http/errors.ts'
import { clip } from '../../lib/text.ts'
import type { Json } from '../../lib/json.ts'
import type { Log } from '../../ports/mod.ts'
import {
  BAR_SECONDS,
  type CachedData,
  type Bar,
  type Feed,
  type Lane,
  type MarketVendor,
  RESOLUTIONS,
  type Resolution,
  type Session,
  type Spot,
} from '../../ports/vendors/market.ts'
import type { Vendors } from '../../ports/vendors/mod.ts'

type Fields = Readonly<Record<string, Json>>

// ── what callers say, as text: it stands in the path and in the query ───────────────────────────────────────────────

const SESSIONS = ['pre', 'post', 'on'] as const

const text = (description: string) => Type.String({ maxLength: 64, description })
const symbol = text('A symbol of the matching list, in upper or lower case.')
const session = Type.Optional(text('Equities only: `pre`, `post` or `on`; omit for regular hours.'))

export const spotInput = Type.Object({ symbol, session })
export const historyInput = Type.Object({
  symbol,
  resolution: Type.Optional(text(`One of ${RESOLUTIONS.join(', ')}: minutes, day, week, month; D unless told.`)),
  from: text('Unix seconds, positive and in the past.'),
  to: Type.Optional(text('Unix seconds, greater than `from`; now unless told, and now for what is to come.')),
  session,
})
export const listInput = Type.Object({
  q: Type.Optional(text('Keeps what has this in its symbol or description, in upper or lower case.')),
  limit: Type.Optional(text('How many symbols to list, at most 2000; 100 unless told.')),
})

export type ListInput = Static<typeof listInput>
export type HistoryInput = Static<typeof historyInput>

/** A 400 as in contract 3.3. */
function invalid(path: string, message: string): ApiError {
  return new ApiError('INVALID_BODY', { message: `${path}: ${message}`, param: path, details: [{ path, message }] })
}

/** The session of an exchange. Ignored for other categories, which have none. Throws a 400. */
export function sessionOf({ category }: MarketRow, given: string | undefined): Session | undefined {
  if (category !== 'stocks' || given === undefined) return undefined
  const known = SESSIONS.find((each) => each === given)
  if (!known) throw invalid('session', `must be one of ${SESSIONS.join(', ')}; got ${clip(given)}`)
  return known
}

/** Unix seconds. Values from 10^11 on are taken for milliseconds and refused. */
function secondsOf(path: string, given: string): number {
  const seconds = /^\d{1,12}$/.test(given) ? Number(given) : Number.NaN
  if (seconds > 0 && seconds < 1e11) return seconds
  throw invalid(path, `must be a positive time in unix seconds; got ${clip(given)}`)
}

export type Window = { readonly resolution: Resolution; readonly from: number; readonly to: number | undefined }

/** Checks that do not depend on the current time. Throws a 400. */
export function windowOf({ resolution = 'D', from, to }: Omit<HistoryInput, 'symbol'>): Window {
  if (!isResolution(resolution))
    throw invalid('resolution', `must be one of ${RESOLUTIONS.join(', ')}; got ${clip(resolution)}`)
  const window = { resolution, from: secondsOf('from', from), to: to === undefined ? undefined : secondsOf('to', to) }
  if (window.to !== undefined) checkOrder(window.from, window.to)
  return window
}

function checkOrder(from: number, to: number): void {
  if (to <= from) throw invalid('to', `must be greater than from, which is ${from}; got ${to}`)
}

const DEFAULT_LISTED = 100
const MAX_LISTED = 2000

/** Throws a 400 for a limit that is not positive; larger values are capped. */
export function limitOf(given: string | undefined): number {
  if (given === undefined) return DEFAULT_LISTED
  if (/^\d{1,20}$/.test(given) && Number(given) > 0) return Math.min(Number(given), MAX_LISTED)
  throw invalid('limit', `must be a positive number; got ${clip(given)}`)
}

// ── vendor calls ────────────────────────────────────────────────────────────────────────────────────────────────────

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

type Latest = { readonly row: MarketRow; readonly feed: Feed; readonly latest: Spot }

/** Throws a 404 with a hint for an unknown symbol, or one that does not trade in this session. */
export async function spot(market: MarketVendor, request: SpotRequest, signal: AbortSignal): Promise<Fields> {
  return spotFields(market, await latestOf(market, request, signal))
}

/** The same as JSON text, for free requests. */
export async function freeSpot(market: MarketVendor, request: SpotRequest, signal: AbortSignal): Promise<string> {
  return freeText(market, await latestOf(market, request, signal))
}

/** The same, synchronously, if everything is cached. Most prices are, and a timer would cost more than serving them. */
export function cachedFreeSpot(
  market: MarketVendor & Partial<CachedData>,
  { row, symbol }: Pick<SpotRequest, 'row' | 'symbol'>,
): string | undefined {
  const feeds = market.atHand?.feeds(row.kind)
  const feed = feeds && indexOf(feeds).exact.get(symbol)
  const latest = feed && market.atHand?.latest(feed)
  return latest && freeText(market, { row, feed, latest })
}

const spotJson = new WeakMap<
  Spot,
  { readonly row: MarketRow; readonly feed: Feed; readonly source: string; readonly text: string }
>()

/** Serialized once per spot, while the cache returns the same one. */
function freeText(market: MarketVendor, found: Latest): string {
  const { row, feed, latest } = found
  const known = spotJson.get(latest)
  if (known?.feed === feed && known.row === row && known.source === market.source) return known.text
  const text = exactJson({ ...spotFields(market, found), free: true })
  spotJson.set(latest, { row, feed, source: market.source, text })
  return text
}

async function latestOf(
  market: MarketVendor,
  { row, symbol, session }: SpotRequest,
  signal: AbortSignal,
): Promise<Latest> {
  const feed = await find(market, { row, symbol }, signal)
  const latest = await market.latest(feed, { ...(session && { session }), signal })
  if (latest) return { row, feed, latest }
  throw priceNotFound(feed, session)
}

/** 404 for a known symbol without a price. */
function priceNotFound({ symbol }: Feed, session: Session | undefined): ApiError {
  if (!session)
    return new ApiError('NOT_FOUND', {
      error: 'No price',
      message: `${symbol} has no price at the moment. Nothing was charged.`,
      fields: { hint: 'The feed has not published one lately; try again later.' },
    })
  const message = `${symbol} has no price of the ${session} session. Nothing was charged.`
  return new ApiError('NOT_FOUND', {
    error: 'No such session',
    message,
    fields: { hint: `There is no ${session} session feed for ${symbol}; leave session out for regular hours.` },
  })
}

/** Most bars of a reply, which keeps it under a megabyte. */
export const MAX_BARS = 5000

/**
 * The newest bars of the window, and `next`, the path of the page before them, where the window is longer than
 * `MAX_BARS`. It ends at the current time at the latest. Throws a 404 with a hint for an unknown symbol, or if the
 * window has no bars. `now` is in milliseconds.
 */
export async function history(
  market: MarketVendor,
  request: SpotRequest & { readonly window: Window; readonly now: number; readonly lane: Lane },
  signal: AbortSignal,
): Promise<Fields> {
  const {
    row,
    session,
    lane,
    window: { resolution, from, ...window },
  } = request
  const now = Math.floor(request.now / 1000)
  if (from >= now) throw invalid('from', `must be in the past, before ${now}; got ${from}`)
  const to = Math.min(window.to ?? now, now)
  const first = Math.max(from, to - MAX_BARS * BAR_SECONDS[resolution] + 1)
  const feed = await find(market, request, signal)
  const found = await market.bars(feed, { resolution, from: first, to, ...(session && { session }), lane, signal })
  if (found.length === 0) throw barsNotFound(feed, { resolution, from: first, to })
  const bars = found.slice(-MAX_BARS)
  const end = (bars.length < found.length ? (bars[0]?.t ?? first) : first) - 1
  const before = { resolution, from: String(from), to: String(Math.max(end, from + 1)), ...(session && { session }) }
  const path = `${row.root}/history/${encodeURIComponent(feed.symbol)}?${new URLSearchParams(before)}`
  return {
    symbol: feed.symbol,
    ...marketFields(row),
    resolution,
    from,
    to,
    bars: bars.map(barFields),
    source: market.source,
    ...(end >= from && { truncated: true, next: path }),
  }
}

async function find(
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
function indexOf(feeds: readonly Feed[]): Index {
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

function barsNotFound(
  { symbol }: Feed,
  { resolution, from, to }: { resolution: Resolution; from: number; to: number },
): ApiError {
  const message = `There are no bars of ${symbol} at resolution ${resolution} that begin between ${from} and ${to}. Nothing was charged.`
  return new ApiError('NOT_FOUND', {
    error: 'No bars in this window',
    message,
    fields: { hint: 'Widen the window, or choose a shorter resolution: a bar counts when its start is within.' },
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

// ── replies ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const marketFields = ({ category, kind }: MarketRow): Fields => ({
  category,
  ...(category === 'stocks' && { market: kind }),
})

function spotFields({ source }: MarketVendor, { row, feed, latest }: Latest): Fields {
  return {
    symbol: feed.symbol,
    ...marketFields(row),
    price: exact(latest.price),
    confidence: exact(latest.confidence),
    publishTime: latest.publishTime,
    timestamp: new Date(latest.publishTime * 1000).toISOString(),
    assetType: feed.assetType,
    feedId: latest.feedId ?? feed.feedId,
    source,
  }
}

const barFields = ({ t, o, h, l, c, v }: Bar): Fields => ({
  t,
  o: exact(o),
  h: exact(h),
  l: exact(l),
  c: exact(c),
  v: exact(v),
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

/** Prices must not be cached by intermediaries. */
export const marketReply = (body: string): Reply => ({ status: 200, headers: REPLY_HEADERS, body })
const REPLY_HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

const price = Type.Number({ description: 'Exact, as the feed publishes it.' })
const common = {
  symbol: Type.String(),
  category: Type.String(),
  market: Type.Optional(Type.String({ description: 'Of equities.' })),
  source: Type.String({ description: '`pyth`, or `sample` for made-up prices.' }),
  free: Type.Optional(Type.Literal(true)),
}

export const spotOutput = Type.Object({
  ...common,
  price,
  confidence: Type.Number({ description: 'The interval of the feed around the price.' }),
  publishTime: Type.Integer({ description: 'Unix seconds; old where the market is closed.' }),
  timestamp: Type.String({ description: 'The same as ISO 8601.' }),
  assetType: Type.String(),
  feedId: Type.String({ description: 'The feed of the price: of its session, where one was asked for.' }),
})

export const historyOutput = Type.Object({
  ...common,
  resolution: Type.String(),
  from: Type.Integer({ description: 'As asked.' }),
  to: Type.Integer(),
  bars: Type.Array(
    Type.Object({
      t: Type.Integer({ description: 'Start of the bar, unix seconds.' }),
      o: price,
      h: price,
      l: price,
      c: price,
      v: Type.Number(),
    }),
  ),
  truncated: Type.Optional(
    Type.Literal(true, {
      description: `The window is longer than ${MAX_BARS} bars: only its newest part is here. \`next\` has the part before it.`,
    }),
  ),
  next: Type.Optional(
    Type.String({ description: 'Path and query of the page of bars before these. Each page is a call of its own.' }),
  ),
})

export const listOutput = Type.Object({
  category: Type.String(),
  market: Type.Optional(Type.String()),
  label: Type.String(),
  count: Type.Integer({ description: 'All matches, listed or not.' }),
  example: Type.String(),
  endpoints: Type.Object({ list: Type.String(), price: Type.String(), history: Type.String() }),
  symbols: Type.Array(Type.Object({ symbol: Type.String(), description: Type.String() })),
})
