/**
 * The messages surface: verbatim on vendors that speak it, converted on all others, and always in the envelopes of its
 * clients (contract 7.1).
 */
import { describe, expect, test } from 'bun:test'
import { type ChatScript, scriptedChat, streamAnswer, wholeAnswer } from '../../../fakes/chat.ts'
import { ApiError, type Fields, rateLimited, type ChatFormat } from '../../../../core/mod.ts'
import { decodeHeader, encodePayment, kit, ORIGIN, read, x402Scheme } from '../../../kit.ts'

const path = '/api/v1/messages'
const NATIVE = 'vendor-g/chat-4.5-small'
const NEWEST = 'vendor-g/chat-5.5-large'
const OTHER = 'vendor-d/chat-5.3'
const SEARCH_TOOL = { type: 'web_search_20250305', name: 'web_search' }
const user = (content: unknown = 'Why is the sky blue?') => ({ role: 'user', content })
const order = (more: Record<string, unknown> = {}) => ({
  model: NATIVE,
  max_tokens: 1_000,
  messages: [user()],
  ...more,
})

test('the discovery 402 quotes what is served where no model of vendor-g is', async () => {
  const { ports, ...subject } = kit({ chatVendor: scriptedChat() })
  const { gateway: farebox } = kit({
    ports: {
      ...ports,
      vendors: { ...ports.vendors, chat: (row) => (row.id === OTHER ? ports.vendors.chat(row) : undefined) },
    },
  })
  for (const gateway of [farebox, subject.gateway]) {
    const { status } = await gateway.fetch(new Request(ORIGIN + path, { method: 'POST' }), { ip: '192.0.2.1' })
    expect(status).toBe(402)
  }
})

/** As Anthropic answers: a signed thinking block, cache counts, and a model id of its own. */
const ANSWER: Fields = {
  id: 'msg_01ABC',
  type: 'message',
  role: 'assistant',
  model: 'claude-haiku-4-5-20251001',
  content: [
    { type: 'thinking', thinking: 'Rayleigh.', signature: 'c2lnbmVk' },
    { type: 'text', text: 'Blue.' },
  ],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: {
    input_tokens: 10,
    output_tokens: 5,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 3,
    service_tier: 'standard',
  },
}

const native: ChatScript = async ({ format }) =>
  format === 'messages' ? { kind: 'whole', body: ANSWER } : wholeAnswer()

function gatewayOf(
  script: ChatScript = native,
  { format = 'messages' as ChatFormat, ...more }: Parameters<typeof kit>[0] & { format?: ChatFormat } = {},
) {
  const vendor = scriptedChat(script, { format })
  const subject = kit({ chatVendor: vendor, ...more })
  const alice = subject.buyer()
  /** A request with headers of the caller's, paid for with whatever the 402 asks. */
  async function post(body: unknown, headers: Record<string, string> = {}) {
    const send = async (more: Record<string, string> = {}) =>
      subject.gateway.fetch(
        new Request(ORIGIN + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers, ...more },
          body: JSON.stringify(body),
        }),
      )
    const first = await send()
    if (first.status !== 402) return first
    return await send({ 'payment-signature': encodePayment(alice.sign(await read(first))) })
  }
  return {
    ...subject,
    vendor,
    alice,
    post,
    ask: (body: unknown) => alice.ask(body, { path }),
    buy: (body: unknown) => alice.buy(body, { path }),
  }
}

describe('on a vendor that speaks messages', () => {
  test('an answer is passed on verbatim: its id, its own model, thinking blocks with their signatures (contract 7.2)', async () => {
    const { buy, chain } = gatewayOf()
    const { status, headers, body } = await buy(order())
    expect([status, body]).toEqual([200, ANSWER])
    expect(decodeHeader(headers.get('payment-response')).success).toBe(true)
    expect(chain.transfers.length).toBe(1)
  })

  test('a request is passed on verbatim, but for model and stream, which the vendor writes (contract 7.1)', async () => {
    const { buy, vendor } = gatewayOf()
    const input = {
      max_tokens: 4_000,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [
        user([
          { type: 'text', text: 'Look.' },
          {
            type: 'document',
            source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' },
            citations: { enabled: true },
          },
        ]),
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'So.', signature: 'c2ln' },
            { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} },
          ],
        },
        user([{ type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'a fox' }] }]),
      ],
      tools: [{ name: 'look', description: 'Looks.', input_schema: { type: 'object' } }],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
      thinking: { type: 'enabled', budget_tokens: 2_000 },
      stop_sequences: ['x'],
      temperature: 1,
      top_k: 5,
      metadata: { user_id: 'u-1' },
      output_config: { effort: 'low' },
    }
    expect((await buy({ model: NATIVE, stream: false, ...input })).status).toBe(200)
    expect(vendor.orders[0]).toMatchObject({ format: 'messages', model: 'claude-haiku-4-5', stream: false })
    expect(vendor.orders[0]?.body).toEqual(input as never)
  })

  test('events are passed on as they come', async () => {
    const events = [
      'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"claude-haiku-4-5-20251001","usage":{"input_tokens":3}}}\n\n',
      'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}\n\n',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}\n\n',
      'event: ping\ndata: {"type":"ping"}\n\n',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}\n\n',
      'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}\n\n',
      'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ]
    const { post, vendor, chain } = gatewayOf(async () => streamAnswer(events))
    const response = await post(order({ stream: true }))
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
    const text = await response.text()
    expect(
      text
        .split('\n\n')
        .filter((event) => event !== '' && !event.startsWith(':'))
        .map((event) => `${event}\n\n`),
    ).toEqual(events)
    expect(vendor.orders[0]).toMatchObject({ format: 'messages', stream: true })
    expect(chain.transfers.length).toBe(1)
  })

  test('the headers of the format go on; keys do not, and are not looked at (contract 4.12, 7.6)', async () => {
    const { post, vendor } = gatewayOf()
    const headers = {
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'context-management-2025-06-27',
      'x-api-key': 'service',
      authorization: 'Bearer anything',
      'x-stainless-lang': 'js',
    }
    expect((await post(order({ context_management: { edits: [] } }), headers)).status).toBe(200)
    expect(vendor.orders[0]?.headers).toEqual({
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'context-management-2025-06-27',
    })
    expect(vendor.orders[0]?.body.context_management).toEqual({ edits: [] })
  })

  test('a key buys nothing: without a payment it is a 402 (contract 4.13, 7.6)', async () => {
    const { gateway } = gatewayOf()
    const headers = {
      'content-type': 'application/json',
      'x-api-key': 'sk-ant-anything',
      authorization: 'Bearer sk-ant-anything',
    }
    expect(
      (await gateway.fetch(new Request(ORIGIN + path, { method: 'POST', headers, body: JSON.stringify(order()) })))
        .status,
    ).toBe(402)
  })

  test('thinking without a budget gets one below max_tokens, as does one that the clamped max_tokens cannot hold; it is left out where there is no room (contract 6.14)', async () => {
    const { buy, vendor } = gatewayOf()
    const sent = async (more: Record<string, unknown>) => {
      expect((await buy(order(more))).status).toBe(200)
      return vendor.orders.at(-1)?.body.thinking
    }
    expect(await sent({ max_tokens: 8_000, thinking: { type: 'enabled' } })).toEqual({
      type: 'enabled',
      budget_tokens: 4_000,
    })
    expect(await sent({ max_tokens: 1_500, thinking: { type: 'enabled' } })).toEqual({
      type: 'enabled',
      budget_tokens: 1_024,
    })
    expect(await sent({ max_tokens: 1_024, thinking: { type: 'enabled' } })).toBeUndefined()
    expect(await sent({ max_tokens: 8_000, thinking: { type: 'enabled', budget_tokens: 3_000 } })).toEqual({
      type: 'enabled',
      budget_tokens: 3_000,
    })
    expect(await sent({ max_tokens: 128_000, thinking: { type: 'enabled', budget_tokens: 100_000 } })).toEqual({
      type: 'enabled',
      budget_tokens: 32_000,
    })
    expect(await sent({ thinking: { type: 'disabled' } })).toEqual({ type: 'disabled' })
    expect(await sent({ thinking: { type: 'adaptive' } })).toEqual({ type: 'adaptive' })
  })

  test('the newest models are spared what they reject: sampling, and forced tools', async () => {
    const { buy, vendor } = gatewayOf()
    const tools = [{ name: 'look', input_schema: { type: 'object' } }]
    for (const tool_choice of [{ type: 'any' }, { type: 'tool', name: 'look' }]) {
      expect(
        (await buy(order({ model: NEWEST, temperature: 0.5, top_p: 0.5, top_k: 5, tools, tool_choice }))).status,
      ).toBe(200)
      expect(vendor.orders.at(-1)?.body).toEqual({
        max_tokens: 1_000,
        messages: [user()],
        tools,
        tool_choice: { type: 'auto' },
      } as never)
    }
  })

  test('max_tokens is clamped to the ceiling, in the body and in the headers', async () => {
    const { buy, vendor } = gatewayOf()
    const { headers } = await buy(order({ max_tokens: 1_000_000 }))
    expect([
      vendor.orders[0]?.body.max_tokens,
      headers.get('x-max-tokens-requested'),
      headers.get('x-max-tokens-effective'),
    ]).toEqual([64_000, '1000000', '64000'])
  })

  test('both service tiers of the format are accepted: neither costs more', async () => {
    for (const service_tier of ['auto', 'standard_only']) {
      const { buy, vendor } = gatewayOf()
      expect((await buy(order({ service_tier }))).status).toBe(200)
      expect(vendor.orders[0]?.body.service_tier).toBe(service_tier)
    }
  })
})

describe('on any other vendor', () => {
  test('a request goes out as chat, and its answer comes back as a message (contract 7.3, 7.4)', async () => {
    const toolCalls = [{ id: 'call_1', name: 'look', arguments: { at: 'fox' } }]
    const { buy, vendor } = gatewayOf(
      async () =>
        wholeAnswer({
          reasoning: 'Let me look.',
          toolCalls,
          usage: {
            prompt_tokens: 10,
            completion_tokens: 2,
            total_tokens: 12,
            prompt_tokens_details: { cached_tokens: 4 },
          },
        }),
      { format: 'chat' },
    )
    const { status, body } = await buy(
      order({
        model: OTHER,
        system: 'Be brief.',
        tools: [{ name: 'look', input_schema: { type: 'object' } }],
        tool_choice: { type: 'any' },
      }),
    )
    expect(status).toBe(200)
    expect(vendor.orders[0]).toMatchObject({
      format: 'chat',
      body: {
        max_tokens: 1_000,
        messages: [{ role: 'system', content: 'Be brief.' }, user()],
        tools: [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }],
        tool_choice: 'required',
      },
    })
    expect(body).toMatchObject({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      type: 'message',
      role: 'assistant',
      model: OTHER,
      content: [
        { type: 'thinking', thinking: 'Let me look.' },
        { type: 'tool_use', id: 'call_1', name: 'look', input: { at: 'fox' } },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 6, output_tokens: 2, cache_read_input_tokens: 4 },
    })
  })

  test('reasons to stop are told in the words of the format (contract 7.4)', async () => {
    for (const [finish, stop_reason] of [
      ['stop', 'end_turn'],
      ['length', 'max_tokens'],
      ['content_filter', 'end_turn'],
    ] as const) {
      const { buy } = gatewayOf(async () => wholeAnswer({ finish }), { format: 'chat' })
      expect([finish, (await buy(order({ model: OTHER }))).body.stop_reason]).toEqual([finish, stop_reason])
    }
  })

  test('a stream comes back as the events of the format, closed by message_stop (contract 7.5)', async () => {
    const { post } = gatewayOf(undefined as never, { chatVendor: scriptedChat(), format: 'chat' })
    const text = await (await post(order({ model: OTHER, stream: true }))).text()
    const names = text
      .split('\n\n')
      .filter((event) => event.startsWith('event:'))
      .map((event) => event.slice(7, event.indexOf('\n')))
    expect(names).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ])
  })

  test('the quote is that of chat for the same conversation (contract 7.1)', async () => {
    const { ask, alice } = gatewayOf()
    const messages = await ask(order({ model: OTHER, system: 'Be very brief.' }))
    const chat = await alice.ask(
      { model: OTHER, max_tokens: 1_000, messages: [{ role: 'system', content: 'Be very brief.' }, user()] },
      { path: '/api/v1/chat/completions' },
    )
    expect(messages.body.accepts[0].amount).toBe(chat.body.accepts[0].amount)
  })
})

describe('a refusal', () => {
  const REFUSED: readonly [string, Record<string, unknown>][] = [
    ['no max_tokens', { max_tokens: undefined }],
    ['max_tokens of 0', { max_tokens: 0 }],
    ['no messages', { messages: [] }],
    ['a message of nobody', { messages: [{ role: 'tool', content: 'x' }] }],
    ['a temperature above 1', { temperature: 1.5 }],
    ['an unknown model', { model: 'vendor-z/chat-1' }],
    ['context_management without the beta header', { context_management: { edits: [] } }],
    ['a tool that the vendor runs and charges for', { tools: [{ type: 'code_execution_20250825', name: 'run' }] }],
    [
      'a search of the vendor that is chosen',
      { tools: [SEARCH_TOOL], tool_choice: { type: 'tool', name: 'web_search' } },
    ],
    ['a search of the vendor that is demanded', { tools: [SEARCH_TOOL], tool_choice: { type: 'any' } }],
    [
      'a tool of a kind that nobody here knows',
      { tools: [{ name: 'ok' }, { type: 'mcp_toolset', mcp_server_name: 'x' }] },
    ],
    ["a tool that looks like one of the caller's", { tools: [{ type: 'memory_tool_search_2', name: 'x' }] }],
    ['a tool that is null', { tools: [null] }],
    ['the fast mode, which costs more', { speed: 'fast' }],
    ['another place to compute in', { inference_geo: 'us' }],
    ['servers of tools', { mcp_servers: [{ type: 'url', url: 'https://example.com', name: 'x' }] }],
    ['an answer form under its old name', { output_format: { type: 'json_schema', schema: {} } }],
    ['an upload into a container', { messages: [user([{ type: 'container_upload', file_id: 'f' }])] }],
    ['a file by its id', { messages: [user([{ type: 'document', source: { type: 'file', file_id: 'f' } }])] }],
    [
      'a file by its id, three levels down',
      {
        messages: [
          user([
            {
              type: 'tool_result',
              tool_use_id: 'a',
              content: [
                {
                  type: 'document',
                  source: { type: 'content', content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }] },
                },
              ],
            },
          ]),
        ],
      },
    ],
    [
      'a document by its address',
      { messages: [user([{ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } }])] },
    ],
    [
      'a document by its address in the result of a tool',
      {
        messages: [
          user([
            {
              type: 'tool_result',
              tool_use_id: 'a',
              content: [{ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } }],
            },
          ]),
        ],
      },
    ],
    ['a block that is null', { messages: [user([null])] }],
    [
      'a block that is null in the result of a tool',
      { messages: [user([{ type: 'tool_result', tool_use_id: 'a', content: [null] }])] },
    ],
    [
      'blocks without an end',
      {
        messages: [
          user(
            Array.from({ length: 20 }).reduce(
              (inner: unknown) => [{ type: 'tool_result', tool_use_id: 'a', content: inner }],
              [{ type: 'text', text: 'x' }],
            ),
          ),
        ],
      },
    ],
    ['10,001 messages', { messages: Array.from({ length: 10_001 }, () => user('x')) }],
    ['2,001 blocks', { messages: [user(Array.from({ length: 2_001 }, () => ({ type: 'text', text: 'x' })))] }],
    ['two answers', { n: 2 }],
    [
      'an image that is none',
      { messages: [user([{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGVsbG8=' } }])] },
    ],
  ]
  for (const [name, more] of REFUSED) {
    test(`${name}: 400 in the vendor's envelope, without a code, before any 402 (contract 7.7, 7.9)`, async () => {
      for (const model of [NATIVE, OTHER]) {
        const { ask, vendor } = gatewayOf()
        const { status, body } = await ask(order({ model, ...more }))
        expect([status, body, vendor.orders.length]).toEqual([
          400,
          { type: 'error', error: { type: 'invalid_request_error', message: expect.any(String) } },
          0,
        ])
      }
    })
  }

  test("an argument of a tool may say what it likes, and the caller's own tools are taken, with pictures by address", async () => {
    const input = { source: { type: 'file', file_id: 'f' }, content: [null] }
    const messages = [
      user([{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }]),
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'look', input }] },
      user([{ type: 'tool_result', tool_use_id: 'a', content: 'x' }]),
    ]
    const tools = [
      { name: 'look' },
      { type: 'custom', name: 'x' },
      ...['bash_20250124', 'text_editor_20250728', 'computer_20250124', 'memory_20250818'].map((type) => ({
        type,
        name: 'y',
      })),
    ]
    expect((await gatewayOf().ask(order({ messages, tools, speed: 'standard' }))).status).toBe(402)
  })

  test('a number of answers that is none is refused: the quote depends on it', async () => {
    for (const n of [0, -3, 0.5, 9, '2', 1e9]) {
      const { status, body } = await gatewayOf().ask(order({ model: OTHER, n }))
      expect([n, status, body.type]).toEqual([n, 400, 'error'])
    }
  })

  test('malformed parameters of chat are 400 or ignored, never a failure of ours', async () => {
    for (const more of [
      { search_parameters: null },
      { search_parameters: 'on' },
      { reasoning_effort: 7 },
      { max_completion_tokens: -5 },
      { response_format: null },
      { tools: [] },
    ]) {
      const { status } = await gatewayOf().ask(order({ model: OTHER, ...more }))
      expect([JSON.stringify(more), [400, 402].includes(status)]).toEqual([JSON.stringify(more), true])
    }
  })

  test('a 402 is in the envelope too, carries the whole challenge, and no code (contract 3.20, 7.9)', async () => {
    const { ask } = gatewayOf()
    const { status, headers, body } = await ask(order())
    expect(status).toBe(402)
    expect(body).toMatchObject({
      type: 'error',
      error: { type: 'payment_required', message: expect.stringContaining('Payment Required') },
      x402Version: 2,
      accepts: [{ amount: body.accepts[0].amount }],
      price: { currency: 'USD' },
    })
    expect([body.code, body.error.code]).toEqual([undefined, undefined])
    for (const header of ['payment-required', 'x-payment-required'])
      expect(decodeHeader(headers.get(header))).toMatchObject({
        x402Version: 2,
        accepts: body.accepts,
        error: expect.any(String),
      })
    expect(x402Scheme(headers)).toStartWith('X402 requirements=')
  })

  test('a rejected payment says "Payment verification failed", without a code (contract 7.9)', async () => {
    const { alice, ask, chain } = gatewayOf()
    const payment = alice.sign(await ask(order()), { from: chain.wallet('poor') })
    const { status, headers, body } = await alice.buy(order(), { path, payment })
    expect([status, body.code, body.type]).toEqual([402, undefined, 'error'])
    expect(body.error.message).toStartWith('Payment verification failed: ')
    expect(headers.has('payment-required')).toBe(true)
  })

  const API_ERRORS: readonly [ApiError, number, string][] = [
    [rateLimited('vendor-g', 9), 429, 'rate_limit_error'],
    [new ApiError('MODEL_UNAVAILABLE', { message: 'away' }), 503, 'overloaded_error'],
    [new ApiError('CONTENT_POLICY', { message: 'unsafe' }), 400, 'invalid_request_error'],
    [new ApiError('UPSTREAM_TIMEOUT', { message: 'slow' }), 504, 'timeout_error'],
  ]
  for (const [apiError, status, type] of API_ERRORS) {
    test(`${apiError.code} of the vendor is ${status} ${type}, uncharged; the same signed request then succeeds`, async () => {
      const { alice, ask, chain } = gatewayOf(async (_, { attempt }) =>
        attempt === 1 ? Promise.reject(apiError) : { kind: 'whole', body: ANSWER },
      )
      const payment = alice.sign(await ask(order()))
      const failed = await alice.buy(order(), { path, payment })
      expect([failed.status, failed.body]).toEqual([
        status,
        { type: 'error', error: { type, message: expect.any(String) } },
      ])
      if (status === 429)
        expect([failed.headers.get('retry-after'), failed.headers.get('x-ratelimit-source')]).toEqual(['9', 'vendor-g'])
      expect((await alice.buy(order(), { path, payment })).body).toEqual(ANSWER)
      expect(chain.transfers.length).toBe(1)
    })
  }
})

test('sealed thoughts are part of the quote', async () => {
  const { ask } = gatewayOf()
  const amount = async (length: number) => {
    const messages = [
      user('x'),
      {
        role: 'assistant',
        content: [
          { type: 'redacted_thinking', data: 'A'.repeat(length) },
          { type: 'text', text: 'x' },
        ],
      },
      user('x'),
    ]
    return Number((await ask(order({ model: NEWEST, messages }))).body.accepts[0].amount)
  }
  expect((await amount(400_000)) - (await amount(4))).toBeGreaterThan(100_000)
})

test('both spellings of the makers are known, with the maker and without (contract 7.8)', async () => {
  for (const model of ['claude-sonnet-4-6', 'anthropic/claude-sonnet-4.6', 'claude-sonnet-4.6'])
    expect([model, (await gatewayOf().ask(order({ model }))).status]).toEqual([model, 402])
})
