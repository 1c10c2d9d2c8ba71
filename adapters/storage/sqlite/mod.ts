import { existsSync, statSync } from 'node:fs'
import { DAY_MS, type Row, type RowPatch } from '../../../core/payment/mod.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import type { Migration } from '../migration.ts'
import type { SqlDatabase } from '../sql/database.ts'
import type { Query, Values } from '../sql/statement.ts'
import { sqlStorage } from '../sql/storage.ts'
import { writer } from './writer.ts'
import { sqliteDialect } from './dialect.ts'
import { backupSqlite } from './backup.ts'
import { openDriver, type SqliteDriver } from './driver.ts'
import { flusherOf, hasWriteAheadLog } from './flusher.ts'
import { createPrivately, formatFile, holdAlone } from './hold.ts'
import { migrate, migrations } from './migrations.ts'
import { settlements } from './settlements.ts'
import { requireSound, requireWritable, wordsOf } from './soundness.ts'
import { rememberedBuyers } from './buyers.ts'
import { answering, ask, listingByDay, PART_OF_TOTALS, patchOf, runner } from './statements.ts'
import { transactionSums } from './sums.ts'

/**
 * How long one statement may block the event loop while another process writes, in milliseconds. After that the wait is
 * asynchronous.
 */
const BUSY_MS = 10
/** How long the start waits for another process, in milliseconds. No request is served yet. */
const BUSY_AT_START_MS = 2_000
/** Rows that one step of `prune` or `renew` reads: bounds how long it blocks the event loop. */
const BATCH = 128
/**
 * Pages of the log after which a commit copies it into the file: 16 MB. A copy holds the event loop for two flushes, so
 * there are a quarter as many as SQLite makes by itself, and a page that was written many times is copied once.
 */
const CHECKPOINT_PAGES = 4_000
/** Free pages that stay in the file for what is written next, and how often a `prune` gives some back. */
const SPARE_PAGES = 1_000
const MAX_VACUUMS = 500
/** Counts a change that the next statement makes. Answered by `transactionSums`, not by its text. */
const COUNT = { ...ask.call, name: 'count' }
type Counting = { readonly id: string; readonly patch: RowPatch; readonly row?: Row }

export { holdAlone }

export type SqliteOptions = {
  /** A file of at most so many bytes is checked when it is opened. Default: none is. */
  readonly checkUpTo?: number
  /** The migrations that this process knows. By default those of this version. */
  readonly schema?: readonly Migration[]
}

export type SqliteStorage = Storage & {
  /**
   * Why nothing is written or read any more: a flush failed, or the file is damaged; undefined while all is well. Every
   * verb rejects then.
   */
  failure(): string | undefined
}

/**
 * A storage in one SQLite file, for one process: writes are synchronous, under one write lock (decision 23). Verbs that
 * arrive together share a commit and one flush to disk, which a thread does meanwhile; each is answered after it.
 * Throws when the file is not a database, or is one of a newer version. A driver is used as it is, for runtimes whose
 * databases are not files.
 */
export function sqliteStorage(where: string | SqliteDriver, options: SqliteOptions = {}): SqliteStorage {
  const database = typeof where === 'string' ? openDatabase(where, options) : migrated(where, options)
  const run = runner(database)
  const flusher = typeof where === 'string' ? flusherOf(database, where) : undefined
  const buyers = rememberedBuyers(database)
  const sums = transactionSums(database, run, buyers.forget)
  const { write, read, settle, failure } = writer(sums, flusher?.flush)
  // A database outside of files has one connection.
  const settled = settlements(run, typeof where === 'string' ? database : undefined)
  const answerer = answering(run, {
    ...listingByDay(run),
    ...settled.answers,
    ...sums.answers,
    ...buyers.answers,
    [COUNT.name]({ id, patch, row }: Counting): [] {
      sums.count(id, patch, row)
      return []
    },
    [ask.countArchived.name](values: Values & { day: number }): [] {
      buyers.forget(values.day)
      run(ask.countArchived, values)
      return []
    },
    [ask.deleteAmong.name](values: Values & { ids: readonly string[] }) {
      buyers.forgetDaysOf(values.ids)
      // A trigger takes settled calls out of sums that must be there by then.
      sums.flush()
      return settled.answers[ask.deleteAmong.name]?.(values as never) ?? []
    },
  })

  const sql: SqlDatabase = {
    statements: ask,
    partOfTotals: PART_OF_TOTALS,
    batch: BATCH,
    read: (queries, answer) => read(() => answer(answerer(queries) as never)),
    write: ({ ask: queries, decide, weight }) =>
      write(() => {
        sums.begin()
        const { writes, answer } = decide(answerer(queries) as never)
        return answer(answerer(writes))
      }, weight),
    patch(id, patch) {
      const statement = patchOf(patch)
      const change: readonly Query[] = statement ? [[statement, { ...patch, id }]] : []
      return sums.isCounted(patch) ? [[COUNT, { id, patch }], ...change] : change
    },
    insertChanged: (row, patch) => [
      [COUNT, { id: row.id, patch, row }],
      [ask.insertPaid, { ...row, ...patch }],
    ],
    noteSettlement: settled.note,
  }
  const verbs = sqlStorage(sql)
  let closed: Promise<void> | undefined
  const close = async () => {
    await settle()
    flusher?.close()
    database.close()
  }

  return {
    isShared: sqliteDialect.isShared,
    ...verbs,

    failure() {
      const error = failure()
      return error === undefined ? undefined : wordsOf(error, database.filename)
    },

    async prune(now) {
      const touched = await verbs.prune(now)
      // The days that nobody has asked about yet, so that the console need not wait for them.
      await verbs.buyersByDay({ since: 0, until: now - (now % DAY_MS) })
      for (let turn = 0; turn < MAX_VACUUMS && !database.isManaged; turn++) {
        const isLeft = await write(() => {
          // As rows: each frees one page.
          database.prepare(`PRAGMA incremental_vacuum(${BATCH})`).values()
          return Number(database.prepare('PRAGMA freelist_count').values()[0]?.[0]) > SPARE_PAGES
        })
        if (!isLeft) break
      }
      return touched
    },

    close: () => (closed ??= close()),
  }
}

// ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────────

function openDatabase(path: string, { checkUpTo = 0, schema = migrations }: SqliteOptions): SqliteDriver {
  if (path === ':memory:') return prepared(path, { schema })
  try {
    createPrivately(path)
    requireWritable(path)
    return prepared(path, { schema, isChecked: statSync(path).size <= checkUpTo })
  } catch (error) {
    throw new Error(wordsOf(error, path), { cause: error })
  }
}

type Preparing = { readonly schema: readonly Migration[]; readonly isChecked?: boolean }

function prepared(path: string, { schema, isChecked }: Preparing): SqliteDriver {
  const database = openDriver(path)
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_AT_START_MS}`)
    if (isChecked) requireSound(database)
    formatFile(database)
    // NORMAL leaves the flush of a commit to `flusherOf`. Checkpoints are flushed by SQLite itself.
    database.exec(`PRAGMA synchronous = ${hasWriteAheadLog(database) ? 'NORMAL' : 'FULL'}`)
    database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    database.exec('PRAGMA foreign_keys = ON')
    migrate(database, schema, (taken) => backUpBefore(database, taken))
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

function migrated(database: SqliteDriver, { schema = migrations }: SqliteOptions): SqliteDriver {
  migrate(database, schema)
  return database
}

/** The state before an upgrade, beside the database: an older Farebox may not be able to read the upgraded one. */
function backUpBefore({ filename }: SqliteDriver, taken: number): void {
  if (filename === '' || filename === ':memory:') return
  const file = `${filename}.before-migration-${taken + 1}`
  // One that is there was made by an upgrade that did not end.
  if (!existsSync(file)) backupSqlite(filename, file)
}
