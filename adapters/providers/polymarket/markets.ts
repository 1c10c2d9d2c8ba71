/**
 * Prediction markets at the venues themselves, without a key. Sources: decision 75 (hosts of Polymarket and Kalshi,
 * from
 * @polymarket/clob-client@5.8.1 and kalshi-typescript@3.30.0); contract 15.1.
 */
import { type Clock, type DataVendor, ApiError, type Log, type PassthroughRequest } from '../../../core/mod.ts'
import type { Fetch } from '../../http/fetch.ts'
import { type Passthrough, passthrough, type PassthroughConfig } from '../lib/passthrough.ts'

type Ports = { readonly clock: Clock; readonly log: Log; readonly fetch?: Fetch | undefined }

const LIMITS = { timeoutMs: 20_000, maxBytes: 8 * 1024 * 1024 } as const

/** Base URLs of the venues' public data. */
export const VENUE_ROOTS = {
  gamma: 'https://gamma-api.polymarket.com',
  data: 'https://data-api.polymarket.com',
  clob: 'https://clob.polymarket.com',
  kalshi: 'https://external-api.kalshi.com/trade-api/v2',
} as const
type Root = keyof typeof VENUE_ROOTS

/** The segment after the venue selects the server; the rest of the path is forwarded. Read-only, and needs no key. */
const SERVED: Readonly<Record<string, Readonly<Record<string, Root>>>> = {
  polymarket: {
    ...served('gamma', ['markets', 'events', 'tags', 'series', 'public-search']),
    ...served('data', ['trades', 'positions', 'activity', 'holders', 'value', 'oi']),
    ...served('clob', ['book', 'price', 'midpoint', 'spread', 'prices-history']),
  },
  kalshi: served('kalshi', ['markets', 'events', 'series', 'trades', 'exchange', 'milestones']),
}

function served(root: Root, words: readonly string[]): Readonly<Record<string, Root>> {
  return Object.fromEntries(words.map((word) => [word, root]))
}

/** Kalshi serves trades below its markets. */
const MOVED: Readonly<Record<string, string>> = { 'kalshi/trades': 'markets/trades' }

/** Polymarket and Kalshi, without a key. Data that only an aggregator has is 404, and not charged. */
export function predictionVenues({
  roots = VENUE_ROOTS,
  ...ports
}: Ports & { readonly roots?: Readonly<Record<Root, string>> }): DataVendor {
  const named = (source: string): PassthroughConfig => ({ name: source.toLowerCase(), source, ...LIMITS, ...ports })
  const venues: Readonly<Record<string, Passthrough>> = {
    polymarket: passthrough(named('Polymarket')),
    kalshi: passthrough(named('Kalshi')),
  }
  const available = Object.entries(SERVED).flatMap(([venue, words]) =>
    Object.keys(words).map((word) => `/api/v1/pm/${venue}/${word}`),
  )

  return {
    async ask(request, at) {
      const { venue, word, rest } = partsOf(request)
      const words = own(SERVED, venue)
      const root = words && own(words, word)
      const through = own(venues, venue)
      if (!root || !through || request.body)
        throw new ApiError('NOT_FOUND', {
          message: 'This gateway asks the venues themselves, which do not serve this path. Payment was NOT charged.',
          fields: { available },
        })
      return await through.ask(roots[root], { path: own(MOVED, request.path) ?? rest, query: request.query }, at)
    },
  }
}

function partsOf({ path }: PassthroughRequest): { venue: string; word: string; rest: string } {
  const [venue = '', word = '', ...more] = path.split('/')
  return { venue, word, rest: [word, ...more].join('/') }
}

const own = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined
