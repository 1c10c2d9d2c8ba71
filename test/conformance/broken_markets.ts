import { BAR_SECONDS } from '../../core/ports/mod.ts'
import type { Bar, Feed, MarketVendor, MarketKind } from '../../core/mod.ts'
import { breaking, type Broken } from './law.ts'
import { NOW } from './markets.ts'

const PRICES: Readonly<Record<string, string>> = {
  'BTC-USD': '94123.5',
  'EUR-USD': '1.1',
  'XAU-USD': '2900.25',
  AAPL: '240',
}
const SYMBOLS: Readonly<Partial<Record<MarketKind, readonly string[]>>> = {
  crypto: ['BTC-USD'],
  fx: ['EUR-USD'],
  commodity: ['XAU-USD'],
  us: ['AAPL'],
}

const feedOf = (symbol: string): Feed => ({
  symbol,
  description: `the price of ${symbol}`,
  assetType: 'any',
  feedId: `id of ${symbol}`,
  key: symbol,
})

/** Some turns of waiting, unless the signal ends them. */
async function turns(count: number, signal: AbortSignal): Promise<void> {
  for (let i = 0; i < count; i++) {
    signal.throwIfAborted()
    await new Promise((resolve) => setImmediate(resolve))
  }
  signal.throwIfAborted()
}

/** Keeps every law; takes a few turns, so that an abort can come in between. */
export function plainMarket(): MarketVendor {
  return {
    source: 'plain',
    async feeds(market, { signal }) {
      await turns(3, signal)
      return (SYMBOLS[market] ?? []).map(feedOf)
    },
    async latest({ key }, { signal }) {
      await turns(3, signal)
      const price = PRICES[key]
      return price === undefined ? undefined : { price, confidence: '0.01', publishTime: NOW - 1 }
    },
    async bars({ key }, { resolution, from, to, signal }) {
      await turns(3, signal)
      const price = PRICES[key]
      const length = BAR_SECONDS[resolution]
      const first = Math.ceil(from / length) * length
      const count = price === undefined ? 0 : Math.max(0, Math.floor((to - first) / length) + 1)
      return Array.from({ length: count }, (_, index): Bar => ({
        t: first + index * length,
        o: price ?? '',
        h: price ?? '',
        l: price ?? '',
        c: price ?? '',
        v: '0',
      }))
    },
  }
}

const broken = breaking<MarketVendor>(plainMarket)

export const brokenMarketVendors: readonly Broken<MarketVendor>[] = [
  broken('every shelf lists what it has, each symbol once, with a name and an id', 'lists a symbol twice', (good) => ({
    feeds: async (market, at) =>
      (await good.feeds(market, at)).flatMap((feed) => (feed.symbol === 'EUR-USD' ? [feed, feed] : [feed])),
  })),
  broken('every shelf lists what it has, each symbol once, with a name and an id', 'leaves the id out', (good) => ({
    feeds: async (market, at) => (await good.feeds(market, at)).map((feed) => ({ ...feed, feedId: '' })),
  })),
  broken(
    'a price is a plain decimal with an interval that is not negative, at a time in whole seconds',
    'writes small numbers with an exponent',
    (good) => ({
      latest: async (feed, at) => {
        const spot = await good.latest(feed, at)
        return spot && { ...spot, confidence: '1e-7' }
      },
    }),
  ),
  broken(
    'a price is a plain decimal with an interval that is not negative, at a time in whole seconds',
    'counts in milliseconds',
    (good) => ({
      latest: async (feed, at) => {
        const spot = await good.latest(feed, at)
        return spot && { ...spot, publishTime: spot.publishTime * 1000 }
      },
    }),
  ),
  broken('bars rise in time, and each holds its open and its close', 'closes above its high', (good) => ({
    bars: async (feed, at) => (await good.bars(feed, at)).map((bar) => ({ ...bar, c: `${Number(bar.h) + 1}` })),
  })),
  broken('every resolution has bars', 'knows no weeks', (good) => ({
    bars: async (feed, at) => (at.resolution === 'W' ? [] : await good.bars(feed, at)),
  })),
  broken(
    'a bar counts when it begins within the window, both ends included',
    'leaves out the bar that begins at the end',
    (good) => ({
      bars: async (feed, at) => (await good.bars(feed, at)).filter(({ t }) => t < at.to),
    }),
  ),
  broken('what is not there has no price and no bars', 'has a price for everything', (good) => ({
    latest: async (feed, at) => (await good.latest(feed, at)) ?? { price: '1', confidence: '0', publishTime: NOW },
  })),
  broken('questions at the same time do not mix', 'answers all with the newest', (good) => {
    let newest: Feed | undefined
    return {
      async latest(feed, at) {
        newest = feed
        await turns(1, at.signal)
        return await good.latest(newest, at)
      },
    }
  }),
  broken('a feed is read, never changed', 'notes into the feed', (good) => ({
    latest: (feed, at) => {
      Object.assign(feed, { seen: true })
      return good.latest(feed, at)
    },
  })),
  broken(
    'an aborted signal ends the wait with its reason, before it begins and while it lasts',
    'does not look up from its lists',
    (good) => ({
      feeds: (market) => good.feeds(market, { signal: new AbortController().signal }),
    }),
  ),
  broken('one who gives up does not end the wait of another', 'lets the first to come lead all', (good) => {
    const flights = new Map<string, ReturnType<MarketVendor['latest']>>()
    return {
      latest(feed, at) {
        const flight = flights.get(feed.key) ?? good.latest(feed, at).finally(() => flights.delete(feed.key))
        flights.set(feed.key, flight)
        return flight
      },
    }
  }),
]
