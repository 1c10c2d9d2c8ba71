/** Caches a price feed: callers with the same question at the same time, or soon after, share one answer. */
import { concurrencyLimiter } from '../../../core/lib/mod.ts'
import {
  ApiError,
  type Bar,
  type CachedData,
  type Clock,
  type Feed,
  type Log,
  type MarketKind,
  type MarketVendor,
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
  readonly maxSpots?: number | undefined
  readonly maxBars?: number | undefined
  /** Concurrent and waiting requests for histories, free and paid counted apart. Defaults: 8 and 100. */
  readonly atOnce?: number | undefined
  readonly maxWaiting?: number | undefined
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
 *
 * @example
 * const market = cachedMarket(pythMarket({ key, clock, log }), { clock, log })
 */
export function cachedMarket(vendor: MarketVendor, options: MarketCacheOptions): MarketVendor & CachedData {
  const {
    clock,
    log,
    listMs = 3_600_000,
    spotMs = 5_000,
    barsMs = 15_000,
    maxSpots = 5_000,
    maxBars = 200_000,
    atOnce = 8,
    maxWaiting = 100,
  } = options
  const lists = new Map<MarketKind, { readonly feeds: readonly Feed[]; due: number }>()
  const spots = ttlCache<Spot | undefined>({ clock, ttlMs: spotMs, maxWeight: maxSpots, weigh: () => 1 })
  const histories = ttlCache<readonly Bar[]>({
    clock,
    ttlMs: barsMs,
    maxWeight: maxBars,
    weigh: (bars) => 1 + bars.length,
  })
  const queue = { most: maxWaiting, full: busyError }
  const limiters = { paid: concurrencyLimiter(atOnce, queue), free: concurrencyLimiter(atOnce, queue) }
  const failed = ttlCache<unknown>({ clock, ttlMs: FAILED_MS, maxWeight: MAX_FAILED, weigh: () => 1 })
  const shared = singleFlight(failed)
  /** Shared requests end by the vendor's own deadline. */
  const neverAborted = () => ({ signal: new AbortController().signal })

  return {
    source: vendor.source,

    atHand: {
      feeds(kind) {
        const known = lists.get(kind)
        return known && clock.now() < known.due ? known.feeds : undefined
      },
      latest: (feed) => spots.get(` ${feed.key}`)?.value,
    },

    async feeds(kind, { signal }) {
      signal.throwIfAborted()
      const known = lists.get(kind)
      if (!known) return await loadList(kind, signal)
      if (clock.now() >= known.due) {
        known.due = clock.now() + LIST_RETRY_MS
        loadList(kind, neverAborted().signal).catch((error: Error) =>
          log.warn('a list of symbols could not be renewed; serving the old one', { kind, error: error.message }),
        )
      }
      return known.feeds
    },

    async latest(feed, { session, signal }) {
      signal.throwIfAborted()
      const key = `${session ?? ''} ${feed.key}`
      const cached = spots.get(key)
      if (cached) return cached.value
      return await shared(`latest ${key}`, signal, async () =>
        spots.set(key, await vendor.latest(feed, { ...(session && { session }), ...neverAborted() })),
      )
    },

    async bars(feed, { resolution, from, to, session, lane = 'free', signal }) {
      signal.throwIfAborted()
      // Bars start at whole minutes, so windows that differ only in seconds contain the same bars.
      const window = { from: Math.ceil(from / MINUTE) * MINUTE, to: Math.floor(to / MINUTE) * MINUTE + MINUTE - 1 }
      if (window.from > window.to) return []
      const key = `${session ?? ''} ${resolution} ${window.from} ${window.to} ${feed.key}`
      const cached = histories.get(key)
      if (cached) return cached.value
      return await shared(`bars ${lane} ${key}`, signal, async (upstreamSignal) => {
        const ask = () =>
          vendor.bars(feed, { resolution, ...window, ...(session && { session }), lane, signal: upstreamSignal })
        return histories.set(key, await limiters[lane](ask, upstreamSignal))
      })
    },
  }

  /**
   * Rejects a list that lost more than half its symbols until the operator has looked: a missing symbol is a 404 to a
   * payer.
   */
  function loadList(kind: MarketKind, signal: AbortSignal): Promise<readonly Feed[]> {
    return shared(`list ${kind}`, signal, async () => {
      const feeds = await vendor.feeds(kind, neverAborted())
      const known = lists.get(kind)
      const isCut = known !== undefined && feeds.length * 2 < known.feeds.length
      if (isCut)
        log.alert('a list of symbols became much shorter; serving the old one until this process restarts', {
          kind,
          before: known.feeds.length,
          now: feeds.length,
        })
      const current = isCut ? known.feeds : feeds
      lists.set(kind, { feeds: current, due: clock.now() + listMs })
      return current
    })
  }
}

const busyError = (): ApiError =>
  new ApiError('BUSY', {
    message: 'Too many histories are being fetched. Nothing was charged; send the same request again.',
    headers: { 'retry-after': '2' },
  })
