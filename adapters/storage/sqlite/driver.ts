/**
 * One connection to a SQLite file, with the library that the runtime has: the only place that knows which (decision
 * 123).
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'

export type SqliteValue = string | number | bigint | null | Uint8Array

/** A prepared statement. All drivers are synchronous. */
export type SqliteStatement = {
  run(...values: SqliteValue[]): unknown
  /** The rows as arrays, in the order of their columns. */
  values(...values: SqliteValue[]): unknown[][]
}

export type SqliteDriver = {
  readonly filename: string
  /** Runs statements without parameters. */
  exec(sql: string): unknown
  prepare(sql: string): SqliteStatement
  /** Runs `step` in a write transaction of its own. Rolls back, and throws the same error, when it throws. */
  transaction<T>(step: () => T): T
  /** Finalizes the prepared statements too: otherwise the write-ahead log is never merged into the file. */
  close(): void
  /** The runtime looks after the pages of the database itself. */
  readonly isManaged?: true
}

/** The part of bun:sqlite that this file uses. */
type BunDatabase = {
  readonly filename: string
  run(sql: string): unknown
  prepare(sql: string): SqliteStatement
  close(isStrict: boolean): void
}
/** The part of node:sqlite that it uses. Rows are arrays after `setReturnArrays`, which Node has since 22.16. */
type NodeDatabase = {
  exec(sql: string): void
  prepare(sql: string): {
    run(...values: readonly unknown[]): unknown
    all(...values: readonly unknown[]): unknown[]
    setReturnArrays?(isOn: boolean): void
  }
  close(): void
}
/** The part of better-sqlite3 that it uses. */
type BetterDatabase = Omit<NodeDatabase, 'prepare'> & {
  prepare(sql: string): {
    readonly reader: boolean
    run(...values: readonly unknown[]): unknown
    all(...values: readonly unknown[]): unknown[]
    raw(isOn: boolean): unknown
  }
}

/**
 * Opens a connection: bun:sqlite on Bun, node:sqlite on Deno and on Node since 22.13, better-sqlite3 on older ones.
 * Throws, naming what to install, where there is none of these.
 */
export function openDriver(path: string): SqliteDriver {
  const { Database } = builtin<{ Database: new (path: string) => BunDatabase }>('bun:sqlite') ?? {}
  if (Database) return overBun(new Database(path))
  const { DatabaseSync } = builtin<{ DatabaseSync: new (path: string) => NodeDatabase }>('node:sqlite') ?? {}
  if (DatabaseSync) return overNode(new DatabaseSync(path), path)
  return overBetter(new (betterSqlite())(path), path)
}

/** Whether another connection has the lock. Deno gives neither SQLite's code nor its name. */
export function isBusy(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message?: unknown }
  if (String(code).startsWith('SQLITE_BUSY')) return true
  if (code !== 'ERR_SQLITE_ERROR') return false
  return errcode === undefined
    ? /database (?:table )?is locked/.test(String(message))
    : (Number(errcode) & 0xff) === BUSY
}

const BUSY = 5

/** Whether the file is damaged, or no database at all. */
export function isDamaged(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message?: unknown }
  if (/^SQLITE_(?:CORRUPT|NOTADB)/.test(String(code))) return true
  if (code !== 'ERR_SQLITE_ERROR') return false
  return errcode === undefined
    ? /disk image is malformed|file is not a database/.test(String(message))
    : [CORRUPT, NOT_A_DATABASE].includes(Number(errcode) & 0xff)
}

const CORRUPT = 11
const NOT_A_DATABASE = 26

export function overBun(database: BunDatabase): SqliteDriver {
  return {
    filename: database.filename,
    exec: (sql) => database.run(sql),
    prepare: (sql) => database.prepare(sql),
    transaction: transactions((sql) => database.prepare(sql)),
    close: () => database.close(true),
  }
}

function overNode(database: NodeDatabase, filename: string): SqliteDriver {
  function prepare(sql: string): SqliteStatement {
    const statement = database.prepare(sql)
    const hasArrays = statement.setReturnArrays !== undefined
    statement.setReturnArrays?.(true)
    return {
      run: (...values) => statement.run(...values.map(withoutNul)),
      values(...values) {
        const rows = statement.all(...values.map(withoutNul))
        return rows.map((row) => (hasArrays ? (row as unknown[]) : Object.values(row as object)).map(withNul))
      },
    }
  }
  return {
    filename,
    exec: (sql) => database.exec(sql),
    prepare,
    transaction: transactions(prepare),
    close: () => database.close(),
  }
}

function overBetter(database: BetterDatabase, filename: string): SqliteDriver {
  function prepare(sql: string): SqliteStatement {
    const statement = database.prepare(sql)
    if (statement.reader) statement.raw(true)
    return {
      run: (...values) => statement.run(...values.map(bindable)),
      values(...values) {
        if (statement.reader) return statement.all(...values.map(bindable)) as unknown[][]
        // Some pragmas do their work row by row, and have no columns.
        database.exec(sql)
        return []
      },
    }
  }
  return {
    filename,
    exec: (sql) => database.exec(sql),
    prepare,
    transaction: transactions(prepare),
    close: () => database.close(),
  }
}

/** bun:sqlite binds undefined and booleans as others do not. */
function bindable(value: unknown): unknown {
  if (typeof value === 'boolean') return Number(value)
  return value === undefined ? null : value
}

/**
 * node:sqlite reads a text up to its first U+0000, so a text that has one is stored in another spelling, which sorts
 * almost as the text does. SQL may put something before it.
 */
const [MARK, ESCAPE] = ['\u0001\u0001', '\u0001']

function withoutNul(value: unknown): unknown {
  if (typeof value !== 'string' || !(value.includes('\0') || value.includes(MARK))) return bindable(value)
  return MARK + value.replaceAll(ESCAPE, `${ESCAPE}1`).replaceAll('\0', `${ESCAPE}0`)
}

function withNul(value: unknown): unknown {
  const start = typeof value === 'string' ? value.indexOf(MARK) : -1
  if (typeof value !== 'string' || start < 0) return value
  const spelled = value.slice(start + MARK.length)
  return value.slice(0, start) + spelled.replaceAll(`${ESCAPE}0`, '\0').replaceAll(`${ESCAPE}1`, ESCAPE)
}

function transactions(prepare: SqliteDriver['prepare']): SqliteDriver['transaction'] {
  const statements = new Map<string, SqliteStatement>()
  function run(sql: string): void {
    const statement = statements.get(sql) ?? prepare(sql)
    statements.set(sql, statement)
    statement.run()
  }
  return (step) => {
    run('BEGIN IMMEDIATE')
    try {
      const answer = step()
      run('COMMIT')
      return answer
    } catch (error) {
      rollBack(() => run('ROLLBACK'))
      throw error
    }
  }
}

/** Some errors have rolled the transaction back already, and then there is none to end. */
function rollBack(step: () => void): void {
  try {
    step()
  } catch {
    // The error that the caller throws says more.
  }
}

/** Without an import, which other runtimes could not resolve. */
function builtin<Module>(name: string): Module | undefined {
  return process.getBuiltinModule?.(name) as Module | undefined
}

/** The package of the embedding program: beside this one, or in the folder that it was started in. */
function betterSqlite(): new (path: string) => BetterDatabase {
  for (const from of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      return createRequire(from)('better-sqlite3') as new (path: string) => BetterDatabase
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'MODULE_NOT_FOUND') throw error
    }
  }
  throw new Error(
    `this runtime (Node ${process.versions.node}) has no SQLite: run "npm install better-sqlite3", or use Node 22.13 ` +
      'or later, Deno or Bun',
  )
}
