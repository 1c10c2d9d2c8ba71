/**
 * The ledger of a devnet: a SQLite file with a mark of its own, so that no other ledger is taken for one (decision
 * 139).
 */
import { existsSync } from 'node:fs'
import type { Receipt } from '../../../core/mod.ts'
import type { LedgerOrigin } from '../manifest.ts'
import { openDriver, type SqliteDriver } from './driver.ts'
import { createPrivately, formatFile } from './hold.ts'
import { wordsOf } from './soundness.ts'

/** In the header of the file, where backups keep it: `FBdv`. SQLite itself writes 0. */
const MARK = 0x46_42_64_76

/**
 * Creates and marks the file if there is none, or one without tables. Throws, and changes nothing, when it has tables
 * and no mark.
 */
export function claimForDevnet(path: string): void {
  createPrivately(path)
  withDriver(path, (database) => {
    if (hasMark(database)) return
    if (tablesOf(database) > 0)
      throw new Error(
        `${path} is not the ledger of a devnet: it has no mark of one, and may hold real payments. It was not changed. ` +
          'Name another file in DATABASE_URL, or another folder with farebox devnet --data DIR.',
      )
    formatFile(database)
    mark(database)
  })
}

/** Marks a copy of a devnet's ledger from before there was a mark. */
export function markForDevnet(path: string): void {
  withDriver(path, mark)
}

/** Whether the file is there and is the ledger of a devnet. */
export function isDevnetLedger(path: string): boolean {
  return existsSync(path) && withDriver(path, hasMark)
}

/** Undefined when there is no file, or one without calls. The file must not be in use. */
export function ledgerOrigin(path: string): LedgerOrigin | undefined {
  if (!existsSync(path)) return undefined
  return withDriver(path, (database) => {
    if (tablesOf(database, "AND name = 'calls'") === 0) return undefined
    const [[receipt] = []] = database
      .prepare(
        "SELECT receipt FROM calls WHERE payment_status = 'settled' AND receipt ->> 'transaction' LIKE '0x%' " +
          'ORDER BY settled_at DESC LIMIT 1',
      )
      .values()
    return {
      gateways: database
        .prepare('SELECT DISTINCT gateway FROM calls')
        .values()
        .map(([name]) => String(name)),
      newestTransaction: receipt ? (JSON.parse(String(receipt)) as Receipt).transaction : undefined,
    }
  })
}

function withDriver<T>(path: string, step: (database: SqliteDriver) => T): T {
  let database: SqliteDriver | undefined
  try {
    database = openDriver(path)
    return step(database)
  } catch (error) {
    throw new Error(wordsOf(error, path), { cause: error })
  } finally {
    database?.close()
  }
}

const mark = (database: SqliteDriver): unknown => database.exec(`PRAGMA application_id = ${MARK}`)

const hasMark = (database: SqliteDriver): boolean =>
  Number(database.prepare('PRAGMA application_id').values()[0]?.[0]) === MARK

const tablesOf = (database: SqliteDriver, where = ''): number =>
  Number(database.prepare(`SELECT count(*) FROM sqlite_schema WHERE type = 'table' ${where}`).values()[0]?.[0])
