import { describe, expect, test } from 'bun:test'
import { demoMarket } from '../../../../server/devnet/demo/market.ts'
import { BAR_SECONDS } from '../../../../core/ports/mod.ts'
import { openMarkets, stockMarket } from '../../../../core/products/market/catalog.ts'
import type { Feed, MarketVendor, MarketKind } from '../../../../core/mod.ts'
import { RESOLUTIONS, STOCK_MARKETS } from '../../../../core/ports/vendors/market.ts'
import { brokenMarketVendors, plainMarket } from '../../../conformance/broken_markets.ts'
import { runBroken, runLaws } from '../../../conformance/law.ts'
import { marketVendorLaws, NOW } from '../../../conformance/markets.ts'

const at = (now: number) => ({ now: () => now * 1000 })
const calm = () => ({ signal: new AbortController().signal })
const fixed = (market: MarketVendor) => async () => ({ open: async () => market, close: async () => {} })

runLaws('plain market', marketVendorLaws, fixed(plainMarket()))
runLaws('sample market', marketVendorLaws, fixed(demoMarket({ clock: at(NOW) })))
runBroken('markets', marketVendorLaws, brokenMarketVendors)

const market = demoMarket({ clock: at(NOW) })
async function feed(kind: MarketKind, symbol: string): Promise<Feed> {
  const found = (await market.feeds(kind, calm())).find((each) => each.symbol === symbol)
  if (!found) throw new Error(`no ${symbol}`)
  return found
}

describe('the sample feed', () => {
  test('says that it is one', async () => {
    expect(market.source).toBe('sample')
    const { description, feedId } = await feed('us', 'AAPL')
    expect([description, feedId]).toEqual(['APPLE INC / US DOLLAR, sample data', 'sample:us/AAPL'])
  })

  test('knows the example of every shelf (contract 10.20)', async () => {
    const rows = [...openMarkets, ...STOCK_MARKETS.map((each) => stockMarket(each))].filter((row) => row !== undefined)
    expect(rows).toHaveLength(15)
    for (const { kind, example } of rows)
      expect((await market.latest(await feed(kind, example), calm()))?.publishTime).toBe(NOW)
    await feed('crypto', 'ETH-USD')
  })

  test('writes the symbols of each market in its format (contract 10.6)', async () => {
    const formats: Readonly<Record<MarketKind, RegExp>> = {
      crypto: /^[A-Z]+-[A-Z]+$/,
      fx: /^[A-Z]{3}-[A-Z]{3}$/,
      commodity: /^[A-Z]+(-USD)?$/,
      us: /^[A-Z]+$/,
      hk: /^\d{4}-HK$/,
      jp: /^\d{4}$/,
      kr: /^\d{6}$/,
      cn: /^\d{6}$/,
      gb: /^[A-Z]+$/,
      de: /^[A-Z]+$/,
      fr: /^[A-Z]+$/,
      nl: /^[A-Z]+$/,
      ie: /^[A-Z]+$/,
      lu: /^[A-Z]+$/,
      ca: /^[A-Z]+$/,
    }
    for (const [kind, format] of Object.entries(formats))
      for (const { symbol } of await market.feeds(kind as MarketKind, calm())) expect(symbol).toMatch(format)
  })

  test('has the same price for the same second, whoever asks and whenever', async () => {
    const bitcoin = await feed('crypto', 'BTC-USD')
    const again = demoMarket({ clock: at(NOW) })
    expect(await again.latest(bitcoin, calm())).toEqual(await market.latest(bitcoin, calm()))
    const window = { resolution: 'D', from: NOW - 90 * 86_400, to: NOW - 86_400, ...calm() } as const
    expect(await demoMarket({ clock: at(NOW + 1e6) }).bars(bitcoin, window)).toEqual(await market.bars(bitcoin, window))
    expect((await market.latest(bitcoin, calm()))?.price).toMatch(/^\d{5,6}(\.\d{1,2})?$/)
  })

  test('every bar opens and closes at the price of that second, and holds every price and every shorter bar within it', async () => {
    const gold = await feed('commodity', 'XAU-USD')
    const priceAt = async (t: number) => Number((await demoMarket({ clock: at(t) }).latest(gold, calm()))?.price)
    for (const resolution of RESOLUTIONS) {
      const length = BAR_SECONDS[resolution]
      const bars = await market.bars(gold, { resolution, from: NOW - 6 * length, to: NOW - 2 * length, ...calm() })
      expect(bars.length).toBeGreaterThan(2)
      for (const [index, bar] of bars.entries()) {
        const [open, high, low, close] = [bar.o, bar.h, bar.l, bar.c].map(Number) as [number, number, number, number]
        expect(open).toBe(await priceAt(bar.t))
        expect(close).toBe(Number(bars[index + 1]?.o ?? bar.c))
        for (let t = bar.t; t < bar.t + length && t < (bars[index + 1]?.t ?? bar.t); t += Math.ceil(length / 37)) {
          const price = await priceAt(t)
          expect([price <= high, price >= low]).toEqual([true, true])
        }
      }
    }
    const [day] = await market.bars(gold, { resolution: 'D', from: NOW - 86_400, to: NOW - 1, ...calm() })
    for (const hour of await market.bars(gold, { resolution: '60', from: NOW - 86_400, to: NOW - 1, ...calm() })) {
      expect([Number(hour.h) <= Number(day?.h), Number(hour.l) >= Number(day?.l)]).toEqual([true, true])
    }
  })

  test('the last bar is still open, and closes at the price of now', async () => {
    const later = demoMarket({ clock: at(NOW + 5_000) })
    const euro = await feed('fx', 'EUR-USD')
    const bars = await later.bars(euro, { resolution: '60', from: NOW, to: NOW + 90_000, ...calm() })
    expect(bars.map(({ t }) => t)).toEqual([NOW, NOW + 3_600])
    expect(bars.at(-1)?.c).toBe((await later.latest(euro, calm()))?.price ?? '')
  })

  test('weeks begin on Monday and months on the first', async () => {
    const euro = await feed('fx', 'EUR-USD')
    const days = async (resolution: 'W' | 'M') =>
      (await market.bars(euro, { resolution, from: NOW - 200 * 86_400, to: NOW, ...calm() })).map(
        ({ t }) => new Date(t * 1000),
      )
    for (const day of await days('W')) expect([day.getUTCDay(), day.getTime() % 86_400_000]).toEqual([1, 0])
    expect((await days('M')).map((day) => day.toISOString().slice(0, 13))).toEqual(
      ['05', '06', '07', '08', '09', '10', '11'].map((month) => `2026-${month}-01T00`).slice(1),
    )
  })

  test('reaches back to 1970 (contract 10.20)', async () => {
    const bitcoin = await feed('crypto', 'BTC-USD')
    expect((await market.bars(bitcoin, { resolution: 'M', from: 1, to: 40_000_000, ...calm() })).length).toBe(15)
  })

  test('has sessions of US equities alone', async () => {
    const [apple, tencent] = [await feed('us', 'AAPL'), await feed('hk', '0700-HK')]
    for (const session of ['pre', 'post', 'on'] as const) {
      expect((await market.latest(apple, { session, ...calm() }))?.price).toBeString()
      expect(await market.latest(tencent, { session, ...calm() })).toBeUndefined()
      expect(await market.bars(tencent, { resolution: 'D', from: 1, to: NOW, session, ...calm() })).toEqual([])
    }
  })

  test('5,000 bars of any resolution take no time to speak of', async () => {
    const bitcoin = await feed('crypto', 'BTC-USD')
    for (const resolution of ['1', 'D'] as const)
      expect(
        (await market.bars(bitcoin, { resolution, from: NOW - 4_999 * BAR_SECONDS[resolution], to: NOW, ...calm() }))
          .length,
      ).toBe(5_000)
  })
})
