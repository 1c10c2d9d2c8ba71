/** Revenue, calls, buyers, durations and failures over time, from sums that the storage keeps. */
import type { CallTotal, LedgerReads } from '../../core/ports/mod.ts'
import { print, type Usdc, usdc } from '../../core/x402/mod.ts'
import { DURATION_BOUNDS_MS } from '../../core/payment/mod.ts'
import { iso } from './payment.ts'
import { type Mistake, timeOf } from './payments.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** Up to here, hours are listed where nothing else is asked for. */
const USUAL_HOURS_MS = 3 * DAY_MS
const MAX_HOURS_MS = 14 * DAY_MS
const MAX_DAYS_MS = 3_660 * DAY_MS

export const SERIES_FILTERS = ['since', 'until', 'unit', 'by', 'gateway', 'endpoint', 'model'] as const
const UNITS = ['hour', 'day'] as const
const NAMES = ['gateway', 'endpoint', 'model'] as const

type SeriesQuery = Parameters<LedgerReads['callTotals']>[0]
type ReadSeries =
  | { readonly ok: true; readonly query: SeriesQuery }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] }

/** Figures of an hour, a day or a whole range. Durations are null if nothing was completed. */
type Figures = {
  readonly completed: number
  readonly failed: number
  readonly settled: number
  readonly refused: number
  readonly unresolved: number
  readonly charged_usdc: string
  readonly p50_ms: number | null
  readonly p95_ms: number | null
}

type Series = {
  readonly unit: 'hour' | 'day'
  readonly since: string
  readonly until: string
  readonly by: SeriesQuery['by'] | null
  readonly totals: Figures
  /** Only hours and days in which something happened. */
  readonly points: readonly (Figures & { readonly at: string; readonly name: string | null })[]
  /** Figures of each name, the highest revenue first; empty without `by`. */
  readonly names: readonly (Figures & { readonly name: string | null })[]
  /** By day, whatever the unit. */
  readonly buyers: readonly { readonly at: string; readonly buyers: number }[]
}

export function readSeriesQuery(fields: Readonly<Record<string, string | undefined>>, now: number): ReadSeries {
  const mistakes: Mistake[] = []
  const wrong = (path: string, allowed: string) =>
    void mistakes.push({ path, message: `${JSON.stringify(fields[path])} is not allowed here; ${allowed}` })
  for (const name of Object.keys(fields))
    if (!(SERIES_FILTERS as readonly string[]).includes(name))
      wrong(name, `the filters are ${SERIES_FILTERS.join(', ')}`)
  const time = (name: 'since' | 'until', otherwise: number) => {
    const at = fields[name] === undefined ? otherwise : timeOf(fields[name], now)
    if (at === undefined) wrong(name, 'write a date (2026-11-22), a time (2026-11-22T08:00:00Z) or a span (24h, 7d)')
    return at ?? otherwise
  }
  const given = <Name extends string>(name: string, allowed: readonly Name[]) => {
    const value = allowed.find((each) => each === fields[name])
    if (fields[name] !== undefined && !value) wrong(name, `write ${allowed.join(' or ')}`)
    return value
  }
  const until = time('until', now + 1)
  const since = time('since', until - 7 * DAY_MS)
  if (since >= until) wrong('since', `it must be before until, ${iso(until)}`)
  const unit = given('unit', UNITS) ?? (until - since <= USUAL_HOURS_MS ? 'hour' : 'day')
  const by = given('by', NAMES)
  const [step, most] = unit === 'hour' ? [HOUR_MS, MAX_HOURS_MS] : [DAY_MS, MAX_DAYS_MS]
  if (until - since > most + step) wrong(fields.since === undefined ? 'until' : 'since', rangeWords(unit))
  if (mistakes.length > 0) return { ok: false, mistakes }
  const { gateway, endpoint, model } = fields
  const query = {
    unit,
    // The hour or the day that `since` is in is shown whole.
    since: Math.floor(since / step) * step,
    until,
    ...(by && { by }),
    ...(gateway !== undefined && { gateway }),
    ...(endpoint !== undefined && { endpoint }),
    ...(model !== undefined && { model }),
  }
  return { ok: true, query }
}

const rangeWords = (unit: 'hour' | 'day') =>
  unit === 'hour' ? 'a range by hour has at most 14 days; use unit=day' : 'a range has at most 3660 days'

export async function seriesOf(ledger: LedgerReads, query: SeriesQuery): Promise<Series> {
  const { unit, since, until, by, ...names } = query
  const [totals, buyers] = await Promise.all([
    ledger.callTotals(query),
    ledger.buyersByDay({ since: Math.floor(since / DAY_MS) * DAY_MS, until, ...names }),
  ])
  const points = grouped(totals, ({ at, name }) => JSON.stringify([at, name]))
  const sums = by ? grouped(totals, ({ name }) => JSON.stringify(name)) : []
  return {
    unit,
    since: iso(since),
    until: iso(until),
    by: by ?? null,
    totals: figuresOf(totals),
    points: points.map(([first, ...rest]) => ({ at: iso(first.at), name: first.name, ...figuresOf([first, ...rest]) })),
    names: sums
      .map(([first, ...rest]) => ({ first, spent: spentOf([first, ...rest]), figures: figuresOf([first, ...rest]) }))
      .toSorted((a, b) => Number(b.spent - a.spent) || b.figures.completed - a.figures.completed)
      .map(({ first, figures }) => ({ name: first.name, ...figures })),
    buyers: buyers.map((day) => ({ at: iso(day.at), buyers: day.buyers })),
  }
}

type Group = readonly [CallTotal, ...CallTotal[]]

function grouped(totals: readonly CallTotal[], keyOf: (total: CallTotal) => string): readonly Group[] {
  const groups = new Map<string, [CallTotal, ...CallTotal[]]>()
  for (const total of totals) {
    const group = groups.get(keyOf(total))
    if (group) group.push(total)
    else groups.set(keyOf(total), [total])
  }
  return [...groups.values()]
}

function figuresOf(totals: readonly CallTotal[]): Figures {
  const count = (outcome: CallTotal['outcome']) =>
    totals.reduce((sum, total) => sum + (total.outcome === outcome ? total.calls : 0), 0)
  return {
    completed: count('completed'),
    failed: count('failed'),
    settled: count('settled'),
    refused: count('refused'),
    unresolved: count('unresolved'),
    charged_usdc: print(spentOf(totals)),
    p50_ms: quantileOf(totals, 0.5),
    p95_ms: quantileOf(totals, 0.95),
  }
}

const spentOf = (totals: readonly CallTotal[]): Usdc => usdc(totals.reduce((sum, { spent }) => sum + spent, 0n))

/** Estimated within its bounds: the part of the bucket that it falls in, as if calls were spread evenly. */
function quantileOf(totals: readonly CallTotal[], share: number): number | null {
  const counts = new Map<number, number>()
  for (const { outcome, upToMs, calls } of totals)
    if (outcome === 'completed') counts.set(upToMs, (counts.get(upToMs) ?? 0) + calls)
  const bounds = [...counts].toSorted(([a], [b]) => a - b)
  const all = bounds.reduce((sum, [, calls]) => sum + calls, 0)
  let below = 0
  for (const [bound, calls] of bounds) {
    if (below + calls >= all * share) return Math.round(interpolated(bound, (all * share - below) / calls))
    below += calls
  }
  return null
}

function interpolated(bound: number, share: number): number {
  const lower = DURATION_BOUNDS_MS.findLast((each) => each < bound) ?? 0
  // Durations above the last bound have no upper bound.
  return bound === DAY_MS ? lower : lower + (bound - lower) * share
}
