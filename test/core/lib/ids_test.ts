import { describe, expect, test } from 'bun:test'
import { bodyFingerprint, fingerprint, isSignedQuery, newId, signQuery } from '../../../core/lib/ids.ts'
import { countingRandom } from '../../kit.ts'

const T = 0x69_20_b4_b2 * 1000
const key = (fill: number) => new Uint8Array(32).fill(fill)
const split = (signedQuery: string): [string, URLSearchParams] => {
  const url = new URL(signedQuery, 'http://farebox.test')
  return [url.pathname, url.searchParams]
}

describe('job ids', () => {
  test('are 96 bits of what the gateway was given as randomness, after the second that they are made in', () => {
    const random = countingRandom()
    expect(newId((bytes) => new Uint8Array(bytes).fill(0xab), T)).toBe(`job_6920b4b2${'ab'.repeat(12)}`)
    expect(new Set(Array.from({ length: 100 }, () => newId(random, T))).size).toBe(100)
  })

  test('are in the order of their seconds, so that a storage appends them to its index', () => {
    const random = countingRandom()
    const seconds = [0, 999_000, 1_000_000, T - 1_000, T, T + 1_000, 4_294_967_295_000]
    const ids = seconds.map((now) => newId(random, now))
    expect(ids.toSorted()).toEqual(ids)
    expect(new Set(ids.map((id) => id.length))).toEqual(new Set(['job_'.length + 32]))
  })

  test('a fingerprint tells requests apart by method, path and body', () => {
    expect(fingerprint('POST', '/a', '{}')).toBe(fingerprint('POST', '/a', '{}'))
    expect(
      new Set([
        fingerprint('POST', '/a', '{}'),
        fingerprint('GET', '/a', '{}'),
        fingerprint('POST', '/b', '{}'),
        fingerprint('POST', '/a', '[]'),
      ]).size,
    ).toBe(4)
    expect(fingerprint('POST', '/a', 'é')).toBe(fingerprint('POST', '/a', new TextEncoder().encode('é')))
    expect(fingerprint('POST', '/a', 'é')).toMatch(/^[0-9a-f]{64}$/)
  })

  test('the fingerprint of a long body is the same, and others are answered while it is made', async () => {
    const body = `${'x'.repeat((1 << 20) - 1)}\u{1f98a}${'é\u{1f98a}\ud83e'.repeat(300_000)}`
    let waits = 0
    const clock = { now: () => 0, wait: async () => void waits++ }
    expect(await bodyFingerprint('POST', '/a', { body, clock })).toBe(fingerprint('POST', '/a', body))
    expect(waits).toBe(Math.ceil(body.length / (1 << 20)))
    expect(await bodyFingerprint('POST', '/a', { body: '{}', clock })).toBe(fingerprint('POST', '/a', '{}'))
    expect(waits).toBe(3)
  })
})

describe('seals', () => {
  const query = new URLSearchParams({ rv: '2', exp: '1795152497', note: 'a b&c=d' })

  test('a sealed path is known again, whatever sig it was given before', () => {
    const signedQuery = signQuery('/api/v1/videos/1', query, [key(1)])
    expect(isSignedQuery(...split(signedQuery), [key(1)])).toBe(true)
    const again = signQuery('/api/v1/videos/1', split(signedQuery)[1], [key(1)])
    expect(again).toBe(signedQuery)
  })

  test('a changed path, a changed, added or dropped parameter, or a changed sig breaks it', () => {
    const [path, signedQuery] = split(signQuery('/api/v1/videos/1', query, [key(1)]))
    const changed = (change: (query: URLSearchParams) => void) => {
      const copy = new URLSearchParams(signedQuery)
      change(copy)
      return isSignedQuery(path, copy, [key(1)])
    }
    expect(isSignedQuery('/api/v1/videos/2', signedQuery, [key(1)])).toBe(false)
    expect(changed((copy) => copy.set('rv', '3'))).toBe(false)
    expect(changed((copy) => copy.append('rv', '2'))).toBe(false)
    expect(changed((copy) => copy.delete('exp'))).toBe(false)
    const sig = signedQuery.get('sig') ?? ''
    for (const wrong of [
      `${sig[0] === '0' ? '1' : '0'}${sig.slice(1)}`,
      sig.slice(1),
      `${sig}0`,
      sig.toUpperCase(),
      '',
      'é'.repeat(64),
    ]) {
      expect(changed((copy) => copy.set('sig', wrong))).toBe(false)
    }
    expect(changed((copy) => copy.delete('sig'))).toBe(false)
    expect(changed((copy) => copy.append('sig', sig))).toBe(false)
  })

  test('after a rotation old seals hold, new ones are made with the new key, and a dropped key holds no more', () => {
    const [path, old] = split(signQuery('/p', query, [key(1)]))
    const [, rotated] = split(signQuery('/p', query, [key(2), key(1)]))
    expect(isSignedQuery(path, old, [key(2), key(1)])).toBe(true)
    expect(isSignedQuery(path, rotated, [key(2)])).toBe(true)
    expect(isSignedQuery(path, rotated, [key(1)])).toBe(false)
    expect(isSignedQuery(path, old, [key(2)])).toBe(false)
    expect(isSignedQuery(path, old, [])).toBe(false)
  })

  test('sealing without a key throws', () => {
    expect(() => signQuery('/p', query, [])).toThrow('signing needs a key')
  })
})
