/**
 * The makers' own clients, unchanged but for their address and a fetch that pays, against one devnet gateway: real
 * answers, real transfers.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { type FunctionDeclaration, GoogleGenAI, Type } from '@google/genai'
import { decodePaymentResponseHeader } from '@x402/fetch'
import OpenAI from 'openai'
import { ECHO_LABEL } from '../../../server/devnet/demo/chat.ts'
import type { Running } from '../../../server/main.ts'
import { door } from '../../kit.ts'
import { startedGateways } from '../started_gateway.ts'
import { type Checkout, checkoutAt } from './chat_kit.ts'
import { program } from '../../programs/mod.ts'

const ECHO = 'farebox/echo'
const FREE = 'farebox/echo-free'
const QUESTION = 'Please look at the weather in Bern: call get_weather.'
const FOUND = '{"sky":"fog over the Aare"}'
const CITY = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const }, days: { type: 'integer' as const } },
  required: ['city', 'days'],
  additionalProperties: false,
}

const { startWith } = startedGateways()
/** An upstream that never answers, and notices who hangs up: what can still be cancelled must be under way. */
const arrived = door()
const left = door()
const slow = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  fetch(request) {
    request.signal.addEventListener('abort', left.open)
    arrived.open()
    return new Promise<Response>(() => {})
  },
})

let running: Running
let checkout: Checkout

beforeAll(async () => {
  running = await startWith({ OPENAI_API_KEY: 'any', OPENAI_BASE_URL: `${slow.url}v1` })
  checkout = await checkoutAt(running.url)
})

afterAll(() => slow.stop(true))

async function gathered<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const each of stream) all.push(each)
  return all
}

/** A receipt as its reader has it, from the headers that a client hands out. */
function expectReceipt(header: string | null | undefined): void {
  expect(decodePaymentResponseHeader(header ?? '')).toMatchObject({
    success: true,
    network: 'eip155:84532',
    payer: checkout.payer.account.address,
    transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
  })
}

describe('openai', () => {
  const client = (pays = true) =>
    new OpenAI({ baseURL: `${running.url}/api/v1`, apiKey: 'any', ...(pays && { fetch: checkout.pay }) })
  const messages = [{ role: 'user' as const, content: 'Hello there, gateway' }]
  const tools = [
    { type: 'function' as const, function: { name: 'get_weather', description: 'Looks outside.', parameters: CITY } },
  ]

  test('chats, reads its usage, and finds the receipt beside the answer', async () => {
    const { answer, sales } = await checkout.bought(() =>
      client().chat.completions.create({ model: ECHO, messages }).withResponse(),
    )
    const { data, response } = answer
    expect(data).toMatchObject({
      object: 'chat.completion',
      model: ECHO,
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant' } }],
    })
    expect(data.choices[0]?.message.content).toContain('You said: "Hello there, gateway".')
    expect(data.usage?.total_tokens).toBe(data.usage!.prompt_tokens + data.usage!.completion_tokens)
    expect(data.usage?.completion_tokens).toBeGreaterThan(5)
    expectReceipt(response.headers.get('payment-response'))
    expect(sales).toHaveLength(1)
  })

  test('streams', async () => {
    const { answer: chunks } = await checkout.bought(async () =>
      gathered(await client().chat.completions.create({ model: ECHO, messages, stream: true })),
    )
    expect(chunks.length).toBeGreaterThan(10)
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toContain(
      'You said: "Hello there, gateway".',
    )
    expect(chunks.at(-1)?.usage?.total_tokens).toBeGreaterThan(10)
    expect(new Set(chunks.map(({ model }) => model))).toEqual(new Set([ECHO]))
  })

  test('gathers a stream to the answer that comes whole', async () => {
    const { answer: whole } = await checkout.bought(() => client().chat.completions.create({ model: ECHO, messages }))
    const { answer: streamed } = await checkout.bought(async () => {
      const run = client().chat.completions.stream({ model: ECHO, messages })
      return { final: await run.finalChatCompletion(), usage: await run.totalUsage() }
    })
    expect(streamed.final.choices[0]?.message.content).toBe(whole.choices[0]!.message.content)
    expect(streamed.usage).toMatchObject(whole.usage!)
  })

  test('calls a tool, whole and streamed, and gets an answer for its result', async () => {
    const requests = [{ role: 'user' as const, content: QUESTION }]
    const { answer: first } = await checkout.bought(() =>
      client().chat.completions.create({ model: ECHO, messages: requests, tools }),
    )
    const { message, finish_reason } = first.choices[0]!
    const [call] = message.tool_calls ?? []
    if (call?.type !== 'function') throw new Error('no function was called')
    expect([finish_reason, call.function.name, Object.keys(JSON.parse(call.function.arguments))]).toEqual([
      'tool_calls',
      'get_weather',
      ['city', 'days'],
    ])
    const { answer: streamed } = await checkout.bought(() =>
      client().chat.completions.stream({ model: ECHO, messages: requests, tools }).finalChatCompletion(),
    )
    expect(streamed.choices[0]?.message.tool_calls).toMatchObject([{ type: 'function', function: call.function }])
    const { answer: last } = await checkout.bought(() =>
      client().chat.completions.create({
        model: ECHO,
        messages: [...requests, message, { role: 'tool', tool_call_id: call.id, content: FOUND }],
        tools,
      }),
    )
    expect(last.choices[0]?.message.content).toContain('The tool answered: "{\\"sky\\":\\"fog over the Aare\\"}"')
  })

  test('runs tools by itself, each turn paid once', async () => {
    const seen: unknown[] = []
    const tool = {
      type: 'function' as const,
      function: {
        name: 'get_weather',
        description: 'Looks outside.',
        parameters: CITY,
        parse: JSON.parse,
        function: (found: unknown) => (seen.push(found), FOUND),
      },
    }
    const { answer, sales } = await checkout.bought(() =>
      client()
        .chat.completions.runTools({ model: ECHO, messages: [{ role: 'user', content: QUESTION }], tools: [tool] })
        .finalContent(),
    )
    expect(answer).toContain('fog over the Aare')
    expect(seen).toMatchObject([{ city: QUESTION, days: 1 }])
    expect(sales).toHaveLength(2)
  })

  test('gets JSON of the schema that it asked for', async () => {
    const response_format = { type: 'json_schema' as const, json_schema: { name: 'trip', strict: true, schema: CITY } }
    const { answer } = await checkout.bought(() =>
      client().chat.completions.parse({
        model: ECHO,
        messages: [{ role: 'user', content: 'Three days: 3' }],
        response_format,
      }),
    )
    expect(JSON.parse(answer.choices[0]?.message.content ?? '')).toEqual({ city: 'Three days: 3', days: 3 })
  })

  test('asks the responses API, whole and streamed', async () => {
    const request = { model: ECHO, instructions: 'Be brief.', input: 'Hello there, gateway' }
    const { answer } = await checkout.bought(() => client().responses.create(request).withResponse())
    expect(answer.data).toMatchObject({
      object: 'response',
      status: 'completed',
      model: ECHO,
      instructions: 'Be brief.',
    })
    expect(answer.data.output_text).toContain('You said: "Hello there, gateway".')
    expect(answer.data.usage?.total_tokens).toBe(answer.data.usage!.input_tokens + answer.data.usage!.output_tokens)
    expectReceipt(answer.response.headers.get('payment-response'))
    const { answer: events } = await checkout.bought(async () =>
      gathered(await client().responses.create({ ...request, stream: true })),
    )
    expect(events[0]?.type).toBe('response.created')
    expect(events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('')).toBe(
      answer.data.output_text,
    )
    expect(events.at(-1)).toMatchObject({
      type: 'response.completed',
      response: { usage: { total_tokens: answer.data.usage!.total_tokens } },
    })
    const { answer: final } = await checkout.bought(() => client().responses.stream(request).finalResponse())
    expect(final.output_text).toBe(answer.data.output_text)
  })

  test('calls a tool through the responses API, gives its result, and gets JSON', async () => {
    const functions = [{ type: 'function' as const, name: 'get_weather', parameters: CITY, strict: true }]
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: QUESTION }]
    const { answer: first } = await checkout.bought(() =>
      client().responses.create({ model: ECHO, input, tools: functions }),
    )
    const call = first.output.find(({ type }) => type === 'function_call')
    if (call?.type !== 'function_call') throw new Error('no function was called')
    const result = { type: 'function_call_output' as const, call_id: call.call_id, output: FOUND }
    const { answer: last } = await checkout.bought(() =>
      client().responses.create({ model: ECHO, input: [...input, call, result], tools: functions }),
    )
    expect(last.output_text).toContain('fog over the Aare')
    const { answer: made } = await checkout.bought(() =>
      client().responses.parse({
        model: ECHO,
        input: 'Three days: 3',
        text: { format: { type: 'json_schema', name: 'trip', schema: CITY, strict: true } },
      }),
    )
    expect(JSON.parse(made.output_text)).toEqual({ city: 'Three days: 3', days: 3 })
  })

  test('orders an answer in the background, retrieves it whole and as events, and pays once', async () => {
    const before = await checkout.block()
    const queued = await client().responses.create({ model: ECHO, input: 'Hello there, gateway', background: true })
    expect(queued).toMatchObject({ status: 'queued', background: true, output: [] })
    expect(await running.wired.drain(10_000)).toBe(0)
    const { data, response } = await client(false).responses.retrieve(queued.id).withResponse()
    expect([data.id, data.status, data.output_text]).toEqual([
      queued.id,
      'completed',
      expect.stringContaining('You said: "Hello there, gateway".'),
    ])
    const [paid, ...more] = await checkout.transfersSince(before)
    expect([paid?.value, more]).toEqual([checkout.quoted(), []])
    expectReceipt(response.headers.get('payment-response'))
    expect(response.headers.get('x-payment-receipt')).toBe(paid!.transaction)
    const events = await gathered(await client(false).responses.retrieve(queued.id, { stream: true }))
    expect(events.at(-1)).toMatchObject({ type: 'response.completed', response: { id: queued.id, usage: data.usage } })
    const rest = await gathered(await client(false).responses.retrieve(queued.id, { stream: true, starting_after: 3 }))
    expect(rest).toEqual(events.slice(4))
    expect(await checkout.transfersSince(before)).toHaveLength(1)
  })

  test('cancels what is under way in the background, which costs nothing and ends the work', async () => {
    const before = await checkout.block()
    const { id } = await client().responses.create({ model: 'openai/gpt-6-luna', input: 'Hello', background: true })
    await arrived.passed
    const cancelled = await client().responses.cancel(id)
    expect(cancelled).toMatchObject({ id, status: 'cancelled', output: [] })
    await left.passed
    expect(await client().responses.retrieve(id)).toMatchObject({ id, status: 'cancelled' })
    expect(await running.wired.drain(10_000)).toBe(0)
    expect(await checkout.transfersSince(before)).toEqual([])
  })

  test('lists the models, with the echo model among them', async () => {
    const listed = await gathered(client(false).models.list())
    expect(listed.find(({ id }) => id === ECHO)).toMatchObject({
      object: 'model',
      owned_by: 'farebox',
      created: expect.any(Number),
    })
  })

  test('retrieves a model by its id and by an alias, slash and all, and reads that there is no such model (contract 8.14)', async () => {
    for (const [request, id] of [
      [ECHO, ECHO],
      ['openai/gpt-6-luna', 'vendor-a/chat-6-small'],
      ['gpt-6-luna', 'vendor-a/chat-6-small'],
    ] as const)
      expect(await client(false).models.retrieve(request)).toMatchObject({
        id,
        object: 'model',
        owned_by: id.split('/')[0],
      })
    const refused = await client(false)
      .models.retrieve('nobody/nothing')
      .catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(OpenAI.NotFoundError)
    expect(refused).toMatchObject({ status: 404, code: 'MODEL_NOT_FOUND', type: 'not_found_error', param: 'model' })
  })

  test('chats and streams free of charge without a wallet', async () => {
    const { data, response } = await client(false).chat.completions.create({ model: FREE, messages }).withResponse()
    expect([response.headers.get('x-free-model'), data.choices[0]?.message.content?.startsWith(ECHO_LABEL)]).toEqual([
      'true',
      true,
    ])
    const streamed = await client(false).chat.completions.stream({ model: FREE, messages }).finalChatCompletion()
    expect(streamed.choices[0]?.message.content).toBe(data.choices[0]!.message.content)
    const made = await client(false)
      .chat.completions.stream({ model: FREE, messages: [{ role: 'user', content: QUESTION }], tools })
      .finalChatCompletion()
    expect(made.choices[0]?.message.tool_calls).toHaveLength(1)
  })

  test('reads a refusal as its own error, with its code and its field', async () => {
    const refused = await client(false)
      .chat.completions.create({ model: 'nobody/nothing', messages })
      .catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(OpenAI.BadRequestError)
    expect(refused).toMatchObject({
      status: 400,
      param: 'model',
      type: 'invalid_request_error',
      message: expect.stringContaining('Unknown model: nobody/nothing'),
    })
    const unpaid = await client(false)
      .chat.completions.create({ model: ECHO, messages })
      .catch((error: unknown) => error)
    expect(unpaid).toMatchObject({ status: 402 })
  })
})

describe('@anthropic-ai/sdk', () => {
  const client = (pays = true) =>
    new Anthropic({ baseURL: `${running.url}/api`, apiKey: 'any', ...(pays && { fetch: checkout.pay }) })
  const request = { max_tokens: 300, messages: [{ role: 'user' as const, content: 'Hello there, gateway' }] }
  const tools = [{ name: 'get_weather', description: 'Looks outside.', input_schema: CITY }]
  const textOf = ({ content }: Anthropic.Message) =>
    content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')

  test('converses, reads its usage, and finds the receipt beside the answer', async () => {
    const { answer, sales } = await checkout.bought(() =>
      client()
        .messages.create({ model: ECHO, system: 'Be brief.', ...request })
        .withResponse(),
    )
    expect(answer.data).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: ECHO,
      stop_reason: 'end_turn',
      id: expect.stringMatching(/^msg_/),
    })
    expect(textOf(answer.data)).toContain('You said: "Hello there, gateway".')
    expect(answer.data.usage).toMatchObject({ input_tokens: expect.any(Number), output_tokens: expect.any(Number) })
    expectReceipt(answer.response.headers.get('payment-response'))
    expect(sales).toHaveLength(1)
  })

  test('streams, by events and to the final message', async () => {
    const { answer: events } = await checkout.bought(async () =>
      gathered(await client().messages.create({ model: ECHO, ...request, stream: true })),
    )
    expect(events.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1])).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ])
    const { answer: final } = await checkout.bought(() =>
      client()
        .messages.stream({ model: ECHO, ...request })
        .finalMessage(),
    )
    expect(final).toMatchObject({ model: ECHO, stop_reason: 'end_turn' })
    expect(textOf(final)).toContain('You said: "Hello there, gateway".')
    expect(final.usage.output_tokens).toBeGreaterThan(5)
    expect(final.usage.input_tokens).toBeGreaterThan(5)
  })

  test('uses a tool, whole and streamed, and gets an answer for its result', async () => {
    const question = { role: 'user' as const, content: QUESTION }
    const { answer: first } = await checkout.bought(() =>
      client().messages.create({ model: ECHO, ...request, messages: [question], tools }),
    )
    const use = first.content.find((block) => block.type === 'tool_use')
    if (!use) throw new Error('no tool was used')
    expect([first.stop_reason, use.name, use.input]).toEqual(['tool_use', 'get_weather', { city: QUESTION, days: 1 }])
    const { answer: streamed } = await checkout.bought(() =>
      client()
        .messages.stream({ model: ECHO, ...request, messages: [question], tools })
        .finalMessage(),
    )
    expect(streamed.content).toMatchObject([{ type: 'tool_use', name: 'get_weather', input: use.input as object }])
    const result = {
      role: 'user' as const,
      content: [{ type: 'tool_result' as const, tool_use_id: use.id, content: FOUND }],
    }
    const { answer: last } = await checkout.bought(() =>
      client().messages.create({
        model: ECHO,
        ...request,
        messages: [question, { role: 'assistant', content: first.content }, result],
        tools,
      }),
    )
    expect(textOf(last)).toContain('fog over the Aare')
  })

  test('gets JSON of the schema that it asked for', async () => {
    const output_config = { format: { type: 'json_schema' as const, schema: CITY } }
    const { answer } = await checkout.bought(() =>
      client().messages.create({
        model: ECHO,
        ...request,
        messages: [{ role: 'user', content: 'Three days: 3' }],
        output_config,
      }),
    )
    expect(JSON.parse(textOf(answer))).toEqual({ city: 'Three days: 3', days: 3 })
  })

  test('counts tokens at every turn, free of charge and without a wallet, and pays for what was counted (contract 7.27)', async () => {
    const before = await checkout.block()
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: QUESTION }]
    const body = { model: ECHO, system: 'Be brief.', tools, messages }
    const counted = await client(false).messages.countTokens(body)
    const beta = await client(false).beta.messages.countTokens(body)
    expect([counted, beta]).toEqual([{ input_tokens: expect.any(Number) }, counted])
    expect(counted.input_tokens).toBeGreaterThan(20)
    expect(await checkout.transfersSince(before)).toEqual([])
    const { answer } = await checkout.bought(() => client().messages.create({ ...body, max_tokens: 300 }))
    messages.push({ role: 'assistant', content: answer.content })
    const [use] = answer.content.filter(({ type }) => type === 'tool_use')
    if (use?.type !== 'tool_use') throw new Error('no tool was used')
    messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: FOUND }] })
    const next = await client(false).messages.countTokens(body)
    expect(next.input_tokens).toBeGreaterThan(counted.input_tokens)
    const refused = await client(false)
      .messages.countTokens({ ...body, model: 'nobody/nothing' })
      .catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(Anthropic.BadRequestError)
  })

  test('converses free of charge without a wallet', async () => {
    const message = await client(false).messages.create({ model: FREE, ...request })
    const bearer = new Anthropic({ baseURL: `${running.url}/api`, apiKey: null, authToken: 'any' })
    const streamed = await bearer.messages.stream({ model: FREE, ...request }).finalMessage()
    expect(textOf(message)).toStartWith(ECHO_LABEL)
    expect(textOf(streamed)).toBe(textOf(message))
  })

  test('reads a refusal as its own error', async () => {
    const refused = await client(false)
      .messages.create({ model: 'nobody/nothing', ...request })
      .catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(Anthropic.BadRequestError)
    expect(refused).toMatchObject({
      status: 400,
      error: {
        type: 'error',
        error: { type: 'invalid_request_error', message: expect.stringContaining('Unknown model') },
      },
    })
    const unpaid = await client(false)
      .messages.create({ model: ECHO, ...request })
      .catch((error: unknown) => error)
    expect(unpaid).toMatchObject({ status: 402, error: { type: 'error', error: { type: 'payment_required' } } })
  })
})

/** Clients of Google that are still shipped (the newer one in its command line) and read no comments. */
describe('older clients of Google', () => {
  const read: Readonly<Record<string, (baseUrl: string) => Promise<string>>> = {
    async '@google/genai 1.30.0'(baseUrl) {
      const older = (await program('genai-1.30')) as { GoogleGenAI: typeof GoogleGenAI }
      const client = new older.GoogleGenAI({ apiKey: 'any', httpOptions: { baseUrl } })
      const chunks = await gathered(await client.models.generateContentStream({ model: ECHO, contents: 'Hello there' }))
      return chunks.map(({ text }) => text ?? '').join('')
    },
    async '@google/generative-ai 0.24.1'(baseUrl) {
      const { GoogleGenerativeAI: Client } = await program('@google/generative-ai')
      const model = new Client('any').getGenerativeModel({ model: `models/${ECHO}` }, { baseUrl })
      const { stream } = await model.generateContentStream('Hello there')
      const chunks = await gathered(stream as AsyncIterable<{ text(): string }>)
      return chunks.map((chunk) => chunk.text()).join('')
    },
  }
  for (const [name, answerOf] of Object.entries(read)) {
    test(`${name} reads a stream, which is paid once (contract 7.36)`, async () => {
      // These clients take no fetch.
      const proxy = Bun.serve({
        port: 0,
        async fetch(request) {
          const { pathname, search } = new URL(request.url)
          const { body, headers, status } = await checkout.pay(`${running.url}/api${pathname}${search}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: await request.text(),
          })
          return new Response(body, { status, headers: { 'content-type': headers.get('content-type') ?? '' } })
        },
      })
      try {
        const { answer, sales } = await checkout.bought(() => answerOf(`http://127.0.0.1:${proxy.port}`))
        expect([answer.includes('You said: "Hello there".'), sales.length]).toEqual([true, 1])
      } finally {
        await proxy.stop(true)
      }
    }, 30_000)
  }
})

describe('@google/genai', () => {
  const client = (pays = true) =>
    new GoogleGenAI({
      apiKey: 'any',
      httpOptions: { baseUrl: `${running.url}/api`, ...(pays && { fetch: checkout.pay }) },
    })
  const request = { model: ECHO, contents: 'Hello there, gateway' }
  const declaration: FunctionDeclaration = {
    name: 'get_weather',
    description: 'Looks outside.',
    parameters: {
      type: Type.OBJECT,
      properties: { city: { type: Type.STRING }, days: { type: Type.INTEGER } },
      required: ['city', 'days'],
    },
  }
  const tools = [{ functionDeclarations: [declaration] }]

  test('generates content, reads its usage, and finds the receipt beside the answer', async () => {
    const { answer, sales } = await checkout.bought(() =>
      client().models.generateContent({ ...request, config: { systemInstruction: 'Be brief.' } }),
    )
    expect(answer.text).toContain('You said: "Hello there, gateway".')
    expect([answer.modelVersion, answer.candidates?.[0]?.finishReason as string]).toEqual([ECHO, 'STOP'])
    const { promptTokenCount = 0, candidatesTokenCount = 0, totalTokenCount } = answer.usageMetadata ?? {}
    expect(totalTokenCount).toBe(promptTokenCount + candidatesTokenCount)
    expect(candidatesTokenCount).toBeGreaterThan(5)
    expectReceipt(answer.sdkHttpResponse?.headers?.['payment-response'])
    expect(sales).toHaveLength(1)
  })

  test('streams', async () => {
    const { answer: chunks } = await checkout.bought(async () =>
      gathered(await client().models.generateContentStream(request)),
    )
    expect(chunks.length).toBeGreaterThan(10)
    expect(chunks.map(({ text }) => text ?? '').join('')).toContain('You said: "Hello there, gateway".')
    expect(chunks.at(-1)?.usageMetadata?.totalTokenCount).toBeGreaterThan(10)
  })

  test('calls a function, whole and streamed, and gets an answer for its result', async () => {
    const question = { role: 'user', parts: [{ text: QUESTION }] }
    const { answer: first } = await checkout.bought(() =>
      client().models.generateContent({ model: ECHO, contents: [question], config: { tools } }),
    )
    const [call] = first.functionCalls ?? []
    expect(call).toMatchObject({ name: 'get_weather', args: { city: QUESTION, days: 1 } })
    const { answer: chunks } = await checkout.bought(async () =>
      gathered(await client().models.generateContentStream({ model: ECHO, contents: [question], config: { tools } })),
    )
    expect(chunks.flatMap(({ functionCalls }) => functionCalls ?? [])).toMatchObject([
      { name: 'get_weather', args: { city: QUESTION, days: 1 } },
    ])
    const turns = [
      question,
      first.candidates![0]!.content!,
      {
        role: 'user',
        parts: [{ functionResponse: { id: call!.id!, name: 'get_weather', response: { sky: 'fog over the Aare' } } }],
      },
    ]
    const { answer: last } = await checkout.bought(() =>
      client().models.generateContent({ model: ECHO, contents: turns, config: { tools } }),
    )
    expect(last.text).toContain('fog over the Aare')
  })

  test('keeps a chat, each turn paid once', async () => {
    const chat = client().chats.create({ model: ECHO })
    const { answer, sales } = await checkout.bought(async () => [
      await chat.sendMessage({ message: 'One' }),
      ...(await gathered(await chat.sendMessageStream({ message: 'Two' }))),
    ])
    expect(answer.map(({ text }) => text ?? '').join('')).toMatch(/You said: "One".*You said: "Two"/s)
    expect(sales).toHaveLength(2)
    expect(sales[1]!.quote).toBeGreaterThanOrEqual(sales[0]!.quote)
  })

  test('gets JSON of the schema that it asked for, in either of its two spellings', async () => {
    for (const schema of [{ responseSchema: declaration.parameters! }, { responseJsonSchema: CITY }]) {
      const config = { responseMimeType: 'application/json', ...schema }
      const { answer } = await checkout.bought(() =>
        client().models.generateContent({ model: ECHO, contents: 'Three days: 3', config }),
      )
      expect(JSON.parse(answer.text ?? '')).toEqual({ city: 'Three days: 3', days: 3 })
    }
  })

  test('reads a refusal as its own error: free models are for chat, and a wallet is needed', async () => {
    const refusal = async (model: string) =>
      await client(false)
        .models.generateContent({ ...request, model })
        .catch((error: unknown) => error)
    expect(await refusal(FREE)).toMatchObject({
      status: 400,
      message: expect.stringContaining('/api/v1/chat/completions'),
    })
    expect(await refusal('nobody/nothing')).toMatchObject({
      status: 400,
      message: expect.stringContaining('Unknown model'),
    })
    expect(await refusal(ECHO)).toMatchObject({ status: 402, message: expect.stringContaining('PAYMENT_REQUIRED') })
  })
})
