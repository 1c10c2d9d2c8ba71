import { describe, expect, test } from 'bun:test'
import { anthropicMessages } from '../../../../adapters/providers/anthropic/messages.ts'
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
import { chatBench, chatSuite } from '../lib/chat_suite.ts'
import { ERROR_FORMATS, eventsOf, inPieces, lawful } from '../lib/chat_stand_in.ts'
import { calm, KEY, PNG, type Seen, until } from '../lib/provider_kit.ts'

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

const { vendorOn, streaming, sent } = chatBench({ create: anthropicMessages, reply: message() })

chatSuite('anthropicMessages', {
  create: anthropicMessages,
  own: OWN,
  formats: ['messages', 'chat', 'responses'],
  reply: message([{ type: 'thinking', thinking: 'hm', signature: 'sig' }, { type: 'unheard_of' }]),
  stream: ANSWER,
  deltas: [
    { role: 'assistant', content: '' },
    { reasoning_content: 'hm' },
    { reasoning_signature: 'sig' },
    { content: 'hé' },
    { tool_calls: [{ index: 0, id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '1}' } }] },
    {},
  ],
  last: { model: 'model-x', usage: { prompt_tokens: 13, completion_tokens: 5, total_tokens: 18 } },
  unreadable: [
    ['no content', () => Response.json({ id: 'msg_1', type: 'message' })],
    ['null', () => Response.json(null)],
    ['a page', () => new Response('<html>', { headers: { 'content-type': 'text/html' } })],
  ],
  early: {
    events: eventsOf({ type: 'ping' }, OVERLOADED),
    why: 'anthropic-messages answered 529 (overloaded_error)',
  },
  late: eventsOf(START, ...TEXT, OVERLOADED, { type: 'message_stop' }),
  refusals: {
    vectors: 'chat/messages_refusals',
    request: { stop: ['x'], reasoning_effort: 'low', tools: [{ type: 'function', function: { name: 'f' } }] },
    headers: { 'retry-after': '17' },
  },
})

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
})

describe('replies of anthropicMessages()', () => {
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
})

describe('a stream of anthropicMessages() in chat that fails', () => {
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
