import { useEffect, useRef, useState } from 'preact/hooks'
import UPlot from 'uplot'
import { DAY_S, HOUR_S, type PlotData } from './plot_data.ts'

const HEIGHT = 220

type PlotProps = {
  title: string
  /** Summary in a few words, for screen readers too. */
  summary: string
  data: PlotData
  unit: 'hour' | 'day'
  /** Bars for sums, lines for what is compared. */
  isBars?: boolean
  /** Whole numbers. */
  isCount?: boolean
  print: (value: number) => string
}

/** A plot with its summary and the same numbers as a table. Dragging zooms; a double click shows everything again. */
export function Plot({ title, summary, data, unit, isBars = false, isCount = false, print }: PlotProps) {
  const box = useRef<HTMLDivElement>(null)
  const scheme = useScheme()
  useEffect(() => {
    const target = box.current
    if (!target) return undefined
    const made = new UPlot(
      optionsOf({ data, unit, isBars, isCount, print }, target),
      [data.times, ...valuesOf(data)] as never,
      target,
    )
    const observer = new ResizeObserver(() => made.setSize({ width: target.clientWidth, height: HEIGHT }))
    observer.observe(target)
    return () => {
      observer.disconnect()
      made.destroy()
    }
  }, [data, unit, isBars, scheme])
  return (
    <figure class="card plot">
      <figcaption>
        <h3>{title}</h3>
        <p class="soft small">{summary}</p>
      </figcaption>
      <div ref={box} role="img" aria-label={`${title}: ${summary}`} />
      <details>
        <summary class="small">As a table</summary>
        <Numbers data={data} unit={unit} print={print} />
      </details>
    </figure>
  )
}

const valuesOf = ({ lines }: PlotData) => lines.map(({ values }) => values)

function Numbers({ data, unit, print }: Pick<PlotProps, 'data' | 'unit' | 'print'>) {
  const rows = data.times.flatMap((time, index) =>
    data.lines.some(({ values }) => values[index]) ? [{ time, index }] : [],
  )
  if (rows.length === 0) return <p class="soft small">Nothing in this range.</p>
  return (
    <div class="table numbers" tabIndex={0} role="region" aria-label="Numbers">
      <table>
        <thead>
          <tr>
            <th scope="col">{unit === 'hour' ? 'Hour (UTC)' : 'Day (UTC)'}</th>
            {data.lines.map(({ label }) => (
              <th scope="col" class="number">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ time, index }) => (
            <tr key={time}>
              <th scope="row">{dateOf(time, unit)}</th>
              {data.lines.map(({ values }) => (
                <td class="number">{printed(values[index], print)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const printed = (value: number | null | undefined, print: (value: number) => string): string =>
  value === null || value === undefined ? '–' : print(value)

function dateOf(seconds: number, unit: 'hour' | 'day'): string {
  const iso = new Date(seconds * 1_000).toISOString()
  return unit === 'hour' ? iso.slice(0, 16).replace('T', ' ') : iso.slice(0, 10)
}

/** Which colours the reader has; plots are drawn again when that changes. */
function useScheme(): boolean {
  const query = matchMedia('(prefers-color-scheme: dark)')
  const [isDark, setDark] = useState(query.matches)
  useEffect(() => {
    const update = () => setDark(query.matches)
    query.addEventListener('change', update)
    return () => query.removeEventListener('change', update)
  }, [])
  return isDark
}

function optionsOf(
  { data, unit, isBars, isCount, print }: Required<Pick<PlotProps, 'data' | 'unit' | 'isBars' | 'isCount' | 'print'>>,
  target: HTMLElement,
): UPlot.Options {
  const style = getComputedStyle(target)
  const colour = (name: string) => style.getPropertyValue(name).trim()
  const [soft, line] = [colour('--soft'), colour('--line')]
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: '12px system-ui' }
  const step = unit === 'hour' ? HOUR_S : DAY_S
  const top = Math.max(0, ...data.lines.flatMap(({ values }) => values.map((value) => value ?? 0)))
  return {
    width: target.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC'),
    cursor: { points: { size: 7 }, drag: { x: true, y: false } },
    scales: {
      // A bar is as wide as its hour or day, so the last one needs room.
      x: { range: (_, least, most) => [least, most + (isBars ? step : 0)] },
      y: { range: (_, __, most) => [0, (most || top || 1) * 1.08] },
    },
    axes: [
      {
        ...axis,
        size: 30,
        space: 64,
        grid: { show: false },
        ...(unit === 'day' && { incrs: DAYS }),
        values: (_, ticks) => ticks.map((tick) => tickOf(tick, unit)),
      },
      {
        ...axis,
        size: 62,
        space: 36,
        ...(isCount && { incrs: WHOLE }),
        values: (_, ticks) => ticks.map((tick) => (tick === null ? '' : print(tick).replace(/\.00$/, ''))),
      },
    ],
    series: [
      { label: unit === 'hour' ? 'Hour' : 'Day', value: (_, time) => (time === null ? '–' : dateOf(time, unit)) },
      ...data.lines.map(({ label }, index) => {
        const stroke = colour(`--plot-${(index % 6) + 1}`)
        return {
          label,
          stroke,
          width: 2,
          value: (_: UPlot, value: number | null) => printed(value, print),
          ...(isBars && {
            fill: `${stroke}99`,
            width: 1,
            points: { show: false },
            ...(UPlot.paths.bars && { paths: UPlot.paths.bars({ size: [0.7, 40], align: 1 }) }),
          }),
        }
      }),
    ],
  }
}

/** Steps of an axis of days. */
const DAYS = [1, 2, 4, 7, 14, 28, 56, 91, 182, 365, 730].map((days) => days * DAY_S)

/** Steps of an axis of whole numbers. */
const WHOLE = [1, 2, 5]
  .flatMap((each) => Array.from({ length: 9 }, (_, zeros) => each * 10 ** zeros))
  .toSorted((a, b) => a - b)

const dates = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
const months = new Intl.DateTimeFormat('en-GB', { month: 'short', year: 'numeric', timeZone: 'UTC' })

/** `14:00`, and the date at midnight; `16 Nov`, and the year at its first day. */
function tickOf(seconds: number, unit: 'hour' | 'day'): string {
  const date = new Date(seconds * 1_000)
  const iso = date.toISOString()
  if (unit === 'hour' && iso.slice(11, 16) !== '00:00') return iso.slice(11, 16)
  return iso.slice(5, 10) === '01-01' ? months.format(date) : dates.format(date)
}
