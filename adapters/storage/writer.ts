import type { BunSQLiteDatabase } from 'drizzle-orm/bun-sqlite'

/** Steps that share one commit at most: bounds how long the event loop stands. */
const BATCH = 64
/** Characters of results that share one commit at most: eight megabytes take 80 ms to write, and fifty times that stops everybody for a second. */
const HEAVIEST = 1 << 20
/** With the pauses in `patiently`, about five seconds. */
const TRIES = 100

type Job = {
  readonly step: () => unknown
  readonly weight: number
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
}

/**
 * Runs each step inside a write transaction, together with those that arrive in the same turn of the event loop, and answers once
 * it is on disk. A step may run more than once, so it must do nothing but read, write and answer; one that throws fails alone.
 */
export function writer(db: BunSQLiteDatabase) {
  const waiting: Job[] = []
  let draining: Promise<void> | undefined

  function commit(jobs: readonly Job[]): Promise<unknown[]> {
    return patiently(() => db.transaction(() => jobs.map((job) => job.step()), { behavior: 'immediate' }))
  }

  async function serve(jobs: readonly Job[]): Promise<void> {
    try {
      const answers = await commit(jobs)
      jobs.forEach((job, at) => job.resolve(answers[at] as never))
    } catch (error) {
      if (jobs.length > 1 && !isBusy(error)) {
        for (const job of jobs) await serve([job])
        return
      }
      for (const job of jobs) job.reject(error)
    }
  }

  /** Those that go together, in their turn: at least one, however heavy. Light ones pass those for which there is no room. */
  function next(): readonly Job[] {
    let weight = 0
    const taken: Job[] = []
    const left: Job[] = []
    for (const job of waiting) {
      const isTaken = taken.length < BATCH && (weight === 0 || job.weight === 0 || weight + job.weight <= HEAVIEST)
      if (isTaken) weight += job.weight
      ;(isTaken ? taken : left).push(job)
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
    /** `weight` is about how many characters it writes, where they are many. */
    write<T>(step: () => T, weight = 0): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        waiting.push({ step, weight, resolve, reject })
        draining ??= drain()
      })
    },
    /** Resolves when nothing is waiting any more. */
    async settle(): Promise<void> {
      await draining
    },
  }
}

/** About how many characters a result is written in: what makes one heavy are its texts. */
export function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce((sum: number, each: unknown) => sum + weightOf(each), 0)
}

/** Tries again, without blocking, while another process holds the lock. */
export async function patiently<T>(step: () => T): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return step()
    } catch (error) {
      if (tries === TRIES || !isBusy(error)) throw error
      await new Promise((turn) => setTimeout(turn, Math.min(tries, 50)))
    }
  }
}

export function isBusy(error: unknown): boolean {
  return (
    typeof error === 'object' && error !== null && String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY')
  )
}
