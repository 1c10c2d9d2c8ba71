import { expect, test } from 'bun:test'
import { page, seriesOf, settledSlope, slopeText } from './page.ts'
import type { Sample } from './samples.ts'

/** A gateway that keeps 6 MiB an hour after its first quarter of an hour, and is paused in minute 30. */
const samples: readonly Sample[] = Array.from({ length: 61 }, (_, minutes) => {
  const fault = minutes === 30 ? { fault: '<a pause> & more' } : {}
  const process = {
    pid: 1,
    heap: 40,
    objects: 1_000,
    handles: 50,
    threads: 12,
    timers: 20,
    cpu: minutes,
    rss: minutes < 15 ? 100 + minutes : 115 + (minutes * 6) / 60,
    delayP99: 2,
    delayMost: minutes === 30 ? 8_000 : 20,
  }
  const counts = { whole: 180, part: 0, left: 0, quoteMs: 1 }
  return { minutes, ...fault, ...counts, processes: { a: process }, databases: { Postgres: 10 + minutes } }
})
const lineOf = (title: string, name: string) =>
  seriesOf(samples).find((series) => series.title.startsWith(title))?.lines[name] ?? []

test('a leak after the warm-up is in the slope, and the warm-up is not', () => {
  expect(settledSlope(lineOf('Memory', 'a'), 15).perHour).toBeCloseTo(6, 6)
  expect(settledSlope(lineOf('Databases', 'Postgres'), 15).perHour).toBeCloseTo(60, 6)
})

test('the delay of a minute with a fault is that of the fault, and not in the slope', () => {
  const longest = lineOf('Delay of the event loop, longest', 'a')
  expect(longest).toHaveLength(60)
  expect(Math.max(...longest.map(({ value }) => value))).toBe(20)
  expect(lineOf('Memory', 'a')).toHaveLength(61)
})

test('the page names each slope, draws each measure and each fault, and needs no other file', () => {
  const text = page(samples, { title: 'Soak of 1.00 hours', facts: ['<b>'], warmUpMinutes: 15 })
  expect(text).toContain(slopeText(settledSlope(lineOf('Memory', 'a'), 15), 'MiB'))
  expect(text.match(/<svg/g)).toHaveLength(seriesOf(samples).length)
  expect(text.match(/class="fault"/g)).toHaveLength(seriesOf(samples).length)
  expect(text).toContain('&lt;a pause&gt; &amp; more')
  expect(text).toContain('<li>&lt;b&gt;</li>')
  expect(text).not.toMatch(/<script|src=|href=|NaN/)
})

test('a run that is too short says so in place of a slope', () => {
  const text = page(samples.slice(0, 2), { title: 'Soak', facts: [], warmUpMinutes: 0 })
  expect(text).toContain('too short to tell')
  expect(page([], { title: 'Soak', facts: [], warmUpMinutes: 0 })).not.toMatch(/NaN|Infinity/)
})
