/** Made-up prices, labelled so: the same second has the same price on every machine, for any time from 1970 on. */
import { BAR_SECONDS } from '../../../core/products/market/catalog.ts'
import type { Clock, Feed, MarketVendor, Resolution, MarketKind } from '../../../core/mod.ts'

/**
 * For each shelf, how far a price strays in half a year, as a fraction, and rows of symbol, description, about what it
 * costs, and decimals.
 */
type Row = readonly [symbol: string, description: string, about: number, decimals: number]
const SHELVES: Readonly<Record<MarketKind, readonly [strays: number, ...rows: Row[]]>> = {
  crypto: [
    0.5,
    ['BTC-USD', 'BITCOIN / US DOLLAR', 94_000, 2],
    ['ETH-USD', 'ETHEREUM / US DOLLAR', 3_400, 2],
    ['SOL-USD', 'SOLANA / US DOLLAR', 190, 2],
  ],
  fx: [0.06, ['EUR-USD', 'EURO / US DOLLAR', 1.11, 5], ['GBP-USD', 'BRITISH POUND / US DOLLAR', 1.29, 5]],
  commodity: [0.2, ['XAU-USD', 'GOLD / US DOLLAR', 2_900, 3], ['USOILSPOT', 'WEST TEXAS INTERMEDIATE CRUDE', 72, 3]],
  us: [
    0.25,
    ['AAPL', 'APPLE INC / US DOLLAR', 240, 2],
    ['MSFT', 'MICROSOFT CORP / US DOLLAR', 450, 2],
    ['NVDA', 'NVIDIA CORP / US DOLLAR', 150, 2],
  ],
  hk: [0.25, ['0700-HK', 'TENCENT HOLDINGS / HONG KONG DOLLAR', 420, 2]],
  jp: [0.25, ['7203', 'TOYOTA MOTOR / JAPANESE YEN', 2_800, 1]],
  kr: [0.25, ['005930', 'SAMSUNG ELECTRONICS / KOREAN WON', 68_000, 0]],
  gb: [0.25, ['VOD', 'VODAFONE GROUP / BRITISH POUND', 0.74, 4]],
  de: [0.25, ['SAP', 'SAP SE / EURO', 230, 2]],
  fr: [0.25, ['MC', 'LVMH / EURO', 640, 2]],
  nl: [0.25, ['ASML', 'ASML HOLDING / EURO', 700, 2]],
  ie: [0.25, ['RYA', 'RYANAIR HOLDINGS / EURO', 19, 3]],
  lu: [0.25, ['SESG', 'SES SA / EURO', 5, 3]],
  cn: [0.25, ['600519', 'KWEICHOW MOUTAI / CHINESE YUAN', 1_500, 2]],
  ca: [0.25, ['SHOP', 'SHOPIFY INC / CANADIAN DOLLAR', 150, 2]],
}
const TYPES: Readonly<Partial<Record<MarketKind, string>>> = { crypto: 'Crypto', fx: 'FX', commodity: 'Commodities' }

type Sample = {
  readonly feed: Feed
  readonly hasSessions: boolean
  written(price: number): string
  range(from: number, to: number): [least: number, most: number]
}

/**
 * Markets never close here; US equities have all sessions, at the same price, and no other feed has any.
 *
 * @example
 * const market = demoMarket({ clock: systemClock })
 */
export function demoMarket({ clock }: { clock: Pick<Clock, 'now'> }): MarketVendor {
  const shelves = new Map(
    Object.entries(SHELVES).map(([kind, [strays, ...rows]]) => [
      kind,
      rows.map((row) => sampleOf(kind as MarketKind, row, strays)),
    ]),
  )
  const byKey = new Map([...shelves.values()].flat().map((sample) => [sample.feed.key, sample]))
  const known = ({ key }: Feed, session: unknown) => {
    const sample = byKey.get(key)
    return session && !sample?.hasSessions ? undefined : sample
  }
  const seconds = () => Math.floor(clock.now() / 1000)

  return {
    source: 'sample',
    async feeds(kind, { signal }) {
      signal.throwIfAborted()
      return (shelves.get(kind) ?? []).map(({ feed }) => feed)
    },
    async latest(feed, { session, signal }) {
      signal.throwIfAborted()
      const sample = known(feed, session)
      const [now, [price = 0] = []] = [seconds(), sample?.range(seconds(), seconds())]
      return (
        sample && {
          price: sample.written(price),
          confidence: sample.written(price * 0.0005),
          publishTime: now,
          ...(session && { feedId: `${feed.feedId}-${session}` }),
        }
      )
    },
    async bars(feed, { resolution, from, to, session, signal }) {
      signal.throwIfAborted()
      const sample = known(feed, session)
      if (!sample) return []
      const now = seconds()
      const at = (t: number) => sample.written(sample.range(t, t)[0])
      return startsOf(resolution, from, Math.min(to, now)).map((t) => {
        const end = Math.min(nextStart(resolution, t), now)
        const [least, most] = sample.range(t, end)
        return { t, o: at(t), h: sample.written(most), l: sample.written(least), c: at(end), v: '0' }
      })
    },
  }
}

/** Waves from four minutes to half a year long; a slow one is high, by the square root of its length. */
const WAVES = [240, 960, 3_840, 15_360, 61_440, 245_760, 983_040, 3_932_160, 15_728_640].map((length) => ({
  length,
  high: Math.sqrt(length / 15_728_640),
}))

function sampleOf(kind: MarketKind, [symbol, name, about, decimals]: Row, strays: number): Sample {
  const key = `${kind}/${symbol}`
  const assetType = symbol.startsWith('X') && kind === 'commodity' ? 'Metal' : (TYPES[kind] ?? 'Equity')
  const begin = [...key].reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) % 9_973, 7) / 9_973
  return {
    feed: { symbol, description: `${name}, sample data`, assetType, feedId: `sample:${key}`, key },
    hasSessions: kind === 'us',
    written: (price) => (decimals > 0 ? price.toFixed(decimals).replace(/\.?0+$/, '') : price.toFixed(0)),
    /** All prices of an interval lie within it, and the ranges of all shorter ones. */
    range(from, to) {
      const reach = WAVES.map(({ length, high }, index) =>
        sineRange(from / length + begin * (index + 3), to / length + begin * (index + 3), high),
      )
      const sum = (side: 0 | 1) => about * Math.exp((strays / 2) * reach.reduce((total, ends) => total + ends[side], 0))
      return [sum(0), sum(1)]
    },
  }
}

/** The least and the most of a sine between two times, counted in its periods. */
function sineRange(from: number, to: number, high: number): readonly [number, number] {
  const ends = [Math.sin(2 * Math.PI * from), Math.sin(2 * Math.PI * to)]
  const passes = (phase: number) => Math.ceil(from - phase) <= to - phase
  return [high * (passes(0.75) ? -1 : Math.min(...ends)), high * (passes(0.25) ? 1 : Math.max(...ends))]
}

/** The first Monday after 1970 began. */
const MONDAY = 4 * 86_400

/** Starts of bars within both ends: minutes and days from midnight UTC, weeks from Monday, months from the first. */
function startsOf(resolution: Resolution, from: number, to: number): readonly number[] {
  const [offset, length] = [resolution === 'W' ? MONDAY : 0, BAR_SECONDS[resolution]]
  const found: number[] = []
  let t = resolution === 'M' ? monthOf(from, 0) : Math.floor((from - offset) / length) * length + offset
  for (; t <= to; t = nextStart(resolution, t)) if (t >= from) found.push(t)
  return found
}

const nextStart = (resolution: Resolution, t: number): number =>
  resolution === 'M' ? monthOf(t, 1) : t + BAR_SECONDS[resolution]

function monthOf(t: number, more: number): number {
  const date = new Date(t * 1000)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + more) / 1000
}
