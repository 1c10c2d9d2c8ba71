/**
 * `bun run fault [--seed N] [--buyers 200] [--kills 10] [--hasten]`: two gateway processes on one Postgres and one
 * chain, a bad wire between them and the chain, buyers, and a hand that kills. Prints the schedule and the counts;
 * exits with 1 unless every unit of money is where it belongs and, with enough kills, every kill point was hit.
 * `--hasten` ends what the dead held at once. Then the same for videos and for the other rails, scene by scene;
 * `--kills 0` plays these alone. Then bad weather: pauses, a database that goes away, clocks that differ, a node that
 * refuses, wallets that are drained, over a mix of everything that is sold. `--minutes 10` plays the weather alone,
 * scene by scene and then all of it at once, for so long; `--scene TEXT` only the scenes of weather whose name contains
 * the text.
 */
import { parseArgs } from 'node:util'
import { fault, type FaultOptions, type FaultReport } from './fault.ts'
import { type Point, points, sayings } from './kill_points.ts'
import { paymentMethodFaults } from './payment_methods.ts'
import { storm, type StormReport } from './storm.ts'
import { INVARIANTS, type Invariant } from './reckoning.ts'
import { type SceneReport, videoFaults } from './videos.ts'

/** Output of the command. */
function reported({
  counts,
  ledgerSum,
  chainSum,
  kills,
  seconds,
  rpc,
  answers,
  alerts,
  violations,
}: FaultReport): readonly string[] {
  const list = (entries: Iterable<readonly [string, number]>) =>
    [...entries].map(([what, count]) => `${what} ${count}`).join(', ')
  const hits = (point: Point) => kills.filter(({ hit }) => hit.includes(point)).length
  return [
    `counts: ${list(Object.entries(counts))}`,
    `answers: ${list([...answers].toSorted(([, a], [, b]) => b - a))}`,
    `wire: ${list(Object.entries(rpc))}`,
    `money: ledger ${ledgerSum}, chain ${chainSum} micro-USDC`,
    'kill points:',
    ...points.map((point) => `  ${point.padEnd(9)} ${String(hits(point)).padStart(3)} kills  ${sayings[point]}`),
    ...alerts.map((alert) => `alert: ${alert}`),
    ...violations.map((violation) => `VIOLATION: ${violation}`),
    `${kills.length} kills, ${violations.length} violations, ${seconds} s`,
  ]
}

async function main(): Promise<void> {
  const option = (initial: string) => ({ type: 'string', default: initial }) as const
  const { values } = parseArgs({
    options: {
      seed: option(`${Date.now() % 1_000_000}`),
      buyers: option('200'),
      kills: option('10'),
      hasten: { type: 'boolean', default: false },
      minutes: { type: 'string' },
      scene: { type: 'string' },
    },
  })
  const [seed, buyers, kills] = [values.seed, values.buyers, values.kills].map(Number) as [number, number, number]
  const weathering = {
    seed,
    log: console.log,
    ...(values.minutes && { minutes: Number(values.minutes) }),
    ...(values.scene && { scene: values.scene }),
  }
  const isWeatherAlone = values.minutes !== undefined || values.scene !== undefined
  if (isWeatherAlone) process.exit(weathered(await storm(weathering)) ? 0 : 1)
  const arePicturesWhole = kills === 0 || (await pictures({ seed, buyers, kills, hasten: values.hasten }))
  const areVideosWhole = listed('videos', await videoFaults({ seed, log: console.log }))
  const arePaymentMethodsComplete = listed('rails', await paymentMethodFaults({ log: console.log }))
  const isWeathered = weathered(await storm(weathering))
  process.exit(arePicturesWhole && areVideosWhole && arePaymentMethodsComplete && isWeathered ? 0 : 1)
}

/** The sum of all scenes of weather, invariant by invariant. */
function weathered({ scenes }: StormReport): boolean {
  const violations = scenes.flatMap((scene) => scene.violations)
  const sum = (count: (scene: StormReport['scenes'][number]) => number | bigint) =>
    scenes.reduce((total, scene) => total + BigInt(count(scene)), 0n)
  for (const [invariant, law] of Object.entries(INVARIANTS) as [Invariant, string][]) {
    console.log(
      `  ${String(violations.filter((each) => each.invariant === invariant).length).padStart(4)} violations of: ${law}`,
    )
  }
  const count = (key: 'tasks' | 'answers' | 'transfers' | 'given' | 'capped' | 'taken') =>
    sum(({ counts }) => counts[key])
  console.log(
    `${count('tasks')} tasks, ${count('answers')} answers, ${count('transfers')} transfers of ${sum(({ paid }) => paid)} micro-USDC`,
  )
  console.log(
    `given away: ${count('given')} worth ${sum(({ given }) => given)}; within the cap of wallets that never settled anything: ${count('capped')} worth ${sum(({ capped }) => capped)} micro-USDC`,
  )
  console.log(
    `taken beyond the cap by drained wallets that had paid something before, to which contract 1.47 sets none: ${count('taken')} worth ${sum(({ taken }) => taken)} micro-USDC`,
  )
  console.log(`${scenes.length} scenes of weather, ${violations.length} violations`)
  return violations.length === 0
}

function listed(what: string, { scenes, violations }: SceneReport): boolean {
  for (const violation of violations) console.log(`VIOLATION: ${violation}`)
  console.log(`${scenes} scenes of ${what}, ${violations.length} violations`)
  return violations.length === 0
}

async function pictures({ seed, buyers, kills, hasten }: Omit<FaultOptions, 'log'>): Promise<boolean> {
  const report = await fault({ seed, buyers, kills, hasten: hasten === true, log: console.log })
  console.log(reported(report).join('\n'))
  const missed = points.filter((point) => !report.kills.some(({ hit }) => hit.includes(point)))
  if (missed.length > 0) console.log(`MISSED: no kill at ${missed.join(', ')}`)
  return report.violations.length === 0 && (missed.length === 0 || kills < points.length)
}

if (import.meta.main) await main()
