/** Migrations of Postgres while replicas of two versions sell. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Client } from 'pg'
import type { Migration } from '../../../../adapters/storage/migration.ts'
import { migrate, migrations } from '../../../../adapters/storage/postgres/migrations.ts'
import { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { DONE, streamAnswer } from '../../../../adapters/providers/scripted/chat.ts'
import { timely } from '../../../../server/wiring/mod.ts'
import { newCall, signed, T } from '../../../conformance/storage_questions.ts'
import { HELLO, STREAM, table } from '../../../core/call/stream_kit.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop())

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

test('sums of what wallets paid are exact after an upgrade, whatever older replicas settle and delete meanwhile', async () => {
  const url = await server.fresh()
  const at = migrations.findIndex(({ name }) => name === 'spend totals')
  const old = postgresStorage(url, { schema: migrations.slice(0, at) })
  const settle = async (id: string, amount: string) => {
    const result = { result: { made: id }, expiresAt: T + 1 }
    await old.openCall(newCall(id, { expiresAt: T + 1 }), signed(id, T + 1), { now: T, until: T + 1 })
    const claim = await old.claimSettlement(id, undefined, { now: T, until: T + 1, result })
    const receipt = { transaction: `0x${id}`, network: 'eip155:8453', payer: '0xpayer', amount }
    if ('token' in claim) await old.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now: T })
  }
  await settle('before', '1')
  await settle('before, too', '12000000002')
  const upgrading = await client(url)
  await migrate(upgrading, migrations.slice(0, at + 1))
  await settle('between', '4')
  await migrate(upgrading, migrations)
  await settle('after', '8')
  const newer = postgresStorage(url)
  const sums = async () => (await newer.spendByModel(newCall('x').payer, 0)).map(({ calls, spent }) => [calls, spent])
  expect(await sums()).toEqual([[4, 12_000_000_015n]] as never)
  expect(await old.prune(T + 2)).toBe(4)
  expect(await old.pruneLedger(T, T + 2)).toBe(4)
  expect(await sums()).toEqual([])
  await upgrading.end()
  await old.close()
  await newer.close()
})

test('records are listed by id after an upgrade, with those that older replicas store meanwhile', async () => {
  const url = await server.fresh()
  const at = migrations.findIndex(({ name }) => name === 'records listed by id')
  const old = postgresStorage(url, { schema: migrations.slice(0, at) })
  const record = (id: string) => ({ kind: 'channel', id, owner: 'shop', data: { id }, expiresAt: T + 1 })
  await old.putRecord(record('b'), T)
  const upgrading = await client(url)
  await migrate(upgrading, migrations.slice(0, at + 1))
  await old.putRecord(record('a'), T)
  await migrate(upgrading, migrations)
  await old.putRecord(record('c'), T)
  const newer = postgresStorage(url)
  const listed = async (after: string) =>
    (await newer.listRecords('channel', 'shop', { now: T, after, limit: 2 })).map(({ id }) => id)
  expect([await listed(''), await listed('b')]).toEqual([['a', 'b'], ['c']])
  expect(await old.moveRecord({ ...record('c'), data: 'moved' }, { id: 'c' }, T)).toBe(true)
  await upgrading.end()
  await old.close()
  await newer.close()
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
