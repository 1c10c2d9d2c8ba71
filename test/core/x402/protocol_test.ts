import { describe, expect, test } from 'bun:test'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { challenge } from '../../../core/x402/challenge.ts'
import { decodePayment, encodeHeader, receiptHeaders, refusalHeaders } from '../../../core/x402/protocol.ts'
import vectors from '../../vectors/x402.json'

const offer = vectors.payment.accepted
const resource = {
  url: 'https://farebox.test/api/v1/images/generations',
  description: 'Generate images',
  mimeType: 'application/json',
}

/** As `declarePaymentIdentifierExtension()` of @x402/extensions 2.27 has it. */
const schema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: {
    required: { type: 'boolean' },
    id: { type: 'string', minLength: 16, maxLength: 128, pattern: '^[a-zA-Z0-9_-]+$' },
  },
  required: ['required'],
}
const extensions = { 'payment-identifier': { info: { required: false }, schema } }

describe('payment headers', () => {
  for (const { name, header, ok, reason } of vectors.headers) {
    test(`${ok ? 'read' : 'refuse'}: ${name}`, () => {
      const decoded = decodePayment(header)
      expect(decoded.ok).toBe(ok)
      if (decoded.ok) expect(decoded.payment.payload as unknown).toEqual(vectors.payment.payload)
      if (!decoded.ok) expect(decoded.reason).toStartWith(reason ?? '')
    })
  }

  test('decode to what was encoded, in any script', () => {
    const payment = { ...vectors.payment, extensions: { note: 'füchse ✓ 狐 🦊' } }
    expect(decodePayment(encodeHeader(payment))).toEqual({ ok: true, payment } as never)
  })

  test('no input makes the decoder throw, and every refusal is short ASCII', () => {
    const good = encodeHeader(vectors.payment)
    const random = seeded(402)
    const bytes = (length: number) => String.fromCharCode(...Array.from({ length }, () => random(256)))
    const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
    const inputs = [
      ...Array.from({ length: 500 }, () => bytes(random(60))),
      ...Array.from({ length: 500 }, () => btoa(bytes(random(60)))),
      ...Array.from({ length: 500 }, () => mutate(good, random)),
      ...Array.from({ length: 500 }, () => btoa(mutate(JSON.stringify(vectors.payment), random))),
      ...[10, 5_000, 100_000].flatMap((levels) =>
        [deep(levels), `{"x402Version":${deep(levels)}}`, `{"x402Version":2,"accepted":${deep(levels)}}`].map(btoa),
      ),
      encodeHeader({ x402Version: '狐'.repeat(100) }),
      encodeHeader({ x402Version: 2, accepted: { ['狐'.repeat(100)]: 1 } }),
      btoa('{"x402Version":2,"__proto__":{"accepted":1},"accepted":{"__proto__":{"scheme":"exact"}}}'),
      'A'.repeat(1 << 20),
    ]
    for (const input of inputs) {
      const decoded = decodePayment(input)
      if (!decoded.ok) expect(decoded.reason).toMatch(/^[ -~]{1,200}$/)
    }
  })

  test('a header larger than any HTTP server lets through is refused unread', () => {
    const decoded = decodePayment(encodeHeader({ ...vectors.payment, extensions: { pad: 'x'.repeat(40_000) } }))
    expect(decoded).toEqual({ ok: false, reason: 'the payment header is longer than 32768 characters' })
  })
})

describe('challenges', () => {
  test('are three equal headers, a mirrored body, and never cached', () => {
    const { headers, body } = challenge([offer], resource, { error: 'Payment Required', price: { amount: '0.010000' } })
    const required = headers['payment-required'] ?? ''
    expect(headers['x-payment-required']).toBe(required)
    expect(headers['www-authenticate']).toBe(`X402 requirements=${required}`)
    expect(headers['cache-control']).toContain('no-store')
    expect(headers['content-type']).toBe('application/json')
    expect(JSON.parse(body)).toEqual({
      x402Version: 2,
      accepts: [offer],
      extensions,
      error: 'Payment Required',
      price: { amount: '0.010000' },
    })
    expect(JSON.parse(atob(required))).toEqual({
      x402Version: 2,
      error: 'Payment Required',
      resource,
      accepts: [offer],
      extensions,
    })
  })

  test('are standard base64, as the official client reads it', () => {
    const { headers } = challenge([offer], { ...resource, description: '~~~???>>>' }, {})
    expect(headers['payment-required']).toMatch(/^[A-Za-z0-9+/]+={0,2}$/)
    expect(decodePaymentRequiredHeader(headers['payment-required'] ?? '') as unknown).toEqual({
      x402Version: 2,
      error: 'Payment Required',
      resource: { ...resource, description: '~~~???>>>' },
      accepts: [offer],
      extensions,
    })
  })
})

describe('receipts', () => {
  const receipt = { transaction: '0xabc', network: 'eip155:84532', payer: '0x19e7', amount: '10000' }

  test('carry the transaction twice, as the official client reads it', () => {
    const headers = receiptHeaders(receipt)
    expect(headers['x-payment-receipt']).toBe('0xabc')
    expect(decodePaymentResponseHeader(headers['payment-response'] ?? '') as unknown).toEqual({
      success: true,
      ...receipt,
    })
  })

  test('of a failed settlement have success false and no transaction', () => {
    const headers = refusalHeaders({ reason: 'the balance is 0', network: 'eip155:84532', payer: '0x19e7' })
    expect(headers['x-payment-receipt' as never]).toBeUndefined()
    expect(decodePaymentResponseHeader(headers['payment-response'] ?? '') as unknown).toEqual({
      success: false,
      errorReason: 'the balance is 0',
      transaction: '',
      network: 'eip155:84532',
      payer: '0x19e7',
    })
  })
})

/** Numbers below `limit`, the same in every run. */
function seeded(seed: number): (limit: number) => number {
  let state = seed
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
}

function mutate(text: string, random: (limit: number) => number): string {
  const at = random(text.length)
  const kinds = [
    text.slice(0, at),
    text.slice(at),
    `${text.slice(0, at)}${String.fromCharCode(random(256))}${text.slice(at + 1)}`,
    `${text.slice(0, at)}${text.slice(at + random(20))}`,
  ]
  return kinds[random(kinds.length)] ?? ''
}
