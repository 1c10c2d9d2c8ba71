/**
 * POST /api/v1/messages/count_tokens: free, and the count that the quote of the same body is made from (contract 7.27).
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { PIXEL } from '../../../fakes/images.ts'
import { scriptedChat } from '../../../fakes/chat.ts'
import { chatRows, type ChatFormat, type CountTokens } from '../../../../core/mod.ts'
import { chatPrice } from '../../../../core/products/chat/price.ts'
import { kit, type KitOptions } from '../../../kit.ts'

const path = '/api/v1/messages'
const MODEL = 'vendor-g/chat-4.5-small'
const row = chatRows.find(({ id }) => id === MODEL)
const user = (content: unknown = 'Why is the sky blue?') => ({ role: 'user', content })

function gatewayOf({ format = 'messages' as ChatFormat, ...more }: KitOptions & { format?: ChatFormat } = {}) {
  const vendor = scriptedChat(undefined, { format })
  const subject = kit({ chatVendor: vendor, ...more })
  const alice = subject.buyer()
  return {
    ...subject,
    vendor,
    quote: (body: unknown) => alice.ask(body, { path }),
    count: (body: unknown) => alice.ask(body, { path: `${path}/count_tokens` }),
  }
}

const text = fc.string({ maxLength: 400 }).map((text) => `a${text}`)
const block = fc.oneof(
  text.map((text) => ({ type: 'text', text })),
  fc.constant({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL.split(',')[1] } }),
  text.map((data) => ({ type: 'document', source: { type: 'text', media_type: 'text/plain', data } })),
)
const turn = fc.oneof(
  text.map((text) => user(text)),
  fc.array(block, { minLength: 1, maxLength: 3 }).map((blocks) => user(blocks)),
  text.map((text) => ({
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: text, signature: 'c2ln' },
      { type: 'tool_use', id: 't1', name: 'look', input: { at: text } },
    ],
  })),
  text.map((text) => user([{ type: 'tool_result', tool_use_id: 't1', content: text }])),
)
const tool = text.map((description) => ({
  name: 'look',
  description,
  input_schema: { type: 'object', properties: {} },
}))
const request = fc.record(
  { messages: fc.array(turn, { minLength: 1, maxLength: 5 }), system: text, tools: fc.array(tool, { maxLength: 2 }) },
  { requiredKeys: ['messages'] },
)

describe('a count', () => {
  test('is free, asks no vendor, and needs no max_tokens (contract 7.27)', async () => {
    const { count, vendor, chain } = gatewayOf()
    const { status, headers, body } = await count({ model: MODEL, messages: [user()] })
    expect([status, body]).toEqual([200, { input_tokens: 12 }])
    expect([headers.has('payment-required'), vendor.orders.length, chain.transfers.length]).toEqual([false, 0, 0])
  })

  for (const format of ['messages', 'chat'] as const)
    test(`is what the quote of the same body is made from, on a vendor that speaks ${format} (contract 7.27)`, async () => {
      if (row?.billing.mode !== 'paid') throw new Error('no row')
      const { billing } = row
      await fc.assert(
        fc.asyncProperty(request, fc.integer({ min: 1, max: 60_000 }), async (request, max_tokens) => {
          const { count, quote } = gatewayOf({ format })
          const counted = await count({ model: MODEL, ...request })
          const quoted = await quote({ model: MODEL, max_tokens, ...request })
          expect([counted.status, quoted.status]).toEqual([200, 402])
          const expected = chatPrice({ billing, promptTokens: counted.body.input_tokens, maxTokens: max_tokens })
          expect(quoted.body.accepts[0].amount).toBe(String(expected))
        }),
        { numRuns: 60 },
      )
    })

  test('goes on beyond the context window, so that a client learns how much to leave out (contract 7.27)', async () => {
    const { count, quote } = gatewayOf({ ports: { countTokens: async (text) => Number(text) } })
    const body = { model: MODEL, messages: [user('900000')] }
    expect((await count(body)).body).toEqual({ input_tokens: 900_007 })
    expect((await quote({ ...body, max_tokens: 10 })).status).toBe(400)
  })

  test('counts for models of other makers, free and flat ones as well (contract 7.27)', async () => {
    const { count } = gatewayOf({ format: 'chat' })
    for (const model of ['farebox/echo-free', 'vendor-open/qwen3-32b', 'gpt-6-luna', 'claude-haiku-4.5'])
      expect([model, (await count({ model, messages: [user()] })).body]).toEqual([model, { input_tokens: 12 }])
  })

  test('refuses what /messages refuses, in the form of its errors (contract 7.27)', async () => {
    const named = { name: 'a tool', input_schema: { type: 'object' } }
    const wrongInChat: readonly object[] = [
      { model: 'vendor-b/chat-3.8-flash', messages: [user()], tools: [named] },
      { model: 'vendor-a/chat-6-small', messages: [user()], top_p: 0.5 },
    ]
    const wrong: readonly object[] = [
      { model: 'nobody/nothing', messages: [user()] },
      { model: MODEL, messages: [] },
      { model: MODEL },
      { messages: [user()] },
      { model: MODEL, messages: [{ role: 'nobody', content: 'x' }] },
      { model: MODEL, messages: [user()], tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] },
      { model: MODEL, messages: [user()], context_management: {} },
      { model: MODEL, messages: [user([{ type: 'image', source: { type: 'file', file_id: 'f' } }])] },
      {
        model: MODEL,
        messages: [user([{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }])],
      },
    ]
    const native = gatewayOf()
    const translated = gatewayOf({ format: 'chat' })
    const cases = [
      ...wrong.flatMap(
        (body) =>
          [
            [native, body],
            [translated, body],
          ] as const,
      ),
      ...wrongInChat.map((body) => [translated, body] as const),
    ]
    for (const [{ count, quote }, body] of cases) {
      const [counted, quoted] = [await count(body), await quote({ max_tokens: 10, ...body })]
      expect([body, counted.status, counted.body]).toEqual([body, 400, quoted.body])
      expect(counted.body).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } })
    }
  })

  test('for a model without a vendor is 404, as its answer would be (contract 7.27, 7.32)', async () => {
    const { ports } = gatewayOf()
    const { count } = gatewayOf({ ports: { vendors: { ...ports.vendors, chat: () => undefined } } })
    const { status, body } = await count({ model: MODEL, messages: [user()] })
    expect([status, body.error.type]).toEqual([404, 'not_found_error'])
  })

  test('for a model without a vendor is 404 in the responses format as well (contract 7.32)', async () => {
    const { ports } = gatewayOf()
    const { buyer } = gatewayOf({ ports: { vendors: { ...ports.vendors, chat: () => undefined } } })
    const { status, body } = await buyer().ask({ model: MODEL, input: 'hello' }, { path: '/api/v1/responses' })
    expect([status, body.error.code]).toEqual([404, 'model_not_found'])
  })
})

describe('limits of counting', () => {
  test('120 requests a minute and address, with Retry-After (contract 7.27)', async () => {
    const { count, clock } = gatewayOf()
    const body = { model: MODEL, messages: [user()] }
    for (let at = 0; at < 120; at++) expect((await count(body)).status).toBe(200)
    const { status, headers, body: refused } = await count(body)
    expect([status, refused.error.type, headers.get('retry-after')]).toEqual([429, 'rate_limit_error', '60'])
    await clock.advance(60_000)
    expect((await count(body)).status).toBe(200)
  })

  test('counted text spends the budget of unpaid work, and so does a large body whose text is short (contract 7.27)', async () => {
    const countTokens: CountTokens = async (text, { spend } = {}) => (spend?.(text.length), 1)
    const spent = { model: MODEL, messages: [user('long '.repeat(4_000))] }
    const { count, clock } = gatewayOf({ unpaidCharacters: 10_000, ports: { countTokens } })
    expect((await count(spent)).status).toBe(200)
    const refused = await count({ model: MODEL, messages: [user('another '.repeat(2_000))] })
    expect([refused.status, refused.body.error.type]).toEqual([429, 'rate_limit_error'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    await clock.advance(300_000)
    const large = { model: MODEL, messages: [user('short')], ignored: 'x'.repeat(100_000) }
    expect((await count(large)).status).toBe(200)
    expect((await count(large)).status).toBe(429)
  })

  test('a body over the limit of uploads, and text over that of any prompt, are refused (contract 7.27)', async () => {
    const { count } = gatewayOf({ maxBody: 1_000, maxUpload: 2_000 })
    expect((await count({ model: MODEL, messages: [user('x'.repeat(1_500))] })).status).toBe(200)
    const { status, body } = await count({ model: MODEL, messages: [user('x'.repeat(3_000))] })
    expect([status, body.error.type]).toEqual([400, 'invalid_request_error'])
    const wide = gatewayOf({ unpaidCharacters: 1e9 })
    expect((await wide.count({ model: MODEL, messages: [user('x'.repeat(8_388_700))] })).status).toBe(400)
  })
})
