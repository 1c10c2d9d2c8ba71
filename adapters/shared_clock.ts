/** The time of the database, kept by a process: all replicas over one database have one time, however their own clocks go. */
import type { Clock, Log } from '../core/mod.ts'

export type SharedClock = Clock & {
  /** Asks the database for its time. Rejects where it cannot be asked; what was known then goes on, and grows uncertain. */
  measure(): Promise<void>
  /** By how many milliseconds this machine's own clock is ahead of the database's; negative where it is behind. */
  skew(): number
  /** Why this process must not sell now; undefined while its time can be trusted. */
  trouble(): string | undefined
}

export type SharedClockOptions = {
  /** This machine's clock, and one that no correction of it moves; both in milliseconds. */
  readonly own: Clock
  readonly monotonic: () => number
  /** The time of the database, in milliseconds since 1970. */
  readonly ask: () => Promise<number>
  readonly log: Pick<Log, 'alert' | 'info'>
  readonly leaseMs: number
}

/** The database read `at` on its clock when ours, the monotonic one, read `read`, give or take `within`; ours read `own` on the wall. */
type Measured = { readonly at: number; readonly read: number; readonly within: number; readonly own: number }

/** What an oscillator may be off, 500 parts in a million: the most that time daemons correct. */
const DRIFT = 500 / 1_000_000

/**
 * Between two measurements time goes by the monotonic clock, so that a correction of this machine's clock moves no lease. Of several measurements
 * that which is surest by now counts: the one with the shortest round trip, until it is old.
 */
export function sharedClock({ own, monotonic, ask, log, leaseMs }: SharedClockOptions): SharedClock {
  const most = leaseMs / 4
  let best: Measured | undefined
  let told: string | undefined

  return { now, wait: own.wait, measure, skew, trouble }

  function now(): number {
    return best ? Math.round(best.at + monotonic() - best.read) : own.now()
  }

  async function measure(): Promise<void> {
    const asked = monotonic()
    const at = await ask()
    const read = monotonic()
    const fresh: Measured = { at: at + (read - asked) / 2, read, within: (read - asked) / 2, own: own.now() }
    // Two measurements that contradict each other: the machine slept, or the database is another one. The new one is right.
    const isApart = best !== undefined && Math.abs(best.at + read - best.read - fresh.at) > fresh.within + doubt(best)
    if (best === undefined || isApart || fresh.within < doubt(best)) best = fresh
    tell()
  }

  function doubt({ within, read }: Measured): number {
    return within + (monotonic() - read) * DRIFT
  }

  function skew(): number {
    return Math.round(own.now() - now())
  }

  function trouble(): string | undefined {
    if (!best) return 'the time of the database is not known yet'
    const [ahead, unsure] = [skew(), Math.round(doubt(best))]
    if (Math.abs(ahead) > most)
      return `the clock of this machine is ${Math.abs(ahead)} ms ${ahead > 0 ? 'ahead of' : 'behind'} the database's, and may be ${most} ms apart from it, a quarter of the lease; correct it (NTP)`
    if (unsure > most)
      return `the time of the database is known to ${unsure} ms only, and must be known to ${most} ms, a quarter of the lease`
    return undefined
  }

  /** Once for each change. */
  function tell(): void {
    const why = trouble()
    const isChange = (why === undefined) !== (told === undefined)
    told = why
    if (isChange && why !== undefined) log.alert('nothing is sold for the sake of a clock', { reason: why })
    if (isChange && why === undefined) log.info('the clock can be trusted again')
  }
}
