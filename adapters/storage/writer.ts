import type { BunSQLiteDatabase } from 'drizzle-orm/bun-sqlite'

/** Steps that share one commit at most: bounds how long the event loop stands. */
const BATCH = 64
/** With the pauses in `patiently`, about five seconds. */
const TRIES = 100

type Job = { readonly step: () => unknown; readonly resolve: (value: never) => void; readonly reject: (error: unknown) => void }

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

  async function drain(): Promise<void> {
    while (waiting.length > 0) {
      await new Promise((turn) => setImmediate(turn))
      await serve(waiting.splice(0, BATCH))
    }
    draining = undefined
  }

  return {
    write<T>(step: () => T): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        waiting.push({ step, resolve, reject })
        draining ??= drain()
      })
    },
    /** Resolves when nothing is waiting any more. */
    async settle(): Promise<void> {
      await draining
    },
  }
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
  return typeof error === 'object' && error !== null && String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY')
}
