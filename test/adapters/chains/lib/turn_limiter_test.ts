import { expect, test } from 'bun:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { turnLimiter } from '../../../../adapters/chains/lib/turn_limiter.ts'

test('of many who come in one turn of the event loop so many go on, and the others in later turns, in order', async () => {
  const turn = turnLimiter(3)
  const seen: number[] = []
  const enter = async (number: number): Promise<void> => {
    const waiting = turn()
    if (waiting) await waiting
    seen.push(number)
  }
  const all = Array.from({ length: 10 }, (_, number) => enter(number))
  const counts = [seen.length]
  while (seen.length < 10) {
    await nextTurn()
    counts.push(seen.length)
  }
  await Promise.all(all)
  expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  expect(counts[0]).toBe(3)
  expect(counts.slice(1).every((count, index) => count - (counts[index] ?? 0) <= 3)).toBe(true)
})

test('whoever comes while others wait does not overtake them', async () => {
  const turn = turnLimiter(1)
  const seen: string[] = []
  expect(turn()).toBeUndefined()
  const first = turn()?.then(() => seen.push('first'))
  await nextTurn()
  const second = turn()?.then(() => seen.push('second'))
  await Promise.all([first, second])
  expect(seen).toEqual(['first', 'second'])
})
