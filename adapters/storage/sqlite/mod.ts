import { existsSync, statSync } from 'node:fs'
import type { RowPatch } from '../../../core/payment/ledger.ts'
import type { Call, Cap, LedgerEntry, LedgerReads, Storage } from '../../../core/ports/mod.ts'
import { databases } from '../databases.ts'
import { checkSteps, type Migration } from '../migration.ts'
import type { SqlDatabase, SqlReader, Settling } from '../sql/database.ts'
import { ledgerReads } from '../sql/ledger_reads.ts'
import type { Query, Statement, Values } from '../sql/statement.ts'
import { patchesOf, statementsOf } from '../sql/statements.ts'
import { sqlStorage } from '../sql/storage.ts'
import { retryWhileBusy, writer } from '../writer.ts'
import { backupSqlite } from './backup.ts'
import { sqliteDialect } from './dialect.ts'
import { openDriver, type SqliteDriver, type SqliteStatement, type SqliteValue } from './driver.ts'
import { flusherOf, hasWriteAheadLog } from './flusher.ts'
import { createPrivately, formatFile, holdAlone } from './hold.ts'
import { migrate, migrations, readSteps } from './migrations.ts'
import { settledCache } from './settled_cache.ts'
import { requireSound, requireWritable, wordsOf } from './soundness.ts'

/**
 * How long one statement may block the event loop while another process writes, in milliseconds. After that the wait is
 * asynchronous.
 */
const BUSY_MS = 10
/** How long the start waits for another process, in milliseconds. No request is served yet. */
const BUSY_AT_START_MS = 2_000
/** Rows that one step of `prune` or `renew` reads: bounds how long it blocks the event loop. */
const BATCH = 128
/** Hours or days of sums that are read at once. */
const PART_OF_TOTALS = 12
/** Free pages that stay in the file for what is written next, and how often a `prune` gives some back. */
const SPARE_PAGES = 1_000
const MAX_VACUUMS = 500
const DAY_MS = 86_400_000

const ask = statementsOf(sqliteDialect)
const patchOf = patchesOf(sqliteDialect)

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
 * Throws when the file is no database, or one of a newer version. A driver is used as it is, for runtimes whose
 * databases are no files.
 */
export function sqliteStorage(where: string | SqliteDriver, options: SqliteOptions = {}): SqliteStorage {
  const database = typeof where === 'string' ? openDatabase(where, options) : migrated(where)
  const run = runner(database)
  const flusher = typeof where === 'string' ? flusherOf(database, where) : undefined
  const { write, read, settle, failure } = writer(database, flusher?.flush)
  // A database that is no file has one connection.
  const settled = settlements(run, typeof where === 'string' ? database : undefined)
  const answerer = answering(run, { ...listingByDay(run), ...settled.answers })

  const sql: SqlDatabase = {
    statements: ask,
    partOfTotals: PART_OF_TOTALS,
    batch: BATCH,
    read: (queries, answer) => read(() => answer(answerer(queries) as never)),
    write: ({ ask: queries, decide, weight }) =>
      write(() => {
        const { writes, answer } = decide(answerer(queries) as never)
        return answer(answerer(writes))
      }, weight),
    patch(id, patch) {
      const statement = patchOf(patch)
      return statement ? [[statement, { ...patch, id }]] : []
    },
    noteSettlement: settled.note,
  }
  const verbs = sqlStorage(sql)

  return {
    ...databases.sqlite,
    ...verbs,

    failure() {
      const error = failure()
      return error === undefined ? undefined : wordsOf(error, database.filename)
    },

    async prune(now) {
      const touched = await verbs.prune(now)
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

    async close() {
      await settle()
      flusher?.close()
      database.close()
    },
  }
}

/**
 * The ledger of a SQLite file, read beside the process that has it. It takes no lock and writes nothing. Throws when
 * there is no such file, or when its schema is not that of this version.
 *
 * @example
 * const ledger = sqliteLedger('.farebox/farebox.db')
 */
export function sqliteLedger(path: string): LedgerReads & { close(): Promise<void> } {
  if (!existsSync(path)) throw new Error(`There is no database at ${path}.`)
  const driver = openDriver(path)
  try {
    driver.exec('PRAGMA query_only = ON; PRAGMA busy_timeout = 2000')
    const steps = readSteps(driver) ?? []
    checkSteps(path, steps, migrations)
    if (steps.length < migrations.length)
      throw new Error(
        `${path} is of an older version. Start this version of Farebox on it once; it migrates the database.`,
      )
    const run = runner(driver)
    const answerer = answering(run, listingByDay(run))
    const read: SqlReader['read'] = (queries, answer) => retryWhileBusy(() => answer(answerer(queries) as never))
    return {
      ...ledgerReads({ statements: ask, partOfTotals: PART_OF_TOTALS, read }),
      async close() {
        driver.close()
      },
    }
  } catch (error) {
    driver.close()
    throw error
  }
}

// ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Run = <Row>(statement: Statement<Row>, values: Values) => readonly Row[]

/** Runs statements, each prepared when it is first run. */
function runner(database: SqliteDriver): Run {
  const prepared = new Map<Statement<unknown>, SqliteStatement>()
  return (statement, values) => {
    const known = prepared.get(statement) ?? database.prepare(statement.text)
    prepared.set(statement, known)
    const given = statement.encode(values) as SqliteValue[]
    if (statement.hasRows) return known.values(...given).map(statement.decode)
    known.run(...given)
    return []
  }
}

/** Statements that are answered in another way than by their text, by name. */
type Answers = Readonly<Record<string, (values: never) => readonly object[]>>

/** Answers queries one after the other. */
function answering(run: Run, answers: Answers) {
  return (queries: readonly unknown[]): (readonly never[])[] => {
    const found: (readonly never[])[] = []
    for (const query of queries as readonly (Query | ((first: unknown) => Query) | undefined)[]) {
      const [statement, values] = (typeof query === 'function' ? query(found[0]) : query) ?? []
      if (!statement) found.push([])
      else found.push((answers[statement.name]?.(values as never) ?? run(statement, values as Values)) as never[])
    }
    return found
  }
}

/** From day to day, because the index has the day first (decision 126). Passes over days without a call. */
function listingByDay(run: Run): Answers {
  type At = { payer: string; since: number; at: number; id: string; limit: number }
  return {
    [ask.listedOfPayer.name](values: At) {
      const found: LedgerEntry[] = []
      // Calls of the same millisecond may follow the one that was listed last.
      for (let before = values.at + 1; found.length < values.limit;) {
        const at = run(ask.openedBefore, { before })[0]?.at ?? values.since - 1
        if (at < values.since) break
        const day = Math.floor(at / DAY_MS)
        found.push(...run(ask.listedOnDay, { ...values, day, limit: values.limit - found.length }))
        before = day * DAY_MS
      }
      return found
    },
  }
}

/** What wallets have settled lately, from memory; `file` is read to learn whether another process has written. */
function settlements(run: Run, file: SqliteDriver | undefined) {
  const countChanges = file?.prepare('PRAGMA data_version')
  let seenVersion: unknown
  const cache = settledCache((wallet, since) => ({
    hasPaid: run(ask.hasPaid, wallet).length > 0,
    calls: run(ask.recentlySettled, { ...wallet, since }),
  }))
  type Wallet = Pick<Call, 'payer' | 'asset'>
  type Exposed = Wallet & { readonly cap: Cap }

  /** Inside a write transaction: nobody else can write before it ends. */
  function of({ payer, asset, cap }: Exposed) {
    const [[version] = []] = countChanges?.values() ?? []
    if (version !== seenVersion) cache.clear()
    seenVersion = version
    return cache.of({ payer, asset }, cap)
  }

  /** The sums, when they are asked for: few decisions need them. */
  function paid(wallet: Wallet) {
    let sums: ReturnType<typeof read> | undefined
    const read = () => run(ask.paid, wallet)[0]
    const part = (name: 'billions' | 'rest') => (sums ??= read())?.[name] ?? null
    return {
      get billions() {
        return part('billions')
      },
      get rest() {
        return part('rest')
      },
    }
  }

  const answers: Answers = {
    [ask.exposedCalls.name]: (values: Exposed & { now: number }) => [
      ...run(ask.spendable, values),
      ...of(values).calls,
    ],
    [ask.hasPaid.name]: (values: Exposed) => (of(values).hasPaid ? [{ one: 1 }] : []),
    [ask.paid.name]: (values: Wallet) => [paid(values)],
    [ask.deleteAmong.name](values: Values) {
      cache.clear()
      return run(ask.deleteAmong, values)
    },
  }
  return {
    answers,
    note(call: Settling, { paymentStatus, settledAt, receipt, charge = call.charge }: RowPatch): void {
      if (paymentStatus !== 'settled' || !settledAt) return
      const { id, endpoint, quote, workStatus, startedAt } = call
      const exposed = { id, endpoint, quote, workStatus, startedAt, charge, paymentStatus, settledAt }
      cache.note(call, { ...exposed, bindingStatus: null, bindingExpiresAt: null, block: receipt?.block ?? null })
    },
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
    database.exec('PRAGMA foreign_keys = ON')
    migrate(database, schema, (taken) => backUpBefore(database, taken))
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

function migrated(database: SqliteDriver): SqliteDriver {
  migrate(database)
  return database
}

/** The state before an upgrade, beside the database: an older Farebox may not be able to read the upgraded one. */
function backUpBefore({ filename }: SqliteDriver, taken: number): void {
  if (filename === '' || filename === ':memory:') return
  const file = `${filename}.before-migration-${taken + 1}`
  // One that is there was made by an upgrade that did not end.
  if (!existsSync(file)) backupSqlite(filename, file)
}
