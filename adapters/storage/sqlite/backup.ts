/** Backup and restore of a SQLite database: a backup has its name only once it is complete, checked and on disk. */
import {
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { openDriver, type SqliteDriver } from './driver.ts'
import type { Contents, Restored } from '../manifest.ts'
import { checkSteps } from '../migration.ts'
import { holdAlone } from './hold.ts'
import { migrations, readSteps } from './migrations.ts'

/** How long a backup waits for a lock, in milliseconds. */
const BUSY_MS = 10_000

/**
 * Writes a consistent copy of the database at `path` to `file`, while another process may be writing. The copy is made
 * under a temporary name, put on disk and checked before it gets its own. Throws, and leaves nothing behind, when
 * `file` exists or the copy is not sound.
 */
export function backupSqlite(path: string, file: string): Contents {
  requireFile(path, 'There is no database at')
  if (existsSync(file)) throw new Error(`${file} exists. A backup is never overwritten: choose another name.`)
  const temporary = `${file}.incomplete-${process.pid}`
  mkdirSync(dirname(resolve(file)), { recursive: true, mode: 0o700 })
  rmSync(temporary, { force: true })
  // Empty, which VACUUM INTO accepts, so that it is the owner's only from the start.
  closeSync(openSync(temporary, 'wx', 0o600))
  try {
    withDatabase(path, (database) => database.prepare('VACUUM INTO ?').run(temporary))
    syncToDisk(temporary)
    const contents = checkedContents(temporary)
    publish(temporary, file)
    return contents
  } finally {
    removeDatabase(temporary)
  }
}

/**
 * Puts the backup `file` in the place of the database at `path`. With `aside`, a database that is there is moved to
 * that name. Throws, and changes nothing, when the backup is not sound or of a newer version, when a database is there
 * and `aside` is not given, and while a process uses it.
 */
export function restoreSqlite(file: string, path: string, aside?: string): Restored {
  requireFile(file, 'There is no backup at')
  const hold = holdAlone(path)
  if (!hold) throw new Error(`Another Farebox is running on ${path}. Stop it first.`)
  const temporary = `${path}.incomplete-${process.pid}`
  try {
    // A log without its database holds payments as well.
    const isTaken = existsSync(path) || existsSync(`${path}-wal`)
    if (isTaken && aside === undefined)
      throw new Error(`There is a database at ${path}. With --force it is moved aside, and the backup takes its place.`)
    if (aside !== undefined && existsSync(aside)) throw new Error(`${aside} exists. Move it away first.`)
    removeDatabase(temporary)
    copyFileSync(file, temporary, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    syncToDisk(temporary)
    const contents = checkedContents(temporary)
    if (isTaken && aside !== undefined) linkAside(path, aside)
    // The index of a log that is gone must not be read with this database.
    rmSync(`${path}-shm`, { force: true })
    renameSync(temporary, path)
    syncToDisk(dirname(resolve(path)))
    return { ...contents, before: isTaken ? aside : undefined }
  } finally {
    removeDatabase(temporary)
    hold.release()
  }
}

/** Checks every page and every reference, and says what the database holds. Throws when it is not sound. */
export function checkedContents(path: string): Contents {
  return withDatabase(path, (database) => {
    const [found] = database.prepare('PRAGMA integrity_check(1)').values()
    if (found?.[0] !== 'ok') throw new Error(`${path} is damaged: ${String(found?.[0])}`)
    const stray = database.prepare('PRAGMA foreign_key_check').values()
    if (stray.length > 0) throw new Error(`${path} is damaged: ${stray.length} rows refer to rows that are not there`)
    const steps = readSteps(database)
    if (!steps) throw new Error(`${path} is not a Farebox database.`)
    checkSteps(path, steps, migrations)
    const count = (where: string) => Number(database.prepare(`SELECT count(*) FROM calls ${where}`).values()[0]?.[0])
    const [newest] = database.prepare('SELECT max(max(created_at), max(coalesce(settled_at, 0))) FROM calls').values()
    return {
      migrations: steps.length,
      calls: count(''),
      settled: count("WHERE payment_status = 'settled'"),
      unsettled: count("WHERE payment_status IN ('settling', 'unresolved')"),
      newestAt: typeof newest?.[0] === 'number' ? newest[0] : null,
    }
  })
}

function withDatabase<T>(path: string, step: (database: SqliteDriver) => T): T {
  const database = openDriver(path)
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    return step(database)
  } finally {
    database.close()
  }
}

function requireFile(path: string, words: string): void {
  if (!existsSync(path)) throw new Error(`${words} ${path}`)
}

/** Gives a finished file its name. Throws when the name was taken meanwhile. */
function publish(temporary: string, file: string): void {
  try {
    linkSync(temporary, file)
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === 'EEXIST') throw new Error(`${file} exists. A backup is never overwritten: choose another name.`)
    // A file system without hard links: the name is taken by an empty file first, so that the rename replaces no other.
    closeSync(openSync(file, 'wx', 0o600))
    renameSync(temporary, file)
  }
  syncToDisk(dirname(resolve(file)))
}

/** Gives a database that is about to be replaced a second name, which stays. */
function linkAside(path: string, aside: string): void {
  if (existsSync(path)) mergeLog(path)
  if (existsSync(`${path}-wal`)) renameTo(`${path}-wal`, `${aside}-wal`)
  if (!existsSync(path)) return
  try {
    // The old name stays until the backup takes it: a start after a crash must not find an empty place.
    linkSync(path, aside)
  } catch (error) {
    if ((error as { code?: string }).code === 'EEXIST') throw error
    renameTo(path, aside)
  }
}

/** Moves a database that no process uses, with its log, to another name. Throws when that name is taken. */
export function moveAside(path: string, aside: string): void {
  mergeLog(path)
  if (existsSync(aside)) throw new Error(`${aside} exists. Move it away first.`)
  if (existsSync(`${path}-wal`)) renameTo(`${path}-wal`, `${aside}-wal`)
  rmSync(`${path}-shm`, { force: true })
  renameTo(path, aside)
}

/**
 * The writes that are only in the log go into the file. A database that is too damaged for that keeps its log beside
 * it.
 */
function mergeLog(path: string): void {
  try {
    withDatabase(path, (database) => database.exec('PRAGMA wal_checkpoint(TRUNCATE)'))
  } catch {
    // The log goes where the database goes.
  }
}

/** A rename that replaces nothing. */
function renameTo(from: string, to: string): void {
  if (existsSync(to)) throw new Error(`${to} exists. Move it away first.`)
  renameSync(from, to)
}

/** For copies under a temporary name. */
function removeDatabase(path: string): void {
  for (const rest of ['', '-wal', '-shm', '-journal']) rmSync(path + rest, { force: true })
}

function syncToDisk(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
