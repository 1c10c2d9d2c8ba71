import type { Storage } from '../../../core/ports/mod.ts'
import { present, type SqlDatabase } from '../sql/database.ts'
import type { Query } from '../sql/statement.ts'
import { sqlStorage } from '../sql/storage.ts'
import { postgresDialect } from './dialect.ts'
import { connections, type Limits, type Send } from './connections.ts'
import { ask, patchOf } from './statements.ts'

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
  const { ready, read, write, checkSchema, refusal, close } = connections(url, options)
  const sql: SqlDatabase = {
    statements: ask,
    batch: BATCH,
    read: (queries, answer) => read(async (send) => answer((await sent(send, queries)) as never)),
    write: ({ turn, locks = [], ask: queries, decide }) =>
      write({
        turn,
        locks,
        read: (send) => sent(send, queries),
        // Not async: what cannot be encoded throws before COMMIT is sent.
        write(found, send) {
          const { writes, answer } = decide(found as never)
          return sent(send, writes).then(answer)
        },
      }),
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
      const time = read(async (send) => present((await send(ask.now, {}))[0], 'its time').now)
      // Asked for several times per lease, so a replica that cannot go on notices without a buyer.
      const [now] = await Promise.all([time, checkSchema()])
      return now
    },

    close,
  }
}

/** Sends queries without waiting for their answers, unless one is made of what the first one finds. */
function sent(send: Send, queries: readonly unknown[]): Promise<(readonly unknown[])[]> {
  const found: Promise<unknown[]>[] = []
  for (const query of queries as readonly (Query | ((first: unknown) => Query) | undefined)[]) {
    if (typeof query === 'function') found.push((found[0] as Promise<unknown[]>).then((first) => send(...query(first))))
    else found.push(query ? send(...query) : Promise.resolve([]))
  }
  return Promise.all(found)
}
