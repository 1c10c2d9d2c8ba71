/** Two connections at the same time, held where they wait by a lock of a third one. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Client } from 'pg'
import { postgresStorage, type PostgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import type { Opened } from '../../../../core/ports/mod.ts'
import { usdc } from '../../../../core/x402/money.ts'
import { newCall, signed, T } from '../../../conformance/storage_questions.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop(), 60_000)

/** Two storages of one database, which lock nothing by name unless told, and a connection that holds locks. */
async function table({ besideOlder = false } = {}) {
  const url = await server.fresh()
  const [one, two] = [postgresStorage(url, { besideOlder }), postgresStorage(url, { besideOlder })]
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

/** Of the calls `a` and `b`, whichever came first. */
async function expectOneOpened(a: Opened, b: Opened): Promise<void> {
  const [opened, replayed] = a.kind === 'opened' ? [a, b] : [b, a]
  expect(opened.kind).toBe('opened')
  expect(replayed).toMatchObject({ kind: 'replayed', call: { id: a.kind === 'opened' ? 'a' : 'b' } })
}

const { payer, asset } = newCall('a')
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
  await expectOneOpened(await first, await second)
  await close()
}, 60_000)

for (const mover of ['that opened it', 'that has not seen it'])
  test(`a call that another replica is moving is judged by what it is afterwards, by a replica ${mover}`, async () => {
    const { one, two, holder, waiting, close } = await table()
    await one.openCall(newCall('a'), signed('a'), at)
    await holder.query("BEGIN; UPDATE calls SET work_status = 'in_progress', started_at = 1 WHERE id = 'a'")
    const by = mover === 'that opened it' ? one : two
    const moved = by.moveCall('a', { workStatus: ['queued'] }, { workStatus: 'in_progress', startedAt: 2 })
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
  const moved = [await first, await second]
  expect(moved.toSorted()).toEqual([false, true])
  expect((await one.getRecord('channel', 'a', T))?.data).toBe(moved[0] ? 1 : 2)
  await close()
}, 60_000)

test('a step that was decided on rows which another replica has changed since is decided again', async () => {
  const { one, two, close } = await table()
  await one.openCall(newCall('a'), signed('a'), at)
  const result = { result: 'made', expiresAt: T + 60_000 }
  const first = await two.claimSettlement('a', signed('a'), { now: T, until: T + 9, result })
  expect(first).toEqual({ kind: 'yours', token: 1 })
  // The first replica has seen the call open and unclaimed.
  const second = await one.claimSettlement('a', signed('a'), { now: T, until: T + 9, result })
  expect(second).toEqual({ kind: 'taken', until: T + 9 })
  expect(await one.finishSettlement('a', 2, { kind: 'dead' }, { now: T })).toBe(false)
  expect(await two.finishSettlement('a', 1, { kind: 'dead' }, { now: T })).toBe(true)
  expect((await one.listAuthorizations('a')).map(({ status }) => status)).toEqual(['dead'])
  await close()
}, 60_000)

const RESULT = { result: 'made', expiresAt: T + 60_000 }
const PAID = {
  kind: 'paid',
  receipt: { transaction: '0x1', network: 'eip155:8453', payer: '0xa', amount: '5' },
} as const

/** A call that one replica has opened and claimed, so that it finishes it on what it has seen. */
async function claimed(storage: PostgresStorage): Promise<void> {
  await storage.openCall(newCall('a'), signed('a'), at)
  const claim = await storage.claimSettlement('a', signed('a'), { now: T, until: T + 9, result: RESULT })
  expect(claim).toEqual({ kind: 'yours', token: 1 })
}

test('a settlement that another replica is taking over is not given up by the one that had claimed it', async () => {
  const { one, holder, waiting, close } = await table()
  await claimed(one)
  await holder.query("BEGIN; UPDATE calls SET claim_token = 2, claim_expires_at = claim_expires_at + 99 WHERE id = 'a'")
  const finished = one.finishSettlement('a', 1, { kind: 'dead' }, { now: T })
  await waiting(1)
  await holder.query('COMMIT')
  expect(await finished).toBe(false)
  expect((await one.getCall('a'))?.paymentStatus).toBe('settling')
  expect((await one.listAuthorizations('a')).map(({ status }) => status)).toEqual(['sent'])
  await close()
}, 60_000)

test('a settlement whose authorization another replica is marking is finished on what that has become', async () => {
  const { one, holder, waiting, close } = await table()
  await claimed(one)
  await holder.query("BEGIN; UPDATE authorizations SET status = 'dead' WHERE key = 'a'")
  const finished = one.finishSettlement('a', 1, PAID, { now: T })
  await waiting(1)
  await holder.query('COMMIT')
  expect(await finished).toBe(true)
  expect((await one.getCall('a'))?.paymentStatus).toBe('settled')
  expect((await one.listAuthorizations('a')).map(({ status }) => status)).toEqual(['paid'])
  expect((await one.spendByModel(payer, 0)).map(({ calls }) => calls)).toEqual([1])
  await close()
}, 60_000)

test('an authorization that another replica is giving up is not sent by a claim that has seen it open', async () => {
  const { one, holder, waiting, close } = await table()
  await one.openCall(newCall('a'), signed('a'), at)
  await holder.query("BEGIN; UPDATE authorizations SET status = 'dead' WHERE key = 'a'")
  const claim = one.claimSettlement('a', signed('a'), { now: T, until: T + 9, result: RESULT })
  await waiting(1)
  await holder.query('COMMIT')
  expect((await claim).kind).not.toBe('yours')
  expect((await one.listAuthorizations('a')).map(({ status }) => status)).toEqual(['dead'])
  await close()
}, 60_000)

test('a call that another replica is failing is not claimed by the one that has made its result', async () => {
  const { one, holder, waiting, close } = await table()
  await one.openCall(newCall('a'), signed('a'), at)
  await holder.query("BEGIN; UPDATE calls SET work_status = 'failed', error = 'lost' WHERE id = 'a'")
  const claim = one.claimSettlement('a', signed('a'), { now: T, until: T + 9, result: RESULT })
  await waiting(1)
  await holder.query('COMMIT')
  expect((await claim).kind).not.toBe('yours')
  expect(await one.getCall('a')).toMatchObject({ workStatus: 'failed', paymentStatus: 'verified', result: null })
  await close()
}, 60_000)

test('of two replicas that claim a call at the same time, one may settle it, whichever has seen it last', async () => {
  const { one, two, holder, waiting, close } = await table()
  await one.openCall(newCall('a'), signed('a'), at)
  await holder.query("BEGIN; SELECT 1 FROM calls WHERE id = 'a' FOR UPDATE")
  const claims = [two, one].map((each) =>
    each.claimSettlement('a', signed('a'), { now: T, until: T + 9, result: RESULT }),
  )
  await waiting(2)
  await holder.query('COMMIT')
  expect((await Promise.all(claims)).map(({ kind }) => kind).toSorted()).toEqual(['taken', 'yours'])
  expect((await one.listAuthorizations('a')).map(({ status }) => status)).toEqual(['sent'])
  await close()
}, 60_000)

test('an authorization that a failed call has freed opens one call, whichever replica has seen it last', async () => {
  const { one, two, holder, waiting, close } = await table()
  await one.openCall(newCall('failed'), signed('key'), at)
  await one.moveCall('failed', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
  await holder.query('BEGIN; LOCK TABLE calls IN SHARE ROW EXCLUSIVE MODE')
  const first = one.openCall(newCall('a'), signed('key'), at)
  await waiting(1)
  const second = two.openCall(newCall('b', { payer: '0xanother' }), { ...signed('key'), payer: '0xanother' }, at)
  await waiting(2)
  await holder.query('COMMIT')
  await expectOneOpened(await first, await second)
  await close()
}, 60_000)

for (const name of ['authorization a', `payer ${JSON.stringify([payer, asset])}`])
  test(`an open waits for a replica of the first release that has locked the name of its ${name.split(' ')[0]}`, async () => {
    const { one, holder, waiting, close } = await table({ besideOlder: true })
    const digest = createHash('sha256').update(name).digest().readBigInt64BE()
    await holder.query(`BEGIN; SELECT pg_advisory_xact_lock(${digest})`)
    const opening = one.openCall(newCall('a'), signed('a'), at)
    await waiting(1)
    await holder.query('COMMIT')
    expect((await opening).kind).toBe('opened')
    await close()
  }, 60_000)
