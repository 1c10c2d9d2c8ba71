/** Caches a price feed: callers with the same question at the same time, or soon after, share one answer. */
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
  /** Cache times in milliseconds. Defaults: one hour for lists, 5 s for prices, 15 s for bars. */
  readonly listMs?: number | undefined
  readonly spotMs?: number | undefined
  readonly barsMs?: number | undefined
  /** Cache sizes. Defaults: 5,000 prices, and histories with 200,000 bars in total. */
  readonly mostSpots?: number | undefined
  readonly mostBars?: number | undefined
  /** Concurrent and waiting requests for histories, free and paid counted apart. Defaults: 8 and 100. */
  readonly atOnce?: number | undefined
  readonly mostWaiting?: number | undefined
}

/** Pause after a failed renewal of a list. */
const LIST_RETRY_MS = 30_000
/** How long a failed request is not repeated: long enough to spare a feed that is down, too short to notice. */
const FAILED_MS = 1_000
const MAX_FAILED = 1_000
const MINUTE = 60

/**
 * Caches a market vendor. An expired list is served once more while it is renewed; an expired price or history is
 * fetched again and never served stale. A failure is cached for a second. A caller who leaves does not end a shared
 * request; a request for a history ends when its last caller leaves, and frees its place.
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
  /** Shared requests end by the vendor's own deadline. */
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
          log.warn('a list of symbols could not be renewed; serving the old one', { shelf, error: error.message }),
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
      // Bars start at whole minutes, so windows that differ only in seconds contain the same bars.
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

  /**
   * Rejects a list that lost more than half its symbols until the operator has looked: a missing symbol is a 404 to a
   * payer.
   */
  function list(shelf: MarketKind, signal: AbortSignal): Promise<readonly Feed[]> {
    return shared(`list ${shelf}`, signal, async () => {
      const feeds = await vendor.feeds(shelf, unending())
      const known = lists.get(shelf)
      const isCut = known !== undefined && feeds.length * 2 < known.feeds.length
      if (isCut)
        log.alert('a list of symbols became much shorter; serving the old one until this process restarts', {
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
