import { describe, expect, test } from 'bun:test'
import { ECHO_LABEL, echoVendor } from '../../../../server/devnet/demo/chat.ts'
import type { ChatStream, Fields } from '../../../../core/mod.ts'
import { chatVendorLaws, withoutUpstream } from '../../../conformance/chat_vendors.ts'
import { runLaws } from '../../../conformance/law.ts'

/** A token for each four characters begun. */
const countTokens = async (text: string) => Math.ceil(text.length / 4)
const echo = echoVendor({ countTokens, now: () => 1_800_000_000_999 })

runLaws(
  'echo',
  chatVendorLaws,
  async () => ({ open: async () => ({ vendor: echo, model: 'echo-1' }), close: async () => {} }),
  {
    except: withoutUpstream('a program in this process has no upstream to misbehave'),
  },
)

const calm = () => ({ signal: new AbortController().signal })
const user = (content: Fields[string]) => ({ role: 'user', content })
const order = (body: Fields, stream = false) =>
  ({ format: 'chat', model: 'echo-1', body, stream, headers: {} }) as const

async function ask(body: Fields): Promise<any> {
  const answer = await echo.ask(order(body), calm())
  return answer.kind === 'whole' ? answer.body : undefined
}

async function say(
  text: string,
  more: Fields = {},
): Promise<{ content: string; calls: any[]; finish: string; usage: any; reasoning: string | undefined }> {
  const { choices, usage } = await ask({ messages: [user(text)], ...more })
  const { message, finish_reason: finish } = choices[0]
  return {
    content: message.content,
    calls: message.tool_calls ?? [],
    finish,
    usage,
    reasoning: message.reasoning_content,
  }
}

async function open(body: Fields, at = calm()): Promise<ChatStream> {
  const answer = await echo.ask(order(body, true), at)
  if (answer.kind !== 'stream') throw new Error('not a stream')
  return answer.stream
}

async function chunks(body: Fields): Promise<any[]> {
  const [stream, found] = [await open(body), [] as any[]]
  for (let piece = await stream.next(); piece; piece = await stream.next()) {
    const data = new TextDecoder().decode(piece).slice('data: '.length)
    if (!data.startsWith('[DONE]')) found.push(JSON.parse(data))
  }
  return found
}

const weather = (parameters: Fields = {}) => ({ type: 'function', function: { name: 'get_weather', parameters } })
const time = { type: 'function', function: { name: 'get_time' } }
const schemaOf = (schema: Fields) => ({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } })
const made = async (schema: Fields, text = 'Paris in 3 days') => JSON.parse((await say(text, schemaOf(schema))).content)

describe('its answer', () => {
  test('says that it is not a model, then repeats the last words of the user', async () => {
    const { content } = await say('a red lighthouse')
    expect(content).toBe(`${ECHO_LABEL} You said: "a red lighthouse".`)
    expect((await say('')).content).toBe(`${ECHO_LABEL} You said: "".`)
  })

  test('the same order gets the same answer; another order has another id', async () => {
    const body = { messages: [user('hello')] }
    expect(await ask(body)).toEqual(await ask(body))
    expect((await ask({ messages: [user('hello!')] })).id).not.toBe((await ask(body)).id)
  })

  test('dates its answers by the clock that it was given, in seconds; without one they have no date', async () => {
    expect((await ask({ messages: [user('hello')] })).created).toBe(1_800_000_000)
    const answer = await echoVendor({ countTokens }).ask(order({ messages: [] }), calm())
    expect(answer.kind === 'whole' && answer.body.created).toBe(0)
  })

  test('writes as many sentences as it is asked for, a thousand at most, all different', async () => {
    const sentences = ({ content }: { content: string }) =>
      content
        .slice(ECHO_LABEL.length)
        .trim()
        .split(/(?<=\.) /)
    expect(sentences(await say('Write 40 sentences about the sea'))).toHaveLength(40)
    const most = sentences(await say('please write me about 99999 sentences'))
    expect([most.length, new Set(most).size]).toEqual([1_000, 1_000])
  })

  test('quotes no more than 200 characters, none of them cut in half', async () => {
    const { content } = await say('🦊'.repeat(500))
    expect(content).toContain(`"${'🦊'.repeat(200)}…"`)
  })

  test('refuses a format that is not its own', async () => {
    expect(echo.ask({ ...order({}), format: 'messages' }, calm())).rejects.toThrow('the echo model speaks chat')
  })
})

describe('limits', () => {
  test('usage is what the counter says: texts and four for each message, and three; and what was said', async () => {
    const { content, usage } = await say('hello there')
    const completion = await countTokens(content)
    expect(usage).toEqual({ prompt_tokens: 3 + 4 + 3, completion_tokens: completion, total_tokens: 10 + completion })
  })

  test('ends at max_tokens, or at max_completion_tokens where both are there, with length', async () => {
    for (const [limits, most] of [
      [{ max_tokens: 5 }, 5],
      [{ max_tokens: 50, max_completion_tokens: 3 }, 3],
    ] as const) {
      const { content, finish, usage } = await say('hello there', limits)
      expect([content, finish, usage.completion_tokens]).toEqual([ECHO_LABEL.slice(0, 4 * most), 'length', most])
    }
  })

  test('an answer that is exactly as long as it may be is whole', async () => {
    const { usage } = await say('hello there')
    expect((await say('hello there', { max_tokens: usage.completion_tokens })).finish).toBe('stop')
    expect((await say('hello there', { max_tokens: usage.completion_tokens - 1 })).finish).toBe('length')
  })

  test('ends before the first of its stop sequences', async () => {
    expect(await say('hello there', { stop: ' You said' })).toMatchObject({ content: ECHO_LABEL, finish: 'stop' })
    expect(await say('hello there', { stop: ['nowhere', 'model.)', 'deterministic'] })).toMatchObject({
      content: '(Farebox echo: a small ',
      finish: 'stop',
    })
  })

  test('reasons when an effort is named, and counts it; max_tokens goes to the reasoning first', async () => {
    const { reasoning, usage, content } = await say('hello there', { reasoning_effort: 'low' })
    expect(reasoning).toBe('The last message asks for an answer.')
    const thought = await countTokens(reasoning ?? '')
    expect(usage.completion_tokens_details).toEqual({ reasoning_tokens: thought })
    expect(usage.completion_tokens).toBe(thought + (await countTokens(content)))
    expect(await say('hello there', { reasoning_effort: 'low', max_tokens: 4 })).toMatchObject({
      reasoning: 'The last message',
      content: '',
      finish: 'length',
    })
    expect((await say('hello there', { reasoning_effort: 'none' })).reasoning).toBeUndefined()
  })
})

describe('tools', () => {
  const city = weather({
    type: 'object',
    properties: { city: { type: 'string' }, days: { type: 'integer' }, unit: { enum: ['C', 'F'] } },
    required: ['days', 'unit'],
  })

  test('calls a tool that is demanded, named in the message or in tool_choice, or when the user says "call"', async () => {
    const called = async (text: string, choice: Fields[string]) =>
      (await say(text, { tools: [time, city], tool_choice: choice })).calls.map((call) => call.function.name)
    expect(await called('hello', 'required')).toEqual(['get_time'])
    expect(await called('use get_weather', 'required')).toEqual(['get_weather'])
    expect(await called('use get_weather', 'auto')).toEqual(['get_weather'])
    expect(await called('call something', 'auto')).toEqual(['get_time'])
    expect(await called('hello', { type: 'function', function: { name: 'get_weather' } })).toEqual(['get_weather'])
    expect(await called('hello', 'auto')).toEqual([])
    expect(await called('I recall', 'auto')).toEqual([])
    expect(await called('call get_weather', 'none')).toEqual([])
    expect(await called('hello', { type: 'function', function: { name: 'unknown' } })).toEqual([])
  })

  test('fills the required fields only, and says nothing beside the call', async () => {
    const { calls, content, finish } = await say('call get_weather for 3 days', { tools: [city] })
    expect([JSON.parse(calls[0].function.arguments), content, finish]).toEqual([
      { days: 3, unit: 'C' },
      '',
      'tool_calls',
    ])
    expect((await say('call it', { tools: [time] })).calls[0].function.arguments).toBe('{}')
  })

  test('answers a tool result with its words, and calls nothing then', async () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{}' } }
    const messages = [
      user('call get_weather'),
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'sunny, 21 C' },
    ]
    const { choices } = await ask({ messages, tools: [city], tool_choice: 'required' })
    expect([choices[0].message.content, choices[0].finish_reason]).toEqual([
      `${ECHO_LABEL} The tool answered: "sunny, 21 C".`,
      'stop',
    ])
  })

  test('a call is cut at max_tokens like any answer, and not made where its name alone is too long', async () => {
    const body = {
      tools: [weather({ type: 'object', properties: { city: { type: 'string' } }, required: ['city'] })],
      tool_choice: 'required',
    }
    const { calls, finish, usage } = await say('Paris', { ...body, max_tokens: 5 })
    expect([calls[0].function.arguments, finish, usage.completion_tokens]).toEqual(['{"city":', 'length', 5])
    expect(await say('Paris', { ...body, max_tokens: 2 })).toMatchObject({
      calls: [],
      content: '',
      finish: 'length',
      usage: { completion_tokens: 0 },
    })
  })
})

describe('structured output', () => {
  test('json_object is a JSON object that says what it is', async () => {
    const { content } = await say('two words', { response_format: { type: 'json_object' } })
    expect(JSON.parse(content)).toEqual({ note: ECHO_LABEL, you_said: 'two words' })
  })

  test('json_schema is filled: words, numbers, first choices, nested objects and arrays, required fields only', async () => {
    const point = {
      type: 'object',
      properties: { x: { type: 'number' }, y: { type: 'number' }, z: { type: 'number' } },
      required: ['x', 'y'],
    }
    const fields = {
      text: { type: 'string' },
      yes: { type: 'boolean' },
      kind: { enum: ['a', 'b'] },
      fixed: { const: 7 },
      point,
      points: { type: 'array', items: point, minItems: 2 },
      nothing: { type: 'null' },
    }
    expect(await made({ type: 'object', properties: fields, required: Object.keys(fields) }, 'from 1.5 to -2')).toEqual(
      {
        text: 'from 1.5 to -2',
        yes: true,
        kind: 'a',
        fixed: 7,
        point: { x: 1.5, y: -2 },
        points: [
          { x: 1.5, y: -2 },
          { x: 1.5, y: -2 },
        ],
        nothing: null,
      },
    )
  })

  test('keeps within bounds and lengths', async () => {
    expect(await made({ type: 'integer', minimum: 5 })).toBe(5)
    expect(await made({ type: 'integer', exclusiveMaximum: 3 })).toBe(2)
    expect(await made({ type: 'integer' }, '2.7')).toBe(2)
    expect(await made({ type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 })).toBe(0.5)
    expect(await made({ type: 'string', maxLength: 5 })).toBe('Paris')
    expect(await made({ type: 'string', minLength: 20 })).toHaveLength(20)
    expect(await made({ type: 'string', format: 'date' })).toBe('2026-01-01')
    expect(await made({ type: 'array', items: { type: 'boolean' }, maxItems: 0 })).toEqual([])
  })

  test('follows references and unions', async () => {
    const $defs = { day: { type: 'integer' } }
    expect(
      await made({ $defs, type: 'object', properties: { day: { $ref: '#/$defs/day' } }, required: ['day'] }),
    ).toEqual({ day: 3 })
    expect(await made({ anyOf: [{ type: 'null' }, { type: 'boolean' }] })).toBe(true)
    expect(await made({ oneOf: [{ type: 'null' }] })).toBeNull()
    expect(await made({ type: ['null', 'integer'] })).toBe(3)
  })

  test('a schema without an end, or too large, comes to one', async () => {
    const node = {
      type: 'object',
      properties: { left: { $ref: '#' }, right: { $ref: '#' } },
      required: ['left', 'right'],
    }
    expect(typeof (await made(node))).toBe('object')
    expect(await made({ $ref: '#' })).toBeNull()
    expect(await made({ type: 'array', items: { type: 'boolean' }, minItems: 1e9 })).toHaveLength(100)
    expect(await made({ $ref: '#/__proto__/constructor' })).toBe('Paris in 3 days')
    const long = 'x'.repeat(30_000)
    for (const item of [{ const: long }, { properties: {}, required: [long] }, { type: 'string', minLength: 1e9 }]) {
      expect(JSON.stringify(await made({ type: 'array', items: item, minItems: 100 })).length).toBeLessThan(150_000)
    }
  })
})

describe('streams', () => {
  test('the role first, then word by word what a whole answer says, why it ended, and the usage', async () => {
    const body = { messages: [user('hello there')], reasoning_effort: 'high' }
    const [found, { id, created, choices, usage }] = [await chunks(body), await ask(body)]
    const deltas = found.flatMap((chunk) => chunk.choices.map(({ delta }: any) => delta))
    expect(found.every((chunk) => chunk.id === id && chunk.created === created)).toBe(true)
    expect(deltas[0]).toEqual({ role: 'assistant', content: '' })
    expect(
      deltas
        .filter(({ reasoning_content }) => reasoning_content)
        .map(({ reasoning_content }) => reasoning_content)
        .join(''),
    ).toBe(choices[0].message.reasoning_content)
    expect(deltas.map(({ content }) => content ?? '').join('')).toBe(choices[0].message.content)
    expect(found.at(-2).choices).toEqual([{ index: 0, delta: {}, finish_reason: 'stop' }])
    expect([found.at(-1).choices, found.at(-1).usage]).toEqual([[], usage])
  })

  test('a tool call is streamed under its id, its arguments in pieces', async () => {
    const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const body = { messages: [user('call get_weather for Paris please')], tools: [weather(parameters)] }
    const [found, { choices }] = [await chunks(body), await ask(body)]
    const calls = found.flatMap((chunk) => chunk.choices.flatMap(({ delta }: any) => delta.tool_calls ?? []))
    const [whole] = choices[0].message.tool_calls
    expect(calls[0]).toEqual({ index: 0, ...whole, function: { name: 'get_weather', arguments: '' } })
    expect(calls.map((call) => call.function.arguments).join('')).toBe(whole.function.arguments)
    expect(calls.length).toBeGreaterThan(3)
    expect(found.at(-2).choices[0].finish_reason).toBe('tool_calls')
  })

  test('an abort while the prompt is counted ends the order with its reason', async () => {
    const counting = Promise.withResolvers<number>()
    const controller = new AbortController()
    const pending = echoVendor({ countTokens: () => counting.promise })
      .ask(order({ messages: [user('hello')] }), controller)
      .catch((error: unknown) => error)
    controller.abort('enough')
    counting.resolve(1)
    expect(await pending).toBe('enough')
  })
})
