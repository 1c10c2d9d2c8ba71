import { isBusy, type SqliteDriver } from './sqlite/driver.ts'

/** Maximum steps that share one commit: bounds how long a commit blocks the event loop. */
const MAX_BATCH = 64
/** Maximum characters of results that share one commit: eight megabytes take 80 ms to write. */
const MAX_BATCH_CHARACTERS = 1 << 20
/** Attempts while another process has the lock: about five seconds with their pauses. */
const TRIES = 100

type QueuedStep = {
  readonly step: () => unknown
  readonly weight: number
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
}

/**
 * Runs each step inside a write transaction, together with those that arrive in the same turn of the event loop, and
 * resolves once it is on disk. A step may run more than once, so it must have no other effects; one that throws fails
 * alone.
 */
export function writer(database: Pick<SqliteDriver, 'transaction'>) {
  const waiting: QueuedStep[] = []
  let draining: Promise<void> | undefined

  function commit(migrations: readonly QueuedStep[]): Promise<unknown[]> {
    return retryWhileBusy(() => database.transaction(() => migrations.map((queued) => queued.step())))
  }

  async function serve(migrations: readonly QueuedStep[]): Promise<void> {
    try {
      const answers = await commit(migrations)
      migrations.forEach((queued, at) => queued.resolve(answers[at] as never))
    } catch (error) {
      if (migrations.length > 1 && !isBusy(error)) {
        for (const queued of migrations) await serve([queued])
        return
      }
      for (const queued of migrations) queued.reject(error)
    }
  }

  /** The steps of the next commit: at least one, however heavy. Light steps overtake those that do not fit. */
  function next(): readonly QueuedStep[] {
    let weight = 0
    const taken: QueuedStep[] = []
    const left: QueuedStep[] = []
    for (const queued of waiting) {
      const isTaken =
        taken.length < MAX_BATCH &&
        (weight === 0 || queued.weight === 0 || weight + queued.weight <= MAX_BATCH_CHARACTERS)
      if (isTaken) weight += queued.weight
      ;(isTaken ? taken : left).push(queued)
    }
    waiting.splice(0, waiting.length, ...left)
    return taken
  }

  async function drain(): Promise<void> {
    while (waiting.length > 0) {
      await new Promise((turn) => setImmediate(turn))
      await serve(next())
    }
    draining = undefined
  }

  return {
    /** `weight` is about how many characters the step writes, where they are many. */
    write<T>(step: () => T, weight = 0): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        waiting.push({ step, weight, resolve, reject })
        draining ??= drain()
      })
    },
    /** Resolves when no step is waiting. */
    async settle(): Promise<void> {
      await draining
    },
  }
}

/** About how many characters a result takes: the length of its texts. */
export function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce((sum: number, each: unknown) => sum + weightOf(each), 0)
}

/** Retries, without blocking, while another process has the lock. */
export async function retryWhileBusy<T>(step: () => T): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return step()
    } catch (error) {
      if (tries === TRIES || !isBusy(error)) throw error
      await new Promise((turn) => setTimeout(turn, Math.min(tries, 50)))
    }
  }
}
