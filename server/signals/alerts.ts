/**
 * Alerts as conditions: each is reported when it begins and when it ends, however often it is found meanwhile. What to
 * look at is in conditions.ts, where reports go in webhook.ts.
 */
import type { Clock, Log } from '../../core/mod.ts'

type AlertEvent =
  | 'gas_low'
  | 'sales_stopped'
  | 'clock_skew'
  | 'payments_unresolved'
  | 'payments_unsettled'
  | 'vendor_outage'
  | 'storage_unreachable'
  | 'objects_unreachable'
  | 'disk_low'

/** Something that a person should look at, for as long as it is found. `event` and `subject` identify it. */
export type Condition = {
  readonly event: AlertEvent
  /** Subject, such as an address or a model; empty for the process as a whole. */
  readonly subject: string
  readonly severity: 'critical' | 'warning'
  readonly gateway: string
  /** One sentence, without secrets. */
  readonly summary: string
  readonly details?: Readonly<Record<string, unknown>>
}

export type AlertReport = Condition & {
  readonly state: 'started' | 'ended'
  readonly at: number
  readonly since: number
}

/** Finds the conditions that hold now. Those that cannot be determined keep their last state. */
export type Finder = { readonly name: string; find(): Promise<readonly Condition[]> }

type AlertsOptions = {
  readonly finders: readonly Finder[]
  readonly clock: Clock
  readonly log: Log
  readonly everyMs?: number
  report(report: AlertReport): void
}

const EVERY_MS = 15_000
/** Rounds without a condition before it has ended: one that comes and goes is one alert. */
const QUIET_ROUNDS = 2

type Known = { condition: Condition; readonly since: number; quiet: number }

type Alerts = { round(): Promise<void>; stop(): void }

/** Looks at once, then every few seconds until `stop`. */
export function startAlerts(options: AlertsOptions): Alerts {
  const stopped = new AbortController()
  const { round } = watcher(options)
  void (async () => {
    while (!stopped.signal.aborted) {
      await round()
      await options.clock.wait(options.everyMs ?? EVERY_MS, stopped.signal)
    }
  })()
  return { round, stop: () => stopped.abort() }
}

/** The rounds of `startAlerts`, without their timer. */
export function watcher({ finders, clock, log, report }: Omit<AlertsOptions, 'everyMs'>): { round(): Promise<void> } {
  const known = new Map(finders.map(({ name }) => [name, new Map<string, Known>()]))
  const failing = new Set<string>()
  return { round: async () => void (await Promise.all(finders.map(check))) }

  async function check({ name, find }: Finder): Promise<void> {
    const before = known.get(name) as Map<string, Known>
    let found: readonly Condition[]
    try {
      found = await find()
      failing.delete(name)
    } catch (error) {
      if (!failing.has(name)) log.warn('a check for alerts failed', { check: name, error: (error as Error).message })
      failing.add(name)
      return
    }
    const at = clock.now()
    const keyOf = ({ event, gateway, subject }: Condition) => JSON.stringify([event, gateway, subject])
    for (const condition of found) {
      const open = before.get(keyOf(condition))
      if (open) Object.assign(open, { condition, quiet: 0 })
      if (open) continue
      before.set(keyOf(condition), { condition, since: at, quiet: 0 })
      report({ ...condition, state: 'started', at, since: at })
    }
    const present = new Set(found.map(keyOf))
    for (const [key, open] of before) {
      if (present.has(key) || ++open.quiet < QUIET_ROUNDS) continue
      before.delete(key)
      report({ ...open.condition, state: 'ended', at, since: open.since })
    }
  }
}
