/** Spending of gateways: the sums that storage keeps, and the settlements since. */
import { expect, test } from 'bun:test'
import * as fc from 'fast-check'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { spendings } from '../../../core/payment/control/spending.ts'
import { reportedChanges } from '../../../core/ports/call_events.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import { usdc } from '../../../core/x402/money.ts'
import { newCall, signed } from '../../conformance/storage_questions.ts'

const [HOUR, DAY] = [3_600_000, 86_400_000]
const NOW = Date.parse('2026-11-27T14:23:45Z')
const MONTH = Date.parse('2026-11-01T00:00:00Z')
const TODAY = Date.parse('2026-11-27T00:00:00Z')

type Sale = { readonly id: string; readonly gateway: string; readonly amount: number; readonly at: number }

/** Opens and settles a call at a time. */
async function sell(storage: Pick<Storage, 'openCall' | 'claimSettlement' | 'finishSettlement'>, sale: Sale) {
  const { id, gateway, amount, at } = sale
  const call = newCall(id, { gateway, quote: usdc(BigInt(amount)), createdAt: at, expiresAt: NOW + 40 * DAY })
  await storage.openCall(call, signed(id, NOW + 40 * DAY), { now: at, until: at + HOUR })
  const result = { result: { made: 1 }, expiresAt: NOW + 40 * DAY }
  const claim = await storage.claimSettlement(id, undefined, { now: at, until: at + HOUR, result })
  if (!('token' in claim)) throw new Error(`not claimed: ${claim.kind}`)
  const receipt = { transaction: id, network: 'eip155:84532', payer: '0xa', amount: String(amount) }
  await storage.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now: at, expiresAt: NOW + 40 * DAY })
}

/** A storage whose listings of settlements are recorded. */
function listing(storage: Storage) {
  const listed: string[] = []
  return {
    listed,
    storage: {
      ...storage,
      async listSettled(...given: Parameters<Storage['listSettled']>) {
        const found = await storage.listSettled(...given)
        listed.push(...found.map(({ id }) => id))
        return found
      },
    },
  }
}

const when = fc.oneof(
  fc.integer({ min: MONTH - 2 * DAY, max: NOW }),
  fc.integer({ min: TODAY, max: NOW }),
  fc.integer({ min: NOW - HOUR, max: NOW }),
  fc.constantFrom(MONTH - 1, MONTH, TODAY - 1, TODAY, NOW, Math.floor(NOW / HOUR) * HOUR),
)
const sales = fc.array(
  fc.record({ gateway: fc.constantFrom('a', 'b'), amount: fc.integer({ min: 1, max: 999 }), at: when }),
  {
    maxLength: 12,
  },
)

test('a process that starts counts what a gateway spent in the day and month, once, and what it sells later', async () => {
  await fc.assert(
    fc.asyncProperty(sales, sales, async (before, after) => {
      const all = [...before, ...after].map((sale, index) => ({ ...sale, id: `call ${index}` }))
      const storage = memoryStorage()
      for (const sale of all.slice(0, before.length)) await sell(storage, sale)
      const spending = spendings(storage)
      const observed = { ...storage, ...reportedChanges(storage, [spending.observer]) }
      await spending.follow(NOW)
      // Settlements are recorded within seconds of their time.
      const later = all.slice(before.length).map((sale, index) => ({ ...sale, at: NOW + index * 1_000 }))
      for (const sale of later) {
        await sell(observed, sale)
        await spending.follow(sale.at)
        spending.forget(sale.at, true)
      }
      const end = NOW + 20_000
      await spending.follow(end)
      const sold = [...all.slice(0, before.length), ...later]
      for (const gateway of ['a', 'b']) {
        const sum = (since: number) =>
          sold
            .filter((sale) => sale.gateway === gateway && sale.at >= since)
            .reduce((all, { amount }) => all + amount, 0)
        expect(spending.gateway(gateway, 'day', end)).toBe(BigInt(sum(TODAY)))
        expect(spending.gateway(gateway, 'month', end)).toBe(BigInt(sum(MONTH)))
      }
    }),
    { numRuns: 60 },
  )
})

test('a process that starts reads the settlements of the current hour alone, one by one', async () => {
  const storage = memoryStorage()
  const before = [
    Math.floor(NOW / HOUR) * HOUR - 1,
    ...Array.from({ length: 39 }, (_, hour) => NOW - (hour + 1) * HOUR),
  ]
  for (const at of before) await sell(storage, { id: `at ${at}`, gateway: 'a', amount: 5, at })
  const { listed, storage: recorded } = listing(storage)
  const spending = spendings(recorded)
  for (let round = 0; round < 3; round++) await spending.follow(NOW)
  expect(listed).toEqual([])
  await sell(storage, { id: 'now', gateway: 'a', amount: 5, at: NOW })
  await spending.follow(NOW)
  expect(listed).toEqual(['now'])
  expect([spending.gateway('a', 'day', NOW), spending.gateway('a', 'month', NOW)]).toEqual([80n, 205n])
})

test('a limit that comes later counts what was sold before it, once', async () => {
  const storage = memoryStorage()
  const spending = spendings(storage)
  const observed = { ...storage, ...reportedChanges(storage, [spending.observer]) }
  for (const id of ['one', 'two']) await sell(observed, { id, gateway: 'a', amount: 5, at: NOW - HOUR / 2 })
  await spending.follow(NOW)
  expect(spending.gateway('a', 'day', NOW)).toBe(10n)
  await sell(observed, { id: 'three', gateway: 'a', amount: 5, at: NOW })
  spending.forget(NOW, false)
  await spending.follow(NOW)
  expect(spending.gateway('a', 'day', NOW)).toBe(15n)
})

test('without limits, settled calls are forgotten within two rounds and open ones are not', async () => {
  const storage = memoryStorage()
  const spending = spendings(storage)
  const observed = { ...storage, ...reportedChanges(storage, [spending.observer]) }
  for (let count = 0; count < 20; count++)
    await sell(observed, { id: `call ${count}`, gateway: 'a', amount: 5, at: NOW })
  const open = newCall('open', { gateway: 'a', quote: usdc(7n), createdAt: NOW })
  await observed.openCall(open, signed('open'), { now: NOW, until: NOW + HOUR })
  spending.forget(NOW, false)
  spending.forget(NOW, false)
  expect(spending.gateway('a', 'day', NOW)).toBe(7n)
})

test('a sum of a wallet that is being read counts what settles meanwhile, forgotten or not', async () => {
  const storage = memoryStorage()
  const { promise, resolve } = Promise.withResolvers<void>()
  const slow = {
    ...storage,
    async spendByModel(...given: Parameters<Storage['spendByModel']>) {
      const found = await storage.spendByModel(...given)
      await promise
      return found
    },
  }
  const spending = spendings(slow)
  const observed = { ...storage, ...reportedChanges(storage, [spending.observer]) }
  const reading = spending.wallet('0xa', ['day'], NOW)
  await new Promise((turn) => setImmediate(turn))
  await sell(observed, { id: 'meanwhile', gateway: 'a', amount: 5, at: NOW })
  for (let round = 0; round < 3; round++) spending.forget(NOW, false)
  resolve()
  expect((await reading)('day')).toBe(5n)
})
