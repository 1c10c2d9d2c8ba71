/** The page of a soak: a plot for each measure, and how much more of it there is an hour. */
import { type Point, type Slope, slopeOf } from './slope.ts'
import type { Sample } from './samples.ts'

type Series = {
  readonly title: string
  readonly unit: string
  /** Lines by name. Minutes of faults are in the plot and not in the slope where `isCalm`. */
  readonly lines: Readonly<Record<string, readonly Point[]>>
}
type SoakNotes = { readonly title: string; readonly facts: readonly string[]; readonly warmUpMinutes: number }

const PROCESS = {
  rss: ['Memory (RSS)', 'MiB'],
  heap: ['Heap of JavaScript after a collection', 'MiB'],
  objects: ['Objects after a collection', 'objects'],
  handles: ['Handles (open files and sockets)', 'handles'],
  threads: ['Threads', 'threads'],
  timers: ['Timers', 'timers'],
  cpu: ['CPU since its start', 's'],
  delayP99: ['Delay of the event loop, p99 of a minute', 'ms'],
  delayMost: ['Delay of the event loop, longest of a minute', 'ms'],
} as const

/** Delays of minutes with a fault are those of the fault: a paused process is late for everything. */
const CALM: ReadonlySet<string> = new Set(['delayP99', 'delayMost'])

export function seriesOf(samples: readonly Sample[]): readonly Series[] {
  const names = [...new Set(samples.flatMap(({ processes }) => Object.keys(processes)))]
  const databases = [...new Set(samples.flatMap((sample) => Object.keys(sample.databases)))]
  const lineOf = (from: readonly Sample[], valueOf: (sample: Sample) => number | undefined) =>
    from.flatMap((sample) => {
      const value = valueOf(sample)
      return value === undefined || !Number.isFinite(value) ? [] : [{ hours: sample.minutes / 60, value }]
    })
  const calm = samples.filter(({ fault }) => fault === undefined)
  const ofProcesses = Object.entries(PROCESS).map(([measure, [title, unit]]) => ({
    title,
    unit,
    lines: Object.fromEntries(
      names.map((name) => [
        name,
        lineOf(
          CALM.has(measure) ? calm : samples,
          ({ processes }) => processes[name]?.[measure as keyof typeof PROCESS],
        ),
      ]),
    ),
  }))
  return [
    ...ofProcesses,
    {
      title: 'Databases',
      unit: 'MiB',
      lines: Object.fromEntries(databases.map((name) => [name, lineOf(samples, (sample) => sample.databases[name])])),
    },
    {
      title: 'Workload of a minute',
      unit: 'errands',
      lines: {
        whole: lineOf(samples, ({ whole }) => whole),
        part: lineOf(samples, ({ part }) => part),
        left: lineOf(samples, ({ left }) => left),
      },
    },
    { title: 'An unpaid quote, median', unit: 'ms', lines: { quote: lineOf(calm, ({ quoteMs }) => quoteMs) } },
  ]
}

/** Of what comes after the warm-up: a process that has just started takes what it will keep. */
export const settledSlope = (points: readonly Point[], warmUpMinutes: number): Slope =>
  slopeOf(points.filter(({ hours }) => hours * 60 >= warmUpMinutes))

export const slopeText = ({ perHour, error }: Slope, unit: string): string =>
  Number.isFinite(error) ? `${signed(perHour)} ± ${short(2 * error)} ${unit} an hour` : 'too short to tell'

const short = (value: number): string => value.toLocaleString('en-US', { maximumSignificantDigits: 3 })
const signed = (value: number): string => `${value < 0 ? '' : '+'}${short(value)}`

/** HTML that needs no other file and no script. */
export function page(samples: readonly Sample[], { title, facts, warmUpMinutes }: SoakNotes): string {
  const all = seriesOf(samples)
  const rows = all.flatMap(({ title: measure, unit, lines }) =>
    Object.entries(lines).map(([name, points]) => {
      const [first, last] = [points.find(({ hours }) => hours * 60 >= warmUpMinutes), points.at(-1)]
      const cells = [measure, name, first ? short(first.value) : '', last ? short(last.value) : '']
      return [...cells, slopeText(settledSlope(points, warmUpMinutes), unit)]
    }),
  )
  const head = ['', '', 'after the warm-up', 'at the end', 'slope, with two standard errors']
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title>
<style>
  :root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
  body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
  table { border-collapse: collapse; width: 100% }
  td, th { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8884; font-variant-numeric: tabular-nums }
  svg { width: 100%; height: auto } text { fill: currentColor; font-size: 11px }
  .grid { stroke: #8884 } .fault { fill: #e0a03055 } h2 { margin-bottom: 0 }
</style>
<h1>${escaped(title)}</h1>
<ul>${facts.map((fact) => `<li>${escaped(fact)}</li>`).join('')}</ul>
<table><tr>${head.map((cell) => `<th>${cell}</th>`).join('')}</tr>
${rows.map((row) => `<tr>${row.map((cell) => `<td>${escaped(cell)}</td>`).join('')}</tr>`).join('\n')}
</table>
${all.map((series) => `<h2>${escaped(series.title)}, ${escaped(series.unit)}</h2>\n${plot(series, samples)}`).join('\n')}
</html>
`
}

const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [900, 240, 60, 24, 20]
const COLORS = ['#3b82f6', '#ef4444', '#10b981', '#a855f7', '#f59e0b'] as const

function plot({ lines }: Series, samples: readonly Sample[]): string {
  const values = Object.values(lines).flatMap((points) => points.map(({ value }) => value))
  const most = Math.max(...values, 0) || 1
  const hours = Math.max((samples.at(-1)?.minutes ?? 0) / 60, 1 / 60)
  const x = (at: number) => (LEFT + (at / hours) * (WIDTH - LEFT)).toFixed(1)
  const y = (value: number) => (TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM)).toFixed(1)
  const grid = [0, 0.5, 1].map((share) => {
    const at = y(share * most)
    return `<line class="grid" x1="${LEFT}" x2="${WIDTH}" y1="${at}" y2="${at}"/><text x="0" y="${at}">${short(share * most)}</text>`
  })
  const bands = samples.flatMap(({ minutes, fault }, index) => {
    if (fault === undefined) return []
    const from = (samples[index - 1]?.minutes ?? 0) / 60
    const width = Math.max(1, Number(x(minutes / 60)) - Number(x(from)))
    const box = `x="${x(from)}" y="${TOP}" width="${width.toFixed(1)}" height="${HEIGHT - TOP - BOTTOM}"`
    return [`<rect class="fault" ${box}><title>${escaped(fault)}</title></rect>`]
  })
  const drawn = Object.entries(lines).map(([name, points], index) => {
    const color = COLORS[index % COLORS.length]
    const path = points.map((point) => `${x(point.hours)},${y(point.value)}`).join(' ')
    const legend = `<text x="${LEFT + index * 150}" y="14" style="fill:${color}">${escaped(name)}</text>`
    return `${legend}<polyline fill="none" stroke="${color}" stroke-width="1.5" points="${path}"/>`
  })
  const ends = `<text x="${LEFT}" y="${HEIGHT - 4}">0 h</text><text x="${WIDTH - 60}" y="${HEIGHT - 4}">${hours.toFixed(2)} h</text>`
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">${[...bands, ...grid, ...drawn, ends].join('')}</svg>`
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
