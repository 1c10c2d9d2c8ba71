import { afterAll, describe, expect, test } from 'bun:test'
import { createServer } from 'node:net'
import { LLMock } from '@copilotkit/aimock'
import type { Fields } from '../../../../core/mod.ts'
import { openaiChat, type OpenaiChatConfig } from '../../../../adapters/providers/openai/chat.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { testClock } from '../../../kit.ts'
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
import { calm, flood, KEY, type Seen, standIn, until } from '../lib/provider_kit.ts'

const completion = (message: Fields = { role: 'assistant', content: 'hi' }, more: Fields = {}): Fields => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'model-x',
  choices: [{ index: 0, message, finish_reason: 'stop' }],
  ...more,
})
const EVENT = `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'hé' }, finish_reason: null }] })}\n\n`
const DONE = 'data: [DONE]\n\n'

function chatOn(answer: Parameters<typeof standIn>[0], more: Partial<OpenaiChatConfig> = {}) {
  const server = standIn(answer)
  const { config, ...rest } = chatSetup(`${server.url}/v1`, more)
  return { server, config, ...rest, chat: openaiChat({ ...config, ...more }) }
}

const answering = (reply: Fields) => chatOn(() => Response.json(reply))

describe('requests of openaiChat()', () => {
  async function sent(order = HELLO, more: Partial<OpenaiChatConfig> = {}): Promise<Seen> {
    const { server, chat } = chatOn(() => Response.json(completion()), more)
    await chat.ask(order, calm())
    expect(server.seen).toHaveLength(1)
    return server.seen[0] as Seen
  }

  test('the body as it came, with the upstream id of the model, and the key', async () => {
    const body = {
      temperature: 0.5,
      seed: 7,
      n: 1,
      top_k: 5,
      logit_bias: { 50256: -100 },
      response_format: { type: 'json_object' },
      unheard_of: { a: [null, true] },
    }
    const { method, path, headers, json } = await sent(ordered(body))
    expect([method, path, headers.get('authorization'), headers.get('content-type'), headers.get('accept')]).toEqual([
      'POST',
      '/v1/chat/completions',
      `Bearer ${KEY}`,
      'application/json',
      'application/json',
    ])
    expect(json).toEqual({
      model: 'model-x',
      messages: [{ role: 'user', content: 'hello' }],
      max_tokens: 64,
      ...body,
      stream: false,
    })
  })

  test('nothing of the messages wire, whose model this one may stand in for', async () => {
    const { json } = await sent(
      ordered({ context_management: { edits: [] }, output_config: { task_budget: 1 }, speed: 'standard', seed: 7 }),
    )
    expect(json).toEqual({
      model: 'model-x',
      messages: [{ role: 'user', content: 'hello' }],
      max_tokens: 64,
      seed: 7,
      stream: false,
    })
  })

  test('for a stream, its own `stream_options`, and that it takes events uncompressed (contract 6.12)', async () => {
    const { headers, json } = await sent(ordered({ stream_options: { include_usage: false, mine: 1 } }, STREAMED))
    expect([headers.get('accept'), headers.get('accept-encoding')]).toEqual(['text/event-stream', 'identity'])
    expect(json).toMatchObject({ stream: true, stream_options: { include_usage: true } })
    expect(json.stream_options).toEqual({ include_usage: true })
    expect((await sent(ordered({ stream_options: { include_usage: true } }))).json).not.toHaveProperty('stream_options')
  })

  test('tools, image parts and echoed reasoning untouched', async () => {
    const body = {
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', default: null } } }],
      tool_choice: { type: 'function', function: { name: 'f' } },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'see' },
            { type: 'image_url', image_url: { url: PIXEL } },
          ],
        },
        {
          role: 'assistant',
          content: null,
          reasoning_content: 'hm',
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'ok' },
      ],
    }
    expect((await sent(ordered(body))).json).toMatchObject(body)
  })

  test('nothing that only the gateway understands (contract 6.15)', async () => {
    const message = { role: 'assistant', content: 'a', reasoning_content: 'hm' }
    const body = {
      prompt_cache: true,
      search_parameters: { mode: 'on' },
      messages: [
        { ...message, reasoning_signature: 'sig', reasoning_blocks: [] },
        ...(HELLO.body.messages as Fields[]),
      ],
    }
    const { json } = await sent(ordered(body))
    expect(json).toEqual({
      model: 'model-x',
      max_tokens: 64,
      stream: false,
      messages: [message, ...(HELLO.body.messages as Fields[])],
    })
  })

  test('the cap as the server spells it: api.openai.com and who is configured so take max_completion_tokens', async () => {
    expect((await sent(HELLO, { maxTokensField: 'max_completion_tokens' })).json).toMatchObject({
      max_completion_tokens: 64,
    })
    let body = ''
    const fetch: OpenaiChatConfig['fetch'] = async (_, init) => {
      body = String(init.body)
      return Response.json(completion())
    }
    await openaiChat(chatSetup('https://api.openai.com/v1/', { fetch }).config).ask(HELLO, calm())
    expect(JSON.parse(body)).toEqual({
      model: 'model-x',
      messages: HELLO.body.messages,
      max_completion_tokens: 64,
      stream: false,
    } as object)
    await openaiChat(chatSetup('https://api.openai.com.example.net/v1', { fetch }).config).ask(
      ordered({ max_completion_tokens: 9 }),
      calm(),
    )
    expect(JSON.parse(body)).toMatchObject({ max_tokens: 64 })
    expect(JSON.parse(body)).not.toHaveProperty('max_completion_tokens')
  })

  test('parameters by the family of the model, wherever it is served, unless the server is said to differ (contract 6.61)', async () => {
    const body = {
      thinking: { type: 'enabled' },
      reasoning_effort: 'low',
      messages: [{ role: 'assistant', content: 'a', reasoning_content: 'hm' }, ...(HELLO.body.messages as Fields[])],
    }
    const asks = async (family: string, style?: OpenaiChatConfig['style']) => {
      const { json } = await sent({ ...ordered(body), family }, { style })
      const cap = json.max_completion_tokens === 64 ? 'max_completion_tokens' : 'max_tokens'
      const [{ reasoning_content }] = json.messages as [{ reasoning_content?: string }]
      expect(json).toMatchObject({ [cap]: 64, reasoning_effort: 'low' })
      return [cap, 'thinking' in json, reasoning_content ?? '']
    }
    const asOpenai = ['max_completion_tokens', false, '']
    const asOthers = ['max_tokens', true, 'hm']
    expect(await asks('vendor-a')).toEqual(asOpenai)
    for (const family of ['vendor-c', 'vendor-d', 'vendor-h', 'vendor-open', 'local'])
      expect([family, await asks(family)]).toEqual([family, asOthers])
    expect([await asks('vendor-a', 'compatible'), await asks('vendor-d', 'openai')]).toEqual([asOthers, asOpenai])
  })

  test("the operator's parameters below the caller's, overrides above all, headers beside the key", async () => {
    const more = {
      parameters: { temperature: 1, service_tier: 'flex', model: 'mine', stream: true },
      overrides: { seed: null, top_p: 0.9 },
      headers: { 'openai-organization': 'org' },
    }
    const { json, headers } = await sent(ordered({ temperature: 0, seed: 1, top_p: 0.1 }), more)
    expect(json).toEqual({
      model: 'model-x',
      messages: HELLO.body.messages,
      max_tokens: 64,
      stream: false,
      temperature: 0,
      service_tier: 'flex',
      top_p: 0.9,
    })
    expect([headers.get('openai-organization'), headers.get('authorization')]).toEqual(['org', `Bearer ${KEY}`])
    expect((await sent(STREAMED, { overrides: { stream_options: null } })).json).not.toHaveProperty('stream_options')
  })

  test('without a key, no authorization', async () =>
    expect((await sent(HELLO, { key: undefined })).headers.has('authorization')).toBe(false))
})

describe('whole answers read by openaiChat()', () => {
  test('usage in the words of the contract, and the rest as it came', async () => {
    const usage = {
      prompt_tokens: 9,
      completion_tokens: 3,
      total_tokens: 12,
      prompt_tokens_details: { cached_tokens: 4, cache_write_tokens: 0 },
    }
    const { chat } = answering(
      completion({ role: 'assistant', content: 'hi', annotations: [] }, { usage, system_fingerprint: 'fp' }),
    )
    expect(wholeOf(await chat.ask(HELLO, calm()))).toEqual({
      ...completion({ role: 'assistant', content: 'hi', annotations: [] }),
      system_fingerprint: 'fp',
      usage: {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 4 },
        cache_read_input_tokens: 4,
      },
    })
  })

  test.each([
    ['as DeepSeek writes it', { reasoning_content: 'hm' }, { reasoning_content: 'hm' }],
    ['as vLLM writes it', { reasoning: 'hm', reasoning_content: null }, { reasoning_content: 'hm' }],
    ['not at all when there is none', { reasoning: '', reasoning_content: null }, {}],
  ])('reasoning %s', async (_, written, expected) => {
    const { chat } = answering(completion({ role: 'assistant', content: 'hi', ...written }))
    expect(wholeOf(await chat.ask(HELLO, calm())).choices[0].message).toEqual({
      role: 'assistant',
      content: 'hi',
      ...expected,
    })
  })

  test.each([
    ['no JSON', () => new Response('{"id": "chatcmpl', { headers: { 'content-type': 'application/json' } })],
    ['a page', () => new Response('<html>', { headers: { 'content-type': 'text/html' } })],
    ['no choices', () => Response.json({ id: 'x', choices: [] })],
    ['a choice without a message', () => Response.json({ choices: [{ index: 0, message: null }] })],
    ['null', () => Response.json(null)],
    ['a body over the limit', () => Response.json(completion({ role: 'assistant', content: 'x'.repeat(100_000) }))],
  ])('%s is MODEL_UNAVAILABLE, to a whole order and to a stream', async (_, answer) => {
    const { chat, log } = chatOn(answer, { maxBytes: 10_000 })
    for (const order of [HELLO, STREAMED]) expect(await reading(chat.ask(order, calm()), log)).toBe('MODEL_UNAVAILABLE')
  })

  test('an error under a 200 is a refusal', async () => {
    const { chat, log } = chatOn(() =>
      Response.json({ error: { code: 429, message: 'slow' } }, { headers: { 'retry-after': '9' } }),
    )
    for (const order of [HELLO, STREAMED]) expect(await reading(chat.ask(order, calm()), log)).toBe('RATE_LIMITED 30')
  })
})

describe('streams of openaiChat()', () => {
  test('comes as the upstream cut it, byte for byte, a character in two pieces included', async () => {
    const bytes = Buffer.from(EVENT)
    const at = bytes.indexOf('é') + 1
    const pieces = [bytes.subarray(0, at), bytes.subarray(at), Buffer.from(': ping\r\n\r\n'), Buffer.from(DONE)]
    let give = () => {}
    const { url } = await rawUpstream((socket) => {
      socket.write(EVENT_HEAD)
      const rest = [...pieces]
      give = () =>
        void (rest.length > 0
          ? socket.write(
              Buffer.concat([
                Buffer.from(`${rest[0]?.length.toString(16)}\r\n`),
                rest.shift() as Buffer,
                Buffer.from('\r\n'),
              ]),
            )
          : socket.end('0\r\n\r\n'))
      give()
    })
    const stream = streamOf(await openaiChat(chatSetup(url).config).ask(STREAMED, calm()))
    for (const piece of pieces) {
      expect(Buffer.from((await stream.next()) as Uint8Array).equals(piece)).toBe(true)
      give()
    }
    expect(await stream.next()).toBeUndefined()
    expect(await stream.next()).toBeUndefined()
  })

  test('JSON in place of events is told as events', async () => {
    const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }
    const reply = completion(
      { role: 'assistant', content: '', reasoning: 'hm', tool_calls: [call] },
      { usage: { prompt_tokens: 9, completion_tokens: 3 } },
    )
    const { chat } = answering(reply)
    const text = await drain(streamOf(await chat.ask(STREAMED, calm())))
    const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'model-x' }
    expect(eventsIn(text)).toEqual([
      {
        ...head,
        choices: [
          {
            index: 0,
            delta: { role: 'assistant', content: '', reasoning_content: 'hm', tool_calls: [{ index: 0, ...call }] },
            finish_reason: null,
          },
        ],
      },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      { ...head, choices: [], usage: { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 } },
    ])
    expect(text.endsWith(DONE)).toBe(true)
  })

  test('an empty body is an error, not a stream', async () => {
    const { chat, log } = chatOn(() => sse(''))
    expect(await reading(chat.ask(STREAMED, calm()), log)).toBe('MODEL_UNAVAILABLE')
  })

  test('a connection that breaks in mid-stream rejects, after what had come', async () => {
    const { url, state } = await rawUpstream((socket) => socket.write(EVENT_HEAD + httpChunk(EVENT)))
    const { config, log } = chatSetup(url)
    const stream = streamOf(await openaiChat(config).ask(STREAMED, calm()))
    expect(Buffer.from((await stream.next()) as Uint8Array).toString()).toBe(EVENT)
    const next = stream.next()
    state.sockets[0]?.destroy()
    expect((await apiErrorOf(next)).code).toBe('MODEL_UNAVAILABLE')
    expect((await apiErrorOf(stream.next())).code).toBe('MODEL_UNAVAILABLE')
    expect([state.requestCount, log.lines[0]?.fields.why]).toEqual([
      1,
      'openai-chat broke off in mid-stream (ECONNRESET)',
    ])
  })

  test('one that breaks before the first byte rejects the order, and is not asked again', async () => {
    const { url, state } = await rawUpstream((socket) => socket.write(EVENT_HEAD, () => socket.destroy()))
    const { config, log } = chatSetup(url)
    expect(await reading(openaiChat(config).ask(STREAMED, calm()), log)).toBe('MODEL_UNAVAILABLE')
    expect(state.requestCount).toBe(1)
  })

  test('cancel() hangs up at once, and ends a read that waits', async () => {
    const { url, state } = await rawUpstream((socket) => socket.write(EVENT_HEAD + httpChunk(EVENT)))
    const stream = streamOf(await openaiChat(chatSetup(url).config).ask(STREAMED, calm()))
    await stream.next()
    const next = stream.next()
    stream.cancel()
    expect(await next).toBeUndefined()
    await until(() => state.closed === 1)
    stream.cancel()
    expect(await stream.next()).toBeUndefined()
  })

  test('cancel() before the first read hangs up as well', async () => {
    const { url, state } = await rawUpstream((socket) => socket.write(EVENT_HEAD + httpChunk(EVENT)))
    const stream = streamOf(await openaiChat(chatSetup(url).config).ask(STREAMED, calm()))
    stream.cancel()
    expect(await stream.next()).toBeUndefined()
    await until(() => state.closed === 1)
  })

  test("the caller's signal ends it, with its reason", async () => {
    const { url, state } = await rawUpstream((socket) => socket.write(EVENT_HEAD + httpChunk(EVENT)))
    const stop = new AbortController()
    const stream = streamOf(await openaiChat(chatSetup(url).config).ask(STREAMED, { signal: stop.signal }))
    await stream.next()
    const next = stream.next()
    next.catch(() => {})
    stop.abort(new Error('given up'))
    await expect(next).rejects.toThrow('given up')
    await expect(stream.next()).rejects.toThrow('given up')
    await until(() => state.closed === 1)
  })

  test('one read at a time', async () => {
    const { url } = await rawUpstream((socket) => socket.write(EVENT_HEAD + httpChunk(EVENT)))
    const stream = streamOf(await openaiChat(chatSetup(url).config).ask(STREAMED, calm()))
    await stream.next()
    const pending = stream.next()
    await expect(stream.next()).rejects.toThrow('still pending')
    stream.cancel()
    await pending
  })

  test('an upstream in a hurry gets no further ahead than the sockets hold, while nobody reads', async () => {
    const { state, body } = flood(EVENT)
    const { chat } = chatOn(() => new Response(body, { headers: { 'content-type': 'text/event-stream' } }))
    const stream = streamOf(await chat.ask(STREAMED, calm()))
    let before = -1
    for (let turn = 0; turn < 10_000 && (turn % 1000 !== 0 || before !== state.sent); turn++) {
      if (turn % 1000 === 0) before = state.sent
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(state.sent).toBeLessThan(32_000_000)
    for (let read = 0; read < before;) read += (await stream.next())?.length ?? Number.POSITIVE_INFINITY
    await until(() => state.sent > before)
    stream.cancel()
    await until(() => state.cancelled)
  })
})

describe('time and retries', () => {
  const waiting = async (answer: Parameters<typeof rawUpstream>[0]) => {
    const upstream = await rawUpstream(answer)
    const clock = testClock()
    const { config, log } = chatSetup(upstream.url, { clock })
    return { ...upstream, clock, log, chat: openaiChat(config) }
  }

  test.each([
    ['a whole order that is never answered', HELLO, ''],
    [
      'a whole answer that never ends',
      HELLO,
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{`,
    ],
    ['a stream without headers', STREAMED, ''],
    ['a stream without a first byte', STREAMED, EVENT_HEAD],
  ])('%s is a timeout after 120 s, and not before; it hangs up', async (_, order, text) => {
    const { chat, clock, log, state } = await waiting((socket) => void (text && socket.write(text)))
    let ended = false
    const work = chat.ask(order, calm()).finally(() => (ended = true))
    work.catch(() => {})
    await until(() => state.requestCount === 1)
    await clock.advance(119_999)
    expect(ended).toBe(false)
    await clock.advance(1)
    expect(await reading(work, log)).toBe('UPSTREAM_TIMEOUT')
    await until(() => state.closed === 1)
    expect(log.lines.map(({ fields }) => fields.why)).toEqual(['openai-chat did not answer within 120000 ms'])
  })

  test.each([
    ['a whole order', HELLO],
    ['a stream', STREAMED],
  ])('%s that its caller gives up ends with the reason, hangs up, and tells the log nothing', async (_, order) => {
    const { chat, clock, log, state } = await waiting(() => {})
    const stop = new AbortController()
    const work = chat.ask(order, { signal: stop.signal })
    work.catch(() => {})
    await until(() => state.requestCount === 1)
    stop.abort(new Error('given up'))
    await expect(work).rejects.toThrow('given up')
    await until(() => state.closed === 1)
    expect([log.lines, clock.waiting]).toEqual([[], 0])
  })

  test('after the first byte no deadline stands: how long a stream may rest is for its reader to say', async () => {
    const { chat, clock, state } = await waiting((socket) => socket.write(EVENT_HEAD + httpChunk(EVENT)))
    const stream = streamOf(await chat.ask(STREAMED, calm()))
    expect(clock.waiting).toBe(0)
    await stream.next()
    const next = stream.next()
    await clock.advance(600_000)
    state.sockets[0]?.end(`${httpChunk(DONE)}0\r\n\r\n`)
    expect(Buffer.from((await next) as Uint8Array).toString()).toBe(DONE)
  })

  test.each([502, 503, 529])('%d is asked once more, after a short pause', async (status) => {
    const { chat, server, clock } = chatOn(() =>
      server.seen.length === 1 ? new Response('busy', { status }) : sse(EVENT),
    )
    expect(await drain(streamOf(await chat.ask(STREAMED, calm())))).toBe(EVENT)
    expect([server.seen.length, clock.pauses]).toEqual([2, [200]])
  })

  test('nobody there is asked once more; then MODEL_UNAVAILABLE', async () => {
    const closed = createServer()
    const port = await new Promise<number>((resolve) =>
      closed.listen(0, '127.0.0.1', () => resolve((closed.address() as { port: number }).port)),
    )
    await new Promise((resolve) => closed.close(resolve))
    const { config, clock, log } = chatSetup(`http://127.0.0.1:${port}`)
    expect(await reading(openaiChat(config).ask(STREAMED, calm()), log)).toBe('MODEL_UNAVAILABLE')
    expect(clock.pauses).toEqual([200])
  })

  test('a reset is not asked again: the upstream may be at work', async () => {
    const { url, state } = await rawUpstream((socket) => socket.destroy())
    const { config, log } = chatSetup(url)
    for (const order of [HELLO, STREAMED])
      expect(await reading(openaiChat(config).ask(order, calm()), log)).toBe('MODEL_UNAVAILABLE')
    expect(state.requestCount).toBe(2)
  })

  test.each([400, 429, 500, 504])('%d is not asked again', async (status) => {
    const { chat, server } = chatOn(() => new Response('no', { status }))
    await apiErrorOf(chat.ask(STREAMED, calm()))
    expect(server.seen).toHaveLength(1)
  })
})

/** A stand-in that this project did not write. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  const usage = { prompt_tokens: 11, completion_tokens: 5 }
  mock.on({ userMessage: /^hello/ }, { content: 'Hi, I am here.', usage })
  mock.on({ userMessage: /think/ }, { content: 'Four.', reasoning: 'Two and two.' })
  mock.on({ userMessage: /weather/ }, { toolCalls: [{ name: 'weather', arguments: '{"city":"Oslo"}', id: 'call_1' }] })
  mock.on({ userMessage: /picture/ }, { content: 'One pixel.' })
  mock.on(
    { userMessage: /slow/ },
    { error: { message: 'slow', type: 'rate_limit_error', code: 'rate_limit_exceeded' }, status: 429, retryAfter: 17 },
  )
  mock.on(
    { userMessage: /spent/ },
    {
      error: { message: 'You exceeded your current quota', type: 'insufficient_quota', code: 'insufficient_quota' },
      status: 429,
    },
  )
  mock.on(
    { userMessage: /hot/ },
    {
      error: {
        message: 'too hot',
        type: 'invalid_request_error',
        code: 'decimal_above_max_value',
        param: 'temperature',
      },
      status: 400,
    },
  )
  await mock.start()
  afterAll(() => mock.stop())
  const { config } = chatSetup(`${mock.url}/v1`)
  const chat = openaiChat(config)
  const saying = (content: unknown, stream = false, more: Fields = {}) =>
    chat.ask(
      ordered({ messages: [{ role: 'user', content: content as string }], ...more }, { ...HELLO, stream }),
      calm(),
    )
  const deltas = (text: string) => eventsIn(text).flatMap(({ choices }) => choices.map(({ delta }: any) => delta))

  test('a whole answer, with its usage', async () => {
    const body = wholeOf(await saying('hello'))
    expect(body.choices[0]).toMatchObject({
      message: { role: 'assistant', content: 'Hi, I am here.' },
      finish_reason: 'stop',
    })
    expect(body.usage).toEqual({ prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 })
    expect(mock.getRequests().at(-1)).toMatchObject({
      path: '/v1/chat/completions',
      body: { model: 'model-x', max_tokens: 64, stream: false },
    })
  })

  test('a stream, with its usage last', async () => {
    const text = await drain(streamOf(await saying('hello', true)))
    expect(
      deltas(text)
        .map(({ content }) => content ?? '')
        .join(''),
    ).toBe('Hi, I am here.')
    expect(eventsIn(text).at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 11, completion_tokens: 5 } })
    expect(text.endsWith(DONE)).toBe(true)
  })

  test('reasoning, whole and streamed', async () => {
    expect(wholeOf(await saying('think')).choices[0].message).toMatchObject({
      content: 'Four.',
      reasoning_content: 'Two and two.',
    })
    const text = await drain(streamOf(await saying('think', true)))
    expect(
      deltas(text)
        .map(({ reasoning_content }) => reasoning_content ?? '')
        .join(''),
    ).toBe('Two and two.')
  })

  test('tool calls, whole and streamed', async () => {
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
    const { message, finish_reason } = wholeOf(await saying('weather', false, { tools })).choices[0]
    expect([finish_reason, message.tool_calls]).toEqual([
      'tool_calls',
      [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }],
    ])
    const calls = deltas(await drain(streamOf(await saying('weather', true, { tools })))).flatMap(
      ({ tool_calls = [] }) => tool_calls,
    )
    expect(calls.map((call: any) => call.function.arguments ?? '').join('')).toBe('{"city":"Oslo"}')
  })

  test('image parts', async () => {
    const parts = [
      { type: 'text', text: 'a picture' },
      { type: 'image_url', image_url: { url: PIXEL } },
    ]
    expect(wholeOf(await saying(parts)).choices[0].message.content).toBe('One pixel.')
    expect(mock.getRequests().at(-1)?.body).toMatchObject({ messages: [{ role: 'user', content: parts }] })
  })

  test.each([
    ['slow', 'RATE_LIMITED 17'],
    ['spent', 'PROVIDER_CONFIG_ERROR !'],
    ['hot', 'INVALID_PARAMETER temperature'],
  ])('%s is %s, whole and streamed', async (words, expected) => {
    for (const stream of [false, true]) {
      const own = chatSetup(`${mock.url}/v1`)
      const order = ordered({ messages: [{ role: 'user', content: words }], temperature: 2 }, { ...HELLO, stream })
      expect(await reading(openaiChat(own.config).ask(order, calm()), own.log)).toBe(expected)
    }
  })
})
