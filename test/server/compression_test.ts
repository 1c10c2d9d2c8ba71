import { describe, expect, test } from 'bun:test'
import { documentCompression } from '../../server/http/compression.ts'

const requestFor = (encoding?: string) =>
  new Request('http://farebox.test/', encoding === undefined ? {} : { headers: { 'accept-encoding': encoding } })
const JSON_TYPE = { 'content-type': 'application/json' }

describe('a document', () => {
  const compress = documentCompression()
  const reply = { status: 200, headers: JSON_TYPE, body: '{"openapi":"3.1.0"}'.repeat(100) }

  test('is compressed for a client that reads gzip, and says that it varies', () => {
    const { headers, body } = compress(requestFor('br, gzip'), '/openapi.json', reply)
    expect(headers).toEqual({ ...JSON_TYPE, 'content-encoding': 'gzip', vary: 'Accept-Encoding' })
    expect(new TextDecoder().decode(Bun.gunzipSync(body as Uint8Array<ArrayBuffer>))).toBe(reply.body)
  })

  test('is the same bytes while it stays the same, and others when it changes', () => {
    const first = compress(requestFor('gzip'), '/docs', reply).body
    expect(compress(requestFor('gzip'), '/docs', { ...reply }).body).toBe(first as Uint8Array)
    expect(compress(requestFor('gzip'), '/docs', { ...reply, body: 'other' }).body).not.toBe(first as Uint8Array)
  })

  test('is left as it is for others, and what is no document always is', () => {
    expect(compress(requestFor(), '/openapi.json', reply).body).toBe(reply.body)
    expect(compress(requestFor('gzip'), '/api/v1/images/generations', reply)).toBe(reply)
    const missing = { ...reply, status: 404 }
    expect(compress(requestFor('gzip'), '/docs', missing)).toBe(missing)
  })
})
