/** Puts what SQLite has committed on the disk, beside the event loop (decision 83). */
import { closeSync, fdatasync, openSync } from 'node:fs'
import { promisify } from 'node:util'
import type { SqliteDriver } from './driver.ts'

/**
 * Flushes the write-ahead log on a thread: a flush of ten milliseconds would hold up every request if a commit did it.
 * Undefined where there is no such log. SQLite takes no locks on this file, so closing it releases none.
 */
export function flusherOf(database: SqliteDriver, path: string): { flush(): Promise<void>; close(): void } | undefined {
  if (!hasWriteAheadLog(database)) return undefined
  const flushed = promisify(fdatasync)
  const log = openSync(`${path}-wal`, 'r+')
  const countChanges = database.prepare('SELECT total_changes()')
  let last: unknown
  return {
    async flush() {
      const [[changes] = []] = countChanges.values()
      if (changes === last) return
      await flushed(log)
      last = changes
    },
    close: () => closeSync(log),
  }
}

/** Whether commits go to a log of their own. A database in memory, and one on some network disks, has none. */
export function hasWriteAheadLog(database: SqliteDriver): boolean {
  return database.prepare('PRAGMA journal_mode').values()[0]?.[0] === 'wal'
}
