/** One process on a database file, by a lock of the kernel. */
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { isBusy, openDriver, type SqliteDriver } from './driver.ts'

/** The locks in force. Referenced here so that none is garbage-collected while it is in force. */
const locks = new Set<SqliteDriver>()

/**
 * Locks the database for this process, by a lock that the kernel releases however the process ends (decision 23).
 * Undefined when another process, or another caller in this one, has it. Never open `<path>.lock` otherwise: closing it
 * releases the lock.
 */
export function holdAlone(path: string): { release(): void } | undefined {
  createPrivately(`${path}.lock`)
  const lock = openDriver(`${path}.lock`)
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
