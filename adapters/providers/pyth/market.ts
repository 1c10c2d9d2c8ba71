/**
 * Pyth: prices from Hermes, bars from its TradingView datafeed. Sources: the OpenAPI document of Hermes 0.5.13
 * (pyth-hermes-client 0.6.0 openapi.json: `/v2/price_feeds`, `/v2/updates/price/latest`, RpcPrice); docs.pyth.network,
 * "API reference" and "TradingView charting" (Bearer keys, `/history` under `/v1/{channel}`); TradingView's UDF for the
 * shape of bars; decision 75 for errors.
 */
import { scaled } from '../../../core/lib/mod.ts'
import type { Bar, Clock, Feed, Log, MarketKind, MarketVendor, Session, Spot } from '../../../core/mod.ts'
import type { Fetch } from '../../http/fetch.ts'
import { marketHttp } from '../lib/market_http.ts'
import { orAbort } from '../../http/or_abort.ts'
import { record } from '../../http/error_replies.ts'
import { under } from '../lib/image_provider.ts'

export type PythConfig = {
  /** Sent as a Bearer token. Prices and bars need one; lists do not. */
  readonly key?: string | undefined
  /** Root of Hermes, or of an API like it. */
  readonly hermesUrl?: string | undefined
  /** Root of the datafeed, its channel included. */
  readonly historyUrl?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

const PYTH_HERMES_URL = 'https://hermes.pyth.network'
const PYTH_HISTORY_URL = 'https://pyth.dourolabs.app/v1/real_time'

/** An id has 64 hex digits: this many make a URL of 6 KB. */
const MAX_PER_CALL = 80

type Listed = { readonly id: string; readonly symbol: string; readonly description: string; readonly assetType: string }

/**
 * Stateless except for the sessions of equities, taken from the last list. Put `cachedMarket` in front: Hermes blocks
 * frequent callers.
 *
 * @example
 * const market = cachedMarket(pythMarket({ key, clock, log }), { clock, log })
 */
export function pythMarket({
  key,
  hermesUrl = PYTH_HERMES_URL,
  historyUrl = PYTH_HISTORY_URL,
  ...config
}: PythConfig): MarketVendor {
  const http = marketHttp({ ...config, name: 'pyth', key })
  const ask = batched(MAX_PER_CALL, latestOf)
  let sessions: ReadonlyMap<string, string> | undefined

  return {
    source: 'pyth',
    feeds,

    async latest(feed, { session, signal }) {
      signal.throwIfAborted()
      const id = session ? (await sessionFeeds(signal)).get(sessionKey(feed, session)) : feed.feedId
      const spot = id === undefined ? undefined : await orAbort(ask(id), signal)
      return spot && id !== undefined && session ? { ...spot, feedId: id.replace(/^0x/, '') } : spot
    },

    async bars(feed, { resolution, from, to, session, signal }) {
      signal.throwIfAborted()
      if (session && !(await sessionFeeds(signal)).has(sessionKey(feed, session))) return []
      const symbol = session ? sessionKey(feed, session) : feed.key
      const query = new URLSearchParams({ symbol, resolution, from: String(from), to: String(to) })
      const bars = await http.get(`${under(historyUrl, '/history')}?${query}`, signal, { read: barsOf })
      return bars.filter(({ t }) => t >= from && t <= to)
    },
  }

  async function feeds(kind: MarketKind, { signal }: { signal: AbortSignal }): Promise<readonly Feed[]> {
    const { assetType } = marketRule(kind)
    const listed = await http.get(
      `${under(hermesUrl, '/v2/price_feeds')}${assetType ? `?asset_type=${assetType}` : ''}`,
      signal,
      { read: listedOf },
    )
    const found = new Map(listed.filter(({ symbol }) => SESSION.test(symbol)).map(({ symbol, id }) => [symbol, id]))
    // Do not trust a list that has lost more than half of its entries.
    if (assetType === 'equity' && found.size * 2 >= (sessions?.size ?? 0)) sessions = found
    return feedsOf(kind, listed)
  }

  async function sessionFeeds(signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    if (!sessions) await feeds('us', { signal })
    return sessions ?? new Map()
  }

  /** Shared by all callers of the same turn, so it has its own deadline and ignores their signals. */
  async function latestOf(ids: readonly string[]): Promise<ReadonlyMap<string, Spot>> {
    const query = `${ids.map((id) => `ids[]=${encodeURIComponent(id)}`).join('&')}&parsed=true&encoding=hex&ignore_invalid_price_ids=true`
    const missing = (text: string) => (/price ids? not found/i.test(text) ? new Map<string, Spot>() : undefined)
    return await http.get(`${under(hermesUrl, '/v2/updates/price/latest')}?${query}`, new AbortController().signal, {
      read: spotsOf,
      missing,
    })
  }
}

// ── symbols ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const SESSION = /\.(?:PRE|POST|ON)$/
const sessionKey = ({ key }: Feed, session: Session): string => `${key}.${session.toUpperCase()}`

type MarketRule = {
  /** Prefixes to request from Hermes; all of them when a market covers two of its types. */
  readonly assetType?: string
  readonly prefixes: readonly string[]
}

function marketRule(kind: MarketKind): MarketRule {
  if (kind === 'crypto') return { assetType: 'crypto', prefixes: ['Crypto.'] }
  if (kind === 'fx') return { assetType: 'fx', prefixes: ['FX.'] }
  if (kind === 'commodity') return { prefixes: ['Metal.', 'Commodities.'] }
  return { assetType: 'equity', prefixes: [`Equity.${kind.toUpperCase()}.`] }
}

/**
 * Skips entries that are not feeds, and deprecated ones, which no longer publish. Undefined when nothing is left: Pyth
 * has feeds of every type, and an empty list would make every symbol unknown.
 */
function listedOf(text: string): readonly Listed[] | undefined {
  const body: unknown = JSON.parse(text)
  const entries = Array.isArray(body) ? body.map(record) : []
  const listed = entries.flatMap(({ id, attributes }) => {
    const { symbol, description, asset_type } = record(attributes)
    if (typeof id !== 'string' || typeof symbol !== 'string' || /deprecated/i.test(String(description))) return []
    return [
      {
        id: id.replace(/^0x/, ''),
        symbol,
        description: typeof description === 'string' ? description : symbol,
        assetType: typeof asset_type === 'string' ? asset_type : '',
      },
    ]
  })
  return listed.length > 0 ? listed : undefined
}

/** One feed per symbol. When two have the same symbol, the later one is distinguished by its quote currency. */
function feedsOf(kind: MarketKind, listed: readonly Listed[]): readonly Feed[] {
  const { prefixes } = marketRule(kind)
  const found = new Map<string, Feed>()
  for (const { id, symbol: key, description, assetType } of listed) {
    const prefix = prefixes.find((each) => key.startsWith(each))
    if (prefix === undefined || /\.(?:PRE|POST|ON|EXT|RR)$/.test(key)) continue
    const name = key.slice(prefix.length)
    const symbol = [symbolOf(prefix, name), pairOf(name)].find((each) => !found.has(each))
    if (symbol)
      found.set(symbol, { symbol, description, assetType: assetType || prefix.replace(/\..*/, ''), feedId: id, key })
  }
  return [...found.values()].sort((a, b) => (a.symbol < b.symbol ? -1 : 1))
}

const pairOf = (name: string): string => name.replace('/', '-')

/** `BTC/USD` becomes BTC-USD; commodities in dollars and equities use their ticker; those of Hong Kong end in -HK. */
function symbolOf(prefix: string, name: string): string {
  const [base = name, quote] = name.split('/')
  if (prefix === 'Commodities.') return quote === 'USD' ? base : pairOf(name)
  if (!prefix.startsWith('Equity.')) return pairOf(name)
  return prefix === 'Equity.HK.' && !base.endsWith('-HK') ? `${base}-HK` : base
}

// ── prices ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A feed that has never published has time 0, and no price. */
function spotsOf(text: string): ReadonlyMap<string, Spot> | undefined {
  const { parsed } = record(JSON.parse(text))
  if (!Array.isArray(parsed)) return undefined
  return new Map(
    parsed.map(record).flatMap(({ id, price }): [string, Spot][] => {
      const { price: units, conf, expo, publish_time } = record(price)
      const isWhole =
        typeof id === 'string' &&
        isInteger(units) &&
        isInteger(conf) &&
        Number.isInteger(expo) &&
        Math.abs(Number(expo)) <= 30
      if (!isWhole || !Number.isSafeInteger(publish_time) || Number(publish_time) <= 0) return []
      const decimal = (of: unknown) => scaled(BigInt(String(of)), Number(expo)).exact
      return [
        [
          id.replace(/^0x/, ''),
          { price: decimal(units), confidence: decimal(conf), publishTime: Number(publish_time) },
        ],
      ]
    }),
  )
}

/** As text, because a number may have been rounded. */
const isInteger = (value: unknown): boolean =>
  typeof value === 'string' ? /^-?\d{1,30}$/.test(value) : Number.isSafeInteger(value)

/**
 * Converts UDF columns to rows, ordered by time; incomplete bars are skipped. Undefined for a status other than `ok`
 * and `no_data`.
 */
function barsOf(text: string): readonly Bar[] | undefined {
  const { s, t, o, h, l, c, v } = record(JSON.parse(numbersAsText(text)))
  if (s === 'no_data') return []
  if (s !== 'ok' || !Array.isArray(t)) return undefined
  const column = (values: unknown, index: number) => decimalOf(Array.isArray(values) ? values[index] : undefined)
  const bars = new Map<number, Bar>()
  for (const [index, given] of t.entries()) {
    const time = decimalOf(given) ?? ''
    const at = /^\d{1,12}$/.test(time) ? Number(time) : Number.NaN
    const [open, high, low, close] = [o, h, l, c].map((values) => column(values, index))
    if (Number.isNaN(at) || !open || !high || !low || !close) continue
    bars.set(at, { t: at, o: open, h: high, l: low, c: close, v: column(v, index) ?? '0' })
  }
  return [...bars.values()].sort((a, b) => a.t - b.t)
}

/** The same JSON with its numbers as text, so that none becomes a binary float (contract 10.10). */
const numbersAsText = (text: string): string =>
  text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => (token.startsWith('"') ? token : `"${token}"`))

/** Converts a JSON number, as written, to a plain decimal without an exponent. */
function decimalOf(value: unknown): string | undefined {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d{1,60})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,3}))?$/.exec(String(value)) ?? []
  if (whole === '' || Math.abs(Number(power)) > 30) return undefined
  return scaled(BigInt(`${sign}${whole}${fraction}`), Number(power) - fraction.length).exact
}

// ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Combines the requests of one turn, each id once, at most `most` per call. */
function batched<T>(
  most: number,
  ask: (ids: readonly string[]) => Promise<ReadonlyMap<string, T>>,
): (id: string) => Promise<T | undefined> {
  let open: { readonly ids: Set<string>; readonly answer: Promise<ReadonlyMap<string, T>> } | undefined
  return async (id) => {
    if (open && open.ids.size >= most && !open.ids.has(id)) open = undefined
    open ??= begin()
    open.ids.add(id)
    return (await open.answer).get(id)
  }

  function begin() {
    const ids = new Set<string>()
    const batch = {
      ids,
      answer: Promise.resolve().then(() => {
        if (open === batch) open = undefined
        return ask([...ids])
      }),
    }
    return batch
  }
}
