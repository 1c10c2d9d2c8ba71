import { expect, test } from 'bun:test'
import { paceOf } from './pace.ts'
import { summary } from './repeated.ts'

test('a part has all the time that is left where all parts fit, and its share of it where they do not', () => {
  let now = 1_000
  const at = { leftMs: 100_000, now: () => now }
  const calm = paceOf([30, 20, 40], { ...at, slowness: 1 })
  expect([calm.isQuick, calm.limitMs, calm.isOver()]).toEqual([false, 100_000, false])
  const busy = paceOf([30, 20, 40], { ...at, slowness: 3 })
  expect([busy.isQuick, busy.limitMs, busy.isOver()]).toEqual([true, 50_000, false])
  now += 34_000
  expect([calm.isOver(), busy.isOver()]).toEqual([false, true])
})

test('however busy the machine, each part gets a turn, and all of them end in time', () => {
  let leftMs = 295_000
  const seconds = [45, 40, 35, 20, 8, 60, 5, 15, 50, 20, 20, 30]
  for (let part = 0; part < seconds.length; part++) {
    const { limitMs } = paceOf(seconds.slice(part), { leftMs, slowness: 20 })
    expect(limitMs).toBeGreaterThan(100)
    leftMs -= limitMs
  }
  expect(leftMs).toBeGreaterThanOrEqual(0)
})

test('the goals of several runs are put together, those first that a run has missed', () => {
  const run = (image: string, bare: string) =>
    `  met   9 of what is printed on the way; goal: at least 1\n12 s in all. Of 3 goals:\n  ${image} (0.50 to 0.70) of bare; goal: at least 0.6\n  met   0 of the payments failed (goal: none)\n  met   9.50 (9.00 to 9.90) of Portkey; the bare proxy: ${bare}; goal: at least 9\n`
  expect(summary([run('met   0.62', '3.10'), run('SHORT 0.58', '3.20')])).toEqual([
    '  mixed 0.60 (0.58 to 0.62) of bare; goal: at least 0.6',
    '  met   0.00 (0.00 to 0.00) of the payments failed (goal: none)',
    '  met   9.50 (9.50 to 9.50) of Portkey; goal: at least 9',
  ])
  const [line] = summary([run('SHORT 0.58', '3'), 'it was given up'])
  expect(line).toBe('  SHORT 0.58 (0.58 to 0.58, in 1 of 2 runs) of bare; goal: at least 0.6')
})
