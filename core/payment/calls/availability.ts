/**
 * Whether storage answers (decision 100). An outage is an alert, and no call is declared lost because nobody could
 * renew its lease meanwhile.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Log, Storage } from '../../ports/mod.ts'

export type Availability = {
  readonly clock: Clock
  readonly log: Log
  readonly leaseMs: number
  /** Time of the last outage alert, of all gateways of this process. */
  readonly alerts: { lastAt: number }
  /** Writes that wait for storage. */
  readonly waiting: ReadonlyMap<string, unknown>
  /** The error that storage threw. */
  readonly thrown: WeakSet<object>
  answeredAt: number | undefined
  outage: { readonly since: number; readonly until: number } | undefined
  awaySince: number | undefined
}

/** Alerts once per outage, and at most once a minute when storage flaps. */
const ALERT_EVERY_MS = 60_000

export const availability = (
  given: Pick<Availability, 'clock' | 'log' | 'leaseMs' | 'alerts' | 'waiting'>,
): Availability => ({
  ...given,
  thrown: new WeakSet(),
  answeredAt: undefined,
  outage: undefined,
  awaySince: undefined,
})

/** A request sent at `sentAt` was answered, so storage was reachable at some time since. */
function answered(state: Availability, sentAt: number): void {
  const { clock, log, leaseMs, answeredAt, awaySince } = state
  const now = clock.now()
  // No answer for a whole lease period: whether this process was suspended or storage was down, other processes may
  // have been unable to renew too.
  if (answeredAt !== undefined && sentAt - answeredAt > leaseMs)
    state.outage = { since: answeredAt, until: now + leaseMs }
  state.answeredAt = Math.max(answeredAt ?? sentAt, sentAt)
  if (awaySince === undefined) return
  log.info('storage answers again', { seconds: Math.round((now - awaySince) / 1000), unwritten: state.waiting.size })
  state.awaySince = undefined
}

export function failed(state: Availability, error: unknown, verb: string): void {
  if (typeof error === 'object' && error !== null) state.thrown.add(error)
  const now = state.clock.now()
  const isFirst = state.awaySince === undefined
  state.awaySince ??= now
  if (!isFirst || now - state.alerts.lastAt < ALERT_EVERY_MS) return
  state.alerts.lastAt = now
  state.log.alert('storage fails; nothing is sold until it answers', { verb, error: (error as Error)?.message })
}

/** Unfinished calls whose lease ended at or before this time are lost. */
export function lostBy({ outage }: Availability, now: number): number {
  return outage && now < outage.until ? Math.min(now, outage.since) : now
}

/** `lostBy` as an argument of storage: absent where it is `now`. */
export function late(state: Availability, { now }: { readonly now: number }): { readonly lostBy?: number } {
  const by = lostBy(state, now)
  return by < now ? { lostBy: by } : {}
}

/** The storage, with each answer and each failure noted. `openCall` judges its own: a refusal is not an outage. */
export function watched(storage: Storage, state: Availability): Storage {
  const watching =
    <Args extends unknown[], Answer>(verb: string, ask: (...args: Args) => Promise<Answer>) =>
    async (...args: Args): Promise<Answer> => {
      const sentAt = state.clock.now()
      try {
        const answer = await ask(...args)
        answered(state, sentAt)
        return answer
      } catch (error) {
        failed(state, error, verb)
        throw error
      }
    }
  const verbs = Object.entries(storage).map(([verb, ask]) => [
    verb,
    typeof ask !== 'function' || verb === 'close' || verb === 'openCall'
      ? ask
      : watching(verb, ask as (...args: unknown[]) => Promise<unknown>),
  ])
  return Object.fromEntries(verbs) as Storage
}
