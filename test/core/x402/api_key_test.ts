/** The text of an API key, and what of a request is taken for one. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { ApiError } from '../../../core/http/errors.ts'
import { crc32, KEY_PATTERN, keyText, readKey } from '../../../core/x402/api_key.ts'
import { bringsKey, KEY_HEADERS, presentedKey, refuseKeyInQuery } from '../../../core/identity/presented_key.ts'

const VECTOR = 'sk-fbx-t185paEWcHsaLCYRbPIpw4jhcJNV56UuFl5TIPa3K9PAw3BF4je'
const HTTPS = 'https://gateway.example'
const keyOf = (byte: number) => keyText(new Uint8Array(32).fill(byte), 'test')
const asking = (headers: Record<string, string>) => ({ headers: new Headers(headers) })
const errorOf = (work: () => unknown): ApiError => {
  try {
    work()
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

test('a key is its prefix, mode, version, seed in base62 and checksum (contract 23.1)', () => {
  expect(crc32('123456789')).toBe(0xcbf43926)
  expect(crc32(VECTOR.slice(0, 52))).toBe(0xadb837f6)
  expect(keyOf(0x22)).toBe(VECTOR)
  expect(VECTOR).toHaveLength(58)
  expect(readKey(VECTOR)).toEqual({ kind: 'key', mode: 'test', seed: new Uint8Array(32).fill(0x22) })
})

test('every seed is read back, and no changed digit is (contract 23.1)', () => {
  const seeds = fc.uint8Array({ minLength: 32, maxLength: 32 })
  const property = fc.property(
    seeds,
    fc.constantFrom('test', 'live'),
    fc.nat(57),
    fc.constantFrom(...'0Zaz'),
    (seed, mode, at, digit) => {
      const text = keyText(seed, mode)
      expect(text).toMatch(KEY_PATTERN)
      expect(readKey(text)).toEqual({ kind: 'key', mode, seed })
      const changed = text.slice(0, at) + digit + text.slice(at + 1)
      if (changed !== text) expect(readKey(changed).kind).not.toBe('key')
    },
  )
  fc.assert(property, { numRuns: 300 })
})

test('a number beyond 32 bytes is no seed (contract 23.1)', () => {
  const unchecked = `sk-fbx-t1${'z'.repeat(43)}`
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  let [rest, check] = [crc32(unchecked), '']
  for (; check.length < 6; rest = Math.floor(rest / 62)) check = digits[rest % 62] + check
  expect(readKey(unchecked + check)).toEqual({ kind: 'mistyped' })
})

test('each header brings a key, and other texts are ignored (contract 23.2)', () => {
  for (const name of KEY_HEADERS) {
    const text = name === 'authorization' ? `Bearer ${VECTOR}` : VECTOR
    expect(presentedKey(asking({ [name]: text }), HTTPS)).toMatchObject({ mode: 'test' })
    const placeholder = name === 'authorization' ? 'Bearer sk-proj-abc' : 'sk-ant-abc'
    expect(bringsKey(asking({ [name]: placeholder }))).toBe(false)
    expect(presentedKey(asking({ [name]: placeholder }), HTTPS)).toBeUndefined()
  }
  expect(bringsKey(asking({ authorization: VECTOR }))).toBe(false)
})

test('the same key in two headers is one key, and two different ones are refused (contract 23.2)', () => {
  const both = { authorization: `Bearer ${VECTOR}`, 'x-api-key': VECTOR }
  expect(presentedKey(asking(both), HTTPS)).toMatchObject({ mode: 'test' })
  const refused = errorOf(() => presentedKey(asking({ ...both, 'x-api-key': keyOf(1) }), HTTPS))
  expect(refused).toMatchObject({ code: 'INVALID_PARAMETER' })
  expect(refused.message).not.toContain(VECTOR.slice(8, 20))
})

test('a mistyped key is 401 and is not to be sent again (contract 23.3)', () => {
  for (const text of [VECTOR.slice(0, -1), `${VECTOR.slice(0, -1)}f`, VECTOR.replace('t1', 't2'), 'sk-fbx-']) {
    const refused = errorOf(() => presentedKey(asking({ 'x-api-key': text }), HTTPS))
    expect(refused).toMatchObject({ code: 'INVALID_API_KEY', parts: { headers: { 'x-should-retry': 'false' } } })
  }
})

test('a key is taken over https, or from this machine (contract 23.4)', () => {
  const sent = asking({ 'x-api-key': VECTOR })
  for (const origin of ['http://localhost:4021', 'http://127.0.0.1', 'http://[::1]:80', HTTPS])
    expect(presentedKey(sent, origin)).toBeDefined()
  for (const origin of ['http://gateway.example', 'http://localhost.example', 'http://127.0.0.1.example'])
    expect(errorOf(() => presentedKey(sent, origin)).message).toContain('plain HTTP')
})

test('a key in the query is refused by name, and is not repeated (contract 23.4)', () => {
  const refused = errorOf(() => refuseKeyInQuery(new URLSearchParams({ key: VECTOR })))
  expect(refused.message).toContain('x-goog-api-key')
  expect(refused.message).not.toContain(VECTOR)
  expect(() => refuseKeyInQuery(new URLSearchParams({ key: 'a poll key', q: VECTOR }))).not.toThrow()
})
