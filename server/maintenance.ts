/**
 * Periodic maintenance: renews work leases, fails calls of dead processes, reconciles settlements of unknown outcome
 * and deletes what has expired: results, ledger rows, media and records.
 */
import {
  archiveExpired,
  type Clock,
  type Gateway,
  type Log,
  type Objects,
  pruneExpired,
  type Retention,
  type Storage,
} from '../core/mod.ts'

type MaintenanceOptions = {
  readonly gateways: readonly Gateway[]
  readonly storage: Storage
  readonly objects: Objects
  /** Where old ledger rows are moved; undefined where they are not. */
  readonly archive?: Objects | undefined
  /** Lifetimes of stored data; the same as the gateways have. */
  readonly retention: Retention
  readonly clock: Clock
  readonly log: Log
  readonly workerId: string
  /** Milliseconds between two rounds; at most a third of the work lease. */
  readonly everyMs?: number
}

const PRUNE_EVERY_MS = 3_600_000

/** Starts the loops. A failed round is logged and tried again. `stop` resolves when the current rounds have ended. */
export function startMaintenance({
  gateways,
  storage,
  objects,
  archive,
  retention,
  clock,
  log,
  workerId,
  everyMs = 5_000,
}: MaintenanceOptions): {
  stop(): Promise<void>
} {
  const stopped = new AbortController()
  let prunedAt = 0

  /** A process that has died keeps its lease for a while: then this is tried again in the next round. */
  const mayPrune = () => storage.lease('prune', workerId, { now: clock.now(), until: clock.now() + 60_000 })

  async function prune(): Promise<void> {
    const now = clock.now()
    if (now - prunedAt < PRUNE_EVERY_MS || !(await mayPrune())) return
    prunedAt = now
    await pruneExpired({ storage, objects, clock, log }, retention, { isArchived: archive !== undefined })
  }

  async function moveToArchive(): Promise<void> {
    if (archive) await archiveExpired({ storage, clock, archive, mayGoOn: mayPrune }, retention, stopped.signal)
  }

  async function renew(): Promise<void> {
    for (const gateway of gateways) await gateway.renew()
  }

  /** Loops that currently fail, and why: one outage fails all of them, and raises one alert. */
  const failing = new Map<object, string>()

  /**
   * Only the first failure in a row with a given reason is an alert, in whichever loop it occurs. Database outages are
   * not counted here, because the gateways report them.
   */
  async function repeat(step: () => Promise<void>): Promise<void> {
    const loop = {}
    let failures = 0
    while (!stopped.signal.aborted) {
      try {
        await step()
        failures = 0
        failing.delete(loop)
      } catch (error) {
        const reason = (error as Error).message
        const isKnown = failures++ > 0 || isStorageError(error) || [...failing.values()].includes(reason)
        failing.set(loop, reason)
        const write = isKnown ? log.warn : log.alert
        write('maintenance failed; it will be retried', { error: reason, failures })
      }
      await clock.wait(everyMs, stopped.signal)
    }
  }

  /** Separate loops, so that a slow chain delays neither the lease renewals nor the other gateways. */
  const running = Promise.all([
    repeat(renew),
    repeat(prune),
    ...(archive ? [repeat(moveToArchive)] : []),
    ...gateways.map((gateway) => repeat(() => gateway.maintain())),
  ])

  return {
    async stop() {
      stopped.abort()
      await running
    },
  }
}

/** An outage of storage has an alert of its own, so a sweep that fails for it adds none. */
const isStorageError = (error: unknown): boolean => error instanceof Error && error.name === 'DatabaseError'
