import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import OpenAI from 'openai'
import { responsesFromChatStream } from '../../../../../core/products/chat/formats/responses/chat_stream.ts'
import { responseEvents } from '../../../../../core/products/chat/formats/responses/events.ts'
import {
  chatFromResponsesReply,
  responseFailure,
  responsesFromChatReply,
} from '../../../../../core/products/chat/formats/responses/reply.ts'
import { chatFromResponses, responsesFromChat } from '../../../../../core/products/chat/formats/responses/request.ts'
import { builtInTools } from '../../../../../core/products/chat/formats/responses/tools.ts'
import { liveSearch } from '../../../../../core/products/chat/formats/responses/search.ts'
import { chatFromResponsesStream, responsesError } from '../../../../../core/products/chat/formats/responses/stream.ts'
import { sseJson, sseText } from '../../../../../core/products/chat/formats/sse.ts'
import type { Fields } from '../../../../../core/lib/json.ts'
import {
  answer,
  bodiesOf,
  call,
  called,
  calling,
  chatUsage,
  cut,
  eventsOf,
  facts,
  made,
  refused,
  refusing,
  rewrite,
  spoken,
} from './responses_samples.ts'
import { scaled } from '../../../../scope.ts'

/** A whole chat reply as a vendor would stream it, `size` characters at a time. */
function chunked(reply: Fields, size = 3): string {
  const { choices, usage, citations } = reply as any
  const { message, finish_reason } = choices[0]
  const pieces = (text: string) => text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
  const chunk = (delta: object, finish: string | null = null) =>
    sseJson({
      id: 'chatcmpl-x',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices: [{ index: 0, delta, finish_reason: finish }],
    })
  return [
    chunk({ role: 'assistant', content: '' }),
    ...pieces(message.reasoning_content ?? '').map((reasoning_content) => chunk({ reasoning_content })),
    ...pieces(message.content).map((content) => chunk({ content })),
    ...pieces(message.refusal ?? '').map((refusal) => chunk({ refusal })),
    ...(message.tool_calls ?? []).flatMap(({ id, function: { name, arguments: text } }: any, index: number) => [
      chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
      ...pieces(text).map((piece) => chunk({ tool_calls: [{ index, function: { arguments: piece } }] })),
    ]),
    chunk({}, finish_reason),
    sseJson({
      id: 'chatcmpl-x',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices: [],
      usage,
      citations,
    }),
    sseText({ data: '[DONE]' }),
  ].join('')
}

const ALL = { spoken, called, refused, cut }

let body = ''
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: () => new Response(body, { headers: { 'content-type': 'text/event-stream' } }),
})
afterAll(() => server.stop(true))
const client = new OpenAI({ apiKey: 'none', baseURL: `http://127.0.0.1:${server.port}`, maxRetries: 0 })
const finalResponse = async (text: string) => {
  body = text
  const { output_text, ...response } = (await client.responses
    .stream({ model: 'm', input: 'x' })
    .finalResponse()) as any
  return { output_text, response: withoutParsed(response) }
}
/** The client adds what it parsed; the wire has none of it. */
const PARSED = ['parsed', 'output_parsed', 'parsed_arguments']
const withoutParsed = (value: unknown) =>
  JSON.parse(JSON.stringify(value, (name, inner) => (PARSED.includes(name) ? undefined : inner)))

const completion = async (text: string) => {
  body = text
  return withoutParsed(await client.chat.completions.stream({ model: 'm', messages: [] }).finalChatCompletion())
}

describe('responsesFromChatStream()', () => {
  for (const [name, reply] of Object.entries(ALL)) {
    test(`the official client reads the Response of the whole reply from its stream: ${name}`, async () => {
      const whole = responsesFromChatReply(reply, made)
      for (const size of [1, 3, 1000]) {
        const text = rewrite(responsesFromChatStream(made), chunked(reply, size))
        expect(bodiesOf(text).at(-1).response).toEqual(whole)
        expect((await finalResponse(text)).response).toEqual(whole)
      }
    })

    test(`events are numbered from 0 and named by their type: ${name}`, () => {
      const text = rewrite(responsesFromChatStream(made), chunked(reply))
      expect(bodiesOf(text).map(({ sequence_number }) => sequence_number)).toEqual(
        bodiesOf(text).map((_, index) => index),
      )
      expect(eventsOf(text).map(({ event }) => event)).toEqual(bodiesOf(text).map(({ type }) => type))
      expect(
        eventsOf(text)
          .slice(0, 2)
          .map(({ event }) => event),
      ).toEqual(['response.created', 'response.in_progress'])
    })
  }

  test('each item opens, grows and closes in the order of the wire', () => {
    const reply = {
      choices: [
        {
          message: { role: 'assistant', reasoning_content: 'r', content: 't', tool_calls: [call('c', 'B')] },
          finish_reason: 'tool_calls',
        },
      ],
    }
    const text = rewrite(responsesFromChatStream(made), chunked(reply, 100))
    expect(eventsOf(text).map(({ event }) => event?.slice('response.'.length))).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'reasoning_summary_part.added',
      'reasoning_summary_text.delta',
      'reasoning_summary_text.done',
      'reasoning_summary_part.done',
      'output_item.done',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_item.added',
      'function_call_arguments.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'function_call_arguments.done',
      'output_item.done',
      'completed',
    ])
  })

  test('calls that all claim the index 0 are told apart by their id', () => {
    const piece = (id: string, name: string) =>
      sseJson({ choices: [{ delta: { tool_calls: [{ index: 0, id, function: { name, arguments: '{}' } }] } }] })
    const text = rewrite(
      responsesFromChatStream(made),
      piece('a', 'one') + piece('b', 'two') + sseText({ data: '[DONE]' }),
    )
    expect(bodiesOf(text).at(-1).response.output).toMatchObject([
      { call_id: 'a', name: 'one', arguments: '{}' },
      { call_id: 'b', name: 'two', arguments: '{}' },
    ])
  })

  test('reasoning that returns after the text is an item of its own', async () => {
    const delta = (members: object) => sseJson({ choices: [{ delta: members }] })
    const parts = [{ reasoning_content: 'a' }, { content: 'b' }, { reasoning_content: 'c' }, { content: 'd' }]
      .map(delta)
      .join('')
    const { response, output_text } = await finalResponse(
      rewrite(responsesFromChatStream(made), parts + sseText({ data: '[DONE]' })),
    )
    expect(response.output.map(({ type }: any) => type)).toEqual(['reasoning', 'message', 'reasoning'])
    expect(output_text).toBe('bd')
  })

  test('a stream that was cut off is incomplete', () => {
    const text = rewrite(responsesFromChatStream(made), sseJson({ choices: [{ delta: { content: 'Hel' } }] }))
    expect(bodiesOf(text).at(-1)).toMatchObject({
      type: 'response.incomplete',
      response: { status: 'incomplete', output: [{ status: 'incomplete' }] },
    })
  })
})

describe('responseEvents()', () => {
  const items: Fields = { ...responsesFromChatReply(spoken, made), output: answer.output ?? [], background: true }
  const replayed = {
    spoken: responsesFromChatReply(spoken, made),
    called: responsesFromChatReply(called, made),
    refused: responsesFromChatReply(refused, made),
    searched: items,
  }

  for (const [name, response] of Object.entries(replayed)) {
    test(`the official client reads the same Response from them: ${name}`, async () => {
      const events = responseEvents(response)
      expect(events.flatMap(bodiesOf).map(({ sequence_number }) => sequence_number)).toEqual(
        events.map((_, index) => index),
      )
      expect((await finalResponse(events.join(''))).response).toEqual(response)
      // Without the last word, from the deltas alone.
      const { response: partial } = await finalResponse(events.slice(0, -1).join(''))
      expect(partial.output).toEqual(withoutParsed(response.output))
    })
  }

  test('one that is under way has a prefix of what it will have', () => {
    const whole = responseEvents(items)
    expect(responseEvents({ ...items, status: 'queued', output: [], usage: null })).toEqual(whole.slice(0, 1))
    expect(responseEvents({ ...items, status: 'in_progress', output: [], usage: null })).toEqual(whole.slice(0, 2))
  })

  test('failure and cancelling are the last word', () => {
    expect(bodiesOf(responseEvents({ ...items, status: 'failed', output: [] }).join('')).at(-1).type).toBe(
      'response.failed',
    )
    expect(bodiesOf(responseEvents({ ...items, status: 'cancelled', output: [] }).join('')).at(-1)).toMatchObject({
      type: 'response.incomplete',
      response: { status: 'cancelled' },
    })
  })
})

describe('chatFromResponsesStream()', () => {
  for (const [name, response] of Object.entries({ answer, calling, refusing })) {
    test(`the official client reads the completion of the whole reply from its stream: ${name}`, async () => {
      const text = rewrite(chatFromResponsesStream(facts), responseEvents(response).join(''))
      const whole = chatFromResponsesReply(response, facts) as any
      const read = await completion(text)
      expect(read).toMatchObject({ id: whole.id, model: facts.model, created: facts.created })
      expect(read.choices[0].finish_reason).toBe(whole.choices[0].finish_reason)
      const { content, content_before_tools, reasoning_content, ...message } = whole.choices[0].message
      expect(read.choices[0].message).toMatchObject(message)
      // The client keeps only the last piece of what it does not know.
      const reasoned = bodiesOf(text).flatMap(({ choices }) =>
        choices.map(({ delta }: any) => delta.reasoning_content ?? ''),
      )
      expect(reasoned.join('')).toBe(reasoning_content ?? '')
      // The text before a call has gone out already, and a refusal's null is '' in chunks.
      if (name === 'answer') expect(read.choices[0].message.content).toBe(content)
      if (name === 'calling') expect(read.choices[0].message.content).toBe(content_before_tools)
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    })
  }

  test('usage comes last, with no choices, and citations with it', () => {
    const chunks = bodiesOf(rewrite(chatFromResponsesStream(facts), responseEvents(answer).join('')))
    expect(chunks[0].choices[0].delta).toEqual({ role: 'assistant', content: '' })
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: chatUsage,
      citations: ['https://a.org', 'https://b.org'],
    })
    expect(chunks.at(-2).choices[0].finish_reason).toBe('stop')
    expect(new Set(chunks.map(({ id }) => id))).toEqual(new Set(['chatcmpl-abc']))
  })

  test('sends text once that came whole instead of in deltas', () => {
    const only = (response: Fields, names: readonly string[]) =>
      responseEvents(response)
        .filter((event) => names.some((name) => event.startsWith(`event: response.${name}\n`)))
        .join('')
    const deltasOf = (text: string) =>
      bodiesOf(rewrite(chatFromResponsesStream(facts), text)).flatMap(({ choices }) =>
        choices.map(({ delta }: any) => delta),
      )
    for (const names of [
      ['completed'],
      ['output_item.done', 'completed'],
      ['output_text.done', 'output_item.done', 'completed'],
    ]) {
      const deltas = deltasOf(only(answer, names))
      expect(deltas.map(({ content = '' }) => content).join('')).toBe('Hello world')
      expect(deltas.map(({ reasoning_content = '' }) => reasoning_content).join('')).toContain(
        names[0] === 'output_text.done' ? 'One.' : 'One.\n\nTwo.',
      )
      const calls = deltasOf(only(calling, names)).flatMap(({ tool_calls = [] }) => tool_calls)
      expect(calls.map(({ index, function: { arguments: text } }: any) => `${index}${text}`).join('')).toBe(
        '00{"place":"Bern"}11{"place":"Oslo"}',
      )
    }
  })

  test('a cut-off ends with length, of the vendor or of the line', () => {
    const cutOff = { ...answer, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
    const chunks = bodiesOf(rewrite(chatFromResponsesStream(facts), responseEvents(cutOff).join('')))
    expect(chunks.at(-2).choices[0].finish_reason).toBe('length')
    const broken = bodiesOf(rewrite(chatFromResponsesStream(facts), responseEvents(answer).slice(0, 5).join('')))
    expect(broken.at(-1).choices[0].finish_reason).toBe('length')
  })

  test('there and back, a stream says what it said', () => {
    for (const reply of [spoken, called]) {
      const there = rewrite(responsesFromChatStream(made), chunked(reply))
      const back = rewrite(responsesFromChatStream(made), rewrite(chatFromResponsesStream(facts), there))
      expect(bodiesOf(back).at(-1).response).toEqual(bodiesOf(there).at(-1).response)
    }
  })

  test('responsesError() tells what failed, in each of its shapes, and passes what did not', () => {
    const failed = {
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error', message: 'Oops.' } },
    }
    const oops = { code: 'server_error', message: 'Oops.' }
    const shapes: unknown[] = [failed, { type: 'error', ...oops }, { type: 'error', error: oops }, { error: oops }]
    for (const shape of shapes) expect(responsesError({ data: JSON.stringify(shape) })).toEqual(oops)
    expect(responsesError({ event: 'error', data: JSON.stringify(oops) })).toEqual(oops)
    expect(responsesError({ event: 'error', data: 'overloaded' })).toEqual({ code: 'error', message: 'overloaded' })
    for (const event of eventsOf(responseEvents({ ...answer, error: null }).join(''))) {
      expect(responsesError(event)).toBeUndefined()
      expect(responsesError({ data: event.data })).toBeUndefined()
    }
    expect(
      responsesError({ data: JSON.stringify({ type: 'response.output_text.delta', delta: 'an "error"' }) }),
    ).toBeUndefined()
  })
})

describe('however the pieces of a stream interleave', () => {
  const text = fc.string({ minLength: 1, maxLength: 5 })
  const piece = fc.oneof(
    text.map((content) => ({ content })),
    text.map((reasoning_content) => ({ reasoning_content })),
    text.map((refusal) => ({ refusal })),
    fc
      .record({ index: fc.nat(2), isFirst: fc.boolean(), piece: fc.string({ maxLength: 4 }) })
      .map(({ index, isFirst, piece }) => ({
        tool_calls: [
          {
            index,
            ...(isFirst && { id: `c${index}` }),
            function: { ...(isFirst && { name: `n${index}` }), arguments: piece },
          },
        ],
      })),
  )
  const chunk = (delta: object, finish_reason: string | null = null) =>
    sseJson({ choices: [{ index: 0, delta, finish_reason }] })

  test('the official client reads one Response from it, from its deltas alone, and from its replay', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece, { maxLength: 14 }),
        fc.constantFrom('stop', 'length', 'tool_calls'),
        async (pieces, finish) => {
          const chat = pieces.map((delta) => chunk(delta)).join('') + chunk({}, finish) + sseText({ data: '[DONE]' })
          const rewritten = rewrite(responsesFromChatStream(made), chat)
          const { response } = bodiesOf(rewritten).at(-1)
          expect((await finalResponse(rewritten)).response).toEqual(response)
          const unfinished = eventsOf(rewritten).slice(0, -1).map(sseText).join('')
          expect((await finalResponse(unfinished)).response.output).toEqual(response.output)
          expect((await finalResponse(responseEvents(response).join(''))).response).toEqual(response)
          const { tool_calls: calls, reasoning_content: reasoned = '' } = (
            chatFromResponsesReply(response, facts) as any
          ).choices[0].message
          const back = rewrite(chatFromResponsesStream(facts), rewritten)
          const reasoning = bodiesOf(back).flatMap(({ choices }) =>
            choices.map(({ delta }: any) => delta.reasoning_content ?? ''),
          )
          expect(reasoning.join('')).toBe(reasoned)
          const callsOf = (list: any[] = []) =>
            list.map(({ id, function: { name, arguments: written } }) => [id, name, written])
          expect(callsOf((await completion(back)).choices[0].message.tool_calls)).toEqual(callsOf(calls))
        },
      ),
      { numRuns: 60 },
    )
  })
})

// ── anything ────────────────────────────────────────────────────────────────────────────────────────────────────────

const WORDS = `
  messages input output content role type tools tool_calls function tool_choice text format reasoning summary choices message delta usage
  annotations index id name arguments status response item search_parameters sources error part output_index content_index item_id image_url
  response_format finish_reason citations toString __proto__ constructor`
  .trim()
  .split(/\s+/)
const VALUES = `
  user assistant system tool function message function_call function_call_output reasoning output_text input_image x json_schema
  response.created response.completed response.output_item.done response.output_item.added response.function_call_arguments.delta error
  __proto__ completed incomplete failed constructor toString valueOf length`
  .trim()
  .split(/\s+/)
const { object } = fc.letrec<{ value: unknown; object: Fields }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(...VALUES),
    fc.constantFrom(null, true, -1, 0.5, 1e308, ''),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc.dictionary(fc.constantFrom(...WORDS), tie('value'), {
    maxKeys: 6,
    noNullPrototype: true,
  }) as fc.Arbitrary<Fields>,
}))

describe('no JSON object makes a translation throw', () => {
  const json = object.map((value) => JSON.parse(JSON.stringify(value)) as Fields)

  test('as a request or a whole reply', () => {
    const all = (value: Fields) => [
      responsesFromChat(value),
      liveSearch(value),
      builtInTools(value),
      chatFromResponses(value),
      chatFromResponsesReply(value, facts),
      responsesFromChatReply(value, { ...made, request: value }),
      responseEvents(value),
      responseFailure(value),
    ]
    fc.assert(
      fc.property(json, (value) => JSON.stringify(all(value)).length > 0),
      { numRuns: scaled(400, 2000) },
    )
  })

  test('as events of a stream', () => {
    fc.assert(
      fc.property(fc.array(json, { maxLength: 5 }), (values) => {
        const text = values.map((value) => sseJson(value)).join('')
        for (const event of eventsOf(text)) responsesError(event)
        const chat = rewrite(chatFromResponsesStream(facts), text)
        const responses = rewrite(responsesFromChatStream(made), text)
        bodiesOf(chat)
        const numbers = bodiesOf(responses).map(({ sequence_number }) => sequence_number)
        expect(numbers).toEqual(numbers.map((_, index) => index))
      }),
      { numRuns: scaled(200, 1000) },
    )
  })
})
