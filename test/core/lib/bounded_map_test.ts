import { describe, expect, test } from 'bun:test'
import { boundedMap } from '../../../core/lib/bounded_map.ts'

describe('a bounded map', () => {
  test('evicts the entry that was read or set least recently', () => {
    const map = boundedMap<number>(3)
    for (const key of ['a', 'b', 'c']) map.set(key, 1)
    map.get('a')
    map.set('d', 1)
    expect(map.get('b')).toBeUndefined()
    expect([map.get('c'), map.get('d'), map.get('a')]).toEqual([1, 1, 1])
    map.set('c', 2)
    map.set('e', 1)
    expect([map.get('d'), map.get('a'), map.get('c')]).toEqual([undefined, 1, 2])
    for (const key of ['c', 'e', 'c']) map.get(key)
    map.set('f', 1)
    expect([map.get('a'), map.get('e'), map.get('c')]).toEqual([undefined, 1, 2])
    map.set('a', 3)
    map.get('c')
    map.set('b', 4)
    expect([map.get('e'), map.get('a'), map.get('c'), map.get('b')]).toEqual([undefined, 3, 2, 4])
  })

  test('holds its limit through deletions, a clearing and any number of turns', () => {
    const map = boundedMap<number>(3)
    for (const key of ['a', 'b', 'c']) map.set(key, 1)
    map.delete('b')
    map.set('d', 1)
    expect([map.get('a'), map.get('b'), map.get('c'), map.get('d')]).toEqual([1, undefined, 1, 1])
    map.clear()
    for (const key of ['a', 'b', 'c', 'd']) map.set(key, 1)
    expect([map.get('a'), map.get('b')]).toEqual([undefined, 1])
    for (let turn = 0; turn < 1_000; turn++) map.set(`${turn}`, turn)
    expect([map.get('996'), map.get('997'), map.get('999')]).toEqual([undefined, 997, 999])
  })
})
