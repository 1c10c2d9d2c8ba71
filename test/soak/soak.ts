/** A soak: gateways sell for hours, meet a fault every ten minutes, and are measured every minute. */
import { setTimeout as pause } from 'node:timers/promises'
import { chance, seedOf } from '../simulation/chance.ts'
import { workload } from './workload.ts'
import { soakFaults } from './faults.ts'
import { databaseSizes, processSample, type Sample } from './samples.ts'
import { town, type Town } from './sellers.ts'

type SoakOptions = {
  readonly seed: number
  readonly hours: number
  readonly perSecond: number
  readonly sampleSeconds: number
  readonly faultSeconds: number
  /** Ends it early, as if the hours were over. */
  readonly signal?: AbortSignal
  readonly onSample?: (samples: readonly Sample[]) => void
  readonly log?: (line: string) => void
}
type SoakReport = {
  readonly samples: readonly Sample[]
  readonly faults: readonly string[]
  /** Answers that buyers should not have met, with the minute. */
  readonly oddities: readonly string[]
  /** Output of `farebox reconcile` for each ledger. */
  readonly reconciled: Readonly<Record<string, string>>
}

const BUYERS = 60
/** By then leases of the dead are over, and what was sent is mined. */
const SETTLED_MS = 20_000

/** Everything that it starts has ended when it resolves or rejects. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const undo: (() => unknown)[] = []
  try {
    return await played(undo, options)
  } finally {
    for (const step of undo.toReversed()) await step()
  }
}

async function played(undo: (() => unknown)[], options: SoakOptions): Promise<SoakReport> {
  const { seed, hours, perSecond, sampleSeconds, faultSeconds, signal, onSample, log = () => {} } = options
  const set = await town(undo, { seed, buyers: BUYERS, probeMs: (sampleSeconds * 1_000) / 2 })
  const going = await workload({ sellers: set.sellers, chance: chance(seedOf(seed, 1)), perSecond })
  const startedAt = performance.now()
  const over = AbortSignal.any([AbortSignal.timeout(hours * 3_600_000), ...(signal ? [signal] : [])])
  const samples: Sample[] = []
  const [faults, oddities]: [string[], string[]] = [[], []]
  let current: string | undefined
  let since: string | undefined

  async function faulty(): Promise<void> {
    const dice = chance(seedOf(seed, 2))
    for (let turn = 0; await slept(faultSeconds * 1_000, over); turn++) {
      const { name, play } = soakFaults[turn % soakFaults.length]!
      since = current = name
      faults.push(name)
      log(`${minutesSince(startedAt).toFixed(1)} min: ${name}`)
      await play(set, dice)
      current = undefined
    }
  }

  async function sampled(): Promise<void> {
    while (await slept(sampleSeconds * 1_000, over)) {
      const sample = await sampleOf(set, { minutes: minutesSince(startedAt), fault: since, ended: going.taken() })
      since = current
      samples.push(sample)
      onSample?.(samples)
    }
  }

  type Taken = { minutes: number; fault: string | undefined; ended: ReturnType<typeof going.taken> }
  async function sampleOf(of: Town, { minutes, fault, ended }: Taken): Promise<Sample> {
    const { whole, part, left, quotes } = ended
    for (const oddity of ended.oddities) {
      oddities.push(`minute ${minutes.toFixed(1)}${fault ? ` (${fault})` : ''}: ${oddity}`)
      log(oddities.at(-1)!)
    }
    const sorted = quotes.toSorted((a, b) => a - b)
    const processes = [...of.postgres.replicas, of.sqlite].flatMap((replica) => {
      const found = processSample(of.probes, replica)
      return found ? [[replica.name, found] as const] : []
    })
    return {
      minutes,
      ...(fault && { fault }),
      whole,
      part,
      left,
      quoteMs: sorted[Math.floor(sorted.length / 2)] ?? Number.NaN,
      processes: Object.fromEntries(processes),
      databases: await databaseSizes(of),
    }
  }

  await Promise.all([faulty(), sampled()])
  await going.stop()
  await pause(SETTLED_MS)
  const reconciled: Record<string, string> = {}
  for (const { name, replicas } of set.sellers)
    reconciled[name] = await replicas[0]!.command('reconcile', '--from-block', '0')
  return { samples, faults, oddities, reconciled }
}

const minutesSince = (startedAt: number): number => (performance.now() - startedAt) / 60_000

/** False once it is over. */
async function slept(ms: number, over: AbortSignal): Promise<boolean> {
  await pause(ms, undefined, { signal: over }).catch(() => {})
  return !over.aborted
}
