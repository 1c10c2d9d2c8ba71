/**
 * DefiLlama: keyless at its three hosts, or with a key at one. Sources: @defillama/api@0.1.3 (paths and hosts);
 * decision 75. Lists are megabytes and change by the hour, so whoever asks within a few minutes shares one.
 */
import { ApiError, type Clock, type DataVendor, type Log, type PassthroughRequest } from '../../../core/mod.ts'
import { concurrencyLimiter } from '../../../core/lib/mod.ts'
import type { Fetch } from '../../http/fetch.ts'
import { passthrough } from '../lib/passthrough.ts'
import { ttlCache, singleFlight } from '../../http/single_flight.ts'

export type DefiLlamaConfig = {
  /** Joined by the key, if there is one, it serves /api, /yields and /coins; absent, DefiLlama's own hosts do. */
  readonly baseUrl?: string | undefined
  readonly key?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
  /** How old an answer may be, in milliseconds: five minutes for lists, ten seconds for prices. */
  readonly listMs?: number | undefined
  readonly pricesMs?: number | undefined
  /** How many characters of answers are kept; the oldest go first. */
  readonly room?: number | undefined
}

const DEFILLAMA_PRO_URL = 'https://pro-api.llama.fi'

/** Contract 15.6: 25 s, then 502. */
const TIMEOUT_MS = 25_000
const MAX_REPLY_BYTES = 24 * 1024 * 1024
const ROOM = 48 * 1024 * 1024
const FAILED_MS = 1_000
/**
 * Different lists at a time, and how many may wait: a parameter that means nothing makes any list another one, of
 * megabytes.
 */
const AT_ONCE = 4
const MAX_WAITING = 16

type Roots = { readonly api: string; readonly yields: string; readonly coins: string }
const OPEN: Roots = { api: 'https://api.llama.fi', yields: 'https://yields.llama.fi', coins: 'https://coins.llama.fi' }

export function defiLlama(config: DefiLlamaConfig): DataVendor {
  const { baseUrl, key, listMs = 300_000, pricesMs = 10_000, room = ROOM, ...ports } = config
  const { clock } = ports
  const roots = baseUrl === undefined && !key ? OPEN : rootsUnder(baseUrl ?? DEFILLAMA_PRO_URL, key)
  const through = passthrough({
    name: 'defillama',
    source: 'DefiLlama',
    secrets: key ? [key] : [],
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_REPLY_BYTES,
    ...ports,
  })
  const weigh = (text: string) => text.length
  const lists = ttlCache<string>({ clock, ttlMs: listMs, maxWeight: room, weigh })
  const prices = ttlCache<string>({ clock, ttlMs: pricesMs, maxWeight: room / 8, weigh })
  const turn = concurrencyLimiter(AT_ONCE, {
    most: MAX_WAITING,
    full: () =>
      new ApiError('BUSY', {
        message: 'Too many different lists are being fetched. Nothing was charged; send the same request again.',
        headers: { 'retry-after': '2' },
      }),
  })
  const shared = singleFlight(ttlCache<unknown>({ clock, ttlMs: FAILED_MS, maxWeight: 1_000, weigh: () => 1 }))

  return {
    async ask(request, { signal }) {
      signal.throwIfAborted()
      const name = `${request.path}?${request.query}`
      const isPrices = request.path.startsWith('prices/')
      const cache = isPrices ? prices : lists
      const known = cache.get(name)
      if (known) return known.value
      const { root, path } = targetOf(request, roots)
      return await shared(name, signal, async (wanted) => {
        const ask = () => through.ask(root, { path, query: request.query }, { signal: wanted })
        return cache.set(name, await (isPrices ? ask() : turn(ask, wanted)))
      })
    },
  }
}

function rootsUnder(baseUrl: string, key: string | undefined): Roots {
  const home = baseUrl.replace(/\/+$/, '') + (key ? `/${encodeURIComponent(key)}` : '')
  return { api: `${home}/api`, yields: `${home}/yields`, coins: `${home}/coins` }
}

/** Throws a RangeError for a path that is none of ours. */
function targetOf({ path }: PassthroughRequest, { api, yields, coins }: Roots): { root: string; path: string } {
  if (path === 'protocols' || path.startsWith('protocol/')) return { root: api, path }
  if (path === 'chains') return { root: api, path: 'v2/chains' }
  if (path === 'yields') return { root: yields, path: 'pools' }
  if (path.startsWith('prices/')) return { root: coins, path: path.replace('prices/', 'prices/current/') }
  throw new RangeError('no such path of DefiLlama')
}
