import { describe, expect, test } from 'bun:test'
import { limits } from '../../core/limits.ts'
import { memoryStorage } from '../../adapters/storage/memory.ts'
import { START } from '../kit.ts'

const HOUR = 3_600_000
const hourly = { requests: 100, windowMs: HOUR }

function counted() {
  const storage = memoryStorage()
  let hits = 0
  const hit: typeof storage.hit = (...asked) => {
    hits++
    return storage.hit(...asked)
  }
  return { storage: { hit }, hits: () => hits }
}

const takeMany = async (windows: ReturnType<typeof limits>, times: number, now = START, caller = '192.0.2.1') => {
  let granted = 0
  for (let i = 0; i < times; i++) if ((await windows.take('models', caller, hourly, now)).granted) granted++
  return granted
}

describe('rate windows', () => {
  test('grant exactly their number of requests, then say when they reset', async () => {
    const windows = limits(memoryStorage())
    expect(await takeMany(windows, 150)).toBe(100)
    expect(await windows.take('models', '192.0.2.1', hourly, START + HOUR - 1)).toEqual({ granted: false, resetAt: START + HOUR })
    expect(await windows.take('models', '192.0.2.1', hourly, START + HOUR)).toEqual({ granted: true, resetAt: START + 2 * HOUR })
  })

  test('are kept apart by name and by caller', async () => {
    const windows = limits(memoryStorage())
    expect(await takeMany(windows, 101)).toBe(100)
    expect((await windows.take('models', '192.0.2.2', hourly, START)).granted).toBe(true)
    expect((await windows.take('health', '192.0.2.1', hourly, START)).granted).toBe(true)
  })

  test('ask storage once per tenth of a window, and not again after a refusal', async () => {
    const { storage, hits } = counted()
    const windows = limits(storage)
    await takeMany(windows, 100)
    expect(hits()).toBe(10)
    await takeMany(windows, 1000)
    expect(hits()).toBe(11)
  })

  test('are shared by all processes of one storage, though each leases blocks', async () => {
    const storage = memoryStorage()
    const [here, there] = [limits(storage), limits(storage)]
    expect((await takeMany(here, 95)) + (await takeMany(there, 95))).toBeLessThanOrEqual(100)
  })

  test('racing requests of one caller lose no permit and gain none', async () => {
    const windows = limits(memoryStorage())
    const permits = await Promise.all(Array.from({ length: 130 }, () => windows.take('models', 'a', hourly, START)))
    expect(permits.filter(({ granted }) => granted).length).toBe(100)
  })

  test('a window of one request works', async () => {
    const windows = limits(memoryStorage())
    const once = { requests: 1, windowMs: 1000 }
    expect((await windows.take('x', 'a', once, START)).granted).toBe(true)
    expect((await windows.take('x', 'a', once, START + 999)).granted).toBe(false)
    expect((await windows.take('x', 'a', once, START + 1000)).granted).toBe(true)
  })

  test('remember ten thousand callers; a forgotten one asks storage again', async () => {
    const { storage, hits } = counted()
    const windows = limits(storage)
    for (let i = 0; i <= 10_000; i++) await windows.take('x', `caller ${i}`, hourly, START)
    expect(hits()).toBe(10_001)
    await windows.take('x', 'caller 10000', hourly, START)
    expect(hits()).toBe(10_001)
    await windows.take('x', 'caller 0', hourly, START)
    expect(hits()).toBe(10_002)
  })
})
