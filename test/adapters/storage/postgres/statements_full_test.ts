/** How many statements a paid call takes, and how many of its updates touch an index, counted by the server. */
import { expect, test } from 'bun:test'
import { Client } from 'pg'
import { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { warmTokenizer } from '../../../../adapters/token_counter.ts'
import { prepared, round, started, vouchers } from '../../../bench/in_process.ts'
import { postgresServer } from './postgres_server.ts'

const CALLS = 20

test('postgres: a paid chat takes at most 10 statements, and one by voucher 14, of which 3 and 4 write; 9 of 10 updates touch no index', async () => {
  const server = await postgresServer(['shared_preload_libraries=pg_stat_statements'])
  await warmTokenizer()
  for (const [kind, most, writes] of [
    ['exact', 10, 3],
    ['voucher', 14, 4],
  ] as const) {
    const url = await server.fresh()
    const storage = postgresStorage(url)
    await storage.ready()
    const client = new Client({ connectionString: url })
    await client.connect()
    await client.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public')
    const gateway = started(storage, kind === 'voucher' ? vouchers(storage) : undefined)
    const next = await prepared(gateway, { model: 'openai/gpt-6-luna', stream: false })
    // Each buyer's first call also stores what is known of its channel.
    for (let n = 0; n < 300; n += CALLS) await round(gateway, next, CALLS)
    await client.query('SELECT public.pg_stat_statements_reset()')
    for (let n = 0; n < CALLS; n++) await round(gateway, next, 1)
    const { rows } = await client.query<{ statements: number; writing: number }>(
      `SELECT sum(calls)::int AS statements,
         (sum(calls) FILTER (WHERE query ~ '(insert into (calls|records)|update calls|update records)'))::int AS writing
       FROM public.pg_stat_statements WHERE query NOT LIKE '%pg_stat%'`,
    )
    const { statements = 0, writing = 0 } = rows[0] ?? {}
    expect([kind, writing]).toEqual([kind, writes * CALLS])
    expect(statements / CALLS).toBeLessThanOrEqual(most)
    // A session publishes what it counted when it ends.
    await storage.close()
    const hot = await server.run(
      url,
      `SELECT n_tup_hot_upd::float8 / n_tup_upd AS hot
       FROM pg_stat_user_tables WHERE relname IN ('calls', 'authorizations') AND n_tup_upd > 0 AND schemaname = current_schema()`,
    )
    expect(hot.length).toBe(2)
    for (const { hot: share } of hot) expect(Number(share)).toBeGreaterThan(0.9)
    await client.end()
  }
  await server.stop()
}, 120_000)
