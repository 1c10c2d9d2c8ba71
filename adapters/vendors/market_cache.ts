/** Stands between a crowd and a price feed: whoever asks the same thing at the same time, or soon after, shares one answer. */
import { type Bar, type Clock, Fault, type Feed, type Log, type MarketVendor, type Shelf, type Spot } from '../../core/mod.ts'
import { orAbort } from './market_http.ts'

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
  /** How many histories may be asked for at a time, 8, and how many more may wait, 100. */
  readonly atOnce?: number | undefined
  readonly mostWaiting?: number | undefined
}

/** After a list could not be renewed. */
const LIST_RETRY_MS = 30_000
const MINUTE = 60

/**
 * A list past its hour is served once more, and renewed behind it. A price or a history past its time is asked for again, and never served stale.
 * A failure is not kept. What is shared is not ended by one who gives up waiting: only their own wait is.
 */
export function cachedMarket(vendor: MarketVendor, options: MarketCacheOptions): MarketVendor {
  const { clock, log, listMs = 3_600_000, spotMs = 5_000, barsMs = 15_000, mostSpots = 5_000, mostBars = 200_000, atOnce = 8, mostWaiting = 100 } = options
  const lists = new Map<Shelf, { readonly feeds: readonly Feed[]; due: number }>()
  const spots = shelf<Spot | undefined>({ clock, ttlMs: spotMs, room: mostSpots, weigh: () => 1 })
  const histories = shelf<readonly Bar[]>({ clock, ttlMs: barsMs, room: mostBars, weigh: (bars) => 1 + bars.length })
  const turns = turnstile(atOnce, mostWaiting)
  const shared = singleFlight()
  /** What is shared ends by the vendor's own deadline. */
  const unending = () => ({ signal: new AbortController().signal })

  return {
    source: vendor.source,

    async feeds(shelf, { signal }) {
      signal.throwIfAborted()
      const known = lists.get(shelf)
      if (!known) return await orAbort(list(shelf), signal)
      if (clock.now() >= known.due) {
        known.due = clock.now() + LIST_RETRY_MS
        list(shelf).catch((error: Error) => log.warn('a list of symbols could not be renewed; the old one is served', { shelf, error: error.message }))
      }
      return known.feeds
    },

    async latest(feed, { session, signal }) {
      signal.throwIfAborted()
      const key = `${session ?? ''} ${feed.key}`
      const kept = spots.get(key)
      if (kept) return kept.value
      const asked = shared(`latest ${key}`, async () => spots.keep(key, await vendor.latest(feed, { ...(session && { session }), ...unending() })))
      return await orAbort(asked, signal)
    },

    async bars(feed, { resolution, from, to, session, signal }) {
      signal.throwIfAborted()
      // Bars begin at whole minutes, so windows that differ in their seconds hold the same ones.
      const window = { from: Math.ceil(from / MINUTE) * MINUTE, to: Math.floor(to / MINUTE) * MINUTE + MINUTE - 1 }
      if (window.from > window.to) return []
      const key = `${session ?? ''} ${resolution} ${window.from} ${window.to} ${feed.key}`
      const kept = histories.get(key)
      if (kept) return kept.value
      const ask = () => vendor.bars(feed, { resolution, ...window, ...(session && { session }), ...unending() })
      return await orAbort(shared(`bars ${key}`, async () => histories.keep(key, await turns(ask))), signal)
    },
  }

  function list(shelf: Shelf): Promise<readonly Feed[]> {
    return shared(`list ${shelf}`, async () => {
      const feeds = await vendor.feeds(shelf, unending())
      lists.set(shelf, { feeds, due: clock.now() + listMs })
      return feeds
    })
  }
}

/** One flight for each key at a time; who comes while it is under way rides along. */
function singleFlight(): <T>(key: string, begin: () => Promise<T>) => Promise<T> {
  const flights = new Map<string, Promise<unknown>>()
  return <T>(key: string, begin: () => Promise<T>) => {
    const known = flights.get(key) as Promise<T> | undefined
    if (known) return known
    const flight = begin().finally(() => flights.delete(key))
    flights.set(key, flight)
    return flight
  }
}

/** Keeps values for a time, and together at most `room` in weight: the oldest go first. */
function shelf<T>({ clock, ttlMs, room, weigh }: { clock: Pick<Clock, 'now'>; ttlMs: number; room: number; weigh: (value: T) => number }) {
  const kept = new Map<string, { readonly value: T; readonly until: number; readonly weight: number }>()
  let weight = 0

  function drop(key: string): void {
    weight -= kept.get(key)?.weight ?? 0
    kept.delete(key)
  }

  return {
    get(key: string): { readonly value: T } | undefined {
      const found = kept.get(key)
      return found && clock.now() < found.until ? found : undefined
    },
    keep(key: string, value: T): T {
      drop(key)
      const entry = { value, until: clock.now() + ttlMs, weight: weigh(value) }
      kept.set(key, entry)
      weight += entry.weight
      for (const [oldest, { until }] of kept) {
        if (weight <= room && until > clock.now()) break
        drop(oldest)
      }
      return value
    },
  }
}

/** Lets `atOnce` through at a time, in the order in which they came; past `most` waiting, the next is told to come again. Throws BUSY. */
function turnstile(atOnce: number, most: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let inside = 0
  return async (work) => {
    if (inside >= atOnce && waiting.length >= most) {
      throw new Fault('BUSY', { message: 'Too many histories are being fetched. Nothing was charged; send the same request again.', headers: { 'retry-after': '2' } })
    }
    if (inside >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve))
    else inside++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else inside--
    }
  }
}
