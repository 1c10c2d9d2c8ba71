/** Postgres behind the real PgBouncer in transaction mode, where it is installed. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type PostgresStorage, postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
import { DONE, streamAnswer } from '../../../fakes/chat.ts'
import { type Subject, runLaws } from '../../../conformance/law.ts'
import { storageLaws } from '../../../conformance/storage.ts'
import { dice, playMoney } from '../../../conformance/storage_model.ts'
import { questions } from '../../../conformance/storage_questions.ts'
import { HELLO, STREAM, table } from '../../../core/call/stream_kit.ts'
import { PGBOUNCER, type Pooler, pooler } from './pgbouncer.ts'
import { type PostgresServer, postgresServer } from './postgres_server.ts'

/** Fewer than a process would open: a session serves one client after the other. */
const SESSIONS = 3

let server: PostgresServer
let pool: Pooler
const isThere = PGBOUNCER !== undefined
if (!isThere) console.warn('PgBouncer is not installed, so nothing behind it is tested: apt-get install pgbouncer')

beforeAll(async () => {
  if (!PGBOUNCER) return
  // Databases of its own, so never the one that DATABASE_URL names.
  server = await postgresServer(['max_connections=200'])
  pool = await pooler(PGBOUNCER, { base: server.base, sessions: SESSIONS })
}, 300_000)
afterAll(async () => {
  if (!isThere) return
  await pool.stop()
  await server.stop()
}, 60_000)

async function pooled(): Promise<Subject<PostgresStorage> & { readonly direct: string }> {
  const urls = await pool.fresh()
  const opened: PostgresStorage[] = []
  return {
    direct: urls.direct,
    async open() {
      const storage = postgresStorage(`${urls.pooled}?pooler=transaction`, { timeoutMs: 60_000 })
      opened.push(storage)
      return storage
    },
    async close() {
      for (const storage of opened) await storage.close()
    },
  }
}

if (isThere) runLaws('postgres storage behind PgBouncer', storageLaws, pooled)

test.skipIf(!isThere)(
  'behind PgBouncer no buyer is charged twice in random games',
  async () => {
    for (const seed of [1, 2]) {
      const subject = await pooled()
      expect({ seed, wrong: await playMoney(await subject.open(), seed, 250) }).toEqual({ seed, wrong: [] })
      await subject.close()
    }
  },
  300_000,
)

test.skipIf(!isThere)(
  'behind PgBouncer 400 verbs at once, by two replicas, are all answered',
  async () => {
    const subject = await pooled()
    const handles = [await subject.open(), await subject.open()]
    const nextQuestion = questions(dice(11))
    const verbs = Array.from({ length: 400 }, () => nextQuestion())
    const answers = await Promise.allSettled(verbs.map(({ put }, n) => put(handles[n % 2] as PostgresStorage)))
    expect(answers.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))).toEqual([])
    await subject.close()
  },
  300_000,
)

test.skipIf(!isThere)(
  'behind PgBouncer two replicas serve each of 400 purchases, and each is settled once',
  async () => {
    const subject = await pooled()
    const first = await subject.open()
    await first.ready()
    const market = await table(async () => streamAnswer(HELLO), { ports: { storage: first } })
    const replicas = await Promise.all(
      ['one', 'two'].map(async (workerId) => {
        const storage = await subject.open()
        return market.restart({ workerId, ports: { ...market.ports, storage } })
      }),
    )
    const failures: unknown[] = []
    const buy = async (buyer: number) => {
      for (let n = 0; n < 25; n++) {
        const payment = await market.signed(STREAM, { by: market.buyer(`wallet ${buyer}-${n}`) })
        const gateway = replicas[(buyer + n) % replicas.length]
        const reply = await market.post(STREAM, { payment, ...(gateway && { gateway }) })
        const text = await reply.text()
        if (reply.status !== 200 || !text.endsWith(DONE)) failures.push([reply.status, text.slice(0, 300)])
      }
    }
    await Promise.all(Array.from({ length: 16 }, (_, buyer) => buy(buyer)))
    await market.idle()
    expect(failures).toEqual([])
    expect(market.chain.transfers.length).toBe(400)
    const settled = "SELECT count(*)::int AS settled FROM calls WHERE payment_status = 'settled'"
    expect(await server.run(subject.direct, settled)).toEqual([{ settled: 400 }])
    await subject.close()
  },
  120_000,
)

test.skipIf(!isThere)(
  'behind PgBouncer a URL without pooler=transaction fails with the parameter that is missing',
  async () => {
    const { pooled: url } = await pool.fresh()
    const storages = Array.from({ length: 4 }, () => postgresStorage(url))
    const answers = await Promise.allSettled(
      storages.map((storage, n) => storage.lease(`${n}`, 'me', { now: 1, until: 2 })),
    )
    const reads = await Promise.allSettled(
      Array.from({ length: 40 }, (_, n) => (storages[n % 4] as PostgresStorage).findCalls(`${n}`, 9)),
    )
    const reasons = [...answers, ...reads].flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))
    expect(reasons.filter((reason) => reason.includes('add pooler=transaction')).length).toBeGreaterThan(0)
    for (const storage of storages) await storage.close()
  },
)

test.skipIf(!isThere)('a pooler in transaction mode is not asked for what a session must outlive', async () => {
  const subject = await pooled()
  await (await subject.open()).ready()
  const left = await server.run(
    subject.direct,
    `SELECT (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory') AS locks,
       (SELECT count(*)::int FROM pg_stat_activity WHERE state LIKE 'idle in transaction%') AS open`,
  )
  expect(left).toEqual([{ locks: 0, open: 0 }])
  await subject.close()
})
