/**
 * Database time as kept by a process, so that all replicas over one database agree, whatever their clocks say (decision
 * 102).
 */
import type { Clock, Log } from '../core/mod.ts'

export type SharedClock = Clock & {
  /** Reads the time of the database. Rejects when that fails; the last measurement stays, with growing uncertainty. */
  measure(): Promise<void>
  /** Milliseconds by which this machine's clock is ahead of the database; negative when behind. */
  skew(): number
  /** Why this process must not sell now; undefined while its time can be trusted. */
  trouble(): string | undefined
}

type SharedClockOptions = {
  /** This machine's clock, and a monotonic one that no correction moves; both in milliseconds. */
  readonly localClock: Clock
  readonly monotonic: () => number
  /** Reads the time of the database, in milliseconds since 1970. */
  readonly readDatabaseTime: () => Promise<number>
  readonly log: Pick<Log, 'alert' | 'info'>
  readonly leaseMs: number
}

/** Database time at a reading of the monotonic clock, plus or minus `uncertainty`. All in milliseconds. */
type Measurement = { readonly databaseTime: number; readonly monotonicTime: number; readonly uncertainty: number }

/** Assumed drift of an oscillator, 500 ppm: the most that time daemons correct. */
const DRIFT = 500 / 1_000_000

/**
 * Between measurements time follows the monotonic clock, so that a correction of this machine's clock moves no lease.
 * The measurement with the least uncertainty counts: the one with the shortest round trip, until it is old.
 */
export function sharedClock({
  localClock,
  monotonic,
  readDatabaseTime,
  log,
  leaseMs,
}: SharedClockOptions): SharedClock {
  const maxSkewMs = leaseMs / 4
  let best: Measurement | undefined
  let reportedProblem: string | undefined

  return { now, wait: localClock.wait, measure, skew, trouble }

  function now(): number {
    return best ? Math.round(best.databaseTime + monotonic() - best.monotonicTime) : localClock.now()
  }

  async function measure(): Promise<void> {
    const start = monotonic()
    const time = await readDatabaseTime()
    const end = monotonic()
    const uncertainty = (end - start) / 2
    const fresh: Measurement = { databaseTime: time + uncertainty, monotonicTime: end, uncertainty }
    // Contradicting measurements mean that the machine slept, or the database changed. The new one is right.
    const contradicts =
      best !== undefined &&
      Math.abs(best.databaseTime + end - best.monotonicTime - fresh.databaseTime) > uncertainty + uncertaintyOf(best)
    if (best === undefined || contradicts || uncertainty < uncertaintyOf(best)) best = fresh
    report()
  }

  function uncertaintyOf({ uncertainty, monotonicTime }: Measurement): number {
    return uncertainty + (monotonic() - monotonicTime) * DRIFT
  }

  function skew(): number {
    return Math.round(localClock.now() - now())
  }

  function trouble(): string | undefined {
    if (!best) return 'the database time is not known yet'
    const side = skew() > 0 ? 'ahead of' : 'behind'
    const limit = `at most ${maxSkewMs} ms (a quarter of the lease) are allowed`
    const [ahead, uncertainty] = [skew(), Math.round(uncertaintyOf(best))]
    if (Math.abs(ahead) > maxSkewMs)
      return `this machine's clock is ${Math.abs(ahead)} ms ${side} the database's; ${limit}; use NTP`
    if (uncertainty > maxSkewMs) return `the database time is uncertain by ${uncertainty} ms; ${limit}`
    return undefined
  }

  /** Logs each change once. */
  function report(): void {
    const why = trouble()
    const isChange = (why === undefined) !== (reportedProblem === undefined)
    reportedProblem = why
    if (isChange && why !== undefined) log.alert('sales stopped: the clock cannot be trusted', { reason: why })
    if (isChange && why === undefined) log.info('sales resumed: the clock can be trusted again')
  }
}
