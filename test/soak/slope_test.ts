import { expect, test } from 'bun:test'
import { slopeOf } from './slope.ts'

const line = (perHour: number, noise: readonly number[] = []) =>
  Array.from({ length: 61 }, (_, minute) => ({
    hours: minute / 60,
    value: 100 + (perHour * minute) / 60 + (noise[minute % (noise.length || 1)] ?? 0),
  }))

test('slopeOf() finds what a line gains an hour, with no error', () => {
  const { perHour, error } = slopeOf(line(12))
  expect(perHour).toBeCloseTo(12, 9)
  expect(error).toBeCloseTo(0, 9)
  expect(slopeOf(line(-3)).perHour).toBeCloseTo(-3, 9)
})

test('slopeOf() holds a slope apart from noise by its error', () => {
  const { perHour, error } = slopeOf(line(12, [5, -5, 0, 3, -3]))
  expect(Math.abs(perHour - 12)).toBeLessThan(2 * error)
  const flat = slopeOf(line(0, [5, -5, 0, 3, -3]))
  expect(Math.abs(flat.perHour)).toBeLessThan(2 * flat.error)
})

test('slopeOf() is sure of nothing with fewer than three points, or at one moment', () => {
  expect(slopeOf([]).error).toBe(Number.POSITIVE_INFINITY)
  expect(slopeOf(line(12).slice(0, 2))).toEqual({ perHour: expect.closeTo(12, 6), error: Number.POSITIVE_INFINITY })
  expect(slopeOf([1, 2, 3].map((value) => ({ hours: 1, value }))).error).toBe(Number.POSITIVE_INFINITY)
})
