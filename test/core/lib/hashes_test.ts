import { expect, test } from 'bun:test'
import * as fc from 'fast-check'
import { hmacSha256, newSha256, portableHmac, portableSha256 } from '../../../core/lib/hashes.ts'

test('a text is authenticated alike by the runtime and by portable code', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), fc.string({ unit: 'binary', maxLength: 200 }), (key, text) => {
      expect(hmacSha256(key)(text)).toBe(portableHmac(key)(text))
    }),
  )
})

test('a text of RFC 4231 has its code', () => {
  const key = new TextEncoder().encode('Jefe')
  const code = hmacSha256(key)('what do ya want for nothing?')
  expect(Buffer.from(code, 'base64url').toString('hex')).toBe(
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  )
})

const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

test('texts and bytes are hashed alike by the runtime and by portable code, halves of pairs too', () => {
  // Every UTF-16 unit, so that a text may have a surrogate alone.
  const text = fc.string({ unit: fc.nat({ max: 0xffff }).map((code) => String.fromCharCode(code)), maxLength: 200 })
  const part = fc.oneof(text, fc.uint8Array({ maxLength: 100 }))
  fc.assert(
    fc.property(fc.array(part, { maxLength: 4 }), (parts) => {
      const [native, portable] = [newSha256(), portableSha256()]
      for (const each of parts) [native, portable].map((hash) => hash.update(each))
      expect(hexOf(native.digest())).toBe(hexOf(portable.digest()))
    }),
  )
})

test('a text of FIPS 180-2 has its hash', () => {
  const hash = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
  expect(hexOf(newSha256().update('a').update('bc').digest())).toBe(hash)
})
