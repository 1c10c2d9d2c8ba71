/**
 * Cost of a paid call on Postgres:
 * `bun test/bench/postgres.ts [calls] [--statements] [--pooled] [--wallet] [--replicas N]`.
 * Statements, commits, WAL, CPU of the database and of this process, and the share of updates that touch no index, for
 * a chat paid by `exact` and one paid by voucher, on the memory chain before a scripted vendor. Prints, never asserts.
 * With `--wallet` all calls are of one wallet, which are opened one after the other.
 * The server is one of our own that flushes to disk, behind PgBouncer with `--pooled`, unless `--url` names one, which
 * then needs the extension pg_stat_statements.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { Client } from 'pg'
import type { Offer } from '../../core/mod.ts'
import { postgresStorage } from '../../adapters/storage/postgres/mod.ts'
import { warmTokenizer } from '../../adapters/token_counter.ts'
import { PGBOUNCER, pooler } from '../adapters/storage/postgres/pgbouncer.ts'
import { postgresServer } from '../adapters/storage/postgres/postgres_server.ts'
import { cash, prepared, round, type Started, started, vouchers } from './in_process.ts'
import { fixed, table } from './print.ts'

export const SETTINGS = [
  'fsync=on',
  'full_page_writes=on',
  'shared_buffers=128MB',
  'shared_preload_libraries=pg_stat_statements',
  'track_wal_io_timing=off',
]
const CHAT = { model: 'openai/gpt-6-luna', stream: false } as const
const WARM_UP = 300
const TICK_MS = 10

type Counters = Readonly<Record<'statements' | 'commits' | 'wal' | 'updates' | 'hot' | 'executionMs', number>>

/** Only what this database's own clients did; the statements of the measurement are left out by name. */
const COUNTERS = `SELECT
  (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = dbid
    WHERE datname = current_database() AND query NOT LIKE '%pg_stat%')::float8 AS statements,
  (SELECT coalesce(sum(total_exec_time), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = dbid
    WHERE datname = current_database() AND query NOT LIKE '%pg_stat%')::float8 AS "executionMs",
  (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8 AS commits,
  (SELECT pg_current_wal_insert_lsn() - '0/0')::float8 AS wal,
  (SELECT coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables WHERE relname = 'calls')::float8 AS updates,
  (SELECT coalesce(sum(n_tup_hot_upd), 0) FROM pg_stat_user_tables WHERE relname = 'calls')::float8 AS hot`

const BY_STATEMENT = `SELECT calls::float8 AS calls, total_exec_time::float8 AS ms, rows::float8 AS rows,
  wal_bytes::float8 AS wal, left(regexp_replace(query, '\\s+', ' ', 'g'), 110) AS query
  FROM pg_stat_statements s JOIN pg_database d ON d.oid = dbid
  WHERE datname = current_database() AND query NOT LIKE '%pg_stat%' ORDER BY calls DESC, total_exec_time DESC`

/** CPU of the server and all its processes, in milliseconds, where /proc tells. */
export function cpuOf(pid: number | undefined): number {
  if (pid === undefined) return NaN
  let ticks = 0
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      const [parent, ...times] = [fields[1], ...fields.slice(11, 15)].map(Number)
      // Of its own and of the sessions that have ended; the sessions have no children.
      if (Number(name) === pid || parent === pid) ticks += times.reduce((sum, each) => sum + each, 0)
    } catch {
      // The process has ended.
    }
  }
  return ticks * TICK_MS
}

type Options = {
  readonly url?: string
  readonly isLong?: boolean
  readonly isPooled?: boolean
  readonly isOneWallet?: boolean
  /** Gateways with a pool of connections each, which take turns. */
  readonly replicas?: number
}

/** One after the other, as behind a balancer. The first one signs: what it knows of channels is in the database. */
function together(gateways: readonly Started[]): Started {
  const [first] = gateways
  if (!first) throw new Error('no replica')
  let turn = 0
  return { ...first, fetch: (request) => (gateways[turn++ % gateways.length] ?? first).fetch(request) }
}

async function postgres(
  calls: number,
  { url: given, isLong, isPooled, isOneWallet = false, replicas = 1 }: Options = {},
) {
  const server = given === undefined ? await postgresServer(SETTINGS) : undefined
  const bouncer =
    isPooled && server && PGBOUNCER ? await pooler(PGBOUNCER, { base: server.base, sessions: 10 }) : undefined
  const rows: string[][] = []
  await warmTokenizer()
  for (const kind of isOneWallet ? (['exact'] as const) : (['exact', 'voucher'] as const)) {
    const through = await bouncer?.fresh()
    const url = given ?? through?.direct ?? (await server?.fresh()) ?? ''
    const storages = Array.from({ length: replicas }, () =>
      postgresStorage(through ? `${through.pooled}?pooler=transaction` : url),
    )
    for (const storage of storages) await storage.ready()
    const client = new Client({ connectionString: url })
    await client.connect()
    await client.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public')
    await client.query("SELECT set_config('search_path', current_setting('search_path') || ', public', false)")
    const money = cash()
    const gateway = together(
      storages.map((storage) => started(storage, kind === 'voucher' ? vouchers(storage) : money)),
    )
    const signed = isOneWallet ? { ...gateway, sign: (offer: Offer) => gateway.sign(offer, 0) } : gateway
    const next = await prepared(signed, CHAT)
    // A wallet that has paid may have more than two calls open.
    await round(gateway, next, 1)
    await round(gateway, next, WARM_UP)
    await client.query('SELECT pg_stat_statements_reset()')
    const counters = async () => {
      // Statistics of a session arrive after at most a second without a report.
      await client.query('SELECT pg_stat_clear_snapshot(), pg_sleep(1.2)')
      return (await client.query<Counters>(COUNTERS)).rows[0] as Counters
    }
    const before = await counters()
    const cpuBefore = cpuOf(server?.own?.pid)
    const { cpuMicros, rate } = await round(gateway, next, calls)
    const cpu = cpuOf(server?.own?.pid) - cpuBefore
    const after = await counters()
    const each = (name: keyof Counters) => (after[name] - before[name]) / calls
    rows.push([
      kind,
      fixed(each('statements'), 1),
      fixed(each('commits'), 1),
      fixed(each('wal') / 1024, 1),
      fixed(cpu / calls, 2),
      fixed(each('executionMs'), 2),
      fixed(cpuMicros / 1_000, 2),
      `${fixed((100 * each('hot')) / each('updates'), 0)} %`,
      fixed(each('updates'), 1),
      fixed(rate, 0),
    ])
    if (isLong) {
      const { rows: statements } = await client.query<
        Record<'calls' | 'ms' | 'rows' | 'wal', number> & { query: string }
      >(BY_STATEMENT)
      table(
        [`${kind}: statement`, 'a call', 'us each', 'wal bytes each'],
        statements
          .filter((one) => one.calls >= calls / 50)
          .map((one) => [
            one.query,
            fixed(one.calls / calls, 2),
            fixed((1_000 * one.ms) / one.calls, 0),
            fixed(one.wal / one.calls, 0),
          ]),
      )
    }
    await client.end()
    for (const storage of storages) await storage.close()
  }
  await bouncer?.stop()
  await server?.stop()
  const behind = bouncer ? `, behind ${bouncer.version}` : ''
  console.log(`\na paid chat on Postgres${behind}, ${calls} of each, 32 in flight, ${replicas} in process`)
  table(
    [
      '',
      'statements',
      'commits',
      'WAL KiB',
      'CPU ms there',
      'execution ms',
      'CPU ms here',
      'HOT',
      'updates',
      'a second',
    ],
    rows,
  )
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    options: {
      url: { type: 'string' },
      statements: { type: 'boolean' },
      pooled: { type: 'boolean' },
      wallet: { type: 'boolean' },
      replicas: { type: 'string' },
    },
    allowPositionals: true,
  })
  const {
    url,
    statements: isLong = false,
    pooled: isPooled = false,
    wallet: isOneWallet = false,
    replicas = '1',
  } = values
  await postgres(Number(positionals[0] ?? 2_000), {
    ...(url !== undefined && { url }),
    isLong,
    isPooled,
    isOneWallet,
    replicas: Number(replicas),
  })
  process.exit(0)
}
