/** The vendor interface for market prices. */

/** The markets: three asset classes, and stock markets by country. */
export const STOCK_MARKETS = ['us', 'hk', 'jp', 'kr', 'gb', 'de', 'fr', 'nl', 'ie', 'lu', 'cn', 'ca'] as const

export type StockMarket = (typeof STOCK_MARKETS)[number]

export type MarketKind = 'crypto' | 'fx' | 'commodity' | StockMarket

/** One priced instrument. `symbol` is ours (contract 10.6); `key` is its vendor's id. */
export type Feed = {
  readonly symbol: string
  readonly description: string
  readonly assetType: string
  readonly feedId: string
  readonly key: string
}

/**
 * Decimals as text; `publishTime` in unix seconds; `feedId` when the price comes from another feed, such as that of a
 * session.
 */
export type Spot = {
  readonly price: string
  readonly confidence: string
  readonly publishTime: number
  readonly feedId?: string
}

export type Bar = {
  readonly t: number
  readonly o: string
  readonly h: string
  readonly l: string
  readonly c: string
  readonly v: string
}

export const RESOLUTIONS = ['1', '5', '15', '60', '240', 'D', 'W', 'M'] as const

export type Resolution = (typeof RESOLUTIONS)[number]

const MINUTE = 60
const DAY = 24 * 60 * MINUTE

/** Length of a bar in seconds; the longest month for M. */
export const BAR_SECONDS: Readonly<Record<Resolution, number>> = {
  1: MINUTE,
  5: 5 * MINUTE,
  15: 15 * MINUTE,
  60: 60 * MINUTE,
  240: 240 * MINUTE,
  D: DAY,
  W: 7 * DAY,
  M: 31 * DAY,
}

export type Session = 'pre' | 'post' | 'on'

export type Lane = 'paid' | 'free'

/** Prices and their history. Undefined when there is no data; throws an `ApiError` when the upstream is unavailable. */
export interface MarketVendor {
  /** Its name in replies. */
  readonly source: string
  feeds(kind: MarketKind, at: { signal: AbortSignal }): Promise<readonly Feed[]>
  latest(feed: Feed, at: { session?: Session; signal: AbortSignal }): Promise<Spot | undefined>
  /**
   * `from` and `to` in unix seconds, both inclusive. Paid requests are marked, so that they never wait behind free
   * ones.
   */
  bars(
    feed: Feed,
    at: { resolution: Resolution; from: number; to: number; session?: Session; lane?: Lane; signal: AbortSignal },
  ): Promise<readonly Bar[]>
}

/** Synchronous access to fresh data in memory: undefined when the vendor has to be asked. Never I/O. */
export type CachedData = {
  readonly atHand: { feeds(kind: MarketKind): readonly Feed[] | undefined; latest(feed: Feed): Spot | undefined }
}
