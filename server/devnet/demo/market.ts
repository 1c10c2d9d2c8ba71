/** Made-up prices, labelled as sample data: a second has the same price on every machine, for any time from 1970 on. */
import { BAR_SECONDS } from '../../../core/ports/mod.ts'
import type { Clock, Feed, MarketKind, MarketVendor, Resolution } from '../../../core/mod.ts'

type Row = readonly [kind: MarketKind, symbol: string, description: string, price: number, decimals: number]
const ROWS: readonly Row[] = [
  ['crypto', 'BTC-USD', 'BITCOIN / US DOLLAR', 94_000, 2],
  ['crypto', 'ETH-USD', 'ETHEREUM / US DOLLAR', 3_400, 2],
  ['crypto', 'SOL-USD', 'SOLANA / US DOLLAR', 190, 2],
  ['fx', 'EUR-USD', 'EURO / US DOLLAR', 1.11, 5],
  ['commodity', 'XAU-USD', 'GOLD / US DOLLAR', 2_900, 3],
  ['us', 'AAPL', 'APPLE INC / US DOLLAR', 240, 2],
  ['hk', '0700-HK', 'TENCENT HOLDINGS / HONG KONG DOLLAR', 420, 2],
  ['jp', '7203', 'TOYOTA MOTOR / JAPANESE YEN', 2_800, 1],
  ['kr', '005930', 'SAMSUNG ELECTRONICS / KOREAN WON', 68_000, 0],
  ['gb', 'VOD', 'VODAFONE GROUP / BRITISH POUND', 0.74, 4],
  ['de', 'SAP', 'SAP SE / EURO', 230, 2],
  ['fr', 'MC', 'LVMH / EURO', 640, 2],
  ['nl', 'ASML', 'ASML HOLDING / EURO', 700, 2],
  ['ie', 'RYA', 'RYANAIR HOLDINGS / EURO', 19, 3],
  ['lu', 'SESG', 'SES SA / EURO', 5, 3],
  ['cn', '600519', 'KWEICHOW MOUTAI / CHINESE YUAN', 1_500, 2],
  ['ca', 'SHOP', 'SHOPIFY INC / CANADIAN DOLLAR', 150, 2],
]
const TYPES: Readonly<Partial<Record<MarketKind, string>>> = { crypto: 'Crypto', fx: 'FX', commodity: 'Metal' }
/** How far a price moves in half a year, as a fraction. */
const VOLATILITY = 0.25

/**
 * Markets never close here. US equities have all sessions, at the same price; other feeds have none.
 *
 * @example
 * const market = demoMarket({ clock: systemClock })
 */
export function demoMarket({ clock }: { clock: Pick<Clock, 'now'> }): MarketVendor {
  const samples = ROWS.map(sampleOf)
  const byKey = new Map(samples.map((sample) => [sample.feed.key, sample]))
  const find = ({ key }: Feed, session: unknown) => {
    const sample = byKey.get(key)
    return session && sample?.kind !== 'us' ? undefined : sample
  }
  const nowSeconds = () => Math.floor(clock.now() / 1000)

  return {
    source: 'sample',
    async feeds(kind, { signal }) {
      signal.throwIfAborted()
      return samples.filter((sample) => sample.kind === kind).map(({ feed }) => feed)
    },
    async latest(feed, { session, signal }) {
      signal.throwIfAborted()
      const [sample, now] = [find(feed, session), nowSeconds()]
      const [price = 0] = sample?.range(now, now) ?? []
      const more = { publishTime: now, ...(session && { feedId: `${feed.feedId}-${session}` }) }
      return sample && { price: sample.format(price), confidence: sample.format(price * 0.0005), ...more }
    },
    async bars(feed, { resolution, from, to, session, signal }) {
      signal.throwIfAborted()
      const sample = find(feed, session)
      if (!sample) return []
      const now = nowSeconds()
      const priceAt = (t: number) => sample.format(sample.range(t, t)[0])
      return startsOf(resolution, from, Math.min(to, now)).map((t) => {
        const end = Math.min(nextStart(resolution, t), now)
        const [low, high] = sample.range(t, end)
        return { t, o: priceAt(t), h: sample.format(high), l: sample.format(low), c: priceAt(end), v: '0' }
      })
    },
  }
}

/** A price is a sum of sines from four minutes to half a year long, so the range of any interval is known. */
const MAX_WAVE = 15_728_640
const WAVES = [240, 960, 3_840, 15_360, 61_440, 245_760, 983_040, 3_932_160, MAX_WAVE]

function sampleOf([kind, symbol, name, base, decimals]: Row) {
  const key = `${kind}/${symbol}`
  const assetType = TYPES[kind] ?? 'Equity'
  const phase = [...key].reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) % 9_973, 7) / 9_973
  return {
    kind,
    feed: { symbol, description: `${name}, sample data`, assetType, feedId: `sample:${key}`, key },
    format: (price: number) => (decimals > 0 ? price.toFixed(decimals).replace(/\.?0+$/, '') : price.toFixed(0)),
    range(from: number, to: number): readonly [low: number, high: number] {
      const ranges = WAVES.map((length, index) => {
        const shift = phase * (index + 3)
        return sineRange(from / length + shift, to / length + shift, Math.sqrt(length / MAX_WAVE))
      })
      const sum = (side: 0 | 1) => base * Math.exp((VOLATILITY / 2) * ranges.reduce((all, each) => all + each[side], 0))
      return [sum(0), sum(1)]
    },
  }
}

/** The lowest and highest value of a sine between two times, in periods. */
function sineRange(from: number, to: number, height: number): readonly [number, number] {
  const ends = [Math.sin(2 * Math.PI * from), Math.sin(2 * Math.PI * to)]
  const passes = (phase: number) => Math.ceil(from - phase) <= to - phase
  return [height * (passes(0.75) ? -1 : Math.min(...ends)), height * (passes(0.25) ? 1 : Math.max(...ends))]
}

/** The first Monday after 1970 began. */
const MONDAY = 4 * 86_400

/** Starts of bars within both ends: minutes and days from midnight UTC, weeks from Monday, months from the first. */
function startsOf(resolution: Resolution, from: number, to: number): readonly number[] {
  const [offset, length] = [resolution === 'W' ? MONDAY : 0, BAR_SECONDS[resolution]]
  const starts: number[] = []
  let t = resolution === 'M' ? monthOf(from, 0) : Math.floor((from - offset) / length) * length + offset
  for (; t <= to; t = nextStart(resolution, t)) if (t >= from) starts.push(t)
  return starts
}

const nextStart = (resolution: Resolution, t: number): number =>
  resolution === 'M' ? monthOf(t, 1) : t + BAR_SECONDS[resolution]

function monthOf(t: number, more: number): number {
  const date = new Date(t * 1000)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + more) / 1000
}
