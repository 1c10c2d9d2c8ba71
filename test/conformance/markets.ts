import { expect } from 'bun:test'
import type { Bar, Feed, MarketVendor, Resolution, MarketKind } from '../../core/mod.ts'
import { RESOLUTIONS, STOCK_MARKETS } from '../../core/ports/vendors/market.ts'
import { BAR_SECONDS } from '../../core/ports/mod.ts'
import { START } from '../kit.ts'
import { never, turn } from './abort.ts'
import { portLaw, type Law } from './law.ts'

/** When the laws are held: every market under law stands at this time, and has BTC-USD, EUR-USD, XAU-USD and AAPL. */
export const NOW = START / 1000
const HOUR = 3_600
const DAY = 24 * HOUR

async function feedOf(market: MarketVendor, kind: MarketKind, symbol: string): Promise<Feed> {
  const found = (await market.feeds(kind, never())).find((feed) => feed.symbol === symbol)
  if (!found) throw new Error(`${kind} has no ${symbol}`)
  return found
}

const hours = (from: number, to: number) => ({ resolution: '60' as Resolution, from, to, ...never() })
const starts = (bars: readonly Bar[]) => bars.map(({ t }) => t)

export const marketVendorLaws: readonly Law<MarketVendor>[] = [
  portLaw('every shelf lists what it has, each symbol once, with a name and an id', async (market) => {
    for (const kind of ['crypto', 'fx', 'commodity', ...STOCK_MARKETS] as const) {
      const feeds = await market.feeds(kind, never())
      expect(new Set(feeds.map(({ symbol }) => symbol)).size).toBe(feeds.length)
      for (const feed of feeds)
        expect([kind, ...Object.values(feed).filter((text) => text.trim() === '')]).toEqual([kind])
    }
  }),
  portLaw(
    'a price is a plain decimal with an interval that is not negative, at a time in whole seconds',
    async (market) => {
      const spot = await market.latest(await feedOf(market, 'fx', 'EUR-USD'), never())
      expect(spot?.price).toMatch(/^(0|[1-9]\d*)(\.\d+)?$/)
      expect(spot?.confidence).toMatch(/^(0|[1-9]\d*)(\.\d+)?$/)
      expect([
        Number.isInteger(spot?.publishTime),
        (spot?.publishTime ?? 0) > NOW - DAY,
        (spot?.publishTime ?? 0) <= NOW,
      ]).toEqual([true, true, true])
    },
  ),
  portLaw('bars rise in time, and each holds its open and its close', async (market) => {
    const bars = await market.bars(await feedOf(market, 'commodity', 'XAU-USD'), hours(NOW - DAY, NOW - HOUR))
    expect(bars.length).toBeGreaterThan(1)
    expect(starts(bars)).toEqual([...new Set(starts(bars))].sort((a, b) => a - b))
    for (const { o, h, l, c, v } of bars) {
      for (const price of [o, h, l, c, v]) expect(price).toMatch(/^-?(0|[1-9]\d*)(\.\d+)?$/)
      expect([Number(h) >= Math.max(Number(o), Number(c)), Number(l) <= Math.min(Number(o), Number(c))]).toEqual([
        true,
        true,
      ])
    }
  }),
  portLaw('every resolution has bars', async (market) => {
    const feed = await feedOf(market, 'crypto', 'BTC-USD')
    for (const resolution of RESOLUTIONS) {
      const bars = await market.bars(feed, {
        resolution,
        from: NOW - 4 * BAR_SECONDS[resolution],
        to: NOW,
        ...never(),
      })
      expect([resolution, bars.length > 1]).toEqual([resolution, true])
    }
  }),
  portLaw('a bar counts when it begins within the window, both ends included', async (market) => {
    const feed = await feedOf(market, 'crypto', 'BTC-USD')
    const [first = 0, second, third = 0] = starts(await market.bars(feed, hours(NOW - DAY, NOW - HOUR)))
    expect(starts(await market.bars(feed, hours(first, third)))).toEqual([first, second ?? 0, third])
    expect(starts(await market.bars(feed, hours(first + 1, third - 1)))).toEqual([second ?? 0])
    expect(await market.bars(feed, hours(first + 1, first + 2))).toEqual([])
  }),
  portLaw('what is not there has no price and no bars', async (market) => {
    const feed = {
      ...(await feedOf(market, 'us', 'AAPL')),
      symbol: 'GONE',
      key: 'Equity.US.GONE/USD',
      feedId: '0'.repeat(64),
    }
    expect(await market.latest(feed, never())).toBeUndefined()
    expect(await market.bars(feed, hours(NOW - DAY, NOW))).toEqual([])
  }),
  portLaw('questions at the same time do not mix', async (market) => {
    const feeds = [await feedOf(market, 'crypto', 'BTC-USD'), await feedOf(market, 'us', 'AAPL')]
    const alone = []
    for (const feed of feeds) alone.push(await market.latest(feed, never()))
    expect(alone[0]?.price).not.toBe(alone[1]?.price)
    expect(await Promise.all([...feeds, ...feeds].map((feed) => market.latest(feed, never())))).toEqual([
      ...alone,
      ...alone,
    ])
  }),
  portLaw('a feed is read, never changed', async (market) => {
    const feed = Object.freeze({ ...(await feedOf(market, 'crypto', 'BTC-USD')) })
    await market.latest(feed, never())
    await market.bars(feed, hours(NOW - DAY, NOW))
  }),
  portLaw('an aborted signal ends the wait with its reason, before it begins and while it lasts', async (market) => {
    const feed = await feedOf(market, 'crypto', 'BTC-USD')
    const reason = new Error('out of time')
    const ended = (question: Promise<unknown>) =>
      question.then(
        () => 'answered',
        (error: unknown) => error,
      )
    const questions = ({ signal }: { signal: AbortSignal }) =>
      [
        market.feeds('us', { signal }),
        market.latest(feed, { signal }),
        market.bars(feed, { ...hours(NOW - 2 * DAY, NOW), signal }),
      ].map(ended)
    expect(await Promise.all(questions({ signal: AbortSignal.abort(reason) }))).toEqual([reason, reason, reason])
    const controller = new AbortController()
    const waiting = questions(controller)
    controller.abort(reason)
    const soon = async () => {
      for (let turns = 0; turns < 20; turns++) await turn()
      return 'waiting'
    }
    for (const question of waiting)
      expect(['answered', reason]).toContain((await Promise.race([question, soon()])) as Error)
  }),
  portLaw('one who gives up does not end the wait of another', async (market) => {
    const feed = await feedOf(market, 'crypto', 'BTC-USD')
    const controller = new AbortController()
    const doomed = market.latest(feed, controller).catch(() => 'gone')
    const other = market.latest(feed, never())
    controller.abort(new Error('gone'))
    expect((await other)?.price).toBeString()
    await doomed
  }),
]
