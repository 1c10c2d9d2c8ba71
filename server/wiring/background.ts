/** Work beside requests, which a process that stops waits for. */
import { DatabaseError } from '../../adapters/storage/database_error.ts'
import type { Clock } from '../../core/mod.ts'
import type { ServerLog } from '../log.ts'

export type BackgroundWork = {
  start(work: Promise<unknown>): void
  /** How much is unfinished. */
  count(): number
  /** Waits at most `ms`. Resolves with the number of unfinished pieces. */
  drain(ms: number): Promise<number>
}

export function backgroundWork(log: ServerLog, clock: Clock): BackgroundWork {
  const pending = new Set<Promise<unknown>>()
  return {
    start(work) {
      pending.add(work)
      // The storage observer has reported the outage, so each piece of work does not report it again.
      const tell = (error: Error) =>
        error instanceof DatabaseError
          ? log.warn('background work failed because of a storage error', { error: error.message })
          : log.alert('background work failed', { error: error.stack })
      work.catch(tell).finally(() => pending.delete(work))
    },
    count: () => pending.size,
    async drain(ms) {
      const stop = new AbortController()
      const timeout = clock.wait(ms, stop.signal)
      while (pending.size > 0) {
        const isOver = await Promise.race([Promise.allSettled(pending).then(() => false), timeout.then(() => true)])
        if (isOver) break
      }
      stop.abort()
      return pending.size
    },
  }
}
