import { describe, expect, test } from 'bun:test'
import { limits } from '../../../core/http/rate_limit.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { kit, ORIGIN, START } from '../../kit.ts'

const HOUR = 3_600_000
const hourly = { requests: 100, windowMs: HOUR }

function counted() {
  const storage = memoryStorage()
  let hits = 0
  const hit: typeof storage.hit = (...args) => {
    hits++
    return storage.hit(...args)
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
    expect(await windows.take('models', '192.0.2.1', hourly, START + HOUR - 1)).toEqual({
      granted: false,
      resetAt: START + HOUR,
    })
    expect(await windows.take('models', '192.0.2.1', hourly, START + HOUR)).toEqual({
      granted: true,
      resetAt: START + 2 * HOUR,
    })
  })

  test('are kept apart by name and by caller', async () => {
    const windows = limits(memoryStorage())
    expect(await takeMany(windows, 101)).toBe(100)
    expect((await windows.take('models', '192.0.2.2', hourly, START)).granted).toBe(true)
    expect((await windows.take('health', '192.0.2.1', hourly, START)).granted).toBe(true)
  })

  test('ask storage once per twentieth of a window, and not again after a refusal', async () => {
    const { storage, hits } = counted()
    const windows = limits(storage)
    await takeMany(windows, 100)
    expect(hits()).toBe(20)
    await takeMany(windows, 1000)
    expect(hits()).toBe(21)
  })

  test('are granted in full by many processes of one storage, and each adds at most four of a hundred', async () => {
    for (const processes of [2, 3, 10]) {
      const storage = memoryStorage()
      const all = Array.from({ length: processes }, () => limits(storage))
      let granted = 0
      for (let at = 0; at < 40 * processes; at++)
        granted += await takeMany(all[at % processes] as ReturnType<typeof limits>, 1 + (at % 7))
      expect([processes, granted >= 100, granted <= 100 + 4 * processes]).toEqual([processes, true, true])
      for (const each of all) expect(await takeMany(each, 10)).toBe(0)
    }
  })

  test('a process that a caller reached once keeps no permit from the others', async () => {
    const storage = memoryStorage()
    const [first, second, third] = [limits(storage), limits(storage), limits(storage)]
    const granted = (await takeMany(first, 1)) + (await takeMany(second, 1)) + (await takeMany(third, 200))
    expect([granted >= 100, granted <= 104]).toEqual([true, true])
  })

  test('a question that storage does not answer fails all who wait for it, and what was granted is counted by the next', async () => {
    const storage = memoryStorage()
    let isAway = false
    const windows = limits({ hit: (...args) => (isAway ? Promise.reject(new Error('away')) : storage.hit(...args)) })
    expect(await takeMany(windows, 5)).toBe(5)
    isAway = true
    const waiting = await Promise.allSettled(
      Array.from({ length: 3 }, () => windows.take('models', '192.0.2.1', hourly, START)),
    )
    expect(waiting.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    isAway = false
    expect(await takeMany(windows, 200)).toBe(95)
  })

  test('permits that storage counted in the window after theirs are still granted', async () => {
    const storage = memoryStorage()
    const windows = limits({ hit: (bucket, take, now) => storage.hit(bucket, take, now + HOUR / 2) })
    expect(await takeMany(windows, 3, START)).toBe(3)
    // Another process, whose clock is ahead, has begun the next window meanwhile.
    await storage.hit({ key: 'models:192.0.2.1', limit: 100, windowMs: HOUR }, 1, START + 3 * HOUR)
    const leftOfTheFirst = 2
    expect(await takeMany(windows, 200, START + 1)).toBe(leftOfTheFirst + 99)
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

describe('two gateways over one storage', () => {
  test('share one count of what is free, to the last request', async () => {
    const { gateway, restart } = kit()
    const other = restart({ name: 'other' })
    let granted = 0
    for (let at = 0; at < 150; at++) {
      const { status } = await (at % 3 ? gateway : other).fetch(new Request(`${ORIGIN}/api/v1/images/models`), {
        ip: '192.0.2.1',
      })
      granted += Number(status === 200)
    }
    expect(granted).toBe(100)
  })
})
