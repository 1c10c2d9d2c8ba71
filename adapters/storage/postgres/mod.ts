import type { Storage, StoredRecord } from '../../../core/ports/mod.ts'
import { present, type SqlDatabase } from '../sql/database.ts'
import type { Query } from '../sql/statement.ts'
import { sqlStorage } from '../sql/storage.ts'
import { postgresDialect } from './dialect.ts'
import { connections, type Limits } from './connections.ts'
import { rememberBuyers } from './counted_days.ts'
import { databaseUrl } from './database_url.ts'
import { seenRows } from './seen_rows.ts'
import { sharedReads } from './shared_reads.ts'
import { ask, patchOf } from './statements.ts'
import { foundBy, transact } from './transactions.ts'

/** Rows that one step of `prune` or `renew` reads: bounds how long it locks them. */
const BATCH = 256

export type PostgresStorage = Storage & {
  /** Connects and migrates. Rejects, with a message for the operator, where every verb would fail. */
  ready(): Promise<void>
  /**
   * Why this process can use the database no longer, since a newer version has upgraded it; undefined while it can.
   * Every verb rejects then.
   */
  refusal(): string | undefined
}

/**
 * A storage in one Postgres database, for any number of processes (decision 23). Each verb is a transaction at READ
 * COMMITTED: it locks; core decides on what it reads under the locks; then it writes.
 */
export function postgresStorage(url: string, options: Limits = {}): PostgresStorage {
  const where = databaseUrl(url)
  // The first release ran on Postgres alone, and others have no locks of names.
  const { besideOlder = !where.allowsUntested } = options
  const { ready, read, write, checkSchema, refusal, close } = connections(where, options)
  const seen = seenRows()
  const shared = sharedReads(([statement, values]) => read((session) => session.ask(statement, values)))
  const sql: SqlDatabase = {
    statements: ask,
    batch: BATCH,
    async read(queries, answer) {
      const [query] = queries as readonly (Query | undefined)[]
      if (query?.[0] === ask.buyersByDay) await rememberBuyers(write, query[1])
      const together = queries.length === 1 && query ? shared(query) : undefined
      if (!together) return await read(async (session) => answer((await foundBy(session, { ask: queries })) as never))
      const rows = await together
      if (query?.[0] === ask.record) for (const row of rows) seen.noteRecord(row as StoredRecord)
      return answer([rows] as never)
    },
    write: (step) =>
      write(step.turn, (session) =>
        transact(session, { ...step, locks: besideOlder ? step.locks : [] } as never, seen),
      ),
    patch(id, patch) {
      const statement = patchOf(patch)
      return statement ? [[statement, { ...patch, id }]] : []
    },
  }

  return {
    isShared: postgresDialect.isShared,
    ...sqlStorage(sql),
    ready,
    refusal,

    async now() {
      const time = read(async (session) => present((await session.ask(ask.now, {}))[0], 'its time').now)
      // Asked for several times per lease, so a replica that cannot go on notices without a buyer.
      const [now] = await Promise.all([time, checkSchema()])
      return now
    },

    close,
  }
}
