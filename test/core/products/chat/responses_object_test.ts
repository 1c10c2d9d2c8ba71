/**
 * Every Response and every event, judged by what the public Responses API requires: `vectors/responses_api.json`
 * (contract 7.26).
 */
import { describe, expect, test } from 'bun:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import {
  chunk,
  type ChatScript,
  DONE,
  scriptedChat,
  streamAnswer,
  usageChunk,
  wholeAnswer,
} from '../../../fakes/chat.ts'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { ApiError } from '../../../../core/mod.ts'
import schema from '../../../vectors/responses_api.json' with { type: 'json' }
import { encodePayment, kit, ORIGIN, read, START } from '../../../kit.ts'

const path = '/api/v1/responses'
const MODEL = 'vendor-a/chat-5.4'

const ajv = new Ajv2020({ strict: false, allErrors: true })
ajv.addSchema(schema)

/** Mistakes of a value, by the schema at this place of the vector. */
function mismatches(pointer: string, value: unknown): readonly string[] {
  const validate = ajv.getSchema(`responses_api#/${pointer}`)
  if (!validate) return [`${pointer} is not known to the public API`]
  if (validate(value)) return []
  return (validate.errors ?? []).map(({ instancePath, message }) => `${pointer}${instancePath} ${message}`)
}

const FUNCTION = { type: 'function', name: 'look', parameters: { type: 'object', properties: {} } }
const TRIP = { type: 'json_schema', schema: { type: 'object', properties: { city: { type: 'string' } } } }
const CITED = {
  annotations: [
    { type: 'url_citation', url_citation: { url: 'https://a.org', title: 'A', start_index: 0, end_index: 4 } },
  ],
}

/** Requests, and whether a member of them must come back. */
const REQUESTS: Readonly<Record<string, Record<string, unknown>>> = {
  'the least that is allowed': {},
  'everything that is echoed': {
    instructions: 'Be brief.',
    max_output_tokens: 1_000,
    max_tool_calls: 3,
    metadata: { a: '1' },
    temperature: 0.5,
    top_p: 0.9,
    reasoning: { effort: 'low' },
    text: { format: TRIP, verbosity: 'low' },
    tools: [FUNCTION, { ...FUNCTION, name: 'see', strict: true, description: 'Sees.' }],
    tool_choice: { type: 'function', name: 'look' },
    parallel_tool_calls: false,
    truncation: 'auto',
    service_tier: 'auto',
    user: 'u',
    safety_identifier: 's',
    prompt_cache_key: 'k',
  },
  'null for what is not set': {
    temperature: null,
    top_p: null,
    tools: null,
    tool_choice: null,
    text: null,
    reasoning: null,
    metadata: null,
    user: null,
  },
}

type Scenario = { readonly whole: ChatScript; readonly stream: ChatScript; readonly status: string }

const spoken =
  (delta: Record<string, any>, finish: string): ChatScript =>
  async () =>
    streamAnswer([chunk({ role: 'assistant', ...delta }), chunk({}, { finish }), usageChunk(), DONE])

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  text: { whole: async () => wholeAnswer(), stream: spoken({ content: 'Hello' }, 'stop'), status: 'completed' },
  'reasoning and text': {
    whole: async () => wholeAnswer({ reasoning: 'Think.' }),
    stream: async () =>
      streamAnswer([
        chunk({ role: 'assistant', reasoning_content: 'Think.' }),
        chunk({ content: 'Hello' }),
        chunk({}, { finish: 'stop' }),
        usageChunk(),
        DONE,
      ]),
    status: 'completed',
  },
  'cited text': {
    whole: async () => {
      const { body } = wholeAnswer()
      const [choice] = body.choices as { message: Record<string, unknown> }[]
      return {
        kind: 'whole',
        body: { ...body, choices: [{ ...choice, message: { ...choice?.message, ...CITED } }] },
      } as never
    },
    stream: spoken({ content: 'Hello', ...CITED }, 'stop'),
    status: 'completed',
  },
  'tool calls after words': {
    whole: async () =>
      wholeAnswer({
        content: 'Looking.',
        toolCalls: [
          { name: 'look', arguments: {} },
          { name: 'see', arguments: {} },
        ],
      }),
    stream: spoken(
      {
        content: 'Looking.',
        tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
      },
      'tool_calls',
    ),
    status: 'completed',
  },
  'a cut-off': {
    whole: async () => wholeAnswer({ finish: 'length' }),
    stream: spoken({ content: 'Hel' }, 'length'),
    status: 'incomplete',
  },
  'a refusal by a filter': {
    whole: async () => wholeAnswer({ finish: 'content_filter' }),
    stream: spoken({ content: 'No', refusal: 'I will not.' }, 'content_filter'),
    status: 'incomplete',
  },
}

/** A gateway whose vendor speaks chat, so that every object is made here. */
function gatewayOf(script: ChatScript, chain = memoryChain()) {
  const subject = kit({ chatVendor: scriptedChat(script), chain })
  const alice = subject.buyer()
  const fetch = (url: string, init: RequestInit = {}) => subject.gateway.fetch(new Request(ORIGIN + url, init))
  return {
    ...subject,
    buy: async (body: unknown) => (await alice.buy(body, { path })).body,
    get: async (id: string) => (await read(await fetch(`${path}/${id}`))).body,
    attached: async (id: string) => eventsIn(await (await fetch(`${path}/${id}?stream=true`)).text()),
    cancel: async (id: string) => (await read(await fetch(`${path}/${id}/cancel`, { method: 'POST' }))).body,
    async stream(body: unknown) {
      const payment = alice.sign(await alice.ask(body, { path }))
      const headers = { 'content-type': 'application/json', 'payment-signature': encodePayment(payment) }
      const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
      expect(response.status).toBe(200)
      return eventsIn(await response.text())
    },
  }
}

const eventsIn = (text: string): any[] =>
  text.split('\n\n').flatMap((event) => {
    const data = /^data: (.*)$/m.exec(event)?.[1]
    return data === undefined ? [] : [JSON.parse(data)]
  })

/** Every event is one of the public API, and they are numbered from 0. */
function expectEvents(events: readonly any[]): void {
  expect(events.flatMap((event) => mismatches(`events/${event.type}`, event))).toEqual([])
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index))
}

for (const [url, request] of Object.entries(REQUESTS)) {
  const order = { model: MODEL, input: 'Why is the sky blue?', ...request }

  describe(`a response to ${url} has every member of the public API (contract 7.26)`, () => {
    for (const [name, { whole, stream, status }] of Object.entries(SCENARIOS)) {
      test(`whole: ${name}`, async () => {
        const body = await gatewayOf(whole).buy(order)
        expect(mismatches('$defs/response', body)).toEqual([])
        expect([body.status, body.completed_at]).toEqual([status, status === 'completed' ? START / 1000 : null])
      })

      test(`streamed, each event and the response in it: ${name}`, async () => {
        const events = await gatewayOf(stream).stream({ ...order, stream: true })
        expectEvents(events)
        expect(events.at(-1)).toMatchObject({ type: `response.${status}`, response: { status } })
        expect(events[0].response.completed_at).toBeNull()
      })

      test(`polled while it is queued and when it is done, and attached to: ${name}`, async () => {
        const { buy, get, attached, clock } = gatewayOf(whole)
        const queued = await buy({ ...order, background: true })
        expect([queued.status, mismatches('$defs/response', queued)]).toEqual(['queued', []])
        await clock.settle()
        const done = await get(queued.id)
        expect([done.status, mismatches('$defs/response', done)]).toEqual([status, []])
        for (const member of Object.keys(request)) expect([member, done[member]]).toEqual([member, queued[member]])
        expectEvents(await attached(queued.id))
      })
    }
  })
}

describe('a response that has no answer has every member of the public API too (contract 7.26)', () => {
  const order = { model: MODEL, input: 'Why is the sky blue?', tools: [FUNCTION], background: true }

  test('failed upstream', async () => {
    const gateway = gatewayOf(() => Promise.reject(new ApiError('MODEL_UNAVAILABLE', { message: 'away' })))
    const { id } = await gateway.buy(order)
    await gateway.clock.settle()
    const body = await gateway.get(id)
    expect([body.status, body.error.code, mismatches('$defs/response', body)]).toEqual(['failed', 'server_error', []])
    expectEvents(await gateway.attached(id))
  })

  test('its payment refused', async () => {
    const chain = memoryChain()
    const gateway = gatewayOf(async () => wholeAnswer(), chain)
    chain.simulate('refused')
    const { id } = await gateway.buy(order)
    await gateway.clock.settle()
    const body = await gateway.get(id)
    expect([body.status, mismatches('$defs/response', body)]).toEqual(['failed', []])
    expectEvents(await gateway.attached(id))
  })

  test('in progress, and cancelled', async () => {
    const gateway = gatewayOf(() => new Promise(() => {}))
    const { id } = await gateway.buy(order)
    await gateway.clock.settle()
    const running = await gateway.get(id)
    expect([running.status, mismatches('$defs/response', running)]).toEqual(['in_progress', []])
    const cancelled = await gateway.cancel(id)
    expect([cancelled.status, mismatches('$defs/response', cancelled)]).toEqual(['cancelled', []])
    expectEvents(await gateway.attached(id))
  })

  test('a stream that breaks off ends with an error event that is numbered like the others (contract 7.26)', async () => {
    const { stream } = gatewayOf(async () =>
      streamAnswer([chunk({ role: 'assistant', content: 'Hel' }), new Error('reset by peer')]),
    )
    const events = await stream({ model: MODEL, input: 'Hello', stream: true })
    expectEvents(events)
    expect(events.at(-1)).toMatchObject({ type: 'error', param: null })
    expect(events.length).toBeGreaterThan(4)
  })
})

test('the schema is one that can fail: a response without a member, or with a wrong one, is refused', async () => {
  const body = await gatewayOf(async () => wholeAnswer()).buy({ model: MODEL, input: 'Hello' })
  for (const member of Object.keys(schema.$defs.response.properties)) {
    const { [member]: _, ...rest } = body
    expect([member, mismatches('$defs/response', rest)]).toEqual([member, [expect.stringContaining(`'${member}'`)]])
  }
  expect(mismatches('$defs/response', { ...body, temperature: null })).toEqual([
    '$defs/response/temperature must be number',
  ])
  expect(mismatches('events/response.unheard_of', {})).not.toEqual([])
})
