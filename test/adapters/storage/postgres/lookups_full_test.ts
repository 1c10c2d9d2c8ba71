/** Lookups of calls stand apart from their table, and replicas of the first release keep them too. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { SUPERSEDED } from '../../../../adapters/storage/postgres/lookups.ts'
import { migrations } from '../../../../adapters/storage/postgres/migrations.ts'
import { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { LOST } from '../../../../core/payment/ledger/states.ts'
import { usdc } from '../../../../core/x402/money.ts'
import { newCall, signed, T } from '../../../conformance/storage_questions.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

const DAY = 86_400_000

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop(), 60_000)

test('indexes of the first release are dropped once no replica of an older version is connected', async () => {
  const url = await server.fresh()
  const left = async () =>
    (
      await server.run(
        url,
        `SELECT each FROM unnest(ARRAY['${SUPERSEDED.join("','")}']) AS each WHERE to_regclass(each) IS NOT NULL`,
      )
    ).length
  const older = postgresStorage(url, { schema: migrations.slice(0, 2) })
  await older.ready()
  const newer = postgresStorage(url)
  await newer.ready()
  expect(await left()).toBe(SUPERSEDED.length)
  await older.close()
  const another = postgresStorage(url)
  await another.ready()
  expect(await left()).toBe(0)
  await newer.close()
  await another.close()
})

test('calls that a replica of the first release opens and settles are found like those of this version', async () => {
  const url = await server.fresh()
  const storage = postgresStorage(url)
  await storage.ready()
  await server.run(
    url,
    `INSERT INTO calls (id, gateway, endpoint, payer, asset, quote, "authorization", fingerprint, created_at, work_status,
       payment_status, worker_id, lease_expires_at, expires_at, claim_token, claim_fresh, emptied, offer)
     VALUES ('old', 'devnet', 'images', '0xa', '${newCall('x').asset}', 5, 'key', 'f', ${T}, 'queued', 'verified', 'w', ${T + 9},
       ${T + 2 * DAY}, 0, false, false, '{}');
     INSERT INTO authorizations VALUES ('key', 'old', '0xa', 0, 'open', ${T + DAY}, '{}')`,
  )
  const ids = (found: readonly { id: string }[]) => found.map(({ id }) => id)
  expect(ids(await storage.lostCalls(T + 10, 9))).toEqual(['old'])
  expect(ids(await storage.unfinishedCalls('w', { gateway: 'devnet', after: '', limit: 9 }))).toEqual(['old'])
  expect(ids(await storage.listOpen(9))).toEqual(['old'])
  const over = await storage.openCall(
    newCall('new', { payer: '0xa', quote: usdc(6n) }),
    { ...signed('new'), payer: '0xa' },
    { now: T, until: T + 9, cap: { observed: usdc(10n), asOf: T } },
  )
  expect(over).toMatchObject({ kind: 'over', sum: 11n })
  await server.run(
    url,
    `UPDATE calls SET work_status = 'completed', payment_status = 'settling', claim_expires_at = ${T + 20} WHERE id = 'old';
     UPDATE authorizations SET status = 'sent' WHERE key = 'key'`,
  )
  expect(ids(await storage.unsettled(T + 20, 9))).toEqual(['old'])
  await server.run(
    url,
    `UPDATE calls SET payment_status = 'settled', settled_at = ${T + 30}, emptied = true,
       receipt = '{"transaction":"0x0123456789abcdef"}' WHERE id = 'old';
     UPDATE authorizations SET status = 'paid' WHERE key = 'key'`,
  )
  expect(await storage.listOpen(9)).toEqual([])
  expect(ids(await storage.listSettled({ since: T, limit: 9 }))).toEqual(['old'])
  expect(ids(await storage.findCalls('0x0123456789abcdef', 9))).toEqual(['old'])
  expect((await storage.spendByModel('0xa', T)).map(({ spent }) => spent)).toEqual([usdc(5n)])
  const mine = { ...signed('new'), payer: '0xa' }
  const call = newCall('new', { payer: '0xa', quote: usdc(6n) })
  const cap = { observed: usdc(10n), asOf: T + 20 * DAY }
  expect((await storage.openCall(call, mine, { now: T + 60, until: T + 99, cap })).kind).toBe('opened')
  expect(await storage.pruneLedger(T + 30, T + 3 * DAY)).toBe(1)
  expect(await server.run(url, 'SELECT settled_id FROM settled_calls')).toEqual([])
  await storage.close()
})

const spendable = (url: string) =>
  server.run(url, 'SELECT spendable_of AS call FROM spendable_authorizations ORDER BY 1')

test('authorizations of calls that failed are not read by each call that their wallet opens', async () => {
  const url = await server.fresh()
  const storage = postgresStorage(url)
  const cap = { observed: usdc(10n), asOf: T }
  for (const id of ['a', 'b', 'c']) {
    const call = newCall(id, { quote: usdc(6n) })
    expect((await storage.openCall(call, signed(id), { now: T, until: T + 9, cap })).kind).toBe('opened')
    await storage.moveCall(id, { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
  }
  await storage.openCall(newCall('d'), signed('d'), { now: T, until: T + 9, cap })
  expect(await spendable(url)).toEqual([{ call: 'd' }])
  // The authorization of a failed call, offered again, is bound to another one.
  await storage.openCall(newCall('e'), signed('a'), { now: T, until: T + 9, cap })
  expect(await spendable(url)).toEqual([{ call: 'd' }, { call: 'e' }])
  await storage.close()
})

test('a call that comes back to its worker after it was declared lost counts again as open', async () => {
  const url = await server.fresh()
  const storage = postgresStorage(url)
  const at = { now: T, until: T + 9, cap: { observed: usdc(10n), asOf: T } }
  await storage.openCall(newCall('a', { quote: usdc(6n), workerId: 'me' }), signed('a'), at)
  await storage.moveCall('a', { workStatus: ['queued'] }, { workStatus: 'failed', error: LOST })
  expect(await spendable(url)).toEqual([])
  expect(await storage.renew('me', ['a'], T + 99)).toEqual(['a'])
  expect(await spendable(url)).toEqual([{ call: 'a' }])
  const over = await storage.openCall(newCall('b', { quote: usdc(5n) }), signed('b'), at)
  expect(over).toMatchObject({ kind: 'over', sum: 11n })
  await storage.close()
})

test('an upgrade forgets what calls that have failed might spend, and keeps what others might', async () => {
  const url = await server.fresh()
  const step = migrations.findIndex(({ name }) => name === 'failed calls spend nothing')
  const older = postgresStorage(url, { schema: migrations.slice(0, step) })
  for (const id of ['failed', 'open']) await older.openCall(newCall(id), signed(id), { now: T, until: T + 9 })
  await older.moveCall('failed', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
  expect(await spendable(url)).toEqual([{ call: 'failed' }, { call: 'open' }])
  await older.close()
  const storage = postgresStorage(url)
  await storage.ready()
  expect(await spendable(url)).toEqual([{ call: 'open' }])
  await storage.close()
})

test('an upgrade gives archived payments their day again where the archive had lost when they were made', async () => {
  const url = await server.fresh()
  const step = migrations.findIndex(({ name }) => name === 'the archive keeps its dates')
  const older = postgresStorage(url, { schema: migrations.slice(0, step) })
  const lastAt = async (storage: typeof older) => (await storage.spendByModel('0xa', 0)).map((spend) => spend.lastAt)
  await older.openCall(newCall('call', { expiresAt: T + 9 }), signed('call', T + 9), { now: T, until: T + 9 })
  const result = { result: 1, expiresAt: T + 9 }
  const claim = await older.claimSettlement('call', undefined, { now: T, until: T + 9, result })
  const receipt = { transaction: '0x', network: 'eip155:84532', payer: '0xa', amount: '5' }
  const token = 'token' in claim ? claim.token : 0
  await older.finishSettlement('call', token, { kind: 'paid', receipt }, { now: T, expiresAt: T + 9 })
  await older.prune(T + 10)
  const day = Math.floor(T / DAY)
  expect(await older.archiveCalls(['call'], day)).toBe(1)
  expect(await lastAt(older)).toEqual([0])
  await older.close()
  const storage = postgresStorage(url)
  expect(await lastAt(storage)).toEqual([day * DAY])
  await storage.close()
})

test('retention looks at a call when it expires, though that was put off or brought forward', async () => {
  const url = await server.fresh()
  const storage = postgresStorage(url)
  const due = async () => (await server.run(url, 'SELECT due_at::float8 AS due FROM calls')).map((row) => row.due)
  await storage.openCall(newCall('call', { createdAt: T, expiresAt: T + 10 * DAY }), signed('call'), {
    now: T,
    until: T + 9,
  })
  await storage.moveCall('call', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
  expect(await due()).toEqual([T + DAY])
  expect(await storage.prune(T + 2 * DAY)).toBe(0)
  expect(await due()).toEqual([T + 10 * DAY])
  await storage.moveCall('call', { workStatus: ['failed'] }, { expiresAt: T + 3 * DAY })
  expect(await due()).toEqual([T + 3 * DAY])
  expect(await storage.prune(T + 3 * DAY - 1)).toBe(0)
  expect(await storage.prune(T + 3 * DAY)).toBe(1)
  expect(await due()).toEqual([])
  expect(
    await server.run(url, 'SELECT 1 AS one FROM spendable_authorizations UNION ALL SELECT 1 FROM open_calls'),
  ).toEqual([])
  await storage.close()
})
