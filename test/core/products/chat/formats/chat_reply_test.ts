/**
 * The contents of a chat answer, and a request whose model fails: its code, its fallback, and its money
 * (contract 6.53).
 */
import { describe, expect, test } from 'bun:test'
import { type ChatScript, scriptedChat, USAGE, wholeAnswer } from '../../../../fakes/chat.ts'
import {
  type ChatRow,
  chatRows,
  catalog,
  type ChatVendor,
  ApiError,
  type Fields,
  type Ports,
  rateLimited,
} from '../../../../../core/mod.ts'
import { decodeHeader, START, kit } from '../../../../kit.ts'

const path = '/api/v1/chat/completions'
const ORDER = { model: 'vendor-d/chat-5.3', messages: [{ role: 'user', content: 'Why is the sky blue?' }] }

function gatewayOf(script?: ChatScript, more: Parameters<typeof kit>[0] = {}) {
  const vendor = scriptedChat(script)
  const subject = kit({ chatVendor: vendor, ...more })
  return { ...subject, vendor, alice: subject.buyer() }
}

/** The answer that a caller gets for what the vendor says. */
async function replyTo(answer: Fields, order: Record<string, unknown> = ORDER) {
  const { alice } = gatewayOf(async () => ({ kind: 'whole', body: answer }))
  const { status, body } = await alice.buy(order, { path })
  expect(status).toBe(200)
  return body
}

const choice = (message: Fields, finish = 'stop'): Fields => ({
  id: 'chatcmpl-9',
  created: 1_700_000_001,
  model: 'glm-5.3',
  choices: [{ index: 0, message, finish_reason: finish }],
  usage: USAGE,
})
const replyOf = async (message: Fields, finish?: string) => (await replyTo(choice(message, finish))).choices[0]

const CALLS = [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }]

describe('an answer', () => {
  test('has the shape of the contract, under the public id (contract 6.20)', async () => {
    expect(await replyTo(choice({ role: 'assistant', content: 'Hello' }))).toEqual({
      id: 'chatcmpl-9',
      object: 'chat.completion',
      created: 1_700_000_001,
      model: 'vendor-d/chat-5.3',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
    })
  })

  test('is given what its vendor leaves out: id, object, time, role and index', async () => {
    const reply = await replyTo({ choices: [{ message: { content: 'Hello' }, finish_reason: 'stop' }] })
    expect(reply).toEqual({
      id: `chatcmpl-${START / 1000}`,
      object: 'chat.completion',
      created: START / 1000,
      model: 'vendor-d/chat-5.3',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: expect.objectContaining({ estimated: true }),
    })
  })

  test('keeps what nobody here knows, in its head, its choices and its messages', async () => {
    const reply = await replyTo({
      ...choice({ role: 'assistant', content: 'Hello', annotations: [1] }),
      citations: ['https://example.com'],
      system_fingerprint: 'f',
    })
    expect(reply).toMatchObject({
      citations: ['https://example.com'],
      system_fingerprint: 'f',
      choices: [{ message: { annotations: [1] } }],
    })
  })

  test('keeps every choice', async () => {
    const reply = await replyTo({
      choices: [
        { message: { content: 'a' }, finish_reason: 'stop' },
        { message: { content: '', reasoning_content: 'b' }, finish_reason: 'stop' },
      ],
    })
    expect(reply.choices.map(({ index, message }: any) => [index, message.content])).toEqual([
      [0, 'a'],
      [1, 'b'],
    ])
  })

  test('with a refusal of the model is 200 and charged (contract 6.30)', async () => {
    const { alice, chain } = gatewayOf(async () => wholeAnswer({ content: '', finish: 'content_filter' }))
    const { status, body } = await alice.buy(ORDER, { path })
    expect([status, body.choices[0].finish_reason, body.choices[0].message.content, chain.transfers.length]).toEqual([
      200,
      'content_filter',
      '',
      1,
    ])
  })

  test('that ends at max_tokens has finish_reason length', async () => {
    expect((await replyOf({ role: 'assistant', content: 'Hel' }, 'length')).finish_reason).toBe('length')
  })
})

describe('reasoning', () => {
  test('stands in reasoning_content, beside the text', async () => {
    expect((await replyOf({ content: 'Blue.', reasoning_content: 'Rayleigh.' })).message).toEqual({
      role: 'assistant',
      content: 'Blue.',
      reasoning_content: 'Rayleigh.',
    })
  })

  test('is named reasoning_content, whatever the vendor calls it', async () => {
    expect((await replyOf({ content: 'Blue.', reasoning: 'Rayleigh.' })).message).toEqual({
      role: 'assistant',
      content: 'Blue.',
      reasoning_content: 'Rayleigh.',
    })
  })

  test('is left out if it is empty or null', async () => {
    for (const reasoning_content of ['', null, undefined])
      expect(
        (await replyOf({ content: 'Blue.', ...(reasoning_content !== undefined && { reasoning_content }) })).message,
      ).toEqual({ role: 'assistant', content: 'Blue.' })
  })

  test('on a tool turn never leaks into the content, which is empty; words before the calls are kept beside it (contract 6.26, 6.27)', async () => {
    for (const content of [null, '', 'I will look.', undefined]) {
      const { message, finish_reason } = await replyOf(
        { ...(content !== undefined && { content }), reasoning_content: 'Let me look.', tool_calls: CALLS },
        'tool_calls',
      )
      expect(message).toEqual({
        role: 'assistant',
        content: '',
        reasoning_content: 'Let me look.',
        tool_calls: CALLS,
        ...(content === 'I will look.' && { content_before_tools: content }),
      })
      expect(finish_reason).toBe('tool_calls')
    }
  })

  test('is the text of an answer that has no other, so that nobody pays for a blank (contract 6.28)', async () => {
    for (const content of [null, '', undefined]) {
      expect(
        (await replyOf({ ...(content !== undefined && { content }), reasoning_content: 'Rayleigh.' })).message,
      ).toEqual({ role: 'assistant', content: 'Rayleigh.', reasoning_content: 'Rayleigh.' })
    }
  })

  test('is the text also where a vendor lists no tool calls, or null for them', async () => {
    for (const tool_calls of [[], null])
      expect((await replyOf({ content: '', reasoning_content: 'Rayleigh.', tool_calls })).message.content).toBe(
        'Rayleigh.',
      )
  })
})

describe('a <think> block', () => {
  test('inside of a text is moved to the reasoning, closed or not', async () => {
    for (const [content, visible, thought] of [
      ['<think>I think.</think>\n\nBlue.', 'Blue.', 'I think.'],
      ['It is <think>hm</think>blue.', 'It is blue.', 'hm'],
      ['Blue.<think>cut', 'Blue.', 'cut'],
    ])
      expect((await replyOf({ content: content as string })).message).toMatchObject({
        content: visible,
        reasoning_content: thought,
      })
  })
})

describe('usage', () => {
  const usage = async (counted: Fields) => (await replyTo({ ...choice({ content: 'Hello' }), usage: counted })).usage

  test('carries every detail under the names of the contract (contract 6.22)', async () => {
    const full = {
      prompt_tokens: 100,
      completion_tokens: 50,
      total_tokens: 150,
      prompt_tokens_details: { cached_tokens: 40, cached_creation_tokens: 20 },
      completion_tokens_details: { reasoning_tokens: 30 },
    }
    const { completion_tokens_details: _, ...counted } = full
    expect(await usage(full)).toEqual({ ...counted, cache_read_input_tokens: 40, cache_creation_input_tokens: 20 })
  })

  test('has no cache members where nothing was cached', async () => {
    expect(
      await usage({
        prompt_tokens: 100,
        completion_tokens: 50,
        total_tokens: 150,
        prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      }),
    ).toEqual({ prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 })
  })

  test('counts reasoning among the completion tokens, also where a vendor keeps it outside (contract 6.21)', async () => {
    expect(
      await usage({
        prompt_tokens: 10,
        completion_tokens: 5,
        total_tokens: 45,
        completion_tokens_details: { reasoning_tokens: 30 },
      }),
    ).toMatchObject({ completion_tokens: 35, total_tokens: 45 })
  })

  test('counts reasoning by itself for models of vendor-a only (contract 6.23)', async () => {
    const counted = { prompt_tokens: 1, completion_tokens: 5, completion_tokens_details: { reasoning_tokens: 3 } }
    const body = { ...choice({ content: 'Hello' }), usage: counted }
    const of = async (model: string) => (await replyTo(body, { ...ORDER, model })).usage.completion_tokens_details
    expect([await of('vendor-a/chat-5.4-mini'), await of('vendor-d/chat-5.3')]).toEqual([
      { reasoning_tokens: 3 },
      undefined,
    ])
  })

  test('is estimated and marked where the vendor counts nothing (contract 6.21, 6.65)', async () => {
    for (const counted of [undefined, {}, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }]) {
      const { usage: _, ...bare } = choice({ content: 'Hello' })
      const { usage } = await replyTo({ ...bare, ...(counted && { usage: counted }) })
      expect(usage.prompt_tokens).toBeGreaterThan(0)
      expect(usage).toMatchObject({ completion_tokens: 2, estimated: true })
    }
  })

  test('adds up where a vendor leaves the total out (contract 6.21)', async () => {
    expect(await usage({ prompt_tokens: 10, completion_tokens: 5 })).toMatchObject({ total_tokens: 15 })
  })

  test('is kept in the ledger with the answer', async () => {
    const ids: string[] = []
    const wrap = (bare: Ports): Ports => ({
      ...bare,
      storage: {
        ...bare.storage,
        openCall: (call, ...rest) => bare.storage.openCall((ids.push(call.id), call), ...rest),
      },
    })
    const { alice, ports } = gatewayOf(undefined, { wrap })
    await alice.buy(ORDER, { path })
    const call = await ports.storage.getCall(ids[0] ?? '')
    expect(call).toMatchObject({
      endpoint: 'chat.completions',
      model: 'vendor-d/chat-5.3',
      workStatus: 'completed',
      paymentStatus: 'settled',
      result: { made: { usage: USAGE } },
    })
  })
})

// ── failures ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Failing = {
  readonly name: string
  readonly error: Error
  readonly status: number
  readonly code: string
  readonly headers?: Readonly<Record<string, string>>
}

const FAILURES: readonly Failing[] = [
  {
    name: 'a vendor without capacity',
    error: rateLimited('vendor-d', 17),
    status: 429,
    code: 'RATE_LIMITED',
    headers: { 'retry-after': '17', 'x-ratelimit-source': 'vendor-d' },
  },
  {
    name: 'a vendor that is away',
    error: new ApiError('MODEL_UNAVAILABLE', { message: 'away' }),
    status: 503,
    code: 'MODEL_UNAVAILABLE',
  },
  {
    name: 'a vendor that throws anything at all',
    error: new TypeError('fetch failed with secret-key'),
    status: 503,
    code: 'MODEL_UNAVAILABLE',
    headers: { 'retry-after': '5' },
  },
  {
    name: 'a key that the vendor refuses',
    error: new ApiError('PROVIDER_CONFIG_ERROR', { message: 'the operator' }),
    status: 503,
    code: 'PROVIDER_CONFIG_ERROR',
  },
  {
    name: 'a vendor that gives up in time',
    error: new ApiError('UPSTREAM_TIMEOUT', { message: 'slow' }),
    status: 504,
    code: 'TIMEOUT',
  },
  {
    name: 'a conversation that a safety system refuses',
    error: new ApiError('CONTENT_POLICY', { message: 'unsafe' }),
    status: 400,
    code: 'CONTENT_FILTERED',
  },
  {
    name: 'a conversation that is too long after all',
    error: new ApiError('CONTEXT_LENGTH_EXCEEDED', { message: 'long' }),
    status: 400,
    code: 'CONTEXT_LENGTH_EXCEEDED',
  },
  {
    name: 'a parameter that the vendor refuses',
    error: new ApiError('INVALID_PARAMETER', { message: 'no', param: 'seed' }),
    status: 400,
    code: 'INVALID_PARAMETER',
  },
  {
    name: 'an image that the vendor cannot read',
    error: new ApiError('INVALID_IMAGE', { message: 'no' }),
    status: 400,
    code: 'INVALID_IMAGE_URL',
  },
  {
    name: 'a body that the vendor finds too large',
    error: new ApiError('TOO_LARGE', { message: 'no' }),
    status: 400,
    code: 'REQUEST_TOO_LARGE',
  },
]

describe('a failure', () => {
  for (const { name, error, status, code, headers = {} } of FAILURES) {
    test(`${name} is ${status} ${code}, uncharged; the same signed request then succeeds and is charged once (contract 3.10, 6.54, 6.55, 6.56)`, async () => {
      const { alice, chain, vendor } = gatewayOf(async (_, { attempt }) =>
        attempt === 1 ? Promise.reject(error) : wholeAnswer(),
      )
      const payment = alice.sign(await alice.ask(ORDER, { path }))
      const failed = await alice.buy(ORDER, { path, payment })
      expect([failed.status, failed.body.code, failed.body.error.code, failed.body.message]).toEqual([
        status,
        code,
        code,
        failed.body.error.message,
      ])
      for (const [header, value] of Object.entries(headers)) expect(failed.headers.get(header)).toBe(value)
      expect(JSON.stringify(failed.body)).not.toContain('secret-key')
      expect(decodeHeader(failed.headers.get('payment-response')).success).toBe(false)
      expect(chain.transfers).toEqual([])

      const again = await alice.buy(ORDER, { path, payment })
      expect([again.status, again.body.choices[0].message.content]).toEqual([200, 'Hello'])
      expect([vendor.orders.length, chain.transfers.length]).toEqual([2, 1])
    })
  }

  test('a vendor that says nothing for 120 seconds is 504 TIMEOUT, uncharged; the same signed request then succeeds', async () => {
    let isAborted = false
    const { alice, chain, clock } = gatewayOf(async (_, { signal, attempt }) => {
      signal.addEventListener('abort', () => (isAborted = true))
      return attempt > 1 ? wholeAnswer() : await new Promise(() => {})
    })
    const payment = alice.sign(await alice.ask(ORDER, { path }))
    let isThere = false
    const waiting = alice.buy(ORDER, { path, payment }).finally(() => (isThere = true))
    await clock.advance(119_999)
    expect([isThere, isAborted]).toEqual([false, false])
    await clock.advance(1)
    const late = await waiting
    expect([late.status, late.body.code, late.body.error.type, isAborted, chain.transfers.length]).toEqual([
      504,
      'TIMEOUT',
      'timeout_error',
      true,
      0,
    ])
    expect((await alice.buy(ORDER, { path, payment })).status).toBe(200)
    expect(chain.transfers.length).toBe(1)
  })
})

// ── fallbacks ───────────────────────────────────────────────────────────────────────────────────────────────────────

const FREE_ROWS = chatRows.filter(({ billing, fallbacks }) => billing.mode === 'free' && fallbacks !== undefined)
const FIRST = 'vendor-open/gpt-oss-120b'
const SECOND = 'vendor-open/gpt-oss-20b'
const upstreamOf = (id: string): string => catalog().chat.get(id)?.upstream ?? ''
const away = () => new ApiError('MODEL_UNAVAILABLE', { message: 'away' })

/** A vendor where the models of these ids fail. */
const without =
  (ids: readonly string[], error: () => Error = away): ChatScript =>
  async ({ model }) =>
    ids.some((id) => upstreamOf(id) === model) ? Promise.reject(error()) : wholeAnswer({ model })
const named = (headers: Headers) =>
  ['x-fallback-used', 'x-original-model', 'x-fallback-model'].map((name) => headers.get(name))

describe('a fallback', () => {
  const free = { ...ORDER, model: FIRST }

  test('answers where a free model is unavailable, and three headers and the body say who did (contract 6.53)', async () => {
    const { alice, vendor } = gatewayOf(without([FIRST]))
    const answer = await alice.ask(free, { path })
    expect([answer.status, answer.body.model, answer.headers.get('x-free-model')]).toEqual([200, SECOND, 'true'])
    expect(named(answer.headers)).toEqual(['true', FIRST, SECOND])
    expect(vendor.orders.map(({ model }) => model)).toEqual([FIRST, SECOND].map(upstreamOf))
  })

  test('is not named where none was needed', async () => {
    const { alice } = gatewayOf()
    expect(named((await alice.ask(free, { path })).headers)).toEqual([null, null, null])
  })

  test('tries each free model once, then returns the last refusal', async () => {
    const { alice, vendor } = gatewayOf(without(FREE_ROWS.map(({ id }) => id)))
    const answer = await alice.ask(free, { path })
    expect([answer.status, answer.body.code]).toEqual([503, 'MODEL_UNAVAILABLE'])
    expect(vendor.orders.map(({ model }) => model).toSorted()).toEqual(
      FREE_ROWS.map(({ upstream }) => upstream).toSorted(),
    )
    expect(vendor.orders.length).toBe(FREE_ROWS.length)
  })

  test('takes over from a free model that has no capacity, no key, or breaks', async () => {
    for (const error of [
      () => rateLimited('vendor-open', 5),
      () => new ApiError('PROVIDER_CONFIG_ERROR'),
      () => new Error('broken'),
    ]) {
      const { alice } = gatewayOf(without([FIRST], error))
      expect((await alice.ask(free, { path })).body.model).toBe(SECOND)
    }
  })

  test('is not asked for a caller’s own mistake', async () => {
    for (const code of ['INVALID_PARAMETER', 'CONTENT_POLICY', 'CONTEXT_LENGTH_EXCEEDED', 'INVALID_IMAGE'] as const) {
      const { alice, vendor } = gatewayOf(without([FIRST], () => new ApiError(code, { message: 'no' })))
      expect([(await alice.ask(free, { path })).status, vendor.orders.length]).toEqual([400, 1])
    }
  })

  test('of a paid model answers if the model is full or too slow, once, at the quoted price (contract 6.62)', async () => {
    const flat = { ...ORDER, model: 'vendor-open/qwen3-235b' }
    const { alice, chain } = gatewayOf(without([flat.model]))
    const answer = await alice.buy(flat, { path })
    expect([answer.status, answer.body.model, answer.headers.get('x-free-model')]).toEqual([
      200,
      'vendor-open/qwen3-32b',
      null,
    ])
    expect(named(answer.headers)).toEqual(['true', flat.model, 'vendor-open/qwen3-32b'])
    expect(chain.transfers.map(({ value }) => value)).toEqual([2_000n])
    const limited = gatewayOf(without([flat.model], () => rateLimited('vendor-open', 5)))
    expect([(await limited.alice.buy(flat, { path })).status, limited.vendor.orders.length]).toEqual([200, 2])
    const slow = gatewayOf(without([flat.model], () => new ApiError('UPSTREAM_TIMEOUT')))
    expect([(await slow.alice.buy(flat, { path })).status, slow.vendor.orders.length]).toEqual([200, 2])
    const full = gatewayOf(without([flat.model, 'vendor-open/qwen3-32b'], () => rateLimited('vendor-open', 5)))
    expect([(await full.alice.buy(flat, { path })).status, full.chain.transfers.length]).toEqual([429, 0])
  })

  test('is asked where the operator has not configured the model itself', async () => {
    const vendor = scriptedChat()
    const chat = ({ id }: ChatRow): ChatVendor | undefined => (id === FIRST ? undefined : vendor)
    const { buyer } = kit({ ports: { vendors: { chat } } })
    const answer = await buyer().ask(free, { path })
    expect([answer.status, answer.body.model]).toEqual([200, SECOND])
    expect(named(answer.headers)).toEqual(['true', FIRST, SECOND])
  })

  test('sees the images of the request, or is not asked', async () => {
    const { alice, vendor } = gatewayOf(without(['vendor-open/llama-4-maverick']))
    const content = [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }]
    expect(
      (await alice.ask({ model: 'vendor-open/llama-4-maverick', messages: [{ role: 'user', content }] }, { path }))
        .status,
    ).toBe(503)
    expect(vendor.orders.length).toBe(1)
  })

  test('holds the prompt, or is not asked', async () => {
    const model = 'vendor-open/nemotron-3-ultra'
    const { alice, vendor } = gatewayOf(without([model]))
    const content = Array.from({ length: 140_000 }, () => 'word').join(' ')
    const answer = await alice.ask({ model, messages: [{ role: 'user', content }] }, { path })
    expect(answer.status).toBe(200)
    const windowOf = (upstream: string) => chatRows.find((row) => row.upstream === upstream)?.contextWindow ?? 0
    for (const order of vendor.orders)
      expect(windowOf(order.model)).toBeGreaterThanOrEqual(140_007 + (order.body.max_tokens as number))
  })

  test('with a lower limit reports the lowered max_tokens (contract 6.9)', async () => {
    const [row] = chatRows.filter(({ id }) => id === 'vendor-d/chat-5.3')
    if (!row) throw new Error('no such row')
    const short = { ...row, id: 'mine/short', aliases: [], upstream: 'short', maxOutput: 50 }
    const rows = [{ ...row, fallbacks: ['mine/short'] }, short]
    const script: ChatScript = async ({ model }) => (model === row.upstream ? Promise.reject(away()) : wholeAnswer())
    const { alice } = gatewayOf(script, { catalog: catalog({ chat: rows }) })
    const capped = async (more: object) => {
      const { headers } = await alice.buy({ ...ORDER, ...more, model: row.id }, { path })
      return ['capped', 'requested', 'effective'].map((name) => headers.get(`x-max-tokens-${name}`))
    }
    expect(await capped({ max_tokens: 500 })).toEqual(['true', '500', '50'])
    expect(await capped({ max_tokens: 50 })).toEqual([null, null, null])
  })

  test('has rules of its own: what it does not take is left out, and its ceiling is kept', async () => {
    const [row] = chatRows.filter(({ id }) => id === 'vendor-d/chat-5.3')
    if (!row) throw new Error('no such row')
    const strict = {
      ...row,
      id: 'mine/strict',
      aliases: [],
      upstream: 'strict',
      maxOutput: 50,
      refuses: ['temperature'],
      strips: ['top_k'],
      noForcedTools: true,
    }
    const mine = { ...row, fallbacks: ['mine/strict'] }
    const script: ChatScript = async ({ model }) => (model === row.upstream ? Promise.reject(away()) : wholeAnswer())
    const { alice, vendor } = gatewayOf(script, { catalog: catalog({ chat: [mine, strict] }) })
    const order = {
      ...ORDER,
      max_tokens: 500,
      temperature: 0.5,
      top_k: 5,
      seed: 7,
      tools: [{ type: 'function', function: { name: 'look' } }],
      tool_choice: 'required',
    }
    expect((await alice.buy(order, { path })).body.model).toBe('mine/strict')
    expect(vendor.orders[1]?.body).toEqual({
      messages: ORDER.messages,
      max_tokens: 50,
      seed: 7,
      tools: order.tools,
      tool_choice: 'auto',
    })
  })

  test('without structured outputs asks for JSON in words, and strips the code fence of its answer', async () => {
    const [row] = chatRows.filter(({ id }) => id === 'vendor-d/chat-5.3')
    if (!row) throw new Error('no such row')
    const other = { ...row, id: 'mine/other', aliases: [], upstream: 'other', structured: 'emulated' } as const
    const script: ChatScript = async ({ model }) =>
      model === row.upstream ? Promise.reject(away()) : wholeAnswer({ content: '```json\n{}\n```' })
    const { alice, vendor } = gatewayOf(script, {
      catalog: catalog({ chat: [{ ...row, fallbacks: ['mine/other'] }, other] }),
    })
    const answer = await alice.buy({ ...ORDER, response_format: { type: 'json_object' } }, { path })
    expect(answer.body.choices[0].message.content).toBe('{}')
    expect(vendor.orders[1]?.body.response_format).toBeUndefined()
  })
})
