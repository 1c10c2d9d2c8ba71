/** Turns the sums of the API into the data of plots: a value for each hour or day of the range. */
import type { Figures, Point, Series } from './api.ts'

type Line = { readonly label: string; readonly values: readonly (number | null)[] }
export type PlotData = { readonly times: readonly number[]; readonly lines: readonly Line[] }

export const HOUR_S = 3_600
export const DAY_S = 86_400
/** As many names as a plot can tell apart; the rest is one line. */
const MAX_LINES = 5

/** Begins of the hours or days of a range, in seconds since 1970. */
export function timesOf({ since, until, unit }: Pick<Series, 'since' | 'until' | 'unit'>): readonly number[] {
  const step = unit === 'hour' ? HOUR_S : DAY_S
  const first = Math.floor(Date.parse(since) / 1_000 / step) * step
  const end = Date.parse(until) / 1_000
  return Array.from({ length: Math.max(1, Math.ceil((end - first) / step)) }, (_, index) => first + index * step)
}

/** Each measure as a line over the whole range; without sums there is nothing, which is 0 or null. */
export function measured(
  series: Series,
  measures: Readonly<Record<string, (point: Figures) => number | null>>,
): PlotData {
  const times = timesOf(series)
  const at = new Map(series.points.map((point) => [Date.parse(point.at) / 1_000, point]))
  const lines = Object.entries(measures).map(([label, measure]) => ({
    label,
    values: times.map((each) => measure(at.get(each) ?? NOTHING)),
  }))
  return { times, lines }
}

/** One measure as a line for each of the first names, and one for all others. */
export function byName(series: Series, measure: (point: Figures) => number): PlotData {
  const times = timesOf(series)
  const first = series.names.slice(0, series.names.length > MAX_LINES + 1 ? MAX_LINES : MAX_LINES + 1)
  const lineOf = (label: string, isMine: (point: Point) => boolean) => {
    const sums = new Map<number, number>()
    for (const point of series.points.filter(isMine)) {
      const at = Date.parse(point.at) / 1_000
      sums.set(at, (sums.get(at) ?? 0) + measure(point))
    }
    return { label, values: times.map((at) => sums.get(at) ?? 0) }
  }
  const lines = first.map(({ name }) => lineOf(labelOf(name), (point) => point.name === name))
  if (first.length === series.names.length) return { times, lines }
  const isOther = (point: Point) => !first.some(({ name }) => name === point.name)
  return { times, lines: [...lines, lineOf('others', isOther)] }
}

export const labelOf = (name: string | null): string => name ?? 'without a model'

const NOTHING: Figures = {
  completed: 0,
  failed: 0,
  settled: 0,
  refused: 0,
  unresolved: 0,
  charged_usdc: '0',
  p50_ms: null,
  p95_ms: null,
}
