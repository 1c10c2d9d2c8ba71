import { describe, expect, test } from 'bun:test'
import { makerOf, protocolsOf } from '../lib/protocols.ts'
import { openai } from '../../../../adapters/providers/openai/maker.ts'
import { openaiResponses } from '../../../../adapters/providers/openai/responses.ts'
import { PIXEL } from '../../../fakes/images.ts'
import type { ChatOrder, Fields } from '../../../../core/mod.ts'
import { chatVendorLaws } from '../../../conformance/chat_vendors.ts'
import { runLaws } from '../../../conformance/law.ts'
import { againstAimock } from '../lib/aimock_kit.ts'
import {
  chatSetup,
  drain,
  eventsIn,
  apiErrorOf,
  HELLO,
  ordered,
  reading,
  STREAMED,
  streamOf,
  wholeOf,
} from '../lib/chat_kit.ts'
import { chatBench, chatSuite } from '../lib/chat_suite.ts'
import { ERROR_FORMATS, eventsOf, inPieces, lawful } from '../lib/chat_stand_in.ts'
import { calm, KEY, errorText, standIn } from '../lib/provider_kit.ts'

const errorFormatOf = (path: string) =>
  path.endsWith('/chat/completions') ? ERROR_FORMATS.chat : ERROR_FORMATS.responses

runLaws('openaiResponses()', chatVendorLaws, lawful(openaiResponses, errorFormatOf))
runLaws('openai()', chatVendorLaws, lawful(openai, errorFormatOf))
runLaws(
  'openai() by responses',
  chatVendorLaws,
  lawful((config) => {
    const vendor = openai(config)
    return { ...vendor, ask: (order, at) => vendor.ask({ ...order, by: 'responses' }, at) }
  }, errorFormatOf),
)

const THOUGHT = { id: 'rs_1', type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }] }
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'hé', annotations: [] }],
}
const CALL = {
  id: 'fc_1',
  type: 'function_call',
  status: 'completed',
  call_id: 'call_1',
  name: 'f',
  arguments: '{"a":1}',
}
const USAGE = {
  input_tokens: 9,
  input_tokens_details: { cached_tokens: 4 },
  output_tokens: 5,
  output_tokens_details: { reasoning_tokens: 2 },
  total_tokens: 14,
}
const response = (output: readonly Fields[] = [MESSAGE], more: Fields = {}): Fields => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'completed',
  error: null,
  model: 'model-x',
  output,
  usage: USAGE,
  ...more,
})

const STARTED = [
  { type: 'response.created', response: response([], { status: 'in_progress' }) },
  { type: 'response.in_progress', response: response([], { status: 'in_progress' }) },
]
const EVENTS = [
  { type: 'response.output_item.added', output_index: 0, item: { ...THOUGHT, summary: [] } },
  { type: 'response.reasoning_summary_text.delta', output_index: 0, summary_index: 0, delta: 'hm' },
  { type: 'response.output_text.delta', output_index: 1, content_index: 0, delta: 'hé' },
  { type: 'response.output_item.added', output_index: 2, item: { ...CALL, arguments: '' } },
  { type: 'response.function_call_arguments.delta', output_index: 2, delta: '{"a":' },
  { type: 'response.function_call_arguments.delta', output_index: 2, delta: '1}' },
]
const ANSWER = eventsOf(...STARTED, ...EVENTS, {
  type: 'response.completed',
  response: response([THOUGHT, MESSAGE, CALL]),
})
const failed = (code: string): Fields => ({
  type: 'response.failed',
  response: response([], { status: 'failed', error: { code, message: `no, ${KEY}` } }),
})

const OWN: ChatOrder = {
  format: 'responses',
  model: 'model-x',
  body: { input: 'hello', max_output_tokens: 64, store: true, unheard_of: [null] },
  stream: false,
  headers: {},
}

const { vendorOn, streaming, sent } = chatBench({ create: openaiResponses, path: '/v1', reply: response() })

chatSuite('openaiResponses', {
  create: openaiResponses,
  path: '/v1',
  own: OWN,
  formats: ['responses', 'chat', 'messages'],
  reply: response([THOUGHT, { type: 'unheard_of' }]),
  stream: ANSWER,
  deltas: [
    { role: 'assistant', content: '' },
    { reasoning_content: 'hm' },
    { content: 'hé' },
    { tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '1}' } }] },
    {},
  ],
  last: { id: 'chatcmpl-1', model: 'model-x', usage: { prompt_tokens: 9, completion_tokens: 5 } },
  unreadable: [
    ['no output', () => Response.json({ id: 'resp_1', status: 'completed' })],
    ['one that is not finished', () => Response.json(response([], { status: 'in_progress' }))],
    ['null', () => Response.json(null)],
  ],
  late: eventsOf(...STARTED, ...EVENTS, failed('server_error')),
  refusals: {
    vectors: 'chat/responses_refusals',
    request: {
      reasoning_effort: 'low',
      response_format: { type: 'json_object' },
      tools: [{ type: 'function', function: { name: 'f' } }],
    },
    headers: { 'retry-after': '17' },
  },
})

describe('requests of openaiResponses()', () => {
  test('an order in its own format as it came, but nothing to be stored', async () => {
    const { method, path, headers, json } = await sent(OWN)
    expect([method, path, headers.get('authorization')]).toEqual(['POST', '/v1/responses', `Bearer ${KEY}`])
    expect(json).toEqual({ model: 'model-x', ...OWN.body, store: false, stream: false })
  })

  test('an order in chat as input: instructions, images, tools, results and effort', async () => {
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
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'ok' },
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
      reasoning_effort: 'high',
      response_format: { type: 'json_object' },
    }
    expect((await sent(ordered(body, STREAMED))).json).toEqual({
      model: 'model-x',
      instructions: 'be brief',
      input: [
        {
          type: 'message',
          role: 'user',
          content: [
            { type: 'input_text', text: 'see' },
            { type: 'input_image', image_url: PIXEL, detail: 'auto' },
          ],
        },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"a":1}' },
        { type: 'function_call_output', call_id: 'c1', output: 'ok' },
      ],
      max_output_tokens: 64,
      tools: [{ type: 'function', name: 'f', parameters: { type: 'object' }, strict: false }],
      text: { format: { type: 'json_object' } },
      reasoning: { effort: 'high' },
      store: false,
      stream: true,
    })
  })

  test('a live search with the tools of the vendor, and none where it is off', async () => {
    const { json } = await sent(ordered({ search_parameters: { mode: 'on', from_date: '2026-01-01' } }))
    expect(json).toMatchObject({
      tools: [{ type: 'web_search' }],
      tool_choice: 'required',
      instructions: 'Use only sources published on or after 2026-01-01.',
    })
    for (const search_parameters of [{ mode: 'off' }, null])
      expect((await sent(ordered({ search_parameters }))).json).not.toHaveProperty('tools')
  })

  test("the operator's parameters below the order, overrides above all", async () => {
    const { json } = await sent(OWN, {
      parameters: { service_tier: 'flex', max_output_tokens: 1 },
      overrides: { store: null },
    })
    expect(json).toEqual({
      model: 'model-x',
      input: 'hello',
      max_output_tokens: 64,
      unheard_of: [null],
      stream: false,
      service_tier: 'flex',
    })
  })
})

describe('replies of openaiResponses()', () => {
  test('a whole response in place of a stream is told as events, in chat too', async () => {
    const { vendor } = vendorOn(() => Response.json(response()))
    const types = [
      ...(await drain(streamOf(await vendor.ask({ ...OWN, stream: true }, calm())))).matchAll(/^event: (.*)$/gm),
    ].map(([, type]) => type)
    expect([types[0], types.at(-1)]).toEqual(['response.created', 'response.completed'])
    const text = await drain(streamOf(await vendor.ask(STREAMED, calm())))
    expect(eventsIn(text)[0].choices[0].delta.content).toBe('hé')
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  test('chat: text, thoughts, citations, calls and usage, under the upstream id of the model', async () => {
    const cited = {
      ...MESSAGE,
      content: [
        {
          type: 'output_text',
          text: 'hé',
          annotations: [{ type: 'url_citation', url: 'https://a.example/', title: 'A', start_index: 0, end_index: 2 }],
        },
      ],
    }
    const { vendor, clock } = vendorOn(() => Response.json(response([THOUGHT, cited])))
    const { choices, usage, citations, ...head } = wholeOf(await vendor.ask(HELLO, calm()))
    expect(head).toEqual({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: Math.floor(clock.now() / 1000),
      model: 'model-x',
    })
    expect(choices[0]).toMatchObject({
      message: { role: 'assistant', content: 'hé', reasoning_content: 'hm', annotations: [{ type: 'url_citation' }] },
      finish_reason: 'stop',
    })
    expect(citations).toEqual(['https://a.example/'])
    expect(usage).toMatchObject({
      prompt_tokens: 9,
      completion_tokens: 5,
      total_tokens: 14,
      prompt_tokens_details: { cached_tokens: 4 },
      completion_tokens_details: { reasoning_tokens: 2 },
    })
    const called = wholeOf(await vendorOn(() => Response.json(response([CALL]))).vendor.ask(HELLO, calm())).choices[0]
    expect([called.finish_reason, called.message.tool_calls]).toEqual([
      'tool_calls',
      [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
    ])
    const cut = vendorOn(() =>
      Response.json(response([MESSAGE], { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })),
    )
    expect(wholeOf(await cut.vendor.ask(HELLO, calm())).choices[0].finish_reason).toBe('length')
  })
})

/** The error of a failure, whether it comes as a whole response or among the events. */
const FAILURES = [
  ['server_error', 'MODEL_UNAVAILABLE'],
  ['rate_limit_exceeded', 'RATE_LIMITED 30'],
  ['vector_store_timeout', 'UPSTREAM_TIMEOUT'],
  ['context_length_exceeded', 'CONTEXT_LENGTH_EXCEEDED messages'],
  ['image_content_policy_violation', 'CONTENT_POLICY'],
  ['bio_policy', 'CONTENT_POLICY'],
  ['invalid_image_url', 'INVALID_IMAGE'],
  ['invalid_prompt', 'INVALID_PARAMETER'],
  ['insufficient_quota', 'PROVIDER_CONFIG_ERROR !'],
] as const

describe('a response of openaiResponses() that failed', () => {
  test.each(FAILURES)('with %s is a refusal: %s, in either format', async (code, expected) => {
    const body = response([], { status: 'failed', error: { code, message: `no, ${KEY}` } })
    for (const order of [HELLO, OWN, STREAMED, { ...OWN, stream: true }]) {
      const { vendor, log } = vendorOn(() => Response.json(body))
      const work = vendor.ask(order, calm())
      expect(await reading(work, log)).toBe(expected)
      expect((await errorText(work, log)).includes(KEY)).toBe(false)
    }
  })

  test.each(FAILURES)('with %s before the model has begun is a refusal of the stream: %s', async (code, expected) => {
    for (const event of [failed(code), { type: 'error', code, message: KEY, param: null }]) {
      const { vendor, log } = streaming(() => inPieces(eventsOf(...STARTED, event), 9))
      const work = vendor.ask(STREAMED, calm())
      expect(await reading(work, log)).toBe(expected)
      expect((await errorText(work, log)).includes(KEY)).toBe(false)
    }
  })

  test('a cancelled one is MODEL_UNAVAILABLE', async () => {
    const { vendor, log } = vendorOn(() => Response.json(response([], { status: 'cancelled' })))
    expect(await reading(vendor.ask(HELLO, calm()), log)).toBe('MODEL_UNAVAILABLE')
  })

  test('a stream that ends before it is completed rejects', async () => {
    for (const events of [[...STARTED, ...EVENTS], STARTED]) {
      const { vendor } = streaming(() => inPieces(eventsOf(...events)))
      const work = vendor.ask(STREAMED, calm()).then((answer) => drain(streamOf(answer)))
      expect((await apiErrorOf(work)).code).toBe('MODEL_UNAVAILABLE')
    }
  })
})

describe('openai()', () => {
  const pathOf = async (order: ChatOrder) => {
    const server = standIn(({ path }) =>
      Response.json(
        path.endsWith('/responses')
          ? response()
          : { choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }] },
      ),
    )
    const vendor = openai(chatSetup(`${server.url}/v1`).config)
    await vendor.ask(order, calm())
    return [vendor.format, server.seen[0]?.path]
  }

  test('answers chat by chat completions, unless the order asks for responses, and its own format by responses', async () => {
    expect(await pathOf(HELLO)).toEqual(['responses', '/v1/chat/completions'])
    expect(await pathOf({ ...HELLO, by: 'responses' })).toEqual(['responses', '/v1/responses'])
    expect(await pathOf(OWN)).toEqual(['responses', '/v1/responses'])
  })
})

test('every protocol of chat speaks its format, and has a base URL over TLS', () => {
  const protocols = [...protocolsOf('chat')]
  const formats = protocols.map(([name, { baseUrl }]) => [
    name,
    makerOf('chat', name)(chatSetup(baseUrl).config).format,
  ])
  expect(Object.fromEntries(formats)).toEqual({
    openai: 'responses',
    'openai-chat': 'chat',
    'openai-responses': 'responses',
    'anthropic-messages': 'messages',
    gemini: 'generate_content',
  })
  expect(protocols.filter(([, { baseUrl }]) => !baseUrl.startsWith('https://'))).toEqual([])
})

againstAimock('openaiResponses', { create: openaiResponses, path: '/v1', hasReasoning: true })
