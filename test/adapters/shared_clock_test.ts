/** Processes whose machines tell different times, over one database. */
import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { sharedClock } from '../../adapters/shared_clock.ts'
import { DONE, streamAnswer } from '../fakes/chat.ts'
import { timely } from '../../server/wiring/timely.ts'
import { HELLO, STREAM, table } from '../core/call/stream_kit.ts'
import { START, testClock, testLog } from '../kit.ts'

const LEASE = 30_000

/** A machine whose clock is `ahead` of the database's, and whose questions take `travel` milliseconds each way. */
function machine({ ahead = 0, travel = 0 } = {}) {
  const real = testClock()
  const log = testLog()
  const state = { ahead, travel, slept: 0, passed: 0 }
  const now = () => real.now() + state.passed
  const own = { now: () => now() + state.ahead, wait: real.wait }
  const ask = async () => {
    state.passed += state.travel
    const at = now()
    state.passed += state.travel
    return at
  }
  const clock = sharedClock({
    localClock: own,
    monotonic: () => now() - START + 77 - state.slept,
    readDatabaseTime: ask,
    log,
    leaseMs: LEASE,
  })
  return { clock, log, state, database: now, advance: real.advance, real }
}

describe('a shared clock', () => {
  test('tells the time of the database, however far its own machine is from it', async () => {
    for (const ahead of [0, 35_000, -35_000, 3_600_000]) {
      const { clock, database, advance } = machine({ ahead, travel: 20 })
      await clock.measure()
      expect([clock.now() - database(), clock.skew()]).toEqual([0, ahead])
      await advance(1_000)
      expect(clock.now() - database()).toBe(0)
    }
  })

  test('sells beyond a quarter lease of skew nothing, and says so once', async () => {
    for (const [ahead, isTrusted] of [
      [7_500, true],
      [7_501, false],
      [-7_501, false],
    ] as const) {
      const { clock, log } = machine({ ahead })
      for (let n = 0; n < 3; n++) await clock.measure()
      expect([ahead, clock.trouble() === undefined]).toEqual([ahead, isTrusted])
      expect(log.lines.filter(({ level }) => level === 'alert').length).toBe(isTrusted ? 0 : 1)
    }
    expect(machine().clock.trouble()).toBe('the database time is not known yet')
  })

  test('goes on by what no correction moves: a step of the machine’s clock changes no time', async () => {
    const { clock, state, database } = machine()
    await clock.measure()
    state.ahead = -3_600_000
    expect([clock.now() - database(), clock.trouble()?.includes('behind')]).toEqual([0, true])
  })

  test('keeps the measurement with the shortest way, until it is old', async () => {
    const { clock, state, database, advance } = machine({ travel: 5 })
    await clock.measure()
    state.travel = 100
    await clock.measure()
    expect(clock.now() - database()).toBe(0)
    await advance(15_000_000)
    expect(clock.trouble()).toContain('is uncertain by')
    await clock.measure()
    expect(clock.trouble()).toBeUndefined()
  })

  test('believes the database after a sleep in which the monotonic clock stood still', async () => {
    const { clock, state, database, advance } = machine({ travel: 5 })
    await clock.measure()
    await advance(60_000)
    state.slept = 60_000
    expect(clock.trouble()).toContain('ahead of')
    await clock.measure()
    expect([clock.now() - database(), clock.trouble()]).toEqual([0, undefined])
  })
})

test('a replica whose clock is 35 s ahead sells nothing, and one that is 5 s ahead is paid for each of 16 streams', async () => {
  for (const [ahead, statuses] of [
    [35_000, [503]],
    [5_000, [200]],
  ] as const) {
    const { clock, real } = machine({ ahead })
    await clock.measure()
    const subject = await table(async () => streamAnswer(HELLO), { ports: { storage: memoryStorage(), clock: real } })
    const payments = await Promise.all(
      Array.from({ length: 16 }, (_, n) => subject.signed(STREAM, { by: subject.buyer(`wallet ${n}`) })),
    )
    // The other replica, beside one with the right time: same storage, same chain.
    const gateway = subject.restart({
      ports: { ...subject.ports, clock: { ...real, now: clock.now }, chain: timely(subject.chain, clock) },
    })
    const replies = await Promise.all(payments.map((payment) => subject.post(STREAM, { payment, gateway })))
    expect([...new Set(replies.map(({ status }) => status))]).toEqual([...statuses])
    await subject.restart({ workerId: 'third' }).maintain()
    const texts = await Promise.all(replies.map((reply) => reply.text()))
    await subject.idle()
    const whole = texts.filter((text) => text.endsWith(DONE)).length
    expect([ahead, whole, subject.chain.transfers.length]).toEqual([
      ahead,
      ahead > 7_500 ? 0 : 16,
      ahead > 7_500 ? 0 : 16,
    ])
  }
})
