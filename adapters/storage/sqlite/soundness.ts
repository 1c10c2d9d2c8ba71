/** Whether a database file can be used, and words for the operator when it cannot. */
import { accessSync, constants, existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { isDamaged, type SqliteDriver } from './driver.ts'

/** The first thing that a check of the file has found. */
class DamagedError extends Error {
  readonly code = 'SQLITE_CORRUPT'
}

/** Checks the structure of every page. Throws when one is damaged. Takes about 0.4 seconds for 100 MB. */
export function requireSound(database: SqliteDriver): void {
  const [[found] = []] = database.prepare('PRAGMA quick_check(1)').values()
  if (found !== 'ok') throw new DamagedError(String(found))
}

/** Throws when this process cannot write the file and the log beside it: SQLite itself would open it to read. */
export function requireWritable(path: string): void {
  accessSync(path, constants.W_OK)
  accessSync(dirname(resolve(path)), constants.W_OK)
  if (existsSync(`${path}-wal`)) accessSync(`${path}-wal`, constants.W_OK)
}

const READ_ONLY = /^(?:EACCES|EPERM|EROFS|SQLITE_READONLY|SQLITE_CANTOPEN|SQLITE_PERM|SQLITE_AUTH)/
const FULL = /^(?:ENOSPC|EDQUOT|SQLITE_FULL)/
const FAILING = /^(?:EIO|SQLITE_IOERR)/

/** Describes the damage of the file at `path`, and the remedy. */
export function wordsOf(error: unknown, path: string): string {
  const { code = '', message } = error as { code?: unknown; message?: unknown }
  const reason = `${String(code)}${code ? ': ' : ''}${String(message)}`
  if (isDamaged(error))
    return (
      `${path} is damaged (${reason}). Nothing is sold from it. Keep the file, and put a backup in its place with ` +
      'farebox restore FILE --force; then run farebox reconcile.'
    )
  if (READ_ONLY.test(String(code)))
    return (
      `${path} cannot be written (${reason}). Give the user that runs Farebox write access to the file and to the ` +
      `folder ${dirname(resolve(path))}, where SQLite keeps a log and a lock beside it.`
    )
  if (FULL.test(String(code))) return `The disk of ${path} is full (${reason}). Free some space, then start again.`
  if (FAILING.test(String(code))) return `The disk of ${path} fails (${reason}). Look at the log of the system.`
  return String(message)
}
