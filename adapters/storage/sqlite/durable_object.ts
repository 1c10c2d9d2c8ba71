import type { SqliteDriver, SqliteStatement, SqliteValue } from './driver.ts'

/** The part of a Durable Object's `ctx.storage` that this file uses, in workerd and on Cloudflare Workers. */
export type DurableObjectStorage = {
  readonly sql: {
    exec(sql: string, ...values: unknown[]): { raw(): { toArray(): unknown[][] } }
  }
  transactionSync<T>(step: () => T): T
}

/**
 * The SQLite database of a Durable Object. The runtime holds back every reply until the writes before it are on disk,
 * and nobody else can open the database: it needs no lock and no journal settings.
 */
export function durableObjectDriver(storage: DurableObjectStorage): SqliteDriver {
  function prepare(sql: string): SqliteStatement {
    const values = (...given: SqliteValue[]) =>
      storage.sql
        .exec(sql, ...given.map(bindable))
        .raw()
        .toArray()
        .map((row) => row.map(read))
    return { run: values, values }
  }
  return {
    filename: 'the database of the Durable Object',
    exec: (sql) => storage.sql.exec(sql).raw().toArray(),
    prepare,
    transaction: (step) => storage.transactionSync(step),
    close() {},
    isManaged: true,
  }
}

const bindable = (value: unknown): unknown => {
  if (typeof value === 'boolean' || typeof value === 'bigint') return Number(value)
  return value === undefined ? null : value
}

const read = (value: unknown): unknown => (value instanceof ArrayBuffer ? new Uint8Array(value) : value)
