/**
 * Cost of a request and of a report on Postgres however long the ledger is: `bun test/bench/postgres_rows.ts
 * [rows...]`, by default 10,000 and 1,000,000 settled calls of 2,000 wallets, spread over a year and written by
 * `generate_series` rather than through the engine: results are objects, so of calls older than a day a row is left.
 * `--url` names a database of its own, which is filled if it is empty. Prints medians, never asserts.
 */
import { parseArgs } from 'node:util'
import { Client } from 'pg'
import { postgresStorage } from '../../adapters/storage/postgres/mod.ts'
import { warmTokenizer } from '../../adapters/token_counter.ts'
import { archiveLedger } from '../../core/payment/reports/ledger_archive.ts'
import { systemClock } from '../../adapters/local.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { postgresServer } from '../adapters/storage/postgres/postgres_server.ts'
import { ASSET, OFFER } from './fill.ts'
import { prepared, round, started } from './in_process.ts'
import { count, fixed, median, table } from './print.ts'

const DAY_MS = 86_400_000
const WALLETS = 2_000
const ROUNDS = 15
const ARCHIVE_MS = 10_000

const SETTINGS = [
  'fsync=on',
  'full_page_writes=on',
  'shared_buffers=1GB',
  'max_wal_size=8GB',
  'maintenance_work_mem=1GB',
  'autovacuum=off',
  // Writes of a transaction to tables that it has emptied are then not in the log.
  'wal_level=minimal',
  'max_wal_senders=0',
]
/** Written without indexes, which are built at the end: row by row they take most of the time, and more space. */
const FILLED = ['calls', 'authorizations', 'settled_calls', 'spend_totals'] as const

const idOf = (n: string) => `'job_' || md5(${n}::text)`
const walletOf = (n: string) => `'0x' || left(md5((${n} % ${WALLETS})::text) || md5('w'), 40)`
const nonceOf = (n: string) => `'0x' || md5('n' || ${n}) || md5('m' || ${n})`
const keyOf = (n: string) => `'${ASSET}/' || ${walletOf(n)} || '/' || ${nonceOf(n)}`
const hashOf = (n: string) => `'0x' || md5('t' || ${n}) || md5('u' || ${n})`

/** Writes settled calls of the last year, the oldest first. Results of the last day are still there. */
async function fill(client: Client, rows: number, now: number): Promise<void> {
  const at = `(${now - 365 * DAY_MS} + n * ${365 * DAY_MS} / ${rows})::bigint`
  const ofTables = `conrelid = ANY ('{${FILLED.join()}}'::regclass[])`
  const { rows: keys } = await client.query<Record<'name' | 'of' | 'sql', string>>(
    `SELECT conname AS name, conrelid::regclass AS of, pg_get_constraintdef(oid) AS sql FROM pg_constraint
     WHERE ${ofTables} AND contype IN ('p', 'f') ORDER BY contype DESC`,
  )
  for (const { name, of } of keys.toReversed()) await client.query(`ALTER TABLE ${of} DROP CONSTRAINT ${name}`)
  const { rows: indexes } = await client.query<{ name: string; sql: string }>(
    `SELECT indexrelid::regclass AS name, pg_get_indexdef(indexrelid) AS sql FROM pg_index
     WHERE indrelid = ANY ('{${FILLED.join()}}'::regclass[])`,
  )
  for (const { name } of indexes) await client.query(`DROP INDEX ${name}`)
  await client.query("SET session_replication_role = 'replica'; SET work_mem = '256MB'")
  await client.query(`BEGIN; TRUNCATE ${FILLED.join()}`)
  await client.query(`
    INSERT INTO calls (id, gateway, endpoint, model, payer, asset, quote, "authorization", fingerprint, created_at,
      work_status, payment_status, worker_id, lease_expires_at, ended_at, settled_at, expires_at, claim_token,
      claim_expires_at, claim_fresh, emptied, usage, paid, offer, receipt, request, result, quoted_at, verified_at,
      settling_at, settled_by, due_at)
    SELECT ${idOf('n')}, 'bench', 'chat.completions', 'vendor-' || n % 5, ${walletOf('n')}, '${ASSET}', 2000, ${keyOf('n')},
      md5(n::text), ${at}, 'completed', 'settled', 'filler', ${at} + 30000, ${at} + 400, ${at} + 900, ${at} + ${DAY_MS},
      1, ${at} + 900, false, ${at} < ${now - DAY_MS}, '{"input":160,"output":180}', 2000, '${JSON.stringify(OFFER)}',
      '{"transaction":"' || ${hashOf('n')} || '","network":"eip155:84532","payer":"' || ${walletOf('n')} || '","amount":"2000","block":' || n || '}',
      CASE WHEN ${at} >= ${now - DAY_MS} THEN '{"model":"m"}' END, CASE WHEN ${at} >= ${now - DAY_MS} THEN '{"made":"x"}' END,
      ${at} - 60, ${at} - 10, ${at} + 400, 'reply', ${at} + ${DAY_MS}
    FROM generate_series(1, ${rows}) AS n`)
  await client.query(`
    INSERT INTO authorizations SELECT ${keyOf('n')}, ${idOf('n')}, ${walletOf('n')}, 0, 'paid', ${at} + 300000, NULL
    FROM generate_series(1, ${rows}) AS n`)
  await client.query(`
    INSERT INTO settled_calls SELECT payer, settled_at, id, substring(receipt from '"transaction":"[^"]*([^"]{16})"'), (receipt::json ->> 'block')::bigint FROM calls`)
  await client.query(`
    INSERT INTO spend_totals SELECT payer, settled_at / ${DAY_MS}, gateway, endpoint, ':' || model, asset, 1, count(*), 0,
      sum(paid), 160 * count(*), 180 * count(*), max(settled_at) FROM calls GROUP BY 1, 2, 3, 4, 5, 6`)
  for (const [unit, since] of [
    [3_600_000, now - 60 * DAY_MS],
    [DAY_MS, 0],
  ])
    await client.query(`
      INSERT INTO call_totals SELECT ${unit}, settled_at - settled_at % ${unit}, gateway, endpoint, ':' || model, outcome,
        up_to, 1, count(*), 0, sum(spent) FROM calls
        CROSS JOIN LATERAL (VALUES ('settled', 0, 2000), ('completed', 500, 0)) AS kind(outcome, up_to, spent)
      WHERE settled_at >= ${since} GROUP BY 1, 2, 3, 4, 5, 6, 7`)
  await client.query('COMMIT')
  for (const { sql } of indexes) await client.query(sql)
  for (const { name, of, sql } of keys) await client.query(`ALTER TABLE ${of} ADD CONSTRAINT ${name} ${sql}`)
  // As autovacuum leaves the pages of old rows.
  await client.query('VACUUM (FREEZE, ANALYZE)')
  await client.query("SET session_replication_role = 'origin'")
}

const timed = async (work: () => unknown, rounds = ROUNDS): Promise<number> => {
  const times: number[] = []
  for (let n = 0; n < rounds; n++) {
    const startedAt = performance.now()
    await work()
    times.push(performance.now() - startedAt)
  }
  return median(times)
}

/** Times of one ledger in milliseconds, by what was asked. */
async function measured(url: string, rows: number, now: number): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  const client = new Client({ connectionString: url })
  await client.connect()
  const pick = async (expression: (n: string) => string) => {
    const { rows: made } = await client.query<{ found: string }>(
      `SELECT ${expression(String(1 + Math.floor(Math.random() * rows)))} AS found`,
    )
    return made[0]?.found ?? ''
  }
  const opening = performance.now()
  const storage = postgresStorage(url)
  await storage.ready()
  const gateway = started(storage)
  await gateway.fetch(new Request('http://127.0.0.1/api/v1/models'))
  found.set('start', performance.now() - opening)
  const chat = { model: 'openai/gpt-6-luna', stream: false } as const
  const unpaid = JSON.stringify({ model: chat.model, messages: [{ role: 'user', content: 'hi' }], max_tokens: 9 })
  const quote = () =>
    gateway.fetch(
      new Request('http://127.0.0.1/api/v1/chat/completions', {
        method: 'POST',
        body: unpaid,
        headers: { 'content-type': 'application/json', host: '127.0.0.1' },
      }),
    )
  found.set('quote', await timed(quote))
  const next = await prepared(gateway, chat)
  await round(gateway, next, 300)
  const alone = async () => {
    const response = await gateway.fetch(await next())
    if (response.status !== 200) throw new Error(await response.text())
    await response.text()
  }
  found.set('paid call, alone', await timed(alone, 60))
  found.set('poll: the call of an id', await timed(async () => storage.getCall(await pick(idOf))))
  const all = { since: 0, until: now + DAY_MS, limit: 100 }
  found.set('list: newest 100', await timed(() => storage.listCalls(all)))
  found.set(
    'list: 100 of a wallet',
    await timed(async () => storage.listCalls({ ...all, payer: await pick(walletOf) })),
  )
  found.set('list: open calls', await timed(() => storage.listOpen(100)))
  found.set(
    'list: 100 settled since a day',
    await timed(() => storage.listSettled({ since: now - DAY_MS, limit: 100 })),
  )
  for (const [name, of] of [
    ['id', idOf],
    ['nonce', nonceOf],
    ['transaction', hashOf],
  ] as const)
    found.set(`find: by ${name}`, await timed(async () => storage.findCalls(await pick(of), 9)))
  found.set(
    'maintenance: lost and unsettled',
    await timed(() => Promise.all([storage.lostCalls(now, 500), storage.unsettled(now, 500)])),
  )
  found.set(
    'series: a wallet, 30 days',
    await timed(async () => storage.spendByModel(await pick(walletOf), now - 30 * DAY_MS)),
  )
  const year = { since: now - 365 * DAY_MS, until: now + DAY_MS }
  found.set(
    'series: calls by day, a year',
    await timed(() => storage.callTotals({ unit: 'day', by: 'model', ...year })),
  )
  found.set('series: buyers by day, the first time', await timed(() => storage.buyersByDay(year), 1))
  found.set('series: buyers by day, a year', await timed(() => storage.buyersByDay(year)))
  found.set('retention, nothing due', await timed(() => storage.prune(now), 3))
  const ports = { storage, clock: { ...systemClock, now: () => now }, store: memoryObjects() }
  const archiving = performance.now()
  const mayGoOn = async () => performance.now() - archiving < ARCHIVE_MS
  const moved = await archiveLedger(ports, { archiveMs: 300 * DAY_MS, mayGoOn })
  found.set('archive: a call', (performance.now() - archiving) / moved)
  // As pg_dump reads.
  const copying = performance.now()
  let isCopied = false
  const copied = client
    .query(`COPY calls TO PROGRAM 'cat > /dev/null'; COPY authorizations TO PROGRAM 'cat > /dev/null'`)
    .finally(() => (isCopied = true))
  const meanwhile: number[] = []
  do meanwhile.push(await timed(alone, 1))
  while (!isCopied)
  await copied
  found.set('backup: seconds', (performance.now() - copying) / 1_000)
  found.set('paid call, alone, during a backup', median(meanwhile))
  await client.end()
  await storage.close()
  return found
}

const SIZES = `SELECT relname AS name, pg_table_size(oid)::float8 AS rows, pg_indexes_size(oid)::float8 AS indexes
  FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY 2 DESC LIMIT 5`

if (import.meta.main) {
  const { values, positionals } = parseArgs({ options: { url: { type: 'string' } }, allowPositionals: true })
  const sizes = positionals.length > 0 ? positionals.map(Number) : [10_000, 1_000_000]
  await warmTokenizer()
  const columns: Map<string, number>[] = []
  for (const rows of sizes) {
    const server = values.url === undefined ? await postgresServer(SETTINGS) : undefined
    const url = (await server?.fresh()) ?? values.url ?? ''
    const now = Date.now()
    const storage = postgresStorage(url)
    await storage.ready()
    await storage.close()
    const client = new Client({ connectionString: url })
    await client.connect()
    const filling = performance.now()
    const { rows: there } = await client.query('SELECT 1 FROM calls LIMIT 1')
    if (there.length === 0) await fill(client, rows, now)
    const { rows: total } = await client.query<{ bytes: string }>(
      'SELECT pg_database_size(current_database()) AS bytes',
    )
    console.log(
      `${count(rows)} rows in ${fixed((performance.now() - filling) / 1_000, 0)} s, ${count(Number(total[0]?.bytes) / 2 ** 20)} MiB`,
    )
    const { rows: sizes } = await client.query<{ name: string; rows: number; indexes: number }>(SIZES)
    table(
      ['bytes of a call', 'rows', 'indexes'],
      sizes.map(({ name, rows: own, indexes }) => [name, count(own / rows), count(indexes / rows)]),
    )
    await client.end()
    columns.push(await measured(url, rows, now))
    await server?.stop()
  }
  console.log('\non Postgres, milliseconds, medians')
  table(
    ['', ...sizes.map((rows) => count(rows))],
    [...(columns[0]?.keys() ?? [])].map((name) => [name, ...columns.map((each) => fixed(each.get(name) ?? NaN, 2))]),
  )
  process.exit(0)
}
