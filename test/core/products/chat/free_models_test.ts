/**
 * Free models: rationed by address, without a row or a question to the database for each (contract 20.2; decision 25).
 */
import { describe, expect, test } from 'bun:test'
import { scriptedChat, wholeAnswer } from '../../../fakes/chat.ts'
import { ApiError, chatRows, type Ports, type Storage } from '../../../../core/mod.ts'
import { kit, ORIGIN, read, START } from '../../../kit.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const ORDER = { model: 'farebox/echo-free', messages: [{ role: 'user', content: 'Hello' }] }

/** A shop whose storage says what it was asked. */
function gatewayOf(more: Parameters<typeof kit>[0] = {}) {
  const requests: string[] = []
  const watched = (storage: Storage): Storage => ({
    ...storage,
    ...Object.fromEntries(
      Object.entries(storage).map(([verb, answer]) => [
        verb,
        (...all: unknown[]) => (requests.push(verb), answer(...all)),
      ]),
    ),
  })
  const vendor = scriptedChat()
  const subject = kit({
    chatVendor: vendor,
    wrap: (ports: Ports) => ({ ...ports, storage: watched(ports.storage) }),
    ...more,
  })
  const ask = async (
    body: unknown = ORDER,
    { ip = '192.0.2.1', path = '/api/v1/chat/completions', gateway = subject.gateway } = {},
  ) =>
    read(
      await gateway.fetch(
        new Request(ORIGIN + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
        { ip },
      ),
    )
  /** How many of so many requests in a row are answered. */
  const served = async (count: number, at?: Parameters<typeof ask>[1]) => {
    let answered = 0
    for (let i = 0; i < count; i++) answered += Number((await ask(ORDER, at)).status === 200)
    return answered
  }
  return { ...subject, vendor, requests, ask, served }
}

const limitOf = (headers: Headers) =>
  ['retry-after', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'].map((name) => headers.get(name))

describe('a free model', () => {
  test('answers without payment, and says that it is free (contract 20.1)', async () => {
    const { ask } = gatewayOf()
    const { status, headers, body } = await ask()
    expect([status, headers.get('x-free-model'), body.model, body.choices[0].message.content]).toEqual([
      200,
      'true',
      ORDER.model,
      'Hello',
    ])
    for (const header of ['payment-response', 'x-payment-receipt', 'x-payment-settled', 'payment-required'])
      expect(headers.has(header)).toBe(false)
  })

  test('streams without payment, and says that it is free', async () => {
    const { gateway } = gatewayOf()
    const response = await gateway.fetch(
      new Request(`${ORIGIN}/api/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ...ORDER, stream: true }),
      }),
    )
    expect([response.status, response.headers.get('x-free-model')]).toEqual([200, 'true'])
    const text = await response.text()
    expect(text).toEndWith('data: [DONE]\n\n')
    expect(text).not.toContain('payment')
  })

  test('takes 30 requests a minute from one address, then 429 with four headers until the minute is over (contract 4.10, 20.2, 20.3)', async () => {
    const { ask, served, clock, vendor } = gatewayOf()
    expect(await served(30)).toBe(30)
    await clock.advance(20_000)
    const { status, headers, body } = await ask()
    expect([status, body.code, body.error.code, body.error.type]).toEqual([
      429,
      'FREE_TIER_RATE_LIMITED',
      'FREE_TIER_RATE_LIMITED',
      'rate_limit_error',
    ])
    expect(limitOf(headers)).toEqual(['40', '30', '0', String((START + MINUTE) / 1000)])
    expect(vendor.orders.length).toBe(30)
    await clock.advance(39_999)
    expect(await served(1)).toBe(0)
    await clock.advance(1)
    expect(await served(1)).toBe(1)
  })

  test('takes 300 requests an hour from one address, then 429 until the hour is over (contract 20.2, 20.3)', async () => {
    const { ask, served, clock } = gatewayOf()
    for (let minute = 0; minute < 10; minute++) {
      expect(await served(30)).toBe(30)
      await clock.advance(MINUTE)
    }
    const { status, headers } = await ask()
    expect(status).toBe(429)
    expect(limitOf(headers)).toEqual(['3000', '300', '0', String((START + HOUR) / 1000)])
    await clock.advance(HOUR - 10 * MINUTE)
    expect(await served(30)).toBe(30)
  })

  test('counts each address by itself, and all free models, paths and surfaces together', async () => {
    const { ask, served } = gatewayOf()
    expect(await served(28)).toBe(28)
    expect((await ask({ messages: ORDER.messages }, { path: '/api/v1/chat/vendor-open/gpt-oss-20b' })).status).toBe(200)
    expect((await ask({ ...ORDER, max_tokens: 10 }, { path: '/api/v1/messages' })).status).toBe(200)
    expect(await served(1)).toBe(0)
    expect((await ask({ messages: ORDER.messages }, { path: '/api/v1/chat/vendor-open/gpt-oss-20b' })).status).toBe(429)
    expect(await served(30, { ip: '192.0.2.2' })).toBe(30)
  })

  test('does not count what is paid for, estimated or refused', async () => {
    const { ask, served, buyer } = gatewayOf()
    for (let i = 0; i < 40; i++) {
      expect((await ask({ ...ORDER, messages: [] })).status).toBe(400)
      expect((await ask(ORDER, { path: '/api/v1/chat/estimate' })).status).toBe(200)
    }
    expect((await buyer().buy({ ...ORDER, model: 'farebox/echo' }, { path: '/api/v1/chat/completions' })).status).toBe(
      200,
    )
    expect(await served(31)).toBe(30)
    expect((await ask({ ...ORDER, model: 'farebox/echo' })).status).toBe(402)
  })

  test('asks storage for nothing but blocks of permits, and opens no call (contract 20.5)', async () => {
    const { requests, ask, served } = gatewayOf()
    expect(await served(30)).toBe(30)
    expect(new Set(requests)).toEqual(new Set(['hit']))
    expect(requests.length).toBeLessThanOrEqual(12)
    expect((await ask()).status).toBe(429)
    const before = requests.length
    for (let i = 0; i < 20; i++) expect((await ask()).status).toBe(429)
    expect(requests.length).toBe(before)
  })

  test('counts over all processes that share a storage: never fewer than promised, and at most two more for each', async () => {
    const { restart, served } = gatewayOf()
    const other = restart()
    const both = (await served(20)) + (await served(20, { gateway: other }))
    expect(both).toBeGreaterThanOrEqual(30)
    expect(both).toBeLessThanOrEqual(30 + 2 * 2)
  })

  test('takes as many as the operator says', async () => {
    const { ask, served } = gatewayOf({ freeTier: [{ requests: 50, windowMs: MINUTE }] })
    expect(await served(51)).toBe(50)
    expect(limitOf((await ask()).headers)).toEqual(['60', '50', '0', String((START + MINUTE) / 1000)])
    const open = gatewayOf({ freeTier: [] })
    expect(await open.served(400)).toBe(400)
    expect(open.requests).toEqual([])
  })

  test('that is unavailable is replaced by another free model (contract 20.4)', async () => {
    const away = chatRows.find(({ id }) => id === 'vendor-open/gpt-oss-120b')?.upstream
    const vendor = scriptedChat(async (order) => {
      if (order.model === away) throw new ApiError('MODEL_UNAVAILABLE')
      return wholeAnswer()
    })
    const { ask, chain } = gatewayOf({ chatVendor: vendor })
    const { status, headers, body } = await ask({ ...ORDER, model: 'vendor-open/gpt-oss-120b' })
    expect([status, headers.get('x-free-model'), body.choices.length, chain.transfers]).toEqual([200, 'true', 1, []])
    expect(vendor.orders.map(({ model }) => model === away)).toEqual([true, false])
  })

  test('uses a permit even if all free models are unavailable', async () => {
    const { ask, served } = gatewayOf({ chatVendor: scriptedChat(async () => Promise.reject(new Error('broken'))) })
    expect((await ask()).status).toBe(503)
    expect(await served(29)).toBe(0)
    expect((await ask()).body.code).toBe('FREE_TIER_RATE_LIMITED')
  })
})

test('a free answer is told in the words of the surface that was called, and so is its refusal', async () => {
  const { ask, served } = gatewayOf()
  const messages = { path: '/api/v1/messages' }
  const { status, headers, body } = await ask({ ...ORDER, max_tokens: 10 }, messages)
  expect([status, headers.get('x-free-model'), body.type, body.content]).toEqual([
    200,
    'true',
    'message',
    [{ type: 'text', text: 'Hello' }],
  ])
  await served(29)
  const refused = await ask({ ...ORDER, max_tokens: 10 }, messages)
  expect([refused.status, refused.body]).toEqual([
    429,
    { type: 'error', error: { type: 'rate_limit_error', message: expect.any(String) } },
  ])
  expect(limitOf(refused.headers)).toEqual(['60', '30', '0', String((START + MINUTE) / 1000)])
})
