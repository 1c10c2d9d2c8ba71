/**
 * Faults upstream, as callers of every surface read them: never charged, and the same signed request works once
 * the fault is gone.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { reading } from '../core/call/stream_kit.ts'
import { decodeHeader, door } from '../kit.ts'
import {
  ANSWER,
  type Saying,
  SECRET,
  gatewayAt,
  type Site,
  SITES,
  type Surface,
  type Tongue,
  type Upstream,
  upstreamOf,
} from './chat_faults_kit.ts'
import { isFull } from '../scope.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await upstreamOf()
})
afterAll(() => upstream.stop())

/** Status, code and field, as far as the envelope of a surface has them (contract 6.54, 7.1, 7.10, 7.20). */
type Reads = Readonly<Record<Surface, string>>
type Row = {
  readonly name: string
  readonly replies: Readonly<Partial<Record<Tongue, Saying>>>
  readonly reads: Reads
  readonly wait?: number
  readonly alerts?: true
  readonly requestCount?: number
  readonly streams?: readonly boolean[]
}

const OPERATOR: Reads = {
  chat: '503 PROVIDER_CONFIG_ERROR',
  messages: '503 overloaded_error',
  responses: '503 provider_config_error',
  generate_content: '503 UNAVAILABLE',
}
const DOWN: Reads = {
  chat: '503 MODEL_UNAVAILABLE',
  messages: '503 overloaded_error',
  responses: '503 model_unavailable',
  generate_content: '503 UNAVAILABLE',
}
const invalid = (code: string, param = ''): Reads => ({
  chat: `400 ${code} ${param}`.trim(),
  messages: '400 invalid_request_error',
  responses: `400 ${code.toLowerCase()} ${param === 'messages' ? 'input' : param}`.trim(),
  generate_content: '400 INVALID_ARGUMENT',
})

const openai = (status: number, code: string, message: string, more: Partial<Saying> = {}): Saying => ({
  status,
  code,
  type: 'invalid_request_error',
  message,
  ...more,
})
const other = (status: number, type: string, message: string): Saying => ({ status, type, message })

const ROWS: readonly Row[] = [
  {
    name: 'a rate limit',
    replies: {
      openai: openai(429, 'rate_limit_exceeded', 'Rate limit reached', { type: 'requests' }),
      anthropic: other(429, 'rate_limit_error', 'Number of request tokens has exceeded your limit'),
      gemini: other(429, 'RESOURCE_EXHAUSTED', 'Quota exceeded for requests per minute'),
    },
    reads: {
      chat: '429 RATE_LIMITED',
      messages: '429 rate_limit_error',
      responses: '429 rate_limited',
      generate_content: '429 RESOURCE_EXHAUSTED',
    },
    wait: 17,
  },
  {
    name: 'an account that is spent',
    replies: {
      openai: openai(429, 'insufficient_quota', 'You exceeded your current quota', { type: 'insufficient_quota' }),
      anthropic: other(400, 'invalid_request_error', 'Your credit balance is too low to access the API.'),
      gemini: other(429, 'RESOURCE_EXHAUSTED', 'Your prepayment credits are depleted.'),
    },
    reads: OPERATOR,
    alerts: true,
  },
  {
    name: 'a parameter that it refuses',
    replies: {
      openai: openai(400, 'decimal_above_max_value', 'Invalid value', { param: 'temperature' }),
      anthropic: other(400, 'invalid_request_error', 'temperature: range: 0..1'),
      gemini: other(400, 'INVALID_ARGUMENT', "Invalid value at 'generation_config.temperature'"),
    },
    reads: invalid('INVALID_PARAMETER', 'temperature'),
  },
  {
    name: 'a conversation that is too long',
    replies: {
      openai: openai(400, 'context_length_exceeded', 'Your input exceeds the context window of this model.'),
      anthropic: other(400, 'invalid_request_error', 'prompt is too long: 200107 tokens > 200000 maximum'),
      gemini: other(
        400,
        'INVALID_ARGUMENT',
        'The input token count (1048977) exceeds the maximum number of tokens allowed (1048576).',
      ),
    },
    reads: invalid('CONTEXT_LENGTH_EXCEEDED', 'messages'),
  },
  {
    name: 'a content filter',
    replies: {
      openai: openai(400, 'content_filter', 'The response was filtered'),
      anthropic: other(400, 'invalid_request_error', 'Output blocked by content filtering policy'),
    },
    reads: invalid('CONTENT_FILTERED'),
  },
  {
    name: 'a picture that it cannot read',
    replies: {
      openai: openai(400, 'invalid_image_url', 'Failed to download image'),
      anthropic: other(400, 'invalid_request_error', 'Could not process image'),
      gemini: other(400, 'INVALID_ARGUMENT', 'Unable to process input image'),
    },
    reads: invalid('INVALID_IMAGE_URL'),
  },
  {
    name: 'a body that is too large',
    replies: {
      openai: openai(413, 'request_too_large', 'Request too large'),
      anthropic: other(413, 'request_too_large', 'Request exceeds the maximum size'),
      gemini: other(413, 'INVALID_ARGUMENT', 'Request payload size exceeds the limit'),
    },
    reads: invalid('REQUEST_TOO_LARGE'),
  },
  {
    name: 'a model that does not stream',
    replies: {
      openai: openai(400, 'unsupported_value', 'Your organization must be verified to stream this model.', {
        param: 'stream',
      }),
    },
    reads: invalid('STREAM_UNSUPPORTED', 'stream'),
    streams: [true],
  },
  {
    name: 'a key that is refused',
    replies: {
      openai: openai(401, 'invalid_api_key', 'Incorrect API key provided'),
      anthropic: other(401, 'authentication_error', 'invalid x-api-key'),
      gemini: other(401, 'UNAUTHENTICATED', 'API key not valid'),
    },
    reads: OPERATOR,
    alerts: true,
  },
  {
    name: 'a model that is gone',
    replies: {
      openai: openai(404, 'model_not_found', 'The model does not exist'),
      anthropic: other(404, 'not_found_error', 'model: claude-x'),
      gemini: other(404, 'NOT_FOUND', 'models/gemini-x is not found'),
    },
    reads: OPERATOR,
    alerts: true,
  },
  {
    name: 'a server that fails',
    replies: {
      openai: openai(500, 'server_error', 'The server had an error', { type: 'server_error' }),
      anthropic: other(500, 'api_error', 'Internal server error'),
      gemini: other(500, 'INTERNAL', 'An internal error has occurred'),
    },
    reads: DOWN,
  },
  {
    name: 'a server that is overloaded, which is asked once more',
    replies: {
      openai: openai(503, 'server_overloaded', 'Slow down', { type: 'server_error' }),
      anthropic: other(529, 'overloaded_error', 'Overloaded'),
      gemini: other(503, 'UNAVAILABLE', 'The model is overloaded'),
    },
    reads: DOWN,
    requestCount: 2,
  },
  {
    name: 'a server that gives up',
    replies: {
      openai: openai(504, 'timeout', 'Timed out', { type: 'server_error' }),
      anthropic: other(504, 'timeout_error', 'Request timed out'),
      gemini: other(504, 'DEADLINE_EXCEEDED', 'Deadline expired'),
    },
    reads: {
      chat: '504 TIMEOUT',
      messages: '504 timeout_error',
      responses: '504 timeout',
      generate_content: '504 DEADLINE_EXCEEDED',
    },
  },
]

/** The envelope of a surface, all of it. */
const readings: Readonly<Record<Surface, (status: number, body: any) => string>> = {
  chat(status, { error, message, code }) {
    expect([Object.keys(error).toSorted(), error.message, error.code]).toEqual([
      ['code', 'message', 'param', 'type'],
      message,
      code,
    ])
    return [status, error.code, error.param].filter(Boolean).join(' ')
  },
  messages(status, { type, error, ...rest }) {
    expect([type, Object.keys(error).toSorted(), rest]).toEqual(['error', ['message', 'type'], {}])
    return `${status} ${error.type}`
  },
  responses(status, { error, ...rest }) {
    expect([Object.keys(error).toSorted(), rest]).toEqual([['code', 'message', 'param', 'type'], {}])
    return [status, error.code, error.param].filter(Boolean).join(' ')
  },
  generate_content(status, { error, ...rest }) {
    expect([Object.keys(error).toSorted(), error.code, rest]).toEqual([['code', 'message', 'status'], status, {}])
    return `${status} ${error.status}`
  },
}

async function expectReads(response: Response, { surface, reads }: { surface: Surface; reads: Reads }): Promise<void> {
  const text = await response.text()
  expect(response.headers.get('content-type')).toBe('application/json')
  const body = JSON.parse(text)
  expect(readings[surface](response.status, body)).toBe(reads[surface])
  expect(body.error.message).toContain('Nothing was charged')
  expect(text).not.toContain(SECRET)
  expect(response.headers.has('x-payment-receipt')).toBe(false)
  expect(decodeHeader(response.headers.get('payment-response'))).toMatchObject({ success: false, transaction: '' })
}

type Gateway = Awaited<ReturnType<typeof gatewayAt>>
type Signed = Awaited<ReturnType<Gateway['sign']>>

/** The fault is gone: the signed request that met it is answered, and charged once, whatever comes after. */
async function expectRecovery(
  gateway: Gateway,
  { payment, stream }: { payment: Signed; stream: boolean },
): Promise<void> {
  upstream.be({ kind: 'well' })
  const before = gateway.alice.balance()
  expect(gateway.chain.transfers).toEqual([])
  const response = await gateway.ask(stream, payment)
  const text = await response.text()
  expect(response.status).toBe(200)
  if (stream) expect(text).toMatch(/^: payment-response |"payment-response":"/m)
  if (!stream) expect([text.includes(ANSWER), response.headers.has('payment-response')]).toEqual([true, true])
  await (await gateway.ask(stream, payment)).text()
  await gateway.idle()
  expect(gateway.chain.transfers).toHaveLength(1)
  expect(before - gateway.alice.balance()).toBe(BigInt(payment.accepted.amount))
}

/** In the quick tests each surface over one vendor, all vendors among them. */
const QUICK = [
  'chat over Gemini',
  'messages over Anthropic',
  'responses over OpenAI',
  'generateContent over OpenAI chat',
]

describe.each(SITES.filter(({ name }) => isFull || QUICK.includes(name)))('$name', (site: Site) => {
  const { surface, tongue } = site
  const sayable = ROWS.filter(({ replies }) => replies[tongue])

  test.each(sayable)(
    '$name (contract 3.11, 3.20, 6.54, 6.55, 6.56, 7.9, 7.15, 7.24)',
    async ({ replies, reads, wait, alerts, requestCount = 1, streams = [false, true] }) => {
      for (const stream of streams) {
        const gateway = await gatewayAt(site, upstream)
        const payment = await gateway.sign(stream)
        upstream.be({ kind: 'says', error: replies[tongue] as Saying })
        const before = upstream.requestCount()
        const response = await gateway.ask(stream, payment)
        await expectReads(response, { surface, reads })
        expect(upstream.requestCount() - before).toBe(requestCount)
        if (wait !== undefined)
          expect([response.headers.get('retry-after'), response.headers.get('x-ratelimit-source')]).toEqual([
            String(wait),
            'maker-x',
          ])
        expect(gateway.alerts().length > 0).toBe(alerts ?? false)
        await expectRecovery(gateway, { payment, stream })
      }
    },
  )

  test.each(['malformed', 'disconnects'] as const)('an upstream that %s before its first word', async (kind) => {
    for (const stream of [false, true]) {
      const gateway = await gatewayAt(site, upstream)
      const payment = await gateway.sign(stream)
      upstream.be({ kind })
      await expectReads(await gateway.ask(stream, payment), { surface, reads: DOWN })
      await expectRecovery(gateway, { payment, stream })
    }
  })

  test('a stream whose first event is an error is a status', async () => {
    const gateway = await gatewayAt(site, upstream)
    const payment = await gateway.sign(true)
    upstream.be({ kind: 'streams', events: errors[chatFormatOf(site)], goesOn: Promise.resolve(), last: '' })
    await expectReads(await gateway.ask(true, payment), { surface, reads: DOWN })
    await expectRecovery(gateway, { payment, stream: true })
  })

  test.each(Object.entries(NOTHING))('a stream of nothing but %s is a status with Retry-After', async (_, nothing) => {
    const gateway = await gatewayAt(site, upstream)
    const payment = await gateway.sign(true)
    upstream.be({ kind: 'streams', events: nothing(chatFormatOf(site)), goesOn: Promise.resolve(), last: '' })
    const response = await gateway.ask(true, payment)
    expect(response.headers.get('retry-after')).toBe('5')
    await expectReads(response, { surface, reads: DOWN })
    await expectRecovery(gateway, { payment, stream: true })
  })

  test('a stream that is refused after it has named its speaker is refused in the words of its vendor', async () => {
    const gateway = await gatewayAt(site, upstream)
    const payment = await gateway.sign(true)
    const format = chatFormatOf(site)
    upstream.be({
      kind: 'streams',
      events: `: ping\n\n${preludes[format].join('')}${limits[format]}`,
      goesOn: Promise.resolve(),
      last: '',
    })
    const response = await gateway.ask(true, payment)
    expect([response.headers.get('retry-after'), response.headers.get('x-ratelimit-source')]).toEqual(['30', 'maker-x'])
    await expectReads(response, { surface, reads: (ROWS[0] as Row).reads })
    await expectRecovery(gateway, { payment, stream: true })
  })

  test('a stream that names its speaker and hangs is 504 when its time is over, and its upstream is left', async () => {
    const gateway = await gatewayAt(site, upstream)
    const payment = await gateway.sign(true)
    const [sent, more] = [door(), door()]
    upstream.be({
      kind: 'streams',
      events: preludes[chatFormatOf(site)].join(''),
      goesOn: more.passed,
      last: '',
      onSent: sent.open,
    })
    const requestCount = gateway.ask(true, payment)
    await sent.passed
    await gateway.streamed(120_000)
    await expectReads(await requestCount, {
      surface,
      reads: {
        chat: '504 TIMEOUT',
        messages: '504 timeout_error',
        responses: '504 timeout',
        generate_content: '504 DEADLINE_EXCEEDED',
      },
    })
    more.open()
    await expectRecovery(gateway, { payment, stream: true })
  })

  test.each(['an error', 'a disconnect', 'silence'] as const)(
    'a stream that has begun and ends with %s ends with an error event, unsettled (contract 3.18, 6.51)',
    async (end) => {
      const gateway = await gatewayAt(site, upstream)
      const payment = await gateway.sign(true)
      const format = chatFormatOf(site)
      const more = door()
      const last = { 'an error': errors[format], 'a disconnect': 'disconnects', silence: '' }[end]
      upstream.be({ kind: 'streams', events: whenAnswerStarts[format].join(''), goesOn: more.passed, last })
      const response = await gateway.ask(true, payment)
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
      const reader = reading(response)
      const first = await reader.next()
      more.open()
      const text = first + (await reader.rest())
      expect(text).toContain('Because ')
      expect(errorIn(text.trimEnd().split('\n\n').at(-1) ?? '', surface)).toBe(true)
      expect(text).not.toContain(SECRET)
      expect(text).not.toContain('payment-response')
      expect(text).not.toContain('[DONE]')
      await gateway.idle()
      await expectRecovery(gateway, { payment, stream: true })
    },
  )
})

test.each(SITES.filter(({ surface, tongue }) => surface === 'chat' && tongue === 'gemini'))(
  '$name: a model that declines is an answer, and paid',
  async (site) => {
    const gateway = await gatewayAt(site, upstream)
    const payment = await gateway.sign(false)
    upstream.be({ kind: 'well', finish: 'content_filter' })
    const response = await gateway.ask(false, payment)
    expect(await response.json()).toMatchObject({ choices: [{ finish_reason: 'content_filter' }] })
    expect([response.status, gateway.chain.transfers.length]).toEqual([200, 1])
  },
)

// ── events, as the makers write them ────────────────────────────────────────────────────────────────────────────────

type UpstreamFormat = 'chat' | 'responses' | 'messages' | 'generate_content'

function chatFormatOf({ protocol, surface }: Site): UpstreamFormat {
  if (protocol === 'anthropic-messages') return 'messages'
  if (protocol === 'gemini') return 'generate_content'
  return protocol === 'openai-responses' || (protocol === 'openai' && surface === 'responses') ? 'responses' : 'chat'
}

const event = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
const bare = (data: object): string => `data: ${JSON.stringify(data)}\n\n`

/** An error that comes with status 200. */
const errors: Readonly<Record<UpstreamFormat, string>> = {
  chat: bare({
    error: { message: `The server had an error (${SECRET})`, type: 'server_error', code: 'server_error', param: null },
  }),
  responses: event('error', {
    type: 'error',
    code: 'server_error',
    message: `The server had an error (${SECRET})`,
    param: null,
    sequence_number: 9,
  }),
  messages: event('error', { type: 'error', error: { type: 'overloaded_error', message: `Overloaded (${SECRET})` } }),
  generate_content: bare({
    error: { code: 503, message: `The model is overloaded (${SECRET})`, status: 'UNAVAILABLE' },
  }),
}

const chunk = (delta: object) =>
  bare({
    id: 'c1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason: null }],
  })
const response = { id: 'resp_1', object: 'response', created_at: 1, status: 'in_progress', model: 'm', output: [] }

const whenAnswerStarts: Readonly<Record<UpstreamFormat, readonly string[]>> = {
  chat: [chunk({ role: 'assistant', content: '' }), chunk({ content: 'Because ' }), chunk({ content: 'air ' })],
  responses: [
    event('response.created', { type: 'response.created', sequence_number: 0, response }),
    event('response.output_item.added', {
      type: 'response.output_item.added',
      sequence_number: 1,
      output_index: 0,
      item: { id: 'msg_1', type: 'message', status: 'in_progress', role: 'assistant', content: [] },
    }),
    event('response.output_text.delta', {
      type: 'response.output_text.delta',
      sequence_number: 2,
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      delta: 'Because air ',
    }),
  ],
  messages: [
    event('message_start', {
      type: 'message_start',
      message: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 5, output_tokens: 1 },
      },
    }),
    event('content_block_start', { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
    event('content_block_delta', {
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text: 'Because air ' },
    }),
  ],
  generate_content: [
    bare({
      candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Because air ' }] } }],
      modelVersion: 'm',
      responseId: 'r',
    }),
  ],
}

/** Events before the first word. */
const preludes: Readonly<Record<UpstreamFormat, readonly string[]>> = {
  chat: whenAnswerStarts.chat.slice(0, 1),
  responses: whenAnswerStarts.responses.slice(0, 2),
  messages: whenAnswerStarts.messages.slice(0, 2),
  generate_content: [
    bare({
      candidates: [{ index: 0, content: { role: 'model', parts: [{ text: '' }] } }],
      modelVersion: 'm',
      responseId: 'r',
    }),
  ],
}

/** Streams with status 200 in which nobody says anything. */
const NOTHING: Readonly<Record<string, (format: UpstreamFormat) => string>> = {
  comments: () => ': OPENROUTER PROCESSING\n\n'.repeat(3),
  'a speaker': (format) => preludes[format].join(''),
  'comments, a speaker and an error': (format) => `: ping\n\n${preludes[format].join('')}${errors[format]}`,
  garbage: () => `upstream connect error (${SECRET})`,
  'events that are garbage': () => 'data: nonsense\n\n',
  HTML: () => `<!doctype html>\n\n<title>502 Bad Gateway (${SECRET})</title>\n\n`,
  'a [DONE]': () => 'data: [DONE]\n\n',
}

/** A rate limit that comes with status 200. */
const limits: Readonly<Record<UpstreamFormat, string>> = {
  chat: bare({
    error: { message: `Rate limit reached (${SECRET})`, type: 'requests', code: 'rate_limit_exceeded', param: null },
  }),
  responses: event('error', {
    type: 'error',
    code: 'rate_limit_exceeded',
    message: `Rate limit reached (${SECRET})`,
    param: null,
    sequence_number: 9,
  }),
  messages: event('error', {
    type: 'error',
    error: { type: 'rate_limit_error', message: `Rate limit reached (${SECRET})` },
  }),
  generate_content: bare({
    error: { code: 429, message: `Quota exceeded for requests per minute (${SECRET})`, status: 'RESOURCE_EXHAUSTED' },
  }),
}

/** Whether the last event of a stream is the error that the clients of a surface know. */
function errorIn(last: string, surface: Surface): boolean {
  const data = JSON.parse(/^data: (.*)$/m.exec(last)?.[1] ?? 'null')
  if (surface === 'messages')
    return last.startsWith('event: error\n') && data.type === 'error' && data.error.type === 'overloaded_error'
  if (surface === 'responses')
    return last.startsWith('event: error\n') && data.type === 'error' && data.code === 'MODEL_UNAVAILABLE'
  if (surface === 'generate_content') return data.error.code === 503 && data.error.status === 'UNAVAILABLE'
  return data.error.code === 'MODEL_UNAVAILABLE'
}
