/**
 * The responses surface: verbatim on vendors that speak it, converted on others, stateless, and in the background
 * (contract 7.10, 7.15, 7.17).
 */
import { describe, expect, test } from 'bun:test'
import { type ChatScript, scriptedChat, streamAnswer, wholeAnswer } from '../../../fakes/chat.ts'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { ApiError, type Fields, type Json, type Ports, rateLimited, type ChatFormat } from '../../../../core/mod.ts'
import { decodeHeader, door, encodePayment, kit, ORIGIN, read } from '../../../kit.ts'
import { rowsOf } from '../../../vectors/rows.ts'

const path = '/api/v1/responses'
const MODEL = 'vendor-a/chat-6-large'
const order = (more: Record<string, unknown> = {}) => ({
  model: MODEL,
  input: 'Why is the sky blue?',
  max_output_tokens: 1_000,
  ...more,
})
const FUNCTION = { type: 'function', name: 'look', parameters: { type: 'object', properties: {} } }

const ANSWER: Fields = {
  id: 'resp_upstream',
  object: 'response',
  status: 'completed',
  model: 'gpt-6-sol-2026-09-22',
  output: [
    { id: 'rs_1', type: 'reasoning', summary: [], encrypted_content: 'gAAAA' },
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Blue.', annotations: [] }],
    },
  ],
  usage: {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 3 },
    total_tokens: 15,
  },
}
const native: ChatScript = async ({ format }) =>
  format === 'responses' ? { kind: 'whole', body: ANSWER } : wholeAnswer()

function gatewayOf(
  script: ChatScript = native,
  { format = 'responses' as ChatFormat, ...more }: Parameters<typeof kit>[0] & { format?: ChatFormat } = {},
) {
  const vendor = scriptedChat(script, { format })
  const subject = kit({ chatVendor: vendor, ...more })
  const alice = subject.buyer()
  const fetch = (url: string, init: RequestInit = {}) => subject.gateway.fetch(new Request(ORIGIN + url, init))
  return {
    ...subject,
    vendor,
    alice,
    ask: (body: unknown) => alice.ask(body, { path }),
    buy: (body: unknown) => alice.buy(body, { path }),
    get: async (url: string) => read(await fetch(url)),
    cancel: async (id: string) => read(await fetch(`${path}/${id}/cancel`, { method: 'POST' })),
    text: async (url: string) => (await fetch(url)).text(),
    async stream(body: unknown) {
      const payment = alice.sign(await alice.ask(body, { path }))
      const headers = { 'content-type': 'application/json', 'payment-signature': encodePayment(payment) }
      return await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
    },
  }
}

/** The bodies of events, comments left out. */
const eventsIn = (text: string): any[] =>
  text
    .split('\n\n')
    .flatMap((event) => /^data: (.*)$/m.exec(event)?.[1] ?? [])
    .map((data) => JSON.parse(data))

describe('on a vendor that speaks responses', () => {
  test('an answer is passed on verbatim', async () => {
    const { buy, chain } = gatewayOf()
    const { status, headers, body } = await buy(order())
    expect([status, body]).toEqual([200, ANSWER])
    expect(decodeHeader(headers.get('payment-response')).success).toBe(true)
    expect(chain.transfers.length).toBe(1)
  })

  test('a tool that must be called, and is not offered, is 400 before the quote (contract 6.59)', async () => {
    for (const tool_choice of ['required', { type: 'function', name: 'look' }]) {
      const { ask } = gatewayOf()
      const { status, body } = await ask({ model: MODEL, input: 'Hi', tool_choice })
      expect([status, body.error.param]).toEqual([400, 'tool_choice'])
    }
  })

  test('a request is passed on verbatim, stateless whatever it says (contract 7.10)', async () => {
    const input = {
      instructions: 'Be brief.',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'Look.' }] },
        { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAA' },
        { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output: 'a fox' },
      ],
      tools: [FUNCTION],
      tool_choice: 'required',
      reasoning: { effort: 'low', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      text: { verbosity: 'low' },
      max_output_tokens: 500,
    }
    const { buy, vendor } = gatewayOf()
    expect((await buy({ model: MODEL, stream: false, store: false, ...input })).status).toBe(200)
    expect(vendor.orders[0]).toMatchObject({ format: 'responses', model: 'gpt-6-sol', stream: false })
    expect(vendor.orders[0]?.body).toEqual({ ...input, store: false } as never)
  })

  test('events are passed on as they come', async () => {
    const events = [
      'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1"}}\n\n',
      'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,"delta":"Blue."}\n\n',
      'event: response.completed\ndata: {"type":"response.completed","sequence_number":2,"response":{"id":"resp_1","usage":{"input_tokens":3}}}\n\n',
    ]
    const { stream, chain } = gatewayOf(async () => streamAnswer(events))
    const text = await (await stream(order({ stream: true }))).text()
    expect(
      text
        .split('\n\n')
        .filter((event) => event !== '' && !event.startsWith(':'))
        .map((event) => `${event}\n\n`),
    ).toEqual(events)
    expect(chain.transfers.length).toBe(1)
  })

  test('max_output_tokens is the ceiling of the model where nothing is said, and never above it (contract 7.13)', async () => {
    const { buy, vendor } = gatewayOf()
    expect((await buy({ model: MODEL, input: 'Hello' })).headers.get('x-max-tokens-capped')).toBeNull()
    const { headers } = await buy(order({ max_output_tokens: 500_000 }))
    expect([headers.get('x-max-tokens-requested'), headers.get('x-max-tokens-effective')]).toEqual(['500000', '128000'])
    expect(vendor.orders.map(({ body }) => body.max_output_tokens)).toEqual([128_000, 128_000])
  })

  test('the effort that is sent is the effort that is quoted, max among them (contract 6.38, 7.10, 7.14)', async () => {
    // 12 tokens of prompt at 2, and 10% of 100,000 tokens at 10, times the effort's multiple, and the fee.
    const cases = [
      ['none', 'none', 100_000],
      ['minimal', 'low', 100_000],
      ['medium', 'medium', 100_000],
      ['high', 'high', 250_000],
      ['xhigh', 'xhigh', 300_000],
      ['max', 'max', 450_000],
    ] as const
    for (const [effort, sent, output] of cases) {
      for (const format of ['responses', 'chat'] as const) {
        const { buy, vendor, chain } = gatewayOf(native, { format })
        expect((await buy(order({ reasoning: { effort }, max_output_tokens: 100_000 }))).status).toBe(200)
        const { body = {} as Fields, by } = vendor.orders[0] ?? {}
        expect([
          effort,
          format,
          format === 'responses' ? (body.reasoning as Fields).effort : body.reasoning_effort,
        ]).toEqual([effort, format, sent])
        expect([effort, String(chain.transfers[0]?.value)]).toEqual([effort, String(12 * 2 + output + 1_000)])
        if (format === 'chat') expect([effort, by]).toEqual([effort, effort === 'max' ? 'responses' : undefined])
      }
    }
  })
})

test('reasoning that is sent back is part of the quote: its summary, wherever it led, and what is sealed', async () => {
  const { ask } = gatewayOf()
  const amount = async (
    reasoning: Record<string, unknown>,
    rest: readonly unknown[] = [{ role: 'user', content: 'x' }],
  ) => {
    const { status, body } = await ask(
      order({
        input: [{ role: 'user', content: 'x' }, { type: 'reasoning', id: 'rs_1', summary: [], ...reasoning }, ...rest],
      }),
    )
    expect(status).toBe(402)
    return Number(body.accepts[0].amount)
  }
  const summary = [{ type: 'summary_text', text: 'word '.repeat(40_000) }]
  const led = [{ role: 'assistant', content: 'x' }]
  const [none, signedQuery, dropped, carried] = [
    await amount({}),
    await amount({ encrypted_content: 'A'.repeat(160_000) }),
    await amount({ summary }),
    (await amount({ summary }, led)) - (await amount({}, led)),
  ]
  // 40,000 tokens each.
  expect(signedQuery - none).toBeGreaterThan(1_000)
  for (const more of [dropped - none, carried]) expect(Math.abs(more / (signedQuery - none) - 1)).toBeLessThan(0.01)
})

describe('on any other vendor', () => {
  test('a request goes out as chat, and its answer comes back as a response', async () => {
    const { buy, vendor } = gatewayOf(async () => wholeAnswer({ content: 'Blue.' }), { format: 'chat' })
    const { status, body } = await buy(order({ instructions: 'Be brief.' }))
    expect(status).toBe(200)
    expect(vendor.orders[0]).toMatchObject({
      format: 'chat',
      body: {
        max_tokens: 1_000,
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'Why is the sky blue?' },
        ],
      },
    })
    expect(body).toMatchObject({
      id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
      object: 'response',
      status: 'completed',
      model: MODEL,
      output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Blue.' }] }],
      usage: { input_tokens: 10, output_tokens: 2, total_tokens: 12 },
      store: false,
    })
  })

  test('tool calls come back as items', async () => {
    const { buy } = gatewayOf(
      async () => wholeAnswer({ toolCalls: [{ id: 'call_1', name: 'look', arguments: '{}' }] }),
      {
        format: 'chat',
      },
    )
    expect((await buy(order({ tools: [FUNCTION] }))).body.output).toMatchObject([
      { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}' },
    ])
  })

  test('a stream comes back as numbered events, closed by response.completed', async () => {
    const { stream } = gatewayOf(undefined, { format: 'chat', chatVendor: scriptedChat() })
    const events = eventsIn(await (await stream(order({ stream: true }))).text())
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index))
    expect([events[0].type, events.at(-1).type]).toEqual(['response.created', 'response.completed'])
  })
})

describe('a refusal', () => {
  const envelope = (param: Json) => ({
    error: { message: expect.any(String), type: 'invalid_request_error', param, code: expect.anything() },
  })
  type Refused = readonly [string, Record<string, unknown>, string]
  const REFUSED: readonly Refused[] = [
    ...rowsOf<Refused>('chat/refused_responses'),
    ['neither input nor instructions', { input: undefined }, 'input'],
    ['no model', { model: undefined }, 'model'],
    [
      'max_tokens, under the name of chat, that is no count',
      { max_output_tokens: undefined, max_tokens: -5 },
      'max_tokens',
    ],
  ]
  for (const [name, more, param] of REFUSED) {
    test(`${name}: 400 invalid_request_error that names ${param}, before any 402 (contract 7.11, 7.16)`, async () => {
      const { ask, vendor } = gatewayOf()
      const { status, body } = await ask(order(more))
      expect([status, body, vendor.orders.length]).toEqual([400, envelope(param), 0])
      if (param === 'max_output_tokens') expect(body.error.message).toStartWith('max_output_tokens: ')
    })
  }

  test('items and parts that are null are 400, and so are more than are taken', async () => {
    const part = { type: 'input_text', text: 'x' }
    for (const input of [
      [null],
      [{ role: 'user', content: [null] }],
      Array.from({ length: 10_001 }, () => ({ role: 'user', content: 'x' })),
      [{ role: 'user', content: Array.from({ length: 2_001 }, () => part) }],
    ]) {
      expect((await gatewayOf().ask(order({ input }))).status).toBe(400)
    }
  })

  test('store: null and the like are as good as absent', async () => {
    expect(
      (await gatewayOf().ask(order({ store: null, previous_response_id: null, conversation: null, prompt: null })))
        .status,
    ).toBe(402)
  })

  test('a background response of a free model is 400', async () => {
    const { status, body } = await gatewayOf().ask(order({ model: 'farebox/echo-free', background: true }))
    expect([status, body.error.param]).toEqual([400, 'background'])
  })

  test('store: true is dropped (contract 7.11)', async () => {
    const { buy, vendor } = gatewayOf()
    expect((await buy(order({ store: true }))).body.store ?? false).toBe(false)
    expect(vendor.orders[0]?.body.store).toBe(false)
  })

  test('a prompt that does not fit is 400: nothing is trimmed here (contract 7.15)', async () => {
    const input = [
      { role: 'user', content: Array.from({ length: 40_000 }, () => 'word').join(' ') },
      { role: 'user', content: 'And now?' },
    ]
    const { status, body } = await gatewayOf().ask({ model: 'farebox/echo', input })
    expect([status, body.error.code]).toEqual([400, 'context_length_exceeded'])
  })

  test('a 402 has an object as error, and carries the whole challenge; the price is the signed amount (contract 7.15)', async () => {
    const { status, headers, body } = await gatewayOf().ask(order())
    expect(status).toBe(402)
    expect(body).toMatchObject({
      x402Version: 2,
      error: { message: expect.any(String), type: 'payment_required', param: null, code: null },
      price: { currency: 'USD' },
      paymentInfo: { asset: 'USDC' },
    })
    expect(body.code).toBeUndefined()
    expect(body.accepts[0].amount).toBe(body.price.amount.replace(/^0\.0*/, ''))
    expect(decodeHeader(headers.get('payment-required'))).toMatchObject({
      x402Version: 2,
      error: 'Payment Required',
      accepts: body.accepts,
    })
    expect(body.accepts[0].maxTimeoutSeconds).toBe(300)
  })

  test('a rejected payment is told without a code, with a fresh challenge (contract 3.20)', async () => {
    const { alice, ask, chain } = gatewayOf()
    const payment = alice.sign(await ask(order()), { from: chain.wallet('poor') })
    const { status, headers, body } = await alice.buy(order(), { path, payment })
    expect([status, body.code, body.error.code, body.error.type]).toEqual([402, undefined, null, 'payment_required'])
    expect(body.error.message).toStartWith('Payment verification failed: ')
    expect(headers.has('payment-required')).toBe(true)
  })

  test('of the vendor frees the authorization: the same signed request then succeeds, and is charged once', async () => {
    const { alice, ask, chain } = gatewayOf(async (_, { attempt }) =>
      attempt === 1 ? Promise.reject(rateLimited('vendor-a', 9)) : { kind: 'whole', body: ANSWER },
    )
    const payment = alice.sign(await ask(order()))
    const failed = await alice.buy(order(), { path, payment })
    expect([failed.status, failed.body.error.type, failed.headers.get('retry-after')]).toEqual([
      429,
      'rate_limit_error',
      '9',
    ])
    expect((await alice.buy(order(), { path, payment })).body).toEqual(ANSWER)
    expect(chain.transfers.length).toBe(1)
  })
})

describe('in the background', () => {
  const work = order({ background: true })

  /** A response that is under way, until the test opens the door. */
  async function underWay(more: Parameters<typeof gatewayOf>[1] = {}) {
    const ready = door()
    const gateway = gatewayOf(async () => (await ready.passed, wholeAnswer({ content: 'Blue.' })), {
      format: 'chat',
      ...more,
    })
    const challenge = await gateway.ask(work)
    const payment = gateway.alice.sign(challenge)
    const created = await gateway.alice.buy(work, { path, payment })
    const id: string = created.body.id
    const finish = async () => {
      ready.open()
      await gateway.clock.settle()
    }
    return { ...gateway, challenge, payment, created, id, finish }
  }

  test('is quoted for 600 seconds and queued at once, uncharged, with an id and without output (contract 7.16, 7.17)', async () => {
    const { challenge, created, chain } = await underWay()
    expect(challenge.body.accepts[0].maxTimeoutSeconds).toBe(600)
    expect(created.status).toBe(200)
    expect(created.body).toMatchObject({
      id: expect.stringMatching(/^resp_[0-9a-f]{32}_[0-9a-f]{32}$/),
      object: 'response',
      status: 'queued',
      background: true,
      model: MODEL,
      output: [],
      usage: null,
    })
    expect(chain.transfers).toEqual([])
  })

  test('is in progress while it is made, and completed with its output when it is settled (contract 7.17, 7.18)', async () => {
    const { get, id, finish, chain, clock } = await underWay()
    await clock.settle()
    expect((await get(`${path}/${id}`)).body).toMatchObject({ id, status: 'in_progress', output: [] })
    await finish()
    const { status, headers, body } = await get(`${path}/${id}`)
    expect([status, headers.get('cache-control'), chain.transfers.length]).toEqual([200, 'no-store', 1])
    expect(body).toMatchObject({
      id,
      status: 'completed',
      background: true,
      store: false,
      output: [{ content: [{ text: 'Blue.' }] }],
    })
  })

  test('is answered under the same id when the request is sent again (contract 7.28)', async () => {
    const { alice, get, payment, id, finish, chain } = await underWay()
    await finish()
    const again = await alice.buy(work, { path, payment })
    expect([again.status, again.body.id, again.body.background, again.body.status]).toEqual([
      200,
      id,
      true,
      'completed',
    ])
    expect([(await get(`${path}/${again.body.id}`)).body, chain.transfers.length]).toEqual([again.body, 1])
  })

  test('is read and cancelled by its whole id alone: the part that a replay tells is none', async () => {
    const { get, text, id, finish } = await underWay()
    const [job, key] = [id.slice(0, 37), id.slice(38)]
    for (const isDone of [false, true]) {
      if (isDone) await finish()
      for (const guess of [
        job,
        `${job}_`,
        `${job}_${'0'.repeat(32)}`,
        `${job}_${key.slice(1)}`,
        `${job}_${key}0`,
        `${job}?key=${key}`,
      ]) {
        expect([guess, (await get(`${path}/${guess}`)).status]).toEqual([guess, 404])
        expect(await text(`${path}/${guess}${guess.includes('?') ? '&' : '?'}stream=true`)).not.toContain('Blue.')
      }
    }
    expect((await get(`${path}/${id}`)).status).toBe(200)
  })

  test('shows no output while its settlement is under way (contract 7.17)', async () => {
    const gate = door()
    const { get, text, id, finish, chain, clock } = await underWay({
      chain: memoryChain({ before: (question) => (question === 'settle' ? gate.passed : undefined) }),
    })
    await finish()
    const waiting = await get(`${path}/${id}`)
    expect([waiting.body.status, waiting.body.output, chain.transfers.length]).toEqual(['in_progress', [], 0])
    const attached = text(`${path}/${id}?stream=true`)
    await clock.advance(1_000)
    gate.open()
    await clock.advance(1_000)
    expect((await get(`${path}/${id}`)).body.status).toBe('completed')
    expect(await attached).toContain('Blue.')
  })

  test('shows no output while nobody knows whether it was settled; once that is known it does', async () => {
    const chain = memoryChain()
    const { get, id, finish, clock, gateway } = await underWay({ chain })
    chain.simulate('late')
    await finish()
    expect((await get(`${path}/${id}`)).body).toMatchObject({ status: 'in_progress', output: [] })
    chain.deliver()
    await clock.advance(60_000)
    await gateway.maintain()
    expect((await get(`${path}/${id}`)).body).toMatchObject({ status: 'completed', output: [{ type: 'message' }] })
    expect(chain.transfers.length).toBe(1)
  })

  test('shows no output when its payment was refused, and says where it can be paid for', async () => {
    const chain = memoryChain()
    const { get, id, finish } = await underWay({ chain })
    chain.simulate('refused')
    await finish()
    const { body } = await get(`${path}/${id}`)
    expect(body).toMatchObject({ status: 'failed', output: [], error: { code: 'payment_failed' } })
    expect(body.error.message).toContain(`/api/v1/calls/job_${id.slice(5, 37)}?key=${id.slice(38)} `)
    expect(JSON.stringify(body)).not.toContain('Blue.')
  })

  test('a failed response is not charged, and its authorization is free', async () => {
    const { ask, alice, get, chain, clock } = gatewayOf(
      async (_, { attempt }) =>
        attempt === 1 ? Promise.reject(new ApiError('MODEL_UNAVAILABLE', { message: 'away' })) : wholeAnswer(),
      { format: 'chat' },
    )
    const payment = alice.sign(await ask(work))
    const first = await alice.buy(work, { path, payment })
    await clock.settle()
    expect((await get(`${path}/${first.body.id}`)).body).toMatchObject({
      status: 'failed',
      output: [],
      error: { code: 'server_error', message: 'away' },
    })
    const second = await alice.buy(work, { path, payment })
    expect([second.status, second.body.id === first.body.id]).toEqual([200, false])
    await clock.settle()
    expect((await get(`${path}/${second.body.id}`)).body.status).toBe('completed')
    expect(chain.transfers.length).toBe(1)
  })

  test('repeats what was asked, briefly', async () => {
    const { ask, alice, get, clock } = gatewayOf(async () => wholeAnswer(), { format: 'chat' })
    const input = order({
      background: true,
      instructions: 'Be brief.',
      metadata: { a: '1' },
      reasoning: { effort: 'low' },
    })
    const { body } = await alice.buy(input, { path, payment: alice.sign(await ask(input)) })
    for (const response of [body, (await get(`${path}/${body.id}`)).body])
      expect(response).toMatchObject({ instructions: 'Be brief.', metadata: { a: '1' }, max_output_tokens: 1_000 })
    await clock.settle()
  })

  test('may be attached to before it is completed: the first events at once, the rest when it is settled (contract 7.18)', async () => {
    const { gateway, id, finish, clock } = await underWay()
    const response = await gateway.fetch(new Request(`${ORIGIN}${path}/${id}?stream=true`))
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    const first = eventsIn(new TextDecoder().decode((await reader.read()).value))
    expect(first.map(({ type, sequence_number }) => [type, sequence_number])).toEqual([
      ['response.created', 0],
      ['response.in_progress', 1],
    ])
    const next = reader.read()
    await finish()
    await clock.advance(1_000)
    const rest = eventsIn(new TextDecoder().decode((await next).value))
    expect(rest.map(({ sequence_number }) => sequence_number)).toEqual(rest.map((_, index) => index + 2))
    expect(rest.at(-1)).toMatchObject({
      type: 'response.completed',
      response: { id, status: 'completed', output: [{ type: 'message' }] },
    })
    expect((await reader.read()).done).toBe(true)
  })

  test('may be attached to after it is completed, from any event on (contract 7.18)', async () => {
    const { text, id, finish } = await underWay()
    await finish()
    const all = eventsIn(await text(`${path}/${id}?stream=true`))
    expect(all.map(({ sequence_number }) => sequence_number)).toEqual(all.map((_, index) => index))
    expect(all.map(({ type }) => type)).toContain('response.output_text.delta')
    for (const after of [0, 1, 3, all.length - 2]) {
      expect(eventsIn(await text(`${path}/${id}?stream=true&starting_after=${after}`))).toEqual(all.slice(after + 1))
    }
    expect(await text(`${path}/${id}?stream=true&starting_after=${all.length - 1}`)).toBe('')
  })

  test('a starting_after that is not a sequence number is 400', async () => {
    const { get, id } = await underWay()
    for (const after of ['x', '-2', '1.5'])
      expect((await get(`${path}/${id}?stream=true&starting_after=${after}`)).status).toBe(400)
  })

  test('a cancel charges nothing, stops the work and frees the authorization (contract 7.19)', async () => {
    let isAborted = false
    const gateway = gatewayOf(
      (_, { signal, attempt }) =>
        attempt > 1
          ? Promise.resolve(wholeAnswer())
          : new Promise(() => signal.addEventListener('abort', () => (isAborted = true))),
      { format: 'chat' },
    )
    const { ask, alice, get, cancel, chain, clock } = gateway
    const payment = alice.sign(await ask(work))
    const { body } = await alice.buy(work, { path, payment })
    await clock.settle()
    const cancelled = await cancel(body.id)
    expect([cancelled.status, cancelled.body]).toEqual([
      200,
      expect.objectContaining({ id: body.id, status: 'cancelled', output: [] }),
    ])
    await clock.settle()
    expect([isAborted, chain.transfers.length]).toEqual([true, 0])
    expect((await cancel(body.id)).body.status).toBe('cancelled')
    expect((await get(`${path}/${body.id}`)).body.status).toBe('cancelled')
    const again = await alice.buy(work, { path, payment })
    expect([again.status, again.body.status]).toEqual([200, 'queued'])
    await clock.settle()
    expect((await get(`${path}/${again.body.id}`)).body.status).toBe('completed')
    expect(chain.transfers.length).toBe(1)
  })

  test('a cancelled one that comes to an end all the same is neither shown nor charged (contract 7.19)', async () => {
    const { get, cancel, id, finish, chain } = await underWay()
    await cancel(id)
    await finish()
    expect([(await get(`${path}/${id}`)).body.status, chain.transfers.length]).toEqual(['cancelled', 0])
  })

  test('an attached reader gets the cancellation', async () => {
    const { gateway, cancel, id, clock } = await underWay()
    const reading = gateway
      .fetch(new Request(`${ORIGIN}${path}/${id}?stream=true&starting_after=1`))
      .then((response) => response.text())
    await clock.settle()
    await cancel(id)
    await clock.advance(1_000)
    const events = eventsIn(await reading)
    expect(events.length).toBe(1)
    expect(events[0].response).toMatchObject({ id, status: 'cancelled' })
  })

  test('a completed one cannot be cancelled: 400, and it stays paid for', async () => {
    const { get, cancel, id, finish, chain } = await underWay()
    await finish()
    const { status, body } = await cancel(id)
    expect([status, body.error.type]).toEqual([400, 'invalid_request_error'])
    expect([(await get(`${path}/${id}`)).body.status, chain.transfers.length]).toEqual(['completed', 1])
  })

  test('an unknown id is 404, and so is one that is none', async () => {
    const { get, cancel } = gatewayOf()
    for (const id of [`resp_${'0'.repeat(32)}`, 'resp_1', 'x', `resp_${'Z'.repeat(32)}`, `job_${'0'.repeat(32)}`]) {
      for (const answer of [await get(`${path}/${id}`), await get(`${path}/${id}?stream=true`), await cancel(id)]) {
        expect([id, answer.status, answer.body.error.type]).toEqual([id, 404, 'not_found_error'])
      }
    }
  })

  test('the id of a call of another endpoint is 404', async () => {
    const ids: string[] = []
    const wrap = (bare: Ports): Ports => ({
      ...bare,
      storage: {
        ...bare.storage,
        openCall: (call, ...rest) => bare.storage.openCall((ids.push(call.id), call), ...rest),
      },
    })
    const { get, cancel, alice } = gatewayOf(native, { wrap })
    expect(
      (
        await alice.buy(
          { model: MODEL, messages: [{ role: 'user', content: 'Hello' }] },
          { path: '/api/v1/chat/completions' },
        )
      ).status,
    ).toBe(200)
    const id = (ids[0] ?? '').replace('job_', 'resp_')
    expect(id).toMatch(/^resp_[0-9a-f]{32}$/)
    expect([(await get(`${path}/${id}`)).status, (await cancel(id)).status]).toEqual([404, 404])
  })

  test('a completed one is kept for a day, and then forgotten', async () => {
    const { get, id, finish, clock, ports } = await underWay()
    await finish()
    await clock.advance(24 * 3_600_000 - 1)
    await ports.storage.prune(clock.now())
    expect((await get(`${path}/${id}`)).body.status).toBe('completed')
    await clock.advance(1)
    await ports.storage.prune(clock.now())
    expect((await get(`${path}/${id}`)).status).toBe(404)
  })

  test('is for listed wallets alone where the operator has listed any: 403, uncharged; answers in the foreground are for all (contract 7.16)', async () => {
    const { ask, alice, buyer, chain, vendor } = gatewayOf(async () => wholeAnswer(), {
      format: 'chat',
      allowlists: { background: [memoryChain().wallet('bob').toUpperCase().replace('0X', '0x')] },
    })
    const payment = alice.sign(await ask(work))
    const refused = await alice.buy(work, { path, payment })
    expect([refused.status, refused.body.error.type, vendor.orders.length, chain.transfers.length]).toEqual([
      403,
      'permission_error',
      0,
      0,
    ])
    expect((await buyer('bob').buy(work, { path })).body.status).toBe('queued')
    expect((await alice.buy(order(), { path })).status).toBe(200)
  })
})
