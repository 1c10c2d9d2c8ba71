import { expect, test } from 'bun:test'
import { type Gateway, retention, retiredGateway } from '../../core/mod.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { startMaintenance } from '../../server/maintenance.ts'
import { FOX, kit, testClock, testLog } from '../kit.ts'

test('an outage that makes every loop fail is one alert; another reason is another', async () => {
  const [clock, log] = [testClock(), testLog()]
  let reason: string | undefined = 'connection refused'
  const step = async () => {
    if (reason !== undefined) throw new Error(reason)
  }
  const gateways = ['one', 'two'].map((name) => ({ ...retiredGateway(name), renew: step, maintain: step }))
  const storage = { ...memoryStorage(), lease: () => Promise.reject(new Error('connection refused')) }
  const maintenance = startMaintenance({
    gateways,
    storage,
    objects: memoryObjects(),
    retention,
    clock,
    log,
    workerId: 'one',
    everyMs: 1_000,
  })
  const alerts = () => log.lines.filter(({ level }) => level === 'alert').map(({ fields }) => fields.error)
  await clock.advance(1_000)
  await clock.advance(1_000)
  expect(alerts()).toEqual(['connection refused'])
  reason = undefined
  await clock.advance(1_000)
  reason = 'disk full'
  await clock.advance(1_000)
  expect(alerts()).toEqual(['connection refused', 'disk full'])
  await maintenance.stop()
})

test('a gateway whose chain hangs, or whose maintenance fails, does not hold up the others', async () => {
  const clock = testClock()
  const log = testLog()
  const maintained: string[] = []
  const maintaining = (name: string, maintain: () => Promise<void>): Gateway => ({
    ...retiredGateway(name),
    maintain: () => (maintained.push(name), maintain()),
  })
  const stuck = Promise.withResolvers<void>()
  const gateways = [
    maintaining('stuck', () => stuck.promise),
    maintaining('broken', () => Promise.reject(new Error('no'))),
    maintaining('sound', async () => {}),
  ]
  const maintenance = startMaintenance({
    gateways,
    storage: memoryStorage(),
    objects: memoryObjects(),
    retention,
    clock,
    log,
    workerId: 'one',
    everyMs: 1_000,
  })
  await clock.advance(1_000)
  await clock.advance(1_000)
  expect(maintained.toSorted()).toEqual(['broken', 'broken', 'broken', 'sound', 'sound', 'sound', 'stuck'])
  expect(log.lines.map(({ message, fields }) => [message, fields.error])).toEqual(
    Array(3).fill(['maintenance failed; it will be retried', 'no']),
  )
  stuck.resolve()
  await maintenance.stop()
})

test('deletes once an hour what the settings say has expired: results, ledger rows and media (contract 2.24)', async () => {
  const day = 86_400_000
  const retained = { ...retention, settledMs: 2 * day, ledgerMs: 40 * day, mediaMs: 5 * day }
  const { buyer, ports, clock, log } = kit({ retention: retained })
  const { storage, objects } = ports
  const maintenance = startMaintenance({
    gateways: [],
    storage,
    objects,
    retention: retained,
    clock,
    log,
    workerId: 'one',
    everyMs: 3_600_000,
  })
  const { body } = await buyer().buy(FOX)
  const [, key = ''] = (body.data[0].url as string).split('/api/media/')
  const seen = async () => {
    const call = await storage.getCall(body.id)
    return [call && call.result !== null, (await objects.get(key)) !== undefined]
  }
  for (const [days, expected] of [
    [1, [true, true]],
    [2, [false, true]],
    [4, [false, false]],
    [36, [undefined, false]],
  ] as const) {
    for (let hour = 0; hour < 24 * days; hour++) await clock.advance(3_600_000)
    expect([days, await seen()]).toEqual([days, [...expected]])
  }
  await maintenance.stop()
})

test('what has expired is deleted within a round of the end of the lease that a process before has left', async () => {
  const { ports, clock, log } = kit()
  const { objects } = ports
  let pruned = 0
  const storage = { ...ports.storage, prune: async (now: number) => (pruned++, await ports.storage.prune(now)) }
  await storage.lease('prune', 'dead', { now: clock.now(), until: clock.now() + 60_000 })
  const maintenance = startMaintenance({
    gateways: [],
    storage,
    objects,
    retention,
    clock,
    log,
    workerId: 'one',
    everyMs: 5_000,
  })
  for (let step = 0; step < 11; step++) await clock.advance(5_000)
  expect(pruned).toBe(0)
  for (let step = 0; step < 2; step++) await clock.advance(5_000)
  expect(pruned).toBe(1)
  for (let step = 0; step < 700; step++) await clock.advance(5_000)
  expect(pruned).toBe(1)
  await maintenance.stop()
})
