/**
 * Made-up prices, labelled so: a gateway without a price feed can be tried from end to end. The same second always has the same price, on
 * every machine and after every restart, for any time from 1970 on.
 */
import { BAR_SECONDS } from '../../../core/products/market/catalog.ts'
import type { Bar, Clock, Feed, MarketVendor, Resolution, MarketKind } from '../../../core/mod.ts'
import { sampleSymbols } from './market_symbols.ts'

/** One symbol: about what it costs, how many decimals its price has, and how far it strays in half a year, as a fraction. */
export type SampleRow = {
  readonly symbol: string
  readonly description: string
  readonly about: number
  readonly decimals: number
  readonly strays: number
}

const ASSET_TYPES: Readonly<Partial<Record<MarketKind, string>>> = {
  crypto: 'Crypto',
  fx: 'FX',
  commodity: 'Commodities',
}

type Sample = SampleRow & { readonly seed: number; readonly feed: Feed; readonly hasSessions: boolean }

/** Markets never close here; US equities have all sessions, at the same price, and no other feed has any. */
export function sampleMarket({ clock }: { clock: Pick<Clock, 'now'> }): MarketVendor {
  const shelves = new Map(
    Object.entries(sampleSymbols).map(([shelf, rows]) => [
      shelf,
      rows.map((row) => sampleOf(shelf as MarketKind, row)),
    ]),
  )
  const byKey = new Map([...shelves.values()].flat().map((sample) => [sample.feed.key, sample]))
  const seconds = () => Math.floor(clock.now() / 1000)

  return {
    source: 'sample',
    async feeds(shelf, { signal }) {
      signal.throwIfAborted()
      return (shelves.get(shelf) ?? []).map(({ feed }) => feed)
    },
    async latest(feed, { session, signal }) {
      signal.throwIfAborted()
      const sample = byKey.get(feed.key)
      if (!sample || (session && !sample.hasSessions)) return undefined
      const now = seconds()
      const price = priceAt(sample, now)
      return { price: written(sample, price), confidence: written(sample, price * 0.0005), publishTime: now }
    },
    async bars(feed, { resolution, from, to, session, signal }) {
      signal.throwIfAborted()
      const sample = byKey.get(feed.key)
      if (!sample || (session && !sample.hasSessions)) return []
      const now = seconds()
      return starts(resolution, from, Math.min(to, now)).map((t) =>
        bar(sample, t, Math.min(nextStart(resolution, t), now)),
      )
    },
  }
}

function sampleOf(shelf: MarketKind, row: SampleRow): Sample {
  const key = `${shelf}/${row.symbol}`
  const assetType = row.symbol.startsWith('X') && shelf === 'commodity' ? 'Metal' : (ASSET_TYPES[shelf] ?? 'Equity')
  const feed = {
    symbol: row.symbol,
    description: `${row.description}, sample data`,
    assetType,
    feedId: `sample:${key}`,
    key,
  }
  return {
    ...row,
    seed: hash(
      0,
      [...key].reduce((sum, char) => hash(sum, char.charCodeAt(0)), 7),
    ),
    feed,
    hasSessions: shelf === 'us',
  }
}

// ── bars ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The first Monday after 1970 began. */
const MONDAY = 4 * 86_400

/** Starts of bars within both ends: minutes and days from midnight UTC, weeks from Monday, months from the first. */
function starts(resolution: Resolution, from: number, to: number): readonly number[] {
  const found: number[] = []
  let t = resolution === 'M' ? monthOf(from, 0) : alignedBelow(resolution, from)
  if (t < from) t = nextStart(resolution, t)
  for (; t <= to; t = nextStart(resolution, t)) found.push(t)
  return found
}

function alignedBelow(resolution: Resolution, t: number): number {
  const offset = resolution === 'W' ? MONDAY : 0
  const length = BAR_SECONDS[resolution]
  return Math.floor((t - offset) / length) * length + offset
}

const nextStart = (resolution: Resolution, t: number): number =>
  resolution === 'M' ? monthOf(t, 1) : t + BAR_SECONDS[resolution]

function monthOf(t: number, more: number): number {
  const date = new Date(t * 1000)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + more) / 1000
}

/** The last bar ends now: it closes at the latest price. */
function bar(sample: Sample, t: number, end: number): Bar {
  const { least, most } = range(sample, t, end)
  return {
    t,
    o: written(sample, priceAt(sample, t)),
    h: written(sample, most),
    l: written(sample, least),
    c: written(sample, priceAt(sample, end)),
    v: '0',
  }
}

// ── the path of a price ─────────────────────────────────────────────────────────────────────────────────────────────

/**
 * A price is the sum of waves, each a line through random knots, from four minutes to half a year apart; a slow one is high, by the square root of
 * its period. The range of a line over an interval is known without a walk over it, so a bar of any length costs the same, and every price and
 * every shorter bar lies within it.
 */
const WAVES = [240, 960, 3_840, 15_360, 61_440, 245_760, 983_040, 3_932_160, 15_728_640].map((period, index, all) => ({
  period,
  index,
  height: Math.sqrt(period / (all.at(-1) ?? period)),
}))
/** With more knots than this in an interval a wave is taken to have reached its top and its bottom. */
const MAX_KNOTS = 12

function priceAt(sample: Sample, t: number): number {
  return value(
    sample,
    WAVES.reduce((sum, { period, index, height }) => sum + height * lineAt(sample.seed + index, t / period), 0),
  )
}

function range(sample: Sample, from: number, to: number): { least: number; most: number } {
  let [least, most] = [0, 0]
  for (const { period, index, height } of WAVES) {
    const [low, high] = lineRange(sample.seed + index, from / period, to / period)
    least += height * low
    most += height * high
  }
  return { least: value(sample, least), most: value(sample, most) }
}

const value = ({ about, strays }: Sample, sum: number): number => about * Math.exp((sum * strays) / 2)

function lineAt(seed: number, x: number): number {
  const left = Math.floor(x)
  const before = knot(seed, left)
  return before + (knot(seed, left + 1) - before) * (x - left)
}

function lineRange(seed: number, from: number, to: number): readonly [number, number] {
  if (to - from > MAX_KNOTS) return [-1, 1]
  const values = [lineAt(seed, from), lineAt(seed, to)]
  for (let at = Math.ceil(from); at <= to; at++) values.push(knot(seed, at))
  return [Math.min(...values), Math.max(...values)]
}

/** From -1 to 1. */
const knot = (seed: number, at: number): number => hash(seed, at) / 0x7fff_ffff - 1

/** 32 well-mixed bits of two integers, without a sign (the finalizer of MurmurHash3). */
function hash(a: number, b: number): number {
  let mixed = Math.imul(a, 0x9e37_79b1) ^ Math.imul(b, 0x85eb_ca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85eb_ca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** A decimal without trailing zeros. Rounding keeps order, so a bar's high stays above its close. */
function written({ decimals }: Sample, price: number): string {
  const text = price.toFixed(decimals)
  return decimals > 0 ? text.replace(/\.?0+$/, '') : text
}
