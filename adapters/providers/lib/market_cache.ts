/** Stands between a crowd and a price feed: whoever asks the same thing at the same time, or soon after, shares one answer. */
import { concurrencyLimiter } from '../../../core/lib/limiter.ts'
import {
  type CachedData,
  type Bar,
  type Clock,
  ApiError,
  type Feed,
  type Log,
  type MarketVendor,
  type MarketKind,
  type Spot,
} from '../../../core/mod.ts'
import { ttlCache, singleFlight } from '../../http/single_flight.ts'

export type MarketCacheOptions = {
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
  /** How old an answer may be, in milliseconds: an hour for lists, 5 s for prices, 15 s for bars. */
  readonly listMs?: number | undefined
  readonly spotMs?: number | undefined
  readonly barsMs?: number | undefined
  /** How much is kept: 5,000 prices, and histories of 200,000 bars together. */
  readonly mostSpots?: number | undefined
  readonly mostBars?: number | undefined
  /** How many histories may be asked for at a time, 8, and how many more may wait, 100: of those that cost nothing, and as many again of those that are paid for. */
  readonly atOnce?: number | undefined
  readonly mostWaiting?: number | undefined
}

/** After a list could not be renewed. */
const LIST_RETRY_MS = 30_000
/** How long a question that failed is not asked again: long enough to spare a feed that is away, too short for anybody to notice. */
const FAILED_MS = 1_000
const MAX_FAILED = 1_000
const MINUTE = 60

/**
 * A list past its hour is served once more, and renewed behind it. A price or a history past its time is asked for again, and never served stale.
 * A failure is kept for a second. What is shared is not ended by one who gives up waiting, only their own wait is; a history that nobody waits for any
 * more is, and leaves its place to the next.
 */
export function cachedMarket(vendor: MarketVendor, options: MarketCacheOptions): MarketVendor & CachedData {
  const {
    clock,
    log,
    listMs = 3_600_000,
    spotMs = 5_000,
    barsMs = 15_000,
    mostSpots = 5_000,
    mostBars = 200_000,
    atOnce = 8,
    mostWaiting = 100,
  } = options
  const lists = new Map<MarketKind, { readonly feeds: readonly Feed[]; due: number }>()
  const spots = ttlCache<Spot | undefined>({ clock, ttlMs: spotMs, room: mostSpots, weigh: () => 1 })
  const histories = ttlCache<readonly Bar[]>({ clock, ttlMs: barsMs, room: mostBars, weigh: (bars) => 1 + bars.length })
  const queue = { most: mostWaiting, full: crowded }
  const turns = { paid: concurrencyLimiter(atOnce, queue), free: concurrencyLimiter(atOnce, queue) }
  const failed = ttlCache<unknown>({ clock, ttlMs: FAILED_MS, room: MAX_FAILED, weigh: () => 1 })
  const shared = singleFlight(failed)
  /** What is shared ends by the vendor's own deadline. */
  const unending = () => ({ signal: new AbortController().signal })

  return {
    source: vendor.source,

    atHand: {
      feeds(shelf) {
        const known = lists.get(shelf)
        return known && clock.now() < known.due ? known.feeds : undefined
      },
      latest: (feed) => spots.get(` ${feed.key}`)?.value,
    },

    async feeds(shelf, { signal }) {
      signal.throwIfAborted()
      const known = lists.get(shelf)
      if (!known) return await list(shelf, signal)
      if (clock.now() >= known.due) {
        known.due = clock.now() + LIST_RETRY_MS
        list(shelf, unending().signal).catch((error: Error) =>
          log.warn('a list of symbols could not be renewed; the old one is served', { shelf, error: error.message }),
        )
      }
      return known.feeds
    },

    async latest(feed, { session, signal }) {
      signal.throwIfAborted()
      const key = `${session ?? ''} ${feed.key}`
      const kept = spots.get(key)
      if (kept) return kept.value
      return await shared(`latest ${key}`, signal, async () =>
        spots.keep(key, await vendor.latest(feed, { ...(session && { session }), ...unending() })),
      )
    },

    async bars(feed, { resolution, from, to, session, lane = 'free', signal }) {
      signal.throwIfAborted()
      // Bars begin at whole minutes, so windows that differ in their seconds hold the same ones.
      const window = { from: Math.ceil(from / MINUTE) * MINUTE, to: Math.floor(to / MINUTE) * MINUTE + MINUTE - 1 }
      if (window.from > window.to) return []
      const key = `${session ?? ''} ${resolution} ${window.from} ${window.to} ${feed.key}`
      const kept = histories.get(key)
      if (kept) return kept.value
      return await shared(`bars ${lane} ${key}`, signal, async (wanted) => {
        const ask = () =>
          vendor.bars(feed, { resolution, ...window, ...(session && { session }), lane, signal: wanted })
        return histories.keep(key, await turns[lane](ask, wanted))
      })
    },
  }

  /** A list of less than half of what it was is a feed in trouble, until the operator has looked: a symbol that has gone is a 404 to those who pay. */
  function list(shelf: MarketKind, signal: AbortSignal): Promise<readonly Feed[]> {
    return shared(`list ${shelf}`, signal, async () => {
      const feeds = await vendor.feeds(shelf, unending())
      const known = lists.get(shelf)
      const isCut = known !== undefined && feeds.length * 2 < known.feeds.length
      if (isCut)
        log.alert('a list of symbols came back much shorter; the old one is served until this process starts anew', {
          shelf,
          before: known.feeds.length,
          now: feeds.length,
        })
      const kept = isCut ? known.feeds : feeds
      lists.set(shelf, { feeds: kept, due: clock.now() + listMs })
      return kept
    })
  }
}

const crowded = (): ApiError =>
  new ApiError('BUSY', {
    message: 'Too many histories are being fetched. Nothing was charged; send the same request again.',
    headers: { 'retry-after': '2' },
  })
