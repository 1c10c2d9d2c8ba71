/** Calls of a key and the refund of its channel at the same time, in any order of their reads and writes. */
import { expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { Storage } from '../../../core/mod.ts'
import { scaled } from '../../scope.ts'
import { type Chance, chance } from '../../simulation/chance.ts'
import { CHARGE, QUOTE, selling } from './keys_kit.ts'
import { SKY } from './stream_kit.ts'

/** Storage whose answers come late, each by another count of turns. */
function shuffled(storage: Storage, below: (limit: number) => number): Storage {
  const late = async <T>(answer: Promise<T> | T): Promise<T> => {
    for (let turns = below(4); turns > 0; turns--) await Promise.resolve()
    const answered = await answer
    for (let turns = below(4); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
    return answered
  }
  const verbs = Object.entries(storage).map(([name, verb]) => [
    name,
    typeof verb === 'function' && /^(get|move|put|list)Record/.test(name)
      ? (...given: unknown[]) => late((verb as (...all: unknown[]) => unknown)(...given))
      : verb,
  ])
  return { ...storage, ...Object.fromEntries(verbs) }
}

/** So many calls and refunds in so many orders: the seeds. */
const SEEDS = scaled(12, 60)

const SETUPS = { 'one process': 1, 'two replicas': 2 }

for (const [name, replicas] of Object.entries(SETUPS))
  test(`${name}: a refund among calls leaves what they are charged (contract 23.11)`, async () => {
    let [refunds, served] = [0, 0]
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { answered, refunded } = await raced(replicas, chance(seed))
      served += answered
      refunds += refunded > 0n ? 1 : 0
    }
    // Neither always comes first.
    expect([refunds * 6 > SEEDS, served > SEEDS]).toEqual([true, true])
  }, 120_000)

/** Six calls of a key among two refunds. Returns how many were answered, and what was paid back. */
async function raced(replicas: number, { below }: Chance) {
  const memory = { ...memoryStorage(), ...(replicas > 1 && { isShared: true as const }) }
  const balance = QUOTE * 6n
  const gateways: Awaited<ReturnType<typeof selling>>[] = []
  const refundsOf = () => gateways.flatMap(({ refunded }) => refunded)
  const sum = (amounts: readonly bigint[]) => amounts.reduce((total, each) => total + each, 0n)
  const views = (all: bigint) => [[all - sum(refundsOf()), 0n], [0n, 0n], [BigInt(refundsOf().length)]]
  for (let i = 0; i < replicas; i++)
    gateways.push(await selling(undefined, { balance, views, storage: shuffled({ ...memory }, below) }))
  const [first] = gateways
  if (!first) throw new Error('nobody sells')
  const ask = async (i: number) => {
    const { ask: askOf } = gateways[i % replicas] ?? first
    const isCall = i % 4 < 3
    // A refund takes fewer steps than a call, so some come later.
    for (let turns = below(isCall ? 12 : 40); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
    if (isCall) return (await askOf(SKY)).status
    await askOf({}, { path: '/api/v1/keys/close' })
    return undefined
  }
  const statuses = await Promise.all(Array.from({ length: 8 }, (_, i) => ask(i)))
  expect(statuses.filter((status) => ![200, 402, undefined].includes(status))).toEqual([])
  const answered = statuses.filter((status) => status === 200).length
  const charged = CHARGE * BigInt(answered)
  const refunded = sum(refundsOf())
  expect(await first.channel()).toMatchObject({ charged, reserved: 0n })
  expect(refunded + charged <= balance).toBe(true)
  return { answered, refunded }
}

test('a key that buys without a pause is closed all the same (contract 23.11)', async () => {
  let buyMeanwhile: (() => Promise<unknown>) | undefined
  const subject = await selling(undefined, {
    async views(balance, refunded) {
      const buy = buyMeanwhile
      buyMeanwhile = undefined
      await buy?.()
      buyMeanwhile = buy
      const paidBack = refunded.reduce((sum, each) => sum + each, 0n)
      return [[balance - paidBack, 0n], [0n, 0n], [BigInt(refunded.length)]]
    },
  })
  let bought = 0
  buyMeanwhile = async () => {
    if ((await subject.ask(SKY)).status === 200) bought++
  }
  expect((await subject.ask({}, { path: '/api/v1/keys/close' })).status).toBe(200)
  expect(bought).toBeGreaterThan(0)
  expect(subject.refunded).toEqual([100_000n - CHARGE * BigInt(bought)])
})

/** Storage that takes charges late and in any order, loses some of them, and some answers. */
function losing(storage: Storage, { below }: Chance, away: { is: boolean }): Storage {
  const turns = async (count: number) => {
    for (let left = count; left > 0; left--) await new Promise((resolve) => setImmediate(resolve))
  }
  return {
    ...storage,
    async recordPaid(...given) {
      await turns(below(3))
      if (away.is && below(6) === 0) throw new Error('the storage is away')
      const recorded = await storage.recordPaid(...given)
      await turns(below(3))
      if (away.is && below(6) === 0) throw new Error('the connection is lost')
      return recorded
    },
  }
}

test('charges of a key that are stored together are each charged once, whichever of them is not stored (contract 23.6)', async () => {
  let lost = 0
  for (let seed = 1; seed <= SEEDS; seed++) {
    const memory = memoryStorage()
    const away = { is: true }
    const subject = await selling(undefined, { balance: QUOTE * 24n, storage: losing(memory, chance(seed), away) })
    const all = await Promise.all(Array.from({ length: 16 }, () => subject.ask(SKY)))
    for (let passed = 0; passed < 10; passed++) await subject.clock.advance(60_000)
    await subject.gateway.maintain()
    const calls = await memory.listCalls({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 99 })
    const charged = calls.reduce((sum, { receipt }) => sum + BigInt(receipt?.amount ?? 0), 0n)
    const served = all.filter(({ status }) => status === 200).length
    lost += 16 - served
    // Those that began from one that was not stored are charged all the same.
    expect([seed, all.filter(({ status }) => status === 402).length]).toEqual([seed, 0])
    expect(calls.filter(({ workStatus }) => workStatus === 'in_progress')).toEqual([])
    expect([seed, await subject.channel()]).toMatchObject([seed, { charged, reserved: 0n }])
    expect([seed, charged >= CHARGE * BigInt(served)]).toEqual([seed, true])
    away.is = false
    // The rest buys on.
    expect([seed, (await subject.ask(SKY)).status]).toEqual([seed, 200])
  }
  expect([lost > SEEDS, lost < SEEDS * 12]).toEqual([true, true])
}, 120_000)
