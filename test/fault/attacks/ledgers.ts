/** Where a gateway under attack keeps its ledger: a file of its folder, or a database of replicas behind PgBouncer. */
import { Database } from 'bun:sqlite'
import { rmSync } from 'node:fs'
import { Client } from 'pg'
import { PGBOUNCER, type Pooler, pooler } from '../../adapters/storage/postgres/pgbouncer.ts'
import { type PostgresServer, postgresServer } from '../../adapters/storage/postgres/postgres_server.ts'

export type Ledger = {
  readonly url: string
  /** Rows of a table that fulfil a condition. */
  count(table: string, condition?: string): Promise<number>
  /** The operator drops it, while no process uses it. */
  drop(): Promise<void>
}

export function sqliteLedger(path: string): Ledger {
  return {
    url: `sqlite:${path}`,
    async count(table, condition = 'true') {
      const database = new Database(path, { readonly: true })
      const { count } = database.query(`SELECT count(*) AS count FROM ${table} WHERE ${condition}`).get() as {
        count: number
      }
      database.close()
      return count
    },
    async drop() {
      for (const end of ['', '-wal', '-shm']) rmSync(`${path}${end}`, { force: true })
    },
  }
}

/** Several replicas of each gateway, with one Postgres for all of them. */
export type Fleet = {
  readonly size: number
  fresh(): Promise<Ledger>
  stop(): Promise<void>
}

/** At most three sessions of the database for the replicas of a gateway, if `isPooled`. */
export async function fleet(size: number, { isPooled }: { readonly isPooled: boolean }): Promise<Fleet> {
  const server = await postgresServer(['max_connections=200'])
  if (isPooled && !PGBOUNCER) throw new Error('PgBouncer is not installed')
  const before = isPooled && PGBOUNCER ? await pooler(PGBOUNCER, { base: server.base, sessions: 3 }) : undefined
  return {
    size,
    fresh: () => databaseOf(server, before),
    async stop() {
      await before?.stop()
      await server.stop()
    },
  }
}

async function databaseOf(server: PostgresServer, before: Pooler | undefined): Promise<Ledger> {
  const own = await before?.fresh()
  const direct = own?.direct ?? (await server.fresh())
  const ask = async (sql: string) => {
    const client = new Client({ connectionString: direct })
    await client.connect()
    return (await client.query<{ count: string }>(sql).finally(() => client.end())).rows
  }
  return {
    url: own ? `${own.pooled}?pooler=transaction` : direct,
    count: async (table, condition = 'true') =>
      Number((await ask(`SELECT count(*) AS count FROM ${table} WHERE ${condition}`))[0]?.count),
    async drop() {
      await ask('DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public')
    },
  }
}

/**
 * One address before several replicas, each of which gets the next request, as a balancer without sticky sessions does.
 * Whoever leaves, leaves the replica too.
 */
export function balancer(replicas: () => readonly string[]) {
  let turn = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    maxRequestBodySize: 2 ** 31,
    async fetch(request) {
      const all = replicas()
      const { pathname, search } = new URL(request.url)
      const headers = new Headers(request.headers)
      headers.delete('connection')
      const answer = await fetch(`${all[turn++ % all.length]}${pathname}${search}`, {
        method: request.method,
        headers,
        redirect: 'manual',
        signal: request.signal,
        decompress: false,
        ...(request.body && { body: request.body, duplex: 'half' }),
      } as RequestInit).catch(() => undefined)
      return answer ? new Response(answer.body, answer) : new Response('no replica answers', { status: 502 })
    },
  })
  return { origin: server.url.href.replace(/\/$/, ''), stop: () => server.stop(true) }
}
