/**
 * `bun run soak [--hours 8] [--rate 3] [--fault-minutes 10] [--seed N] [--out soak.html]`: two replicas on Postgres and
 * a gateway on SQLite sell for hours, by every scheme and by keys, and meet a fault every ten minutes. Each minute it
 * writes down memory, handles, timers, databases and the delay of the loop, and writes the page again. Interrupt it to
 * end early. Exits with 1 if a ledger and the chain differ at the end.
 */
import { appendFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { page, seriesOf, settledSlope, slopeText } from './page.ts'
import type { Sample } from './samples.ts'
import { soak } from './soak.ts'

const option = (initial: string) => ({ type: 'string', default: initial }) as const
/** A quarter of a short run, never more than a quarter of an hour. */
const warmUpOf = (hours: number) => Math.min(15, hours * 15)

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      hours: option('8'),
      rate: option('3'),
      'fault-minutes': option('10'),
      'sample-seconds': option('60'),
      seed: option('1'),
      out: option('soak.html'),
    },
  })
  const [hours, rate] = [positive('hours', values.hours), positive('rate', values.rate)]
  const [faultMinutes, sampleSeconds] = [
    positive('fault-minutes', values['fault-minutes']),
    positive('sample-seconds', values['sample-seconds']),
  ]
  const ending = new AbortController()
  process.once('SIGINT', () => ending.abort())
  const written = values.out.replace(/(\.html)?$/, '.jsonl')
  writeFileSync(written, '')
  const facts = [
    `${rate} errands a second, a fault every ${faultMinutes} minutes, a sample every ${sampleSeconds} s, seed ${values.seed}`,
    `Bun ${Bun.version}, ${process.platform} ${process.arch}. a and b sell from Postgres, sqlite from a file; b alone is killed.`,
  ]
  const show = (samples: readonly Sample[], more: readonly string[] = []) => {
    const last = samples.at(-1)
    const warmUpMinutes = warmUpOf((last?.minutes ?? 0) / 60)
    const title = `Soak of ${((last?.minutes ?? 0) / 60).toFixed(2)} hours`
    writeFileSync(values.out, page(samples, { title, facts: [...facts, ...more], warmUpMinutes }))
  }
  const report = await soak({
    seed: Number(values.seed),
    hours,
    perSecond: rate,
    sampleSeconds,
    faultSeconds: faultMinutes * 60,
    signal: ending.signal,
    log: console.log,
    onSample(samples) {
      appendFileSync(written, `${JSON.stringify(samples.at(-1))}\n`)
      show(samples)
    },
  })
  const { samples, faults, oddities, reconciled } = report
  const totals = samples.reduce(
    (sum, { whole, part, left }) => [sum[0]! + whole, sum[1]! + part, sum[2]! + left],
    [0, 0, 0],
  )
  const ends = `${totals[0]} errands ended whole, ${totals[1]} in part, ${totals[2]} not; ${faults.length} faults; ${oddities.length} oddities`
  const lines = Object.entries(reconciled).map(
    ([name, text]) =>
      `${name}: ${text
        .trim()
        .replaceAll(/\s*\n\s*/g, ' ')
        .slice(0, 2_000)}`,
  )
  show(samples, [ends, ...lines])
  console.log([ends, ...lines].join('\n'))
  const warmUp = warmUpOf((samples.at(-1)?.minutes ?? 0) / 60)
  for (const { title, unit, lines: drawn } of seriesOf(samples))
    for (const [name, points] of Object.entries(drawn))
      console.log(`${title}, ${name}: ${slopeText(settledSlope(points, warmUp), unit)}`)
  console.log(`${values.out} has the plots, ${written} the samples`)
  process.exit(Object.values(reconciled).every(agrees) ? 0 : 1)
}

const agrees = (reconciled: string): boolean => /\bagree\b/.test(reconciled) && !/[1-9]\d* differ/.test(reconciled)

function positive(name: string, text: string): number {
  const value = Number(text)
  if (!(value > 0)) throw new RangeError(`--${name} ${text} is not a positive number`)
  return value
}

if (import.meta.main) await main()
