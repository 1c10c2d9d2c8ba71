import { expect, test } from 'bun:test'
import { deadlines, sharedDeadlines } from '../../../core/lib/timers.ts'
import { testClock } from '../../kit.ts'

test('each deadline is told once, at its time, in any order of their making', async () => {
  const clock = testClock()
  const { after } = deadlines(clock)
  const alerts: string[] = []
  for (const [name, ms] of Object.entries({ late: 900, soon: 100, same: 100, middle: 500 }))
    after(ms, () => alerts.push(name))
  await clock.advance(99)
  expect(alerts).toEqual([])
  await clock.advance(1)
  expect(alerts).toEqual(['soon', 'same'])
  await clock.advance(399)
  expect(alerts).toHaveLength(2)
  await clock.advance(10_000)
  expect(alerts).toEqual(['soon', 'same', 'middle', 'late'])
})

test('a deadline that was met is not reported, and meeting it again removes no other', async () => {
  const clock = testClock()
  const { after } = deadlines(clock)
  const alerts: string[] = []
  const met = after(100, () => alerts.push('first'))
  met()
  const other = after(100, () => alerts.push('second'))
  met()
  await clock.advance(100)
  expect(alerts).toEqual(['second'])
  other()
})

test('no timer runs when nothing is pending, and one when many deadlines are', async () => {
  const clock = testClock()
  const { after } = deadlines(clock)
  const ends = Array.from({ length: 1_000 }, (_, index) => after(1_000 + index, () => {}))
  await clock.settle()
  expect(clock.waiting).toBe(1)
  for (const met of ends) met()
  await clock.settle()
  expect(clock.waiting).toBe(0)
})

test('a deadline made while others are told is kept', async () => {
  const clock = testClock()
  const { after } = deadlines(clock)
  const alerts: string[] = []
  after(10, () => void after(10, () => alerts.push('again')))
  await clock.advance(10)
  await clock.advance(10)
  expect(alerts).toEqual(['again'])
})

test('shared deadlines are told at the first check after their time, and leave no timer behind when all are met', async () => {
  const clock = testClock()
  const after = sharedDeadlines(clock, { ms: 30_000, everyMs: 5_000 })
  const alerts: string[] = []
  const met = after(() => alerts.push('met'))
  after(() => alerts.push('late'))
  for (let second = 0; second < 25; second += 5) await clock.advance(5_000)
  met()
  expect(alerts).toEqual([])
  await clock.advance(5_000)
  expect(alerts).toEqual(['late'])
  expect(clock.waiting).toBe(0)
  after(() => alerts.push('again'))
  expect(clock.waiting).toBe(1)
})
