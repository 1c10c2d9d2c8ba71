import { describe, expect, test } from 'bun:test'
import { anthropicMessages } from '../../../../adapters/providers/anthropic/messages.ts'
import type { ChatVendorConfig } from '../../../../adapters/providers/lib/chat/provider.ts'
import { PIXEL } from '../../../fakes/images.ts'
import type { ChatOrder, Fields } from '../../../../core/mod.ts'
import { testClock } from '../../../kit.ts'
import { chatVendorLaws } from '../../../conformance/chat_vendors.ts'
import { runLaws } from '../../../conformance/law.ts'
import { againstAimock } from '../lib/aimock_kit.ts'
import {
  chatSetup,
  drain,
  EVENT_HEAD,
  eventsIn,
  apiErrorOf,
  HELLO,
  httpChunk,
  ordered,
  rawUpstream,
  reading,
  sse,
  STREAMED,
  streamOf,
  wholeOf,
} from '../lib/chat_kit.ts'
import { ERROR_FORMATS, eventsOf, inPieces, lawful } from '../lib/chat_stand_in.ts'
import { calm, KEY, PNG, errorText, type Seen, standIn, until } from '../lib/provider_kit.ts'

runLaws(
  'anthropicMessages()',
  chatVendorLaws,
  lawful(anthropicMessages, () => ERROR_FORMATS.messages),
)

const message = (content: Fields[] = [{ type: 'text', text: 'hi' }], more: Fields = {}): Fields => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'model-x',
  content,
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 9, output_tokens: 3 },
  ...more,
})

const START = {
  type: 'message_start',
  message: message([], { stop_reason: null, usage: { input_tokens: 9, cache_read_input_tokens: 4, output_tokens: 1 } }),
}
const block = (index: number, start: Fields, ...deltas: readonly Fields[]): Fields[] => [
  { type: 'content_block_start', index, content_block: start },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
]
const TEXT = block(1, { type: 'text', text: '' }, { type: 'text_delta', text: 'hé' })
const STOPPED = { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } }
const ANSWER = eventsOf(
  START,
  { type: 'ping' },
  ...block(
    0,
    { type: 'thinking', thinking: '', signature: '' },
    { type: 'thinking_delta', thinking: 'hm' },
    { type: 'signature_delta', signature: 'sig' },
  ),
  ...TEXT,
  ...block(
    2,
    { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} },
    { type: 'input_json_delta', partial_json: '{"a":' },
    { type: 'input_json_delta', partial_json: '1}' },
  ),
  STOPPED,
  { type: 'message_stop' },
)
const OVERLOADED = { type: 'error', error: { type: 'overloaded_error', message: `Overloaded, ${KEY}` } }

function vendorOn(answer: Parameters<typeof standIn>[0], more: Partial<ChatVendorConfig> = {}) {
  const server = standIn(answer)
  const { config, ...rest } = chatSetup(server.url, more)
  return { server, config, ...rest, vendor: anthropicMessages(config) }
}

/** A stream that the adapter gets from `fetch` itself, cut as the test likes it. */
const streaming = (response: () => Response, more: Partial<ChatVendorConfig> = {}) => {
  const { config, ...rest } = chatSetup('https://api.example.com', { fetch: async () => response(), ...more })
  return { ...rest, vendor: anthropicMessages(config) }
}

const OWN: ChatOrder = {
  format: 'messages',
  model: 'model-x',
  body: {
    max_tokens: 64,
    system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }],
    messages: [{ role: 'user', content: 'hello' }],
    unheard_of: [null],
  },
  stream: false,
  headers: {},
}

async function sent(order: ChatOrder, more: Partial<ChatVendorConfig> = {}): Promise<Seen> {
  const { server, vendor } = vendorOn(() => Response.json(message()), more)
  await vendor.ask(order, calm())
  return server.seen[0] as Seen
}

describe('requests of anthropicMessages()', () => {
  test('an order in its own format as it came, with the upstream id of the model, and the key', async () => {
    const { method, path, headers, json } = await sent(OWN)
    expect([method, path, headers.get('x-api-key'), headers.has('authorization')]).toEqual([
      'POST',
      '/v1/messages',
      KEY,
      false,
    ])
    expect(json).toEqual({ model: 'model-x', ...OWN.body, stream: false })
  })

  test("the caller's version and beta flags with his own body, beside the operator's flags; else 2023-06-01", async () => {
    const theirs = { ...OWN, headers: { 'anthropic-version': '2026-10-21', 'anthropic-beta': 'a-1' } }
    const versionOf = ({ headers }: Seen) => [headers.get('anthropic-version'), headers.get('anthropic-beta')]
    expect(versionOf(await sent(OWN))).toEqual(['2023-06-01', null])
    expect(versionOf(await sent(theirs))).toEqual(['2026-10-21', 'a-1'])
    expect(
      versionOf(await sent(theirs, { headers: { 'anthropic-beta': 'b-1', 'anthropic-version': '2026-01-01' } })),
    ).toEqual(['2026-10-21', 'b-1,a-1'])
    expect(versionOf(await sent({ ...HELLO, headers: theirs.headers }))).toEqual(['2023-06-01', 'a-1'])
  })

  test('an order in chat as messages: system, images, tools, results, effort and signed thoughts', async () => {
    const body = {
      messages: [
        { role: 'system', content: 'be brief' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'see' },
            { type: 'image_url', image_url: { url: PIXEL } },
          ],
        },
        {
          role: 'assistant',
          content: '',
          reasoning_content: 'hm',
          reasoning_signature: 'sig',
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'ok' },
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }],
      tool_choice: 'required',
      reasoning_effort: 'high',
      seed: 7,
    }
    expect((await sent(ordered(body, STREAMED))).json.stream).toBe(true)
    expect((await sent(ordered(body))).json).toEqual({
      model: 'model-x',
      max_tokens: 64,
      system: 'be brief',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'see' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: 'sig' },
            { type: 'tool_use', id: 'c1', name: 'f', input: { a: 1 } },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'ok' }] },
      ],
      tools: [{ name: 'f', input_schema: { type: 'object', properties: {} } }],
      tool_choice: { type: 'any' },
      output_config: { effort: 'high' },
      stream: false,
    })
  })

  test("the operator's parameters below the order, overrides above all", async () => {
    const more = { parameters: { service_tier: 'auto', max_tokens: 1 }, overrides: { temperature: null, top_k: 3 } }
    const { json } = await sent(ordered({ temperature: 0.5 }), more)
    expect(json).toEqual({
      model: 'model-x',
      messages: [{ role: 'user', content: 'hello' }],
      max_tokens: 64,
      stream: false,
      service_tier: 'auto',
      top_k: 3,
    })
  })

  test('nothing for another format', async () => {
    const { vendor } = vendorOn(() => Response.json(message()))
    await expect(vendor.ask({ ...HELLO, format: 'responses' }, calm())).rejects.toThrow(
      'supports the formats messages and chat, not responses',
    )
  })
})

describe('replies of anthropicMessages()', () => {
  test('its own format untouched, whole and streamed', async () => {
    const reply = message([{ type: 'thinking', thinking: 'hm', signature: 'sig' }, { type: 'unheard_of' }])
    expect(wholeOf(await vendorOn(() => Response.json(reply)).vendor.ask(OWN, calm()))).toEqual(reply)
    expect(
      await drain(streamOf(await streaming(() => inPieces(ANSWER, 7)).vendor.ask({ ...OWN, stream: true }, calm()))),
    ).toBe(ANSWER)
  })

  test('chat: text, thoughts, calls and usage, under the upstream id of the model', async () => {
    const content = [
      { type: 'thinking', thinking: 'hm', signature: 'sig' },
      { type: 'text', text: 'so' },
      { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } },
    ]
    const usage = { input_tokens: 9, cache_read_input_tokens: 4, cache_creation_input_tokens: 2, output_tokens: 3 }
    const { vendor, clock } = vendorOn(() => Response.json(message(content, { stop_reason: 'tool_use', usage })))
    expect(wholeOf(await vendor.ask(HELLO, calm()))).toEqual({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: Math.floor(clock.now() / 1000),
      model: 'model-x',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: '',
            reasoning_content: 'hm',
            reasoning_signature: 'sig',
            tool_calls: [{ id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
            content_before_tools: 'so',
          },
          finish_reason: 'tool_calls',
        },
      ],
      usage: {
        prompt_tokens: 15,
        completion_tokens: 3,
        total_tokens: 18,
        prompt_tokens_details: { cached_tokens: 4, cached_creation_tokens: 2 },
        cache_read_input_tokens: 4,
        cache_creation_input_tokens: 2,
      },
    })
  })

  test.each([1, 5, 100_000])('a stream in chat that came in pieces of %d bytes', async (size) => {
    const { vendor } = streaming(() => inPieces(ANSWER, size))
    const text = await drain(streamOf(await vendor.ask(STREAMED, calm())))
    const chunks = eventsIn(text)
    const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }: any) => delta))
    expect(deltas).toEqual([
      { role: 'assistant', content: '' },
      { reasoning_content: 'hm' },
      { reasoning_signature: 'sig' },
      { content: 'hé' },
      { tool_calls: [{ index: 0, id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '1}' } }] },
      {},
    ])
    expect(chunks.at(-2).choices[0].finish_reason).toBe('tool_calls')
    expect(chunks.at(-1)).toMatchObject({
      model: 'model-x',
      choices: [],
      usage: { prompt_tokens: 13, completion_tokens: 5, total_tokens: 18 },
    })
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  test('a whole message in place of a stream becomes events in chat; in its own format it is passed on', async () => {
    const { vendor, log } = vendorOn(() => Response.json(message()))
    const text = await drain(streamOf(await vendor.ask(STREAMED, calm())))
    expect(eventsIn(text).flatMap(({ choices }) => choices.map(({ delta }: any) => delta.content))).toEqual([
      'hi',
      undefined,
    ])
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(await reading(vendor.ask({ ...OWN, stream: true }, calm()), log)).toBe('MODEL_UNAVAILABLE')
  })

  test.each([
    ['no content', () => Response.json({ id: 'msg_1', type: 'message' })],
    ['null', () => Response.json(null)],
    ['a page', () => new Response('<html>', { headers: { 'content-type': 'text/html' } })],
  ])('%s is MODEL_UNAVAILABLE', async (_, answer) => {
    const { vendor, log } = vendorOn(answer)
    for (const order of [HELLO, STREAMED, OWN])
      expect(await reading(vendor.ask(order, calm()), log)).toBe('MODEL_UNAVAILABLE')
  })
})

describe('a stream of anthropicMessages() in chat that fails', () => {
  test.each([1, 100_000])('before its first chunk is a refusal, in pieces of %d bytes', async (size) => {
    const { vendor, log } = streaming(() => inPieces(eventsOf({ type: 'ping' }, OVERLOADED), size))
    expect(await reading(vendor.ask(STREAMED, calm()), log)).toBe('MODEL_UNAVAILABLE')
    expect(log.lines.map(({ fields }) => fields.why)).toEqual(['anthropic-messages answered 529 (overloaded_error)'])
  })

  test('later says so in our words, and ends without [DONE]', async () => {
    const { vendor } = streaming(() => inPieces(eventsOf(START, ...TEXT, OVERLOADED, { type: 'message_stop' })))
    const text = await drain(streamOf(await vendor.ask(STREAMED, calm())))
    expect(eventsIn(text).at(-1)).toEqual({
      error: {
        message: 'The model is temporarily unavailable. Nothing was charged.',
        type: 'upstream_error',
        param: null,
        code: 'MODEL_UNAVAILABLE',
      },
    })
    expect([text.includes('[DONE]'), text.includes(KEY)]).toEqual([false, false])
  })

  test.each([
    ['before it stopped', eventsOf(START, ...TEXT), true],
    ['without its very last event', eventsOf(START, ...TEXT, STOPPED), false],
  ])('by ending %s', async (_, events, isBroken) => {
    const { vendor } = streaming(() => inPieces(events, 50))
    const stream = streamOf(await vendor.ask(STREAMED, calm()))
    if (!isBroken) return expect((await drain(stream)).endsWith('data: [DONE]\n\n')).toBe(true)
    for (const read of [drain, () => stream.next()])
      expect((await apiErrorOf(read(stream))).code).toBe('MODEL_UNAVAILABLE')
  })

  test('by an event without an end', async () => {
    const { vendor } = streaming(() => inPieces(`${eventsOf(START)}data: ${'x'.repeat(5_000_000)}`, 1_000_000))
    expect((await apiErrorOf(drain(streamOf(await vendor.ask(STREAMED, calm()))))).code).toBe('MODEL_UNAVAILABLE')
  })

  test('by sending nothing', async () => {
    const { vendor, log } = streaming(() => sse(': hello\n\n'))
    expect(await reading(vendor.ask(STREAMED, calm()), log)).toBe('MODEL_UNAVAILABLE')
  })

  test('by never beginning is a timeout, with or without pings; the connection is closed', async () => {
    let isCancelled = false
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode(eventsOf({ type: 'ping' }))),
      cancel: () => void (isCancelled = true),
    })
    const clock = testClock()
    const { vendor, log } = streaming(() => new Response(body, { headers: { 'content-type': 'text/event-stream' } }), {
      clock,
    })
    const work = vendor.ask(STREAMED, calm())
    work.catch(() => {})
    await clock.advance(119_999)
    expect(log.lines).toEqual([])
    await clock.advance(1)
    expect(await reading(work, log)).toBe('UPSTREAM_TIMEOUT')
    expect([isCancelled, clock.waiting, log.lines.map(({ fields }) => fields.why)]).toEqual([
      true,
      0,
      ['anthropic-messages did not begin within 120000 ms'],
    ])
  })
})

test('an upstream that says nothing chat has a word for is known to be alive, and read only when asked', async () => {
  const { url, state } = await rawUpstream((socket) => socket.write(EVENT_HEAD + httpChunk(eventsOf(START))))
  const stream = streamOf(await anthropicMessages(chatSetup(url).config).ask(STREAMED, calm()))
  expect(new TextDecoder().decode(await stream.next())).toContain('"role":"assistant"')
  const next = stream.next()
  state.sockets[0]?.write(httpChunk(eventsOf({ type: 'ping' })))
  expect(new TextDecoder().decode(await next)).toBe(': working\n\n')
  const last = stream.next()
  stream.cancel()
  expect(await last).toBeUndefined()
  await until(() => state.closed === 1)
})

describe('a refusal of anthropicMessages()', () => {
  const SECRET = `key ${KEY} of org-9f8e7d`
  const e = (type: string, text = 'no') => ({
    type: 'error',
    error: { type, message: `${text} (${SECRET})` },
    request_id: 'req_1',
  })
  test.each([
    ['a wrong key', 401, e('authentication_error'), 'PROVIDER_CONFIG_ERROR !'],
    ['a key without rights', 403, e('permission_error'), 'PROVIDER_CONFIG_ERROR !'],
    ['an unpaid bill', 402, e('billing_error'), 'PROVIDER_CONFIG_ERROR !'],
    [
      'an empty account',
      400,
      e('invalid_request_error', 'Your credit balance is too low to access the Anthropic API'),
      'PROVIDER_CONFIG_ERROR !',
    ],
    ['a model that is gone', 404, e('not_found_error'), 'PROVIDER_CONFIG_ERROR !'],
    ['a rate limit', 429, e('rate_limit_error'), 'RATE_LIMITED 17'],
    ['too large a request', 413, e('request_too_large'), 'TOO_LARGE'],
    ['an internal error', 500, e('api_error'), 'MODEL_UNAVAILABLE'],
    ['a timeout behind it', 504, e('timeout_error'), 'UPSTREAM_TIMEOUT'],
    ['an overload', 529, e('overloaded_error'), 'MODEL_UNAVAILABLE'],
    [
      'the context',
      400,
      e('invalid_request_error', 'prompt is too long: 208310 tokens > 200000 maximum'),
      'CONTEXT_LENGTH_EXCEEDED messages',
    ],
    [
      'the context with the cap',
      400,
      e('invalid_request_error', 'input length and `max_tokens` exceed context limit: 198000 + 20000 > 200000'),
      'CONTEXT_LENGTH_EXCEEDED messages',
    ],
    [
      'the safety system',
      400,
      e('invalid_request_error', 'Output blocked by content filtering policy'),
      'CONTENT_POLICY',
    ],
    [
      'an image',
      400,
      e('invalid_request_error', 'messages.0.content.1.image.source.base64: image exceeds 5 MB maximum'),
      'INVALID_IMAGE',
    ],
    [
      'a block',
      400,
      e('invalid_request_error', 'messages.3.content.0: text content blocks must be non-empty'),
      'INVALID_PARAMETER messages',
    ],
    [
      'the cap',
      400,
      e('invalid_request_error', 'max_tokens: 200000 > 64000, which is the maximum allowed'),
      'INVALID_PARAMETER max_tokens',
    ],
    [
      'a stop',
      400,
      e('invalid_request_error', 'stop_sequences: each stop sequence must contain non-whitespace'),
      'INVALID_PARAMETER stop',
    ],
    [
      'an effort',
      400,
      e('invalid_request_error', 'output_config.effort: Input should be low'),
      'INVALID_PARAMETER reasoning_effort',
    ],
    [
      'a tool',
      400,
      e('invalid_request_error', 'tools.0.custom.input_schema: JSON schema is invalid'),
      'INVALID_PARAMETER tools.0',
    ],
  ])('%s', async (_, status, body, expected) => {
    const tools = [{ type: 'function', function: { name: 'f' } }]
    for (const order of [
      ordered({ stop: ['x'], reasoning_effort: 'low', tools }),
      ordered({ stop: ['x'], reasoning_effort: 'low', tools }, STREAMED),
    ]) {
      const { vendor, log } = vendorOn(() => Response.json(body, { status, headers: { 'retry-after': '17' } }))
      const work = vendor.ask(order, calm())
      expect(await reading(work, log)).toBe(expected)
      const words = await errorText(work, log)
      expect([words.includes(KEY), words.includes('org-9f8e7d')]).toEqual([false, false])
    }
  })

  test('of an order in its own format names the path as the caller wrote it', async () => {
    const { vendor, log } = vendorOn(() =>
      Response.json(e('invalid_request_error', 'messages.0.content: bad'), { status: 400 }),
    )
    expect(await reading(vendor.ask(OWN, calm()), log)).toBe('INVALID_PARAMETER messages.0.content')
  })

  test('under a 200 is a refusal all the same', async () => {
    const { vendor, log } = vendorOn(() => Response.json(e('rate_limit_error')))
    for (const order of [HELLO, OWN, STREAMED])
      expect(await reading(vendor.ask(order, calm()), log)).toBe('RATE_LIMITED 30')
  })
})

againstAimock('anthropicMessages', { create: anthropicMessages })
