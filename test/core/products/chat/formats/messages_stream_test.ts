/** Laws of streamed replies between the chat and the messages wire, and of any input at all. */
import { describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import fc from 'fast-check'
import OpenAI from 'openai'
import { ApiError } from '../../../../../core/http/errors.ts'
import { messagesFromChatStream } from '../../../../../core/products/chat/formats/messages/events.ts'
import { messagesFromChat } from '../../../../../core/products/chat/formats/messages/request_from_chat.ts'
import {
  chatFromMessagesReply,
  messagesFromChatReply,
} from '../../../../../core/products/chat/formats/messages/reply.ts'
import { chatFromMessages } from '../../../../../core/products/chat/formats/messages/request_to_chat.ts'
import { chatFromMessagesStream } from '../../../../../core/products/chat/formats/messages/stream.ts'
import { eventSplitter } from '../../../../../core/lib/event_splitter.ts'
import { parseEvent, sseJson, tryJson } from '../../../../../core/products/chat/formats/sse.ts'
import type { Fields } from '../../../../../core/lib/json.ts'
import type { StreamTranslator } from '../../../../../core/products/chat/formats/stream_translator.ts'
import { scaled } from '../../../../scope.ts'

const facts = { model: 'vendor-g/large', created: 1_700_000_000 }
const toChat = () => chatFromMessagesStream(facts)
const toMessages = () => messagesFromChatStream({ model: facts.model, id: 'msg_1' })
const DONE = 'data: [DONE]\n\n'

/** Output of a rewriter for a stream that comes in two chunks, or as single bytes. */
function rewrite(rewriter: StreamTranslator, stream: string, cut?: number | 'bytes'): string {
  const bytes = new TextEncoder().encode(stream)
  const chunks =
    cut === 'bytes'
      ? [...bytes].map((byte) => Uint8Array.of(byte))
      : [bytes.subarray(0, cut ?? 0), bytes.subarray(cut ?? 0)]
  const splitter = eventSplitter()
  const raw = [...chunks.flatMap((chunk) => splitter.push(chunk)), splitter.flush()]
  const events = raw.map(parseEvent).filter((event) => event !== undefined)
  return events.map((event) => rewriter.on(event)).join('') + rewriter.end()
}

/** The JSON bodies of a stream. */
const bodies = (stream: string): Fields[] =>
  stream
    .split('\n\n')
    .map((event) => tryJson(parseEvent(event)?.data ?? ''))
    .filter((body) => body !== undefined)
const deltas = (stream: string): Fields[] =>
  bodies(stream).flatMap(({ choices }) => (choices as Fields[]).map(({ delta }) => delta as Fields))
const kinds = (stream: string): string[] =>
  bodies(stream).map(({ type, index }) => (index === undefined ? `${type}` : `${type} ${index}`))

const event = (type: string, members: Fields = {}) => sseJson({ type, ...members }, type)
const start = (index: number, content_block: Fields) => event('content_block_start', { index, content_block })
const grow = (index: number, delta: Fields) => event('content_block_delta', { index, delta })
const stop = (index: number) => event('content_block_stop', { index })
const chunk = (delta: Fields, finish_reason: string | null = null) =>
  sseJson({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  })
const usageChunk = sseJson({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [],
  usage: { prompt_tokens: 20, completion_tokens: 9, total_tokens: 29, prompt_tokens_details: { cached_tokens: 5 } },
})

/** A message with thinking, text of several bytes a character, and two tools, one without arguments. */
const MESSAGE = [
  event('message_start', {
    message: {
      id: 'msg_7',
      type: 'message',
      role: 'assistant',
      model: 'up',
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 11, cache_read_input_tokens: 3, output_tokens: 1 },
    },
  }),
  event('ping'),
  start(0, { type: 'thinking', thinking: '', signature: '' }),
  grow(0, { type: 'thinking_delta', thinking: 'Denk ' }),
  grow(0, { type: 'thinking_delta', thinking: 'nach…' }),
  grow(0, { type: 'signature_delta', signature: 'c2ln' }),
  stop(0),
  start(1, { type: 'text', text: '' }),
  grow(1, { type: 'text_delta', text: 'Füch' }),
  grow(1, { type: 'text_delta', text: 'se 🦊' }),
  stop(1),
  start(2, { type: 'tool_use', id: 'toolu_a', name: 'look', input: {} }),
  grow(2, { type: 'input_json_delta', partial_json: '' }),
  grow(2, { type: 'input_json_delta', partial_json: '{"at":' }),
  grow(2, { type: 'input_json_delta', partial_json: '"ü"}' }),
  stop(2),
  start(3, { type: 'tool_use', id: 'toolu_b', name: 'now', input: {} }),
  stop(3),
  event('message_delta', {
    delta: { stop_reason: 'tool_use', stop_sequence: null },
    usage: { output_tokens: 25, input_tokens: null, cache_read_input_tokens: null },
  }),
  event('message_stop'),
].join('')

/** A completion with reasoning, text, two tools whose arguments come interleaved, and its usage after the finish. */
const COMPLETION = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ reasoning_content: 'Denk ' }),
  chunk({ reasoning_content: 'nach…' }),
  chunk({ content: 'Füchse 🦊' }),
  chunk({ tool_calls: [{ index: 0, id: 'call_a', type: 'function', function: { name: 'look', arguments: '' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '{"at":' } }] }),
  chunk({ tool_calls: [{ index: 1, id: 'call_b', type: 'function', function: { name: 'see', arguments: '{"by"' } }] }),
  chunk({
    tool_calls: [
      { index: 0, function: { arguments: '1}' } },
      { index: 1, function: { arguments: ':"ü"' } },
    ],
  }),
  chunk({ tool_calls: [{ index: 1, function: { arguments: '}' } }] }),
  chunk({}, 'tool_calls'),
  usageChunk,
  DONE,
].join('')

describe('chatFromMessagesStream()', () => {
  test('tells role, reasoning, its signature, text, tools, finish, usage and [DONE], in this order', () => {
    const rewritten = rewrite(toChat(), MESSAGE)
    expect(deltas(rewritten)).toEqual([
      { role: 'assistant', content: '' },
      { reasoning_content: 'Denk ' },
      { reasoning_content: 'nach…' },
      { reasoning_signature: 'c2ln' },
      { content: 'Füch' },
      { content: 'se 🦊' },
      { tool_calls: [{ index: 0, id: 'toolu_a', type: 'function', function: { name: 'look', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"at":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"ü"}' } }] },
      { tool_calls: [{ index: 1, id: 'toolu_b', type: 'function', function: { name: 'now', arguments: '' } }] },
      { tool_calls: [{ index: 1, function: { arguments: '{}' } }] },
      {},
    ])
    const all = bodies(rewritten)
    expect(all.at(-2)?.choices).toEqual([{ index: 0, delta: {}, finish_reason: 'tool_calls' }])
    const usage = {
      prompt_tokens: 14,
      completion_tokens: 25,
      total_tokens: 39,
      prompt_tokens_details: { cached_tokens: 3 },
      cache_read_input_tokens: 3,
    }
    expect(all.at(-1)).toEqual({ id: 'chatcmpl-7', object: 'chat.completion.chunk', ...facts, choices: [], usage })
    expect(new Set(all.map(({ id }) => id))).toEqual(new Set(['chatcmpl-7']))
    expect(rewritten).toEndWith(`\n\n${DONE}`)
  })

  test('says the same wherever the bytes break', () => {
    const whole = rewrite(toChat(), MESSAGE)
    const { length } = new TextEncoder().encode(MESSAGE)
    for (let cut = 1; cut < length; cut++)
      if (rewrite(toChat(), MESSAGE, cut) !== whole) throw new Error(`not the same when cut at ${cut}`)
    expect(rewrite(toChat(), MESSAGE, 'bytes')).toBe(whole)
    expect(rewrite(toChat(), MESSAGE.replaceAll('\n', '\r\n'), 'bytes')).toBe(whole)
  })

  test('keeps several and redacted thinking blocks whole for the way back', () => {
    const thought = (index: number, thinking: string) =>
      start(index, { type: 'thinking', thinking: '', signature: '' }) +
      grow(index, { type: 'thinking_delta', thinking }) +
      grow(index, { type: 'signature_delta', signature: `s${index}` }) +
      stop(index)
    const stream = `${thought(0, 'a')}${start(1, { type: 'redacted_thinking', data: 'zz' })}${stop(1)}${thought(2, 'b')}${event('message_delta', { delta: { stop_reason: 'end_turn' } })}`
    const rewritten = deltas(rewrite(toChat(), stream))
    expect(rewritten.map(({ reasoning_content }) => reasoning_content ?? '').join('')).toBe('a\n\nb')
    expect(rewritten.at(-1)).toEqual({
      reasoning_blocks: [
        { type: 'thinking', thinking: 'a', signature: 's0' },
        { type: 'redacted_thinking', data: 'zz' },
        { type: 'thinking', thinking: 'b', signature: 's2' },
      ],
    })
  })

  test('makes up no finish for a stream that broke off, and ends once', () => {
    const rewriter = toChat()
    const rewritten = rewrite(rewriter, MESSAGE.slice(0, MESSAGE.indexOf('event: message_delta')))
    expect(rewritten).not.toContain('"finish_reason":"')
    expect(rewritten).toEndWith(DONE)
    expect(rewriter.end()).toBe('')
  })

  test("is read by the vendor-a SDK's stream helper", async () => {
    const reply = await withServer(rewrite(toChat(), MESSAGE), async (origin) => {
      const client = new OpenAI({ baseURL: origin, apiKey: 'x', maxRetries: 0 })
      return await client.chat.completions
        .stream({ model: 'm', messages: [{ role: 'user', content: 'q' }] })
        .finalChatCompletion()
    })
    const [choice] = reply.choices
    expect(choice?.finish_reason).toBe('tool_calls')
    expect(choice?.message.content).toBe('Füchse 🦊')
    expect(
      choice?.message.tool_calls?.map(
        (call) => call.type === 'function' && [call.id, call.function.name, call.function.arguments],
      ),
    ).toEqual([
      ['toolu_a', 'look', '{"at":"ü"}'],
      ['toolu_b', 'now', '{}'],
    ])
    expect(reply.usage?.total_tokens).toBe(39)
  })
})

describe('messagesFromChatStream()', () => {
  test('tells blocks one after another, though calls come interleaved, and waits for the usage', () => {
    const rewritten = rewrite(toMessages(), COMPLETION)
    expect(kinds(rewritten)).toEqual([
      'message_start',
      'content_block_start 0',
      'content_block_delta 0',
      'content_block_delta 0',
      'content_block_stop 0',
      'content_block_start 1',
      'content_block_delta 1',
      'content_block_stop 1',
      'content_block_start 2',
      'content_block_delta 2',
      'content_block_delta 2',
      'content_block_stop 2',
      'content_block_start 3',
      'content_block_delta 3',
      'content_block_delta 3',
      'content_block_stop 3',
      'message_delta',
      'message_stop',
    ])
    expect(bodies(rewritten).at(-2)).toEqual({
      type: 'message_delta',
      delta: { stop_reason: 'tool_use', stop_sequence: null },
      usage: { input_tokens: 15, output_tokens: 9, cache_read_input_tokens: 5 },
    })
    for (const text of rewritten.trimEnd().split('\n\n'))
      expect(parseEvent(text)?.event).toBe(String(tryJson(parseEvent(text)?.data ?? '')?.type))
  })

  test('says the same wherever the bytes break', () => {
    const whole = rewrite(toMessages(), COMPLETION)
    const { length } = new TextEncoder().encode(COMPLETION)
    for (let cut = 1; cut < length; cut++)
      if (rewrite(toMessages(), COMPLETION, cut) !== whole) throw new Error(`not the same when cut at ${cut}`)
    expect(rewrite(toMessages(), COMPLETION, 'bytes')).toBe(whole)
  })

  test('closes at [DONE] where no usage comes, and at the end where nothing does', () => {
    const parts = [chunk({ content: 'a' }), chunk({}, 'length')]
    const rewriter = toMessages()
    expect(parts.map((part) => rewriter.on(parseEvent(part)!)).join('')).not.toContain('message_delta')
    expect(kinds(rewriter.on({ data: '[DONE]' }))).toEqual(['content_block_stop 0', 'message_delta', 'message_stop'])
    expect(rewriter.end()).toBe('')
    expect(rewrite(toMessages(), parts.join(''))).toContain('"stop_reason":"max_tokens"')
    expect(rewrite(toMessages(), parts[0] ?? '')).toContain('"stop_reason":null')
    expect(kinds(rewrite(toMessages(), ''))).toEqual(['message_start', 'message_delta', 'message_stop'])
  })

  test('tells calls apart that their vendor numbers alike, or not at all, or gives no id', () => {
    const call = (id: string, more: Fields = {}) => ({
      ...(id && { id }),
      ...more,
      function: { name: `f${id}`, arguments: '{"a":1}' },
    })
    const blocks = (calls: Fields[]) =>
      bodies(rewrite(toMessages(), calls.map((entry) => chunk({ tool_calls: [entry] })).join('') + DONE)).flatMap(
        ({ content_block }) => (content_block ? [content_block as Fields] : []),
      )
    for (const more of [{ index: 0 }, {}])
      expect(blocks([call('x', more), call('y', more)]).map(({ id, name }) => [id, name])).toEqual([
        ['x', 'fx'],
        ['y', 'fy'],
      ])
    expect(blocks([call('', { index: 0 }), call('', { index: 1 })]).map(({ id }) => id)).toEqual([
      'toolu_1_0',
      'toolu_1_1',
    ])
  })

  test('loses nothing of calls that never become JSON, or of text that follows them', () => {
    const broken = [
      chunk({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{"x":' } }] }),
      chunk({ content: 'after' }),
      chunk({ tool_calls: [{ index: 1, id: 'b', function: { name: 'g', arguments: '' } }] }),
    ]
    const rewritten = bodies(rewrite(toMessages(), broken.join('') + DONE)).flatMap(({ index, delta }) =>
      index === undefined ? [] : [[index, delta ?? null]],
    )
    expect(rewritten.filter(([, delta]) => delta !== null)).toEqual([
      [0, { type: 'input_json_delta', partial_json: '{"x":' }],
      [1, { type: 'text_delta', text: 'after' }],
    ])
  })

  test("is read by the vendor-g SDK's stream helper", async () => {
    const message = await withServer(rewrite(toMessages(), COMPLETION), async (origin) => {
      const client = new Anthropic({ baseURL: origin, apiKey: 'x', maxRetries: 0 })
      return await client.messages
        .stream({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'q' }] })
        .finalMessage()
    })
    expect(message).toMatchObject({
      id: 'msg_1',
      model: facts.model,
      role: 'assistant',
      stop_reason: 'tool_use',
      usage: { input_tokens: 15, output_tokens: 9, cache_read_input_tokens: 5 },
    })
    expect(JSON.parse(JSON.stringify(message.content))).toMatchObject([
      { type: 'thinking', thinking: 'Denk nach…', signature: '' },
      { type: 'text', text: 'Füchse 🦊' },
      { type: 'tool_use', id: 'call_a', name: 'look', input: { at: 1 } },
      { type: 'tool_use', id: 'call_b', name: 'see', input: { by: 'ü' } },
    ])
  })

  test('a streamed message goes through chat and comes back with the same blocks', async () => {
    const read = async (stream: string) =>
      await withServer(stream, async (origin) => {
        const client = new Anthropic({ baseURL: origin, apiKey: 'x', maxRetries: 0 })
        const { content, stop_reason, usage } = await client.messages
          .stream({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'q' }] })
          .finalMessage()
        return JSON.parse(JSON.stringify({ content, stop_reason, usage }))
      })
    expect(await read(rewrite(toMessages(), rewrite(toChat(), MESSAGE)))).toEqual(await read(MESSAGE))
  })
})

test('translators skip error events', () => {
  const error = {
    event: 'error',
    data: '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
  }
  expect([toChat(), toMessages()].map((rewriter) => rewriter.on(error))).toEqual(['', ''])
})

/** Names of both wires, to be used in every wrong place. */
const NAMES = (
  'role content type text messages system tools tool_calls tool_call_id id index name function function_call arguments input source image_url url file file_data delta choices message ' +
  'usage content_block partial_json thinking signature error cache_control reasoning_content reasoning_blocks tool_choice output_config metadata stop prompt_cache data media_type is_error tool_use_id __proto__'
).split(' ')

const png = 'data:image/png;base64,aWltYWdl'

describe('any input', () => {
  const name = fc.constantFrom(...NAMES)
  const word = fc.constantFrom(
    'user',
    'assistant',
    'tool',
    'function',
    'text',
    'image',
    'image_url',
    'document',
    'tool_use',
    'tool_result',
    'thinking',
    'auto',
    'enabled',
    'base64',
    png,
    '',
    '[DONE]',
    'content',
    'file',
  )
  const event = fc.constantFrom(
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
    'input_json_delta',
    'signature_delta',
  )
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      word,
      event,
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      tie('object'),
      fc.array(tie('tree'), { maxLength: 3 }),
    ),
    object: fc.dictionary(name, tie('tree'), { maxKeys: 6, noNullPrototype: true }),
  }))
  const object = fc.dictionary(name, tree, { maxKeys: 8, noNullPrototype: true }) as fc.Arbitrary<Fields>
  const turns = fc.array(
    fc.record({
      role: fc.constantFrom('user', 'assistant', 'tool'),
      content: fc.array(object, { maxLength: 3 }),
      tool_call_id: fc.constant('x'),
    }),
    { maxLength: 3 },
  )
  const body = fc.oneof(
    object,
    fc.tuple(object, turns).map(([rest, messages]): Fields => ({ ...rest, messages }) as Fields),
    fc.object().map((value) => JSON.parse(JSON.stringify(value)) as Fields),
  )

  test('no body makes a request translation throw anything but a fault', () => {
    fc.assert(
      fc.property(body, (value) => {
        for (const call of [() => chatFromMessages(value), () => messagesFromChat(value, { maxTokens: 4_096 })]) {
          try {
            JSON.stringify(call())
          } catch (problem) {
            if (!(problem instanceof ApiError)) throw problem
          }
        }
      }),
      { numRuns: scaled(300, 1_500) },
    )
  })

  test('no reply and no event makes a translation of replies throw', () => {
    fc.assert(
      fc.property(fc.array(body, { maxLength: 4 }), (values) => {
        const rewriters = [chatFromMessagesStream(facts), messagesFromChatStream({ ...facts, id: 'x' })]
        for (const value of values) {
          chatFromMessagesReply(value, facts)
          messagesFromChatReply(value, facts)
          const rewritten = { data: JSON.stringify(value) }
          for (const rewriter of rewriters) rewriter.on(rewritten)
        }
        for (const rewriter of rewriters) rewriter.end()
      }),
      { numRuns: scaled(300, 1_500) },
    )
  })

  test('a tool input nested past what can be written is a fault', () => {
    const depth = 200_000
    const input = JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`)
    expect(() =>
      chatFromMessages({
        messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input }] }],
      }),
    ).toThrow(ApiError)
  })
})

/** Serves a stream on loopback while `use` reads it. */
async function withServer<T>(stream: string, use: (origin: string) => Promise<T>): Promise<T> {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => new Response(stream, { headers: { 'content-type': 'text/event-stream' } }),
  })
  try {
    return await use(`http://127.0.0.1:${server.port}`)
  } finally {
    await server.stop(true)
  }
}
