import { describe, expect, test } from 'bun:test'
import { drainProcess, type Draining, SETTLE_MS } from '../../server/drain.ts'
import { testLog, testClock } from '../kit.ts'

/** A process with work that ends when told; `happened` is what the drain did, with its second. */
function processOf({ streams = 0, jobs = 0 }: { streams?: number; jobs?: number } = {}) {
  const clock = testClock()
  const startedAt = clock.now()
  const happened: string[] = []
  const note = (what: string) => void happened.push(`${(clock.now() - startedAt) / 1000} ${what}`)
  const log = testLog()
  const work = { streams, jobs, waiting: new Set<() => void>() }
  const changed = () => {
    if (work.streams + work.jobs === 0) for (const resolve of work.waiting) resolve()
  }
  const options: Draining = {
    gateways: [
      { leaveRotation: () => note('not ready'), drain: () => (note(`ended ${work.streams} streams`), work.streams) },
    ],
    clock,
    log,
    graceMs: 5_000,
    drainMs: 30_000,
    stopAccepting: async () => note('stopped accepting'),
    answered: async () => {},
    async finishWork(ms) {
      if (work.streams + work.jobs === 0) return 0
      const over = new AbortController()
      const done = Promise.withResolvers<void>()
      work.waiting.add(done.resolve)
      await Promise.race([done.promise, clock.wait(ms, over.signal)])
      over.abort()
      return work.streams + work.jobs
    },
    onPhase: (phase) => note(phase),
  }
  return {
    clock,
    log,
    happened,
    start: (changes: Partial<Draining> = {}) => drainProcess({ ...options, ...changes }).then(() => note('ended')),
    finish(what: 'streams' | 'jobs') {
      work[what] = 0
      changed()
    },
  }
}

describe('a process that stops', () => {
  test('says so first, serves on for the grace period, and only then stops accepting', async () => {
    const { clock, happened, start } = processOf()
    const stopping = start()
    await clock.advance(4_999)
    expect(happened).toEqual(['0 lame_duck', '0 not ready'])
    await clock.advance(1)
    await stopping
    expect(happened.slice(2)).toEqual(['5 draining', '5 stopped accepting', '5 ended'])
  })

  test('without a grace period stops accepting at once', async () => {
    const { happened, start } = processOf()
    await start({ graceMs: 0 })
    expect(happened).toEqual(['0 lame_duck', '0 not ready', '0 draining', '0 stopped accepting', '0 ended'])
  })

  test('ends as soon as its work is done', async () => {
    const { clock, happened, start, finish, log } = processOf({ jobs: 1 })
    const stopping = start()
    await clock.advance(5_000)
    await clock.advance(7_000)
    finish('jobs')
    await stopping
    expect(happened.at(-1)).toBe('12 ended')
    expect(log.lines).toEqual([])
  })

  test('lets streams run until the end of the drain, ends them there, and gives their settlements time', async () => {
    const { clock, happened, start, finish, log } = processOf({ streams: 2 })
    const stopping = start()
    await clock.advance(5_000)
    await clock.advance(29_999)
    expect(happened.at(-1)).toBe('5 stopped accepting')
    await clock.advance(1)
    expect(happened.slice(-2)).toEqual(['35 settling', '35 ended 2 streams'])
    await clock.advance(3_000)
    finish('streams')
    await stopping
    expect(happened.at(-1)).toBe('38 ended')
    expect(log.lines).toEqual([])
  })

  test('waits for settlements for a limited time, and says what is left', async () => {
    const { clock, happened, start, log } = processOf({ streams: 1 })
    const stopping = start()
    for (const ms of [5_000, 30_000, SETTLE_MS]) await clock.advance(ms)
    await stopping
    expect(happened.at(-1)).toBe(`${35 + SETTLE_MS / 1000} ended`)
    expect(log.lines.map(({ level, fields }) => [level, fields])).toEqual([['warn', { left: 1 }]])
  })

  test('gives jobs no more time than the drain', async () => {
    const { clock, happened, start } = processOf({ jobs: 1 })
    const stopping = start()
    for (const ms of [5_000, 30_000, 0]) await clock.advance(ms)
    await stopping
    expect(happened.slice(-2)).toEqual(['35 ended 0 streams', '35 ended'])
  })

  test('does not wait for requests that never arrive completely', async () => {
    const { clock, happened, start } = processOf()
    const stopping = start({ answered: () => new Promise(() => {}) })
    await clock.advance(5_000)
    for (let second = 0; second < 6; second++) await clock.advance(1_000)
    await stopping
    expect(happened.at(-1)).toBe('11 ended')
  })
})
