import { expect, test } from 'bun:test'
import * as fc from 'fast-check'
import { hmacSha256, portableHmac } from '../../../core/lib/hmac.ts'

test('a text is authenticated alike by the runtime and by portable code', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), fc.string({ unit: 'binary', maxLength: 200 }), (key, text) => {
      const native = hmacSha256(key)(text)
      expect(Buffer.from(native).toString('hex')).toBe(Buffer.from(portableHmac(key)(text)).toString('hex'))
    }),
  )
})

test('a text of RFC 4231 has its code', () => {
  const key = new TextEncoder().encode('Jefe')
  const code = hmacSha256(key)('what do ya want for nothing?')
  expect(Buffer.from(code).toString('hex')).toBe('5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843')
})
