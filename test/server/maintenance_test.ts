import { expect, test } from 'bun:test'
import { type Gateway, retiredGateway } from '../../core/mod.ts'
import { memoryStorage } from '../../adapters/storage/memory.ts'
import { startMaintenance } from '../../server/maintenance.ts'
import { testClock, testLog } from '../kit.ts'

test('an outage that makes every loop fail is one alert; another reason is another', async () => {
  const [clock, log] = [testClock(), testLog()]
  let reason: string | undefined = 'connection refused'
  const step = async () => {
    if (reason !== undefined) throw new Error(reason)
  }
  const gateways = ['one', 'two'].map((name) => ({ ...retiredGateway(name), renew: step, maintain: step }))
  const storage = { ...memoryStorage(), lease: () => Promise.reject(new Error('connection refused')) }
  const maintenance = startMaintenance({ gateways, storage, clock, log, workerId: 'one', everyMs: 1_000 })
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
