/** The console's plots from the sums of the API. */
import { expect, test } from 'bun:test'
import { byName, measured, timesOf } from '../../../server/web/pages/console/plot_data.ts'
import type { Series } from '../../../server/web/pages/console/api.ts'

const FIGURES = {
  completed: 1,
  failed: 0,
  settled: 1,
  refused: 0,
  unresolved: 0,
  charged_usdc: '0.5',
  p50_ms: 40,
  p95_ms: 50,
}

function seriesOf(more: Partial<Series> = {}): Series {
  return {
    unit: 'day',
    since: '2026-11-20T00:00:00.000Z',
    until: '2026-11-22T08:00:00.000Z',
    totals: FIGURES,
    points: [{ at: '2026-11-21T00:00:00.000Z', name: null, ...FIGURES }],
    names: [],
    buyers: [],
    ...more,
  }
}

const DAY = 86_400
const FIRST = Date.parse('2026-11-20T00:00:00.000Z') / 1_000

test('a range has every hour or day, the one that is not over included', () => {
  expect(timesOf(seriesOf())).toEqual([FIRST, FIRST + DAY, FIRST + 2 * DAY])
  const hours = timesOf(
    seriesOf({ unit: 'hour', since: '2026-11-20T22:00:00.000Z', until: '2026-11-21T01:00:00.001Z' }),
  )
  expect(hours.map((at) => (at - FIRST) / 3_600)).toEqual([22, 23, 24, 25])
})

test('a day on which nothing happened counts as 0, and has no duration', () => {
  const { lines } = measured(seriesOf(), { calls: ({ completed }) => completed, median: ({ p50_ms: ms }) => ms })
  expect(lines).toEqual([
    { label: 'calls', values: [0, 1, 0] },
    { label: 'median', values: [null, 40, null] },
  ])
})

test('the first names have a line each, and all others have one together, so that nothing is left out', () => {
  const names = Array.from({ length: 8 }, (_, index) => ({ name: index === 7 ? null : `model ${index}`, ...FIGURES }))
  const points = names.map(({ name }) => ({ at: '2026-11-21T00:00:00.000Z', name, ...FIGURES }))
  const { lines } = byName(seriesOf({ names, points }), ({ charged_usdc: usdc }) => Number(usdc))
  expect(lines.map(({ label }) => label)).toEqual(['model 0', 'model 1', 'model 2', 'model 3', 'model 4', 'others'])
  expect(lines.map(({ values }) => values[1])).toEqual([0.5, 0.5, 0.5, 0.5, 0.5, 1.5])
  const few = byName(seriesOf({ names: names.slice(2), points: points.slice(2) }), ({ completed }) => completed)
  expect(few.lines.map(({ label }) => label).at(-1)).toBe('without a model')
})
