/** The latest price of a symbol. */
import type { MarketRow } from './catalog.ts'
import { exact, exactJson } from '../../lib/decimal_json.ts'
import { ApiError } from '../../http/errors.ts'
import type { CachedData, Feed, MarketVendor, Session, Spot } from '../../ports/vendors/market.ts'
import { type Fields, find, indexOf, marketFields, type SpotRequest } from './feeds.ts'

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
