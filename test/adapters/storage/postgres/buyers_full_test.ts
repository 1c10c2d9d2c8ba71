/** Numbers of buyers by day, which are remembered once the day is over, while others change what they count. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Client } from 'pg'
import { postgresStorage, type PostgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { newCall, signed } from '../../../conformance/storage_questions.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

const DAY = 86_400_000
/** A day that is over by the clock of any database. */
const OVER = Date.UTC(2026, 0, 20)

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop(), 60_000)

async function sell(storage: PostgresStorage, id: string, { payer = '0xa', model = 'large', at = OVER }) {
  const [call, key] = [
    newCall(id, { payer, model, createdAt: at, expiresAt: at + 1 }),
    { ...signed(id, at + 1), payer },
  ]
  await storage.openCall(call, key, { now: at, until: at + 60_000 })
  const result = { result: 1, expiresAt: at + 1 }
  const claim = await storage.claimSettlement(id, undefined, { now: at, until: at + 60_000, result })
  if (!('token' in claim)) throw new Error(`not claimed: ${claim.kind}`)
  const receipt = { transaction: id, network: 'eip155:84532', payer, amount: '5' }
  await storage.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now: at, expiresAt: at + 1 })
}

async function subject() {
  const url = await server.fresh()
  const storage = postgresStorage(url)
  await storage.ready()
  const [one, watcher] = [new Client({ connectionString: url }), new Client({ connectionString: url })]
  await Promise.all([one.connect(), watcher.connect()])
  return {
    storage,
    other: one,
    buyers: async (names = {}) =>
      (await storage.buyersByDay({ since: OVER - 40 * DAY, until: Date.now() + 9 * DAY, ...names })).map(
        ({ at, buyers }) => [(at - OVER) / DAY, buyers],
      ),
    remembered: async () =>
      (
        await watcher.query<{ day: number; buyers: number }>(
          `SELECT day::int - ${OVER / DAY} AS day, buyers::int FROM buyers_by_day WHERE buyers > 0 ORDER BY names, day`,
        )
      ).rows.map(({ day, buyers }) => [day, buyers]),
    /** Until so many connections wait for a lock. */
    async waiting(count: number): Promise<void> {
      for (;;) {
        const { rows } = await watcher.query<{ count: number }>(
          "SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        if ((rows[0]?.count ?? 0) >= count) return
      }
    },
    close: () => Promise.all([storage.close(), one.end(), watcher.end()]),
  }
}

test('buyers of a day that is over are counted again after a late sale, a deletion or the archive has changed them', async () => {
  const { storage, buyers, remembered, close } = await subject()
  await sell(storage, 'one', {})
  await sell(storage, 'two', { at: OVER + DAY })
  await sell(storage, 'again', { at: OVER + DAY })
  const two = [
    [0, 1],
    [1, 1],
  ]
  expect([await buyers(), await buyers({ model: 'small' }), await remembered()]).toEqual([two, [], two])
  await sell(storage, 'three', { payer: '0xb' })
  const three = [
    [0, 2],
    [1, 1],
  ]
  expect([await remembered(), await buyers(), await remembered()]).toEqual([two.slice(1), three, three])
  await storage.prune(Date.now())
  const month = OVER / DAY - 20
  expect(await storage.archiveCalls(['one'], month)).toBe(1)
  const archived = [
    [-20, 1],
    [0, 1],
    [1, 1],
  ]
  expect([await buyers(), await remembered()]).toEqual([archived, archived])
  expect(await storage.archiveCalls(['three'], month)).toBe(1)
  expect(await storage.pruneLedger(Date.now(), Date.now())).toBe(2)
  expect([await buyers(), await remembered()]).toEqual([[[-20, 2]], [[-20, 2]]])
  await close()
}, 60_000)

test('a sale of today changes no number that is remembered, and is counted', async () => {
  const { storage, other, buyers, remembered, close } = await subject()
  const today = Math.floor(Date.now() / DAY) * DAY
  await sell(storage, 'one', {})
  await sell(storage, 'two', { at: today })
  const both = [
    [0, 1],
    [(today - OVER) / DAY, 1],
  ]
  expect([await buyers(), await remembered()]).toEqual([both, [[0, 1]]])
  // A sale that wrote here would wait for whoever counts.
  await other.query('BEGIN; LOCK TABLE buyers_by_day IN SHARE ROW EXCLUSIVE MODE')
  await sell(storage, 'three', { payer: '0xb', at: today })
  await other.query('ROLLBACK')
  expect((await buyers()).at(-1)).toEqual([(today - OVER) / DAY, 2])
  await close()
}, 60_000)

test('whoever counts a day waits for a late sale of it that is under way, and counts its buyer', async () => {
  const { storage, other, buyers, remembered, waiting, close } = await subject()
  await sell(storage, 'one', {})
  await other.query(`BEGIN; INSERT INTO spend_totals SELECT '0xb', day, gateway, endpoint, model, asset, part, calls,
    billions, rest, input_tokens, output_tokens, last_at FROM spend_totals`)
  const counted = buyers()
  await waiting(1)
  await other.query('COMMIT')
  expect([await counted, await remembered()]).toEqual([[[0, 2]], [[0, 2]]])
  await close()
}, 60_000)

test('a late sale that waits for whoever counts its day forgets the count', async () => {
  const { storage, other, buyers, remembered, waiting, close } = await subject()
  await sell(storage, 'one', {})
  await other.query(`BEGIN; LOCK TABLE buyers_by_day IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO buyers_by_day SELECT '[null, null, null]', day, count(DISTINCT payer) FROM spend_totals GROUP BY day`)
  const late = sell(storage, 'late', { payer: '0xb' })
  await waiting(1)
  await other.query('COMMIT')
  await late
  expect([await remembered(), await buyers()]).toEqual([[], [[0, 2]]])
  await close()
}, 60_000)

test('a database that takes no counts is asked all the same', async () => {
  const { storage, other, buyers, remembered, close } = await subject()
  await sell(storage, 'one', {})
  await other.query('ALTER TABLE buyers_by_day ADD CHECK (buyers < 0)')
  expect([await buyers(), await remembered()]).toEqual([[[0, 1]], []])
  await close()
}, 60_000)
