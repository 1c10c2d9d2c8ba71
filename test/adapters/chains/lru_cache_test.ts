import { expect, test } from 'bun:test'
import { lruCache } from '../../../adapters/chains/lru_cache.ts'

test('the entry that was set least recently leaves first, through deletions, a clearing and any number of turns', () => {
  const cache = lruCache<number>(3)
  const stored = () => ['a', 'b', 'c', 'd', 'e', 'f'].filter((key) => cache.get(key) !== undefined).join('')
  for (const key of ['a', 'b', 'c', 'a', 'd']) cache.set(key, 1)
  expect(stored()).toBe('acd')
  cache.delete('c')
  cache.set('e', 1)
  expect(stored()).toBe('ade')
  cache.set('f', 1)
  expect(stored()).toBe('def')
  cache.clear()
  for (const key of ['a', 'b', 'c', 'd']) cache.set(key, 1)
  expect(stored()).toBe('bcd')
  for (let turn = 0; turn < 1_000; turn++) cache.set(`${turn}`, turn)
  expect([stored(), cache.get('996'), cache.get('997')]).toEqual(['', undefined, 997])
})
