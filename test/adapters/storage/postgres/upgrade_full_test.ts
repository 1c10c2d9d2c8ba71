/** Migrations of Postgres while replicas of two versions sell. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Client } from 'pg'
import type { Migration } from '../../../../adapters/storage/migration.ts'
import { LOCK, migrate, migrations } from '../../../../adapters/storage/postgres/migrations.ts'
import { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { DONE, streamAnswer } from '../../../fakes/chat.ts'
import { timely } from '../../../../server/wiring/timely.ts'
import { newCall, signed, T } from '../../../conformance/storage_questions.ts'
import { HELLO, STREAM, table } from '../../../core/call/stream_kit.ts'
import { digestOf, expectUpgraded, insertsOf, recordingOf, RELEASES } from '../releases.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop(), 60_000)

const COLUMN: Migration = {
  name: 'a column',
  suitsOlder: true,
  sql: "ALTER TABLE calls ADD COLUMN added text DEFAULT 'old'",
}
const INDEX: Migration = {
  name: 'an index',
  suitsOlder: true,
  index: 'calls_by_model',
  sql: 'CREATE INDEX CONCURRENTLY calls_by_model ON calls (model)',
}
const CONTRACT: Migration = { name: 'a column less', sql: 'ALTER TABLE calls DROP COLUMN fingerprint' }

async function client(url: string): Promise<Client> {
  const made = new Client({ connectionString: url })
  await made.connect()
  return made
}

test('two replicas are replaced one after the other by a newer version, under load: no purchase fails', async () => {
  const url = await server.fresh()
  const [old, newer] = [migrations, [...migrations, COLUMN, INDEX]]
  const first = postgresStorage(url, { schema: old })
  await first.ready()
  const subject = await table(async () => streamAnswer(HELLO), { ports: { storage: first } })
  const opened = [first]
  const replica = (schema: readonly Migration[], workerId: string) => {
    const storage = postgresStorage(url, { schema })
    opened.push(storage)
    const gateway = subject.restart({ workerId, ports: { ...subject.ports, storage } })
    return { storage, gateway }
  }
  let replicas = [replica(old, 'old-1'), replica(old, 'old-2')]
  let [isOver, bought] = [false, 0]
  const failures: unknown[] = []
  async function buy(buyer: number): Promise<void> {
    for (let n = 0; !isOver; n++) {
      const payment = await subject.signed(STREAM, { by: subject.buyer(`wallet ${buyer}-${n}`) })
      const { gateway } = replicas[(buyer + n) % replicas.length] ?? {}
      const reply = await subject.post(STREAM, { payment, ...(gateway && { gateway }) })
      const text = await reply.text()
      if (reply.status !== 200 || !text.endsWith(DONE)) failures.push([reply.status, text.slice(0, 300)])
      bought++
    }
  }
  const atLeast = async (count: number) => {
    while (bought < count && failures.length === 0) await new Promise((turn) => setImmediate(turn))
  }
  const buyers = Promise.all(Array.from({ length: 8 }, (_, buyer) => buy(buyer)))
  await atLeast(40)
  for (const [at, name] of ['new-1', 'new-2'].entries()) {
    const replacement = replica(newer, name)
    await replacement.storage.ready()
    await atLeast(bought + 20)
    replicas = replicas.map((each, index) => (index === at ? replacement : each))
    await atLeast(bought + 40)
  }
  isOver = true
  await buyers
  await subject.idle()
  expect(failures).toEqual([])
  expect(bought).toBeGreaterThan(150)
  expect(subject.chain.transfers.length).toBe(bought)
  const [{ settled } = {}] = await server.run(
    url,
    "SELECT count(*)::int AS settled FROM calls WHERE payment_status = 'settled'",
  )
  expect(settled).toBe(bought)
  expect(
    await server.run(url, 'SELECT name, min_reader::int AS reader FROM migrations ORDER BY step DESC LIMIT 2'),
  ).toEqual([INDEX, COLUMN].map(({ name }) => ({ name, reader: 1 })))
  for (const storage of opened) await storage.close()
}, 120_000)

for (const release of RELEASES)
  test(`a ledger of version ${release.version} is upgraded and loses nothing`, async () => {
    const { steps, digest } = release.postgres
    expect(digestOf(migrations.slice(0, steps))).toBe(digest)
    const recording = await recordingOf(release)
    const url = await server.fresh()
    const upgrading = await client(url)
    await migrate(upgrading, migrations.slice(0, steps))
    for (const insert of insertsOf(recording, { flag: String })) await upgrading.query(insert)
    const storage = postgresStorage(url)
    await expectUpgraded(storage, recording)
    await storage.close()
    const fresh = await server.fresh()
    const empty = postgresStorage(fresh)
    await empty.ready()
    expect(await schemaOf(url)).toEqual(await schemaOf(fresh))
    await empty.close()
    await upgrading.end()
  })

/** Every column, index and trigger. */
async function schemaOf(url: string): Promise<string[]> {
  const parts = await server.run(
    url,
    `SELECT concat_ws(' ', table_name, column_name, ordinal_position, data_type, is_nullable) AS part
     FROM information_schema.columns WHERE table_schema = current_schema()
     UNION ALL SELECT replace(indexdef, current_schema(), '') FROM pg_indexes WHERE schemaname = current_schema()
     UNION ALL SELECT pg_get_triggerdef(t.oid, true) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
     WHERE NOT tgisinternal AND c.relnamespace = current_schema()::regnamespace ORDER BY 1`,
  )
  return parts.map(({ part }) => String(part))
}

test('a ledger of a development version before the first release is used if it has all its migrations, and refused if not', async () => {
  const names =
    'baseline/ledger retention/payments looked up/spend totals/spend totals of the past/' +
    'spend totals of zero are deleted/call totals/call totals of the past/spend totals by day/payments in doubt/' +
    'records listed by id/records no longer listed by their end'
  const steps = names.split('/')
  for (const taken of [steps, steps.slice(0, 9)]) {
    const url = await server.fresh()
    const earlier = await client(url)
    await migrate(earlier, migrations.slice(0, 1))
    await earlier.query('DELETE FROM migrations')
    for (const [at, name] of taken.entries())
      await earlier.query('INSERT INTO migrations VALUES ($1, $2)', [at + 1, name])
    const storage = postgresStorage(url)
    if (taken === steps) await storage.ready()
    else await expect(storage.ready()).rejects.toThrow('it has 9 of its 12 migrations')
    const { rows } = await earlier.query('SELECT name FROM migrations ORDER BY step')
    expect(rows.map(({ name }) => name)).toEqual(taken === steps ? migrations.map(({ name }) => name) : taken)
    await storage.close()
    await earlier.end()
  }
})

test('a version that knows fewer steps starts on a database whose newer steps suit it', async () => {
  const url = await server.fresh()
  const newer = postgresStorage(url, { schema: [...migrations, COLUMN] })
  await newer.ready()
  const older = postgresStorage(url)
  await older.ready()
  expect((await older.openCall(newCall('call'), signed('key'), { now: T, until: T + 1 })).kind).toBe('opened')
  expect((await newer.getCall('call'))?.id).toBe('call')
  await older.close()
  await newer.close()
})

test('a replica whose database is upgraded past it while it runs writes nothing more, and sells nothing (contract 1.66)', async () => {
  const url = await server.fresh()
  const storage = postgresStorage(url)
  await storage.ready()
  const subject = await table(async () => streamAnswer(HELLO), { ports: { storage } })
  const payment = await subject.signed(STREAM, { by: subject.buyer('alice') })
  const newer = await client(url)
  await migrate(newer, [...migrations, CONTRACT])
  const words = 'was upgraded by a newer Farebox, and this version cannot use it any more: update this replica'
  await expect(storage.openCall(newCall('late'), signed('late'), { now: T, until: T + 1 })).rejects.toThrow(words)
  await expect(storage.getCall('late')).rejects.toThrow(words)
  expect(storage.refusal()).toContain(words)
  const chain = timely(subject.chain, { trouble: () => undefined, refusal: storage.refusal })
  const gateway = subject.restart({ ports: { ...subject.ports, storage, chain } })
  const reply = await subject.post(STREAM, { payment, gateway })
  expect([reply.status, reply.headers.has('retry-after')]).toEqual([503, true])
  expect(subject.chain.transfers.length).toBe(0)
  expect((await newer.query('SELECT count(*)::int AS calls FROM calls')).rows).toEqual([{ calls: 0 }])
  await newer.end()
  await storage.close()
})

test('a replica writes nothing more once the schema takes a newer version, though its statements still could', async () => {
  const url = await server.fresh()
  const [opening, claiming] = [postgresStorage(url), postgresStorage(url)]
  const key = signed('key')
  await claiming.openCall(newCall('call'), key, { now: T, until: T + 1 })
  await opening.ready()
  const newer = await client(url)
  await migrate(newer, [...migrations, { name: 'another meaning', sql: 'SELECT 1' }])
  const words = 'update this replica'
  await expect(opening.openCall(newCall('late'), signed('late'), { now: T, until: T + 1 })).rejects.toThrow(words)
  // This one has seen the call, and would write it in one statement.
  const result = { result: 1, expiresAt: T + 9 }
  await expect(claiming.claimSettlement('call', key, { now: T, until: T + 9, result })).rejects.toThrow(words)
  expect([opening.refusal(), claiming.refusal()]).toEqual([expect.any(String), expect.any(String)])
  expect((await newer.query('SELECT id, payment_status AS paid FROM calls')).rows).toEqual([
    { id: 'call', paid: 'verified' },
  ])
  await newer.end()
  await opening.close()
  await claiming.close()
})

test('a replica that nobody asks notices by the time that it asks the database for', async () => {
  const url = await server.fresh()
  const storage = postgresStorage(url)
  await storage.ready()
  const newer = await client(url)
  await migrate(newer, [...migrations, CONTRACT])
  await expect(storage.now?.()).rejects.toThrow('update this replica')
  expect(storage.refusal()).toBeDefined()
  await newer.end()
  await storage.close()
})

test('a replica whose transaction began before another one had migrated finds what that one has made', async () => {
  const url = await server.fresh()
  const [late, other] = [await client(url), await client(url)]
  const query = late.query.bind(late) as (given: { text: string }) => Promise<never>
  // The first attempt finds the lock taken. By the second, the session remembers that there was no table.
  await other.query(`SELECT pg_advisory_lock(${LOCK})`)
  let attempts = 0
  late.query = (async (given: { text: string }) => {
    if (given.text.includes('pg_try_advisory_xact_lock') && ++attempts === 2) {
      await other.query(`SELECT pg_advisory_unlock(${LOCK})`)
      await migrate(other)
    }
    return await query(given)
  }) as never
  await migrate(late)
  expect(attempts).toBeGreaterThanOrEqual(2)
  expect((await other.query('SELECT name FROM migrations ORDER BY step')).rows).toEqual(
    migrations.map(({ name }) => ({ name })),
  )
  await late.end()
  await other.end()
})

test('an index that an interrupted migration left invalid is dropped and built again', async () => {
  const url = await server.fresh()
  const [one, other] = [await client(url), await client(url)]
  await migrate(one, migrations)
  await one.query('CREATE TABLE twins (name text)')
  await one.query("INSERT INTO twins VALUES ('a'), ('a')")
  await expect(one.query('CREATE UNIQUE INDEX CONCURRENTLY twins_name ON twins (name)')).rejects.toThrow('unique')
  const valid = "SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = 'twins_name'::regclass"
  expect((await one.query(valid)).rows).toEqual([{ valid: false }])
  await one.query('TRUNCATE twins')
  // Larger than what is indexed while nobody writes.
  await one.query('INSERT INTO twins SELECT n::text FROM generate_series(1, 150000) n')
  const step = {
    name: 'twins',
    index: 'twins_name',
    sql: 'CREATE UNIQUE INDEX CONCURRENTLY twins_name ON twins (name)',
  }
  // Two replicas at once: one builds it, the other waits.
  await Promise.all([migrate(one, [...migrations, step]), migrate(other, [...migrations, step])])
  expect((await one.query(valid)).rows).toEqual([{ valid: true }])
  await one.end()
  await other.end()
})

test('a migration that waits for a table steps back again and again, so that nobody waits behind it for ever', async () => {
  const url = await server.fresh()
  const [busy, upgrading] = [await client(url), await client(url)]
  await migrate(busy, migrations)
  await busy.query('BEGIN')
  await busy.query('SELECT count(*) FROM calls')
  const migrated = migrate(upgrading, [...migrations, COLUMN])
  const storage = postgresStorage(url)
  // Answered while the migration still waits: the first transaction has not ended.
  expect((await storage.openCall(newCall('call'), signed('key'), { now: T, until: T + 1 })).kind).toBe('opened')
  expect(await server.run(url, "SELECT name FROM migrations WHERE name = 'a column'")).toEqual([])
  await busy.query('COMMIT')
  await migrated
  expect(await server.run(url, "SELECT name FROM migrations WHERE name = 'a column'")).toEqual([{ name: 'a column' }])
  await busy.end()
  await upgrading.end()
  await storage.close()
}, 30_000)
