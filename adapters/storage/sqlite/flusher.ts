/** Puts what SQLite has committed on the disk, beside the event loop. */
import { closeSync, fdatasync, fstatSync, openSync } from 'node:fs'
import { promisify } from 'node:util'
import type { SqliteDriver } from './driver.ts'

/** Called after a flush, with the rows that it put on disk and the bytes of the log. */
type OnFlush = (rows: number, bytes: number) => void

/**
 * Flushes the write-ahead log on a thread: a flush of ten milliseconds would hold up every request if a commit did it.
 * SQLite takes no locks on this file, so closing it releases none.
 */
export function flusherOf(
  database: SqliteDriver,
  { path, onFlush }: { readonly path: string; readonly onFlush: OnFlush | undefined },
): { flush(): Promise<void>; close(): void } {
  const flushed = promisify(fdatasync)
  const log = openSync(`${path}-wal`, 'r+')
  const countChanges = database.prepare('SELECT total_changes()')
  let last = 0
  return {
    async flush() {
      const changes = Number(countChanges.values()[0]?.[0])
      if (changes === last) return
      await flushed(log)
      onFlush?.(changes - last, fstatSync(log).size)
      last = changes
    },
    close: () => closeSync(log),
  }
}

/** Whether commits go to a log of their own. A database in memory, and one on some network disks, has none. */
export function hasWriteAheadLog(database: SqliteDriver): boolean {
  return database.prepare('PRAGMA journal_mode').values()[0]?.[0] === 'wal'
}
