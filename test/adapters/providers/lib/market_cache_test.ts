import { describe, expect, test } from 'bun:test'
import { cachedMarket, type MarketCacheOptions } from '../../../../adapters/providers/lib/market_cache.ts'
import { demoMarket } from '../../../../server/devnet/demo/market.ts'
import { type Feed, type MarketVendor } from '../../../../core/mod.ts'
import { plainMarket } from '../../../conformance/broken_markets.ts'
import { runLaws } from '../../../conformance/law.ts'
import { marketVendorLaws, NOW } from '../../../conformance/markets.ts'
import { door, START, testClock, testLog } from '../../../kit.ts'

const calm = () => ({ signal: new AbortController().signal })
const still = { now: () => NOW * 1000 }

for (const [name, vendor] of [
  ['plain', plainMarket],
  ['sample', () => demoMarket({ clock: still })],
] as const) {
  runLaws(`cached ${name} market`, marketVendorLaws, async () => {
    const market = cachedMarket(vendor(), { clock: still, log: testLog() })
    return { open: async () => market, close: async () => {} }
  })
}

/** A cache over a market that counts its questions, and fails or waits when told. */
function counted(options: Partial<MarketCacheOptions> = {}) {
  const clock = testClock()
  const log = testLog()
  const requests: string[] = []
  const state: { failing: boolean; gate: Promise<void> | undefined; list?: () => readonly Feed[] } = {
    failing: false,
    gate: undefined,
  }
  const good = plainMarket()
  const note = async (question: string) => {
    requests.push(question)
    await state.gate
    if (state.failing) throw new Error('the feed is away')
  }
  const vendor: MarketVendor = {
    source: 'plain',
    feeds: async (market, at) => note(`feeds ${market}`).then(() => state.list?.() ?? good.feeds(market, at)),
    latest: async (feed, at) =>
      note(`latest ${feed.symbol}${at.session ? ` ${at.session}` : ''}`).then(() => good.latest(feed, at)),
    bars: async (feed, at) =>
      note(`bars ${feed.symbol} ${at.resolution} ${at.from} ${at.to}`).then(() => good.bars(feed, at)),
  }
  const market = cachedMarket(vendor, { clock, log, ...options })
  const feed = (symbol: string): Feed => ({
    symbol,
    description: symbol,
    assetType: 'any',
    feedId: symbol,
    key: symbol,
  })
  return { clock, log, requests, state, market, feed, bitcoin: feed('BTC-USD') }
}

const hours = (from: number, to: number) => ({ resolution: '60' as const, from, to, ...calm() })

describe('a cached market', () => {
  test('asks upstream twice for a thousand callers who come at once, and not at all for the next thousand', async () => {
    const { market, requests } = counted()
    const call = async () => {
      const [feed] = await market.feeds('crypto', calm())
      return feed && (await market.latest(feed, calm()))
    }
    for (let wave = 0; wave < 2; wave++) {
      const spots = await Promise.all(Array.from({ length: 1_000 }, call))
      expect(new Set(spots.map((spot) => spot?.price))).toEqual(new Set(['94123.5']))
      expect(requests).toEqual(['feeds crypto', 'latest BTC-USD'])
    }
  })

  test('asks once for a thousand equal histories', async () => {
    const { market, requests, bitcoin } = counted()
    const bars = await Promise.all(
      Array.from({ length: 1_000 }, (_, index) =>
        market.bars(bitcoin, hours(NOW - 7_200 - (index % 60), NOW + (index % 60))),
      ),
    )
    expect([requests.length, bars.every((each) => each.length === 3)]).toEqual([1, true])
  })

  test('a price is fresh for five seconds, and each session has its own', async () => {
    const { market, requests, clock, bitcoin } = counted()
    await market.latest(bitcoin, calm())
    await market.latest(bitcoin, { session: 'pre', ...calm() })
    await clock.advance(4_999)
    await market.latest(bitcoin, calm())
    expect(requests).toEqual(['latest BTC-USD', 'latest BTC-USD pre'])
    await clock.advance(1)
    await market.latest(bitcoin, calm())
    expect(requests.length).toBe(3)
  })

  test('caches that a symbol has no price', async () => {
    const { market, requests, feed } = counted()
    for (let times = 0; times < 3; times++) expect(await market.latest(feed('GONE'), calm())).toBeUndefined()
    expect(requests.length).toBe(1)
  })

  test('a list past its hour is served once more and renewed behind; while that fails, the old one stands', async () => {
    const { market, requests, clock, state, log } = counted()
    const first = await market.feeds('crypto', calm())
    await clock.advance(3_600_000)
    state.failing = true
    expect(await market.feeds('crypto', calm())).toBe(first)
    await clock.settle()
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { kind: 'crypto', error: 'the feed is away' } }])
    expect(await market.feeds('crypto', calm())).toBe(first)
    expect(requests.length).toBe(2)
    state.failing = false
    await clock.advance(30_000)
    expect(await market.feeds('crypto', calm())).toBe(first)
    await clock.settle()
    const renewed = await market.feeds('crypto', calm())
    expect([renewed === first, renewed.length, requests.length]).toEqual([false, 1, 3])
  })

  test('a list that comes back much shorter, or empty, does not replace a good one; a slightly shorter one does', async () => {
    const { market, clock, log, state } = counted()
    const lists = [10, 4, 0, 6]
    const rows = (count: number) =>
      Array.from({ length: count }, (_, index) => ({
        symbol: `S${index}`,
        description: 'x',
        assetType: 'x',
        feedId: `${index}`,
        key: `${index}`,
      }))
    state.list = () => rows(lists.shift() ?? 0)
    const seen: number[] = []
    for (let hour = 0; hour < 4; hour++) {
      await market.feeds('crypto', calm())
      await clock.settle()
      seen.push((await market.feeds('crypto', calm())).length)
      await clock.advance(3_600_000)
    }
    expect(seen).toEqual([10, 10, 10, 6])
    expect(log.lines).toMatchObject(
      [4, 0].map((now) => ({ level: 'alert', fields: { kind: 'crypto', before: 10, now } })),
    )
  })

  test('a failure reaches all who wait, and is kept for a second; no stale price stands in', async () => {
    const { market, requests, clock, state, bitcoin } = counted()
    await market.latest(bitcoin, calm())
    await clock.advance(5_000)
    state.failing = true
    const failed = await Promise.allSettled([
      market.latest(bitcoin, calm()),
      market.latest(bitcoin, calm()),
      market.feeds('fx', calm()),
    ])
    expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(requests.length).toBe(3)
    state.failing = false
    await clock.advance(999)
    for (let times = 0; times < 10; times++)
      expect(await market.latest(bitcoin, calm()).catch((error: Error) => error.message)).toBe('the feed is away')
    expect(requests.length).toBe(3)
    await clock.advance(1)
    expect((await market.latest(bitcoin, calm()))?.price).toBe('94123.5')
    expect(requests.length).toBe(4)
  })

  test('bars begin at whole minutes, so seconds make no other question', async () => {
    const { market, requests, bitcoin } = counted()
    await market.bars(bitcoin, hours(NOW - 7_259, NOW + 1))
    await market.bars(bitcoin, hours(NOW - 7_201, NOW + 59))
    expect(requests).toEqual([`bars BTC-USD 60 ${NOW - 7_200} ${NOW + 59}`])
    expect(await market.bars(bitcoin, hours(NOW + 1, NOW + 59))).toEqual([])
    expect(requests.length).toBe(1)
  })

  test('keeps no more than it has room for: the oldest go first', async () => {
    const { market, requests, feed, bitcoin } = counted({ maxSpots: 3, maxBars: 10 })
    for (const symbol of ['A', 'B', 'C', 'D', 'D', 'C', 'B', 'A']) await market.latest(feed(symbol), calm())
    expect(requests).toEqual(['A', 'B', 'C', 'D', 'A'].map((symbol) => `latest ${symbol}`))
    requests.length = 0
    for (const from of [4, 4, 5, 4]) await market.bars(bitcoin, hours(NOW - from * 3_600, NOW))
    expect(requests.length).toBe(3)
    await market.bars(bitcoin, hours(NOW - 20 * 3_600, NOW))
    await market.bars(bitcoin, hours(NOW - 20 * 3_600, NOW))
    expect(requests.length).toBe(5)
  })

  test('asks for so many histories at a time; others wait, and past that they are told to come again', async () => {
    const { market, requests, state, clock, bitcoin } = counted({ atOnce: 2, maxWaiting: 1 })
    const gate = door()
    state.gate = gate.passed
    const histories = [1, 2, 3, 4].map((from) =>
      market.bars(bitcoin, hours(NOW - from * 3_600, NOW)).then(
        (bars) => bars.length,
        (error: { code: string }) => error.code,
      ),
    )
    await clock.settle()
    expect(requests.length).toBe(2)
    gate.open()
    expect(await Promise.all(histories)).toEqual([2, 3, 4, 'BUSY'])
    expect(requests.length).toBe(3)
    expect((await market.bars(bitcoin, hours(NOW - 5 * 3_600, NOW))).length).toBe(6)
  })

  test('lets paid requests pass free ones, and never limits them because of free ones', async () => {
    const { market, requests, state, clock, bitcoin } = counted({ atOnce: 2, maxWaiting: 3 })
    const gate = door()
    state.gate = gate.passed
    const free = Array.from({ length: 20 }, (_, index) =>
      market.bars(bitcoin, hours(NOW - (index + 1) * 3_600, NOW)).then(
        () => 'answered',
        (error: { code: string }) => error.code,
      ),
    )
    await clock.settle()
    expect(requests.length).toBe(2)
    const paid = market.bars(bitcoin, { ...hours(NOW - 5 * 3_600, NOW), lane: 'paid' })
    await clock.settle()
    expect(requests.length).toBe(3)
    gate.open()
    expect((await paid).length).toBe(6)
    expect((await Promise.all(free)).filter((text) => text === 'BUSY').length).toBe(15)
  })

  test('a history that nobody waits for any more leaves its place, in the queue and at the vendor; one that somebody waits for does not', async () => {
    const clock = testClock()
    const [requests, ended]: [number[], number[]] = [[], []]
    const vendor: MarketVendor = {
      ...plainMarket(),
      bars: (_, { from, signal }) => {
        requests.push(from)
        return new Promise((_, reject) =>
          signal.addEventListener('abort', () => (ended.push(from), reject(signal.reason))),
        )
      },
    }
    const market = cachedMarket(vendor, { clock, log: testLog(), atOnce: 1, maxWaiting: 2 })
    const [feed] = await plainMarket().feeds('crypto', calm())
    if (!feed) throw new Error('no feed')
    const ask = (from: number) => {
      const leaving = new AbortController()
      const text = market
        .bars(feed, { resolution: '60', from, to: NOW, signal: leaving.signal })
        .catch((error: Error & { code?: string }) => error.code ?? error.message)
      return { text, leave: () => leaving.abort(new Error('gone')) }
    }
    const [first, twin, second, third] = [ask(60), ask(60), ask(120), ask(180)]
    await clock.settle()
    expect([requests, await ask(240).text]).toEqual([[60], 'BUSY'])
    second.leave()
    first.leave()
    await clock.settle()
    expect([await second.text, await first.text, requests, ended]).toEqual(['gone', 'gone', [60], []])
    const fourth = ask(240)
    twin.leave()
    await clock.settle()
    expect([requests, ended]).toEqual([[60, 180], [60]])
    third.leave()
    await clock.settle()
    expect(requests).toEqual([60, 180, 240])
    fourth.leave()
    await clock.settle()
    expect([await third.text, await fourth.text, ended]).toEqual(['gone', 'gone', [60, 180, 240]])
  })

  test('goes on for others when the first to ask gives up', async () => {
    const { market, state, bitcoin } = counted()
    const gate = door()
    state.gate = gate.passed
    const controller = new AbortController()
    const first = market.latest(bitcoin, controller).catch((error: Error) => error.message)
    const second = market.latest(bitcoin, calm())
    controller.abort(new Error('gone'))
    expect(await first).toBe('gone')
    gate.open()
    expect((await second)?.publishTime).toBe(START / 1000 - 1)
  })
})
