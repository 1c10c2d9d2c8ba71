/** What two connections do at the same time, held where they wait by a lock of a third one. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Client } from 'pg'
import { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { usdc } from '../../../../core/x402/money.ts'
import { newCall, signed, T } from '../../../conformance/storage_questions.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop(), 60_000)

/** Two storages of one database, and a connection that holds locks. */
async function table() {
  const url = await server.fresh()
  const [one, two] = [postgresStorage(url), postgresStorage(url)]
  await one.ready()
  await two.ready()
  const [holder, watcher] = [new Client({ connectionString: url }), new Client({ connectionString: url })]
  await Promise.all([holder.connect(), watcher.connect()])
  return {
    one,
    two,
    holder,
    /** Until so many connections wait for a lock. */
    async waiting(count: number): Promise<void> {
      for (;;) {
        const { rows } = await watcher.query<{ count: number }>(
          "SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        if ((rows[0]?.count ?? 0) >= count) return
      }
    },
    async close(): Promise<void> {
      await Promise.all([one.close(), two.close(), holder.end(), watcher.end()])
    },
  }
}

const CAP = { observed: usdc(10n), asOf: T }
const at = { now: T, until: T + 60_000, cap: CAP }

test('of two replicas that open a call of one wallet at the same time, the second one sees the first', async () => {
  const { one, two, holder, waiting, close } = await table()
  // Calls can be read, and not stored.
  await holder.query('BEGIN; LOCK TABLE calls IN SHARE ROW EXCLUSIVE MODE')
  const first = one.openCall(newCall('a', { quote: usdc(6n) }), signed('a'), at)
  await waiting(1)
  const second = two.openCall(newCall('b', { quote: usdc(6n) }), signed('b'), at)
  await waiting(2)
  await holder.query('COMMIT')
  expect((await first).kind).toBe('opened')
  expect(await second).toMatchObject({ kind: 'over', sum: 12n })
  await close()
}, 60_000)

test('of two replicas that open a call by one authorization at the same time, the second one is told the first', async () => {
  const { one, two, holder, waiting, close } = await table()
  await holder.query('BEGIN; LOCK TABLE calls IN SHARE ROW EXCLUSIVE MODE')
  const first = one.openCall(newCall('a'), signed('key'), at)
  await waiting(1)
  const second = two.openCall(newCall('b', { payer: '0xanother' }), { ...signed('key'), payer: '0xanother' }, at)
  await waiting(2)
  await holder.query('COMMIT')
  expect((await first).kind).toBe('opened')
  expect(await second).toMatchObject({ kind: 'replayed', call: { id: 'a' } })
  await close()
}, 60_000)

test('a call that another replica is moving is judged by what it is afterwards', async () => {
  const { one, holder, waiting, close } = await table()
  await one.openCall(newCall('a'), signed('a'), at)
  await holder.query("BEGIN; UPDATE calls SET work_status = 'in_progress', started_at = 1 WHERE id = 'a'")
  const moved = one.moveCall('a', { workStatus: ['queued'] }, { workStatus: 'in_progress', startedAt: 2 })
  await waiting(1)
  await holder.query('COMMIT')
  expect(await moved).toBe(false)
  expect((await one.getCall('a'))?.startedAt).toBe(1)
  await close()
}, 60_000)

test('a record that another replica is moving is judged by what it is afterwards', async () => {
  const { one, two, holder, waiting, close } = await table()
  const record = { kind: 'channel', id: 'a', owner: 'shop', data: 0, expiresAt: T + 60_000 }
  await one.putRecord(record, T)
  await holder.query('BEGIN; LOCK TABLE records IN SHARE ROW EXCLUSIVE MODE')
  const first = one.moveRecord({ ...record, data: 1 }, 0, T)
  await waiting(1)
  const second = two.moveRecord({ ...record, data: 2 }, 0, T)
  await waiting(2)
  await holder.query('COMMIT')
  expect([await first, await second]).toEqual([true, false])
  expect((await one.getRecord('channel', 'a', T))?.data).toBe(1)
  await close()
}, 60_000)
