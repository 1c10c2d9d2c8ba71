/** The short form of `bun run soak`: real processes, every kind of errand, two faults. */
import { expect, test } from 'bun:test'
import { page } from './page.ts'
import { soak } from './soak.ts'

test('gateways sell through faults, each sample has every measure, and each ledger agrees with the chain', async () => {
  const seconds = 40
  const { samples, faults, oddities, reconciled } = await soak({
    seed: 5,
    hours: seconds / 3_600,
    perSecond: 6,
    sampleSeconds: 4,
    faultSeconds: 12,
  })
  expect(oddities).toEqual([])
  expect(faults).toEqual(['a replica pauses for longer than its lease', 'Postgres is away for 10 s'])
  expect(samples.length).toBeGreaterThan(4)
  expect(samples.some(({ fault }) => fault !== undefined)).toBe(true)
  const last = samples.findLast(({ processes }) => Object.keys(processes).length === 3)
  for (const name of ['a', 'b', 'sqlite']) {
    const { pid, rss, heap, objects, handles, threads, timers, cpu } = last!.processes[name]!
    for (const value of [pid, rss, heap, objects, handles, threads, timers, cpu]) expect(value).toBeGreaterThan(0)
  }
  // Postgres has no size while it is away.
  const databases = new Set(samples.flatMap((sample) => Object.keys(sample.databases)))
  expect([...databases].toSorted()).toEqual(['Postgres', 'SQLite file', 'SQLite log'])
  expect(samples.reduce((sum, { whole }) => sum + whole, 0)).toBeGreaterThan(20)
  for (const text of Object.values(reconciled)) expect(text).toMatch(/[1-9]\d* payments agree, 0 differ/)
  expect(page(samples, { title: 'Soak', facts: [], warmUpMinutes: 0 })).toContain('</html>')
}, 300_000)
