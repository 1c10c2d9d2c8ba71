/** A database file: created for its owner alone, in our format, and held by one process with a lock of the kernel. */
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { isBusy, openDriver, type SqliteDriver } from './driver.ts'
import { wordsOf } from './soundness.ts'

/** The locks in force. Referenced here so that none is garbage-collected while it is in force. */
const locks = new Set<SqliteDriver>()

/**
 * Locks the database for this process, by a lock that the kernel releases however the process ends (decision 23).
 * Undefined when another process, or another caller in this one, has it. Never open `<path>.lock` otherwise: closing it
 * releases the lock.
 */
export function holdAlone(path: string): { release(): void } | undefined {
  const lock = openLock(path)
  try {
    lock.exec('PRAGMA busy_timeout = 0')
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if (isBusy(error)) return undefined
    throw error
  }
  locks.add(lock)
  return {
    release() {
      if (locks.delete(lock)) lock.close()
    },
  }
}

function openLock(path: string): SqliteDriver {
  try {
    createPrivately(`${path}.lock`)
    return openDriver(`${path}.lock`)
  } catch (error) {
    throw new Error(wordsOf(error, path), { cause: error })
  }
}

/**
 * Creates the file, readable by its owner only. Never opens one that exists: closing it would release SQLite's locks on
 * it.
 */
export function createPrivately(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EEXIST') throw error
  }
}

/** Sets the format of a new file; changes nothing in one that has tables. */
export function formatFile(database: SqliteDriver): void {
  // A call changes pages all over the file, and each is written whole: 8 KB cost more, also where the ledger is long.
  database.exec('PRAGMA page_size = 4096')
  // Freed pages can be given back to the disk in small steps.
  database.exec('PRAGMA auto_vacuum = INCREMENTAL')
  database.exec('PRAGMA journal_mode = WAL')
}
