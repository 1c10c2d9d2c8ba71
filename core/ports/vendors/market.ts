/** Who knows market prices. */

/** A shelf of feeds: three classes, and a stock market by its country. */
export const STOCK_MARKETS = ['us', 'hk', 'jp', 'kr', 'gb', 'de', 'fr', 'nl', 'ie', 'lu', 'cn', 'ca'] as const

export type StockMarket = (typeof STOCK_MARKETS)[number]

export type MarketKind = 'crypto' | 'fx' | 'commodity' | StockMarket

/** One thing that has a price. `symbol` is ours (contract 10.6); `key` is what its vendor calls it. */
export type Feed = {
  readonly symbol: string
  readonly description: string
  readonly assetType: string
  readonly feedId: string
  readonly key: string
}

/** Decimals as text; `publishTime` in unix seconds; `feedId` where it is of another feed, as that of a session. */
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

export type Session = 'pre' | 'post' | 'on'

export type Lane = 'paid' | 'free'

/**
 * Prices and their history. Undefined where there is none for what was asked; throws an `ApiError` when the upstream is
 * away.
 */
export interface MarketVendor {
  /** Its name in replies. */
  readonly source: string
  feeds(kind: MarketKind, at: { signal: AbortSignal }): Promise<readonly Feed[]>
  latest(feed: Feed, at: { session?: Session; signal: AbortSignal }): Promise<Spot | undefined>
  /**
   * `from` and `to` in unix seconds, both within. Who pays says so: their questions never wait behind those that cost
   * nothing.
   */
  bars(
    feed: Feed,
    at: { resolution: Resolution; from: number; to: number; session?: Session; lane?: Lane; signal: AbortSignal },
  ): Promise<readonly Bar[]>
}

/** A market that says at once what it has in memory and is still good: undefined where it must be asked. Never I/O. */
export type CachedData = {
  readonly atHand: { feeds(kind: MarketKind): readonly Feed[] | undefined; latest(feed: Feed): Spot | undefined }
}
