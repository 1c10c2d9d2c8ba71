/** One key over two replicas of a gateway that share a real Postgres. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { postgresStorage } from '../../../adapters/storage/postgres/mod.ts'
import { type PostgresServer, postgresServer } from '../../adapters/storage/postgres/postgres_server.ts'
import { wholeAnswer } from '../../fakes/chat.ts'
import { door } from '../../kit.ts'
import { CHARGE, QUOTE, selling } from './keys_kit.ts'
import { SKY } from './stream_kit.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await postgresServer()
}, 300_000)
afterAll(() => server.stop(), 60_000)

test('of 64 calls at once over two replicas, those that the balance covers are served, and every charge is kept (contract 23.6)', async () => {
  const url = await server.fresh()
  const storages = [postgresStorage(url), postgresStorage(url)]
  await Promise.all(storages.map((each) => each.ready()))
  const ready = door()
  const script = async () => {
    await ready.passed
    return wholeAnswer()
  }
  const replicas = []
  for (const storage of storages) replicas.push(await selling(script, { storage, balance: QUOTE * 20n + 500n }))
  const [first, second] = replicas as [(typeof replicas)[number], (typeof replicas)[number]]
  let refused = 0
  const statuses = await Promise.all(
    Array.from({ length: 64 }, async (_, i) => {
      const { status } = await (i % 2 ? first : second).ask(SKY)
      // Nothing is charged while others may still be refused for what is reserved.
      if (status === 402 && ++refused === 44) ready.open()
      return status
    }),
  )
  expect(statuses.filter((status) => status === 200)).toHaveLength(20)
  expect(statuses.filter((status) => status === 402)).toHaveLength(44)
  const state = { charged: CHARGE * 20n, reserved: 0n, available: QUOTE * 20n + 500n - CHARGE * 20n }
  for (const each of replicas) expect(await each.channel()).toMatchObject(state)
  const calls = await first.calls()
  expect(calls.reduce((sum, { receipt }) => sum + BigInt(receipt?.amount ?? 0), 0n)).toBe(CHARGE * 20n)
  expect(calls.filter(({ paymentStatus }) => paymentStatus === 'settled')).toHaveLength(20)
  await Promise.all(storages.map((each) => each.close()))
}, 120_000)
