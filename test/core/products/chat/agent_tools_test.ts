/** Tools that coding agents offer: namespaces, free text, and tools that vendors run (contract 7.29 to 7.31). */
import { describe, expect, test } from 'bun:test'
import {
  chunk,
  type ChatScript,
  DONE,
  scriptedChat,
  streamAnswer,
  type ToolCall,
  toolCall,
  usageChunk,
  wholeAnswer,
} from '../../../fakes/chat.ts'
import { chatRows, type ChatFormat, type Fields } from '../../../../core/mod.ts'
import { parseEvent } from '../../../../core/products/chat/formats/sse.ts'
import { namedTools } from '../../../../core/products/chat/formats/responses/tools.ts'
import { encodePayment, kit, ORIGIN } from '../../../kit.ts'

const RESPONSES = '/api/v1/responses'
const MESSAGES = '/api/v1/messages'
/** Behind chat for every vendor in these tests. */
const MODEL = 'vendor-d/chat-5.3'

const EMPTY = { type: 'object', properties: {} }
const FUNCTION = { type: 'function', name: 'exec_command', parameters: EMPTY }
const SPAWN = {
  type: 'function',
  name: 'spawn_agent',
  description: 'Starts an agent.',
  parameters: EMPTY,
  strict: false,
}
const NAMESPACE = { type: 'namespace', name: 'multi_agent_v1', tools: [SPAWN] }
const GRAMMAR = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' }
const CUSTOM = { type: 'custom', name: 'apply_patch', description: 'Edits files.', format: GRAMMAR }
const SEARCH = { type: 'web_search', external_web_access: false }
const CODEX = [FUNCTION, NAMESPACE, CUSTOM, { type: 'tool_search' }, SEARCH]

const streamed = (calls: readonly ToolCall[]) =>
  streamAnswer([
    ...calls.map((call, index) => chunk({ tool_calls: [{ index, ...toolCall(call, index) }] })),
    chunk({}, { finish: 'tool_calls' }),
    usageChunk(),
    DONE,
  ])
const calling =
  (...calls: readonly ToolCall[]): ChatScript =>
  async ({ stream }) =>
    stream ? streamed(calls) : wholeAnswer({ toolCalls: calls })

function gatewayOf(script?: ChatScript, format: ChatFormat = 'chat') {
  const vendor = scriptedChat(script, { format })
  const subject = kit({ chatVendor: vendor })
  const alice = subject.buyer()
  const ask = (body: object, path = RESPONSES) => alice.ask(body, { path })
  return {
    vendor,
    chain: subject.chain,
    ask,
    buy: (body: object, path = RESPONSES) => alice.buy(body, { path }),
    async events(body: object, path = RESPONSES) {
      const payment = alice.sign(await ask(body, path))
      const headers = { 'content-type': 'application/json', 'payment-signature': encodePayment(payment) }
      const reply = await subject.gateway.fetch(
        new Request(ORIGIN + path, { method: 'POST', headers, body: JSON.stringify(body) }),
      )
      return (await reply.text()).split('\n\n').flatMap((raw): any[] => {
        const data = parseEvent(raw)?.data
        return data === undefined || data === '[DONE]' ? [] : [JSON.parse(data)]
      })
    },
  }
}
const order = (more: object = {}) => ({ model: MODEL, input: 'hi', tools: CODEX, tool_choice: 'auto', ...more })

describe('names in chat', () => {
  const names = (tools: object[]) => namedTools(tools as Fields[]).map(({ chatName }) => chatName)
  const spaced = (name: string, ...tools: string[]) => ({
    type: 'namespace',
    name,
    tools: tools.map((tool) => ({ type: 'function', name: tool })),
  })

  test('join the namespace and the name, and are unique whatever they are called', () => {
    expect(names([spaced('a', 'b'), spaced('c', 'b'), { type: 'function', name: 'b' }])).toEqual(['b', 'a__b', 'c__b'])
    const same = names([{ type: 'function', name: 'a__b__c' }, spaced('a__b', 'c'), spaced('a', 'b__c')])
    expect([same.length, new Set(same).size, same[0]]).toEqual([3, 3, 'a__b__c'])
  })

  test('end with a hash above 64 characters, and are the same in every request', () => {
    const long = 'n'.repeat(40)
    const made = names([spaced(long, `${'t'.repeat(40)}1`, `${'t'.repeat(40)}2`)])
    expect(made.map((name) => name.length)).toEqual([64, 64])
    expect(new Set(made).size).toBe(2)
    expect(names([spaced(long, `${'t'.repeat(40)}2`)])).toEqual(made.slice(1))
  })
})

describe('a model behind chat', () => {
  test('is offered functions: of namespaces under joined names, of free text with one string (contract 7.30, 7.31)', async () => {
    const { buy, vendor } = gatewayOf()
    const { status, headers } = await buy(order())
    const { tools, tool_choice } = (vendor.orders[0]?.body ?? {}) as any
    expect([status, tool_choice, headers.get('x-tools-dropped')]).toEqual([200, 'auto', 'tool_search, web_search'])
    expect(tools.map((tool: any) => tool.function.name)).toEqual([
      'exec_command',
      'apply_patch',
      'multi_agent_v1__spawn_agent',
    ])
    expect(tools[1].function.parameters).toMatchObject({
      required: ['input'],
      properties: { input: { type: 'string' } },
    })
    expect(tools[1].function.description).toBe(
      `Edits files.\n\nThe input must match this lark grammar:\n${GRAMMAR.definition}`,
    )
  })

  const CALLS = [
    { name: 'multi_agent_v1__spawn_agent', arguments: { task: 'x' } },
    { name: 'apply_patch', arguments: { input: '*** Begin Patch' } },
    { name: 'exec_command', arguments: {} },
  ]
  const OUTPUT = [
    { type: 'function_call', name: 'spawn_agent', namespace: 'multi_agent_v1', arguments: '{"task":"x"}' },
    { type: 'custom_tool_call', name: 'apply_patch', input: '*** Begin Patch' },
    { type: 'function_call', name: 'exec_command', arguments: '{}' },
  ]

  test('has its calls answered as the tools that the caller knows, whole (contract 7.30, 7.31)', async () => {
    const { body } = await gatewayOf(calling(...CALLS)).buy(order())
    expect(body.output).toMatchObject(OUTPUT)
    expect(body.output.map((item: Fields) => 'namespace' in item)).toEqual([true, false, false])
  })

  test('has them so in every event of a stream, and in its last response (contract 7.30, 7.31)', async () => {
    const events = await gatewayOf(calling(...CALLS)).events(order({ stream: true }))
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index))
    const items = (type: string) => events.filter((event) => event.type === type)
    expect(items('response.output_item.done').map(({ item }) => item)).toMatchObject(OUTPUT)
    const [added] = items('response.output_item.added')
    expect(added.item).toMatchObject({ name: 'spawn_agent', namespace: 'multi_agent_v1', arguments: '' })
    expect(items('response.completed')[0].response.output).toMatchObject(OUTPUT)
    const [custom] = items('response.custom_tool_call_input.done')
    expect(custom).toMatchObject({ input: '*** Begin Patch', output_index: 1 })
    expect(items('response.custom_tool_call_input.delta').map(({ delta }) => delta)).toEqual(['*** Begin Patch'])
    expect(items('response.function_call_arguments.done').map(({ name }) => name)).toEqual([
      'spawn_agent',
      'exec_command',
    ])
  })

  test('reads earlier calls under the same names, with their results (contract 7.30, 7.31)', async () => {
    const { buy, vendor } = gatewayOf()
    const input = [
      { role: 'user', content: 'hi' },
      { ...OUTPUT[0], call_id: 'c1' },
      { ...OUTPUT[1], call_id: 'c2' },
      { type: 'function_call', call_id: 'c3', name: 'gone', namespace: 'old', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: 'one' },
      { type: 'custom_tool_call_output', call_id: 'c2', output: 'two' },
      { type: 'function_call_output', call_id: 'c3', output: 'three' },
    ]
    expect((await buy(order({ input }))).status).toBe(200)
    const [, assistant, ...results] = ((vendor.orders[0]?.body ?? {}) as any).messages
    expect(assistant.tool_calls.map((call: any) => call.function)).toEqual([
      { name: 'multi_agent_v1__spawn_agent', arguments: '{"task":"x"}' },
      { name: 'apply_patch', arguments: '{"input":"*** Begin Patch"}' },
      { name: 'old__gone', arguments: '{}' },
    ])
    expect(results).toEqual([
      { role: 'tool', tool_call_id: 'c1', content: 'one' },
      { role: 'tool', tool_call_id: 'c2', content: 'two' },
      { role: 'tool', tool_call_id: 'c3', content: 'three' },
    ])
  })

  test('passes on what it writes for free text that is not the expected JSON', async () => {
    const { body } = await gatewayOf(calling({ name: 'apply_patch', arguments: '*** Begin' })).buy(order())
    expect(body.output).toMatchObject([{ type: 'custom_tool_call', input: '*** Begin' }])
  })
})

test('a vendor of the responses format gets namespaces and free text as they came (contract 7.30, 7.31)', async () => {
  const answer = {
    id: 'resp_1',
    object: 'response',
    status: 'completed',
    output: [{ type: 'message', content: [{ type: 'output_text', text: 'ok' }] }],
  }
  const { buy, vendor } = gatewayOf(async () => ({ kind: 'whole', body: answer }), 'responses')
  expect((await buy(order({ model: 'vendor-a/chat-6-small' }))).status).toBe(200)
  expect(vendor.orders[0]?.body.tools).toEqual([FUNCTION, NAMESPACE, CUSTOM] as never)
})

describe('a tool that a vendor runs (contract 7.29)', () => {
  test.each([undefined, 'auto', 'none', { type: 'function', name: 'exec_command' }])(
    'is left out where tool_choice is %p, and named in X-Tools-Dropped',
    async (tool_choice) => {
      const tools = [FUNCTION, SEARCH, { type: 'local_shell' }, { type: 'image_generation' }]
      const { buy, vendor } = gatewayOf()
      const { status, headers } = await buy(order({ tools, tool_choice }))
      expect([status, headers.get('x-tools-dropped')]).toEqual([200, 'web_search, local_shell, image_generation'])
      expect(vendor.orders[0]?.body.tools).toHaveLength(1)
    },
  )

  test('leaves no tools and no choice where it was the only one', async () => {
    const { buy, vendor } = gatewayOf()
    expect((await buy(order({ tools: [SEARCH] }))).status).toBe(200)
    const { tools, tool_choice } = vendor.orders[0]?.body ?? {}
    expect([tools, tool_choice]).toEqual([undefined, undefined])
  })

  const SERVER = { type: 'web_search_20250305', name: 'web_search', max_uses: 8 }
  const FINDER = { type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' }
  const DEFERRED = { name: 'later', input_schema: EMPTY, defer_loading: true }

  test.each([
    ['chat', 'chat'],
    ['its own format', 'messages'],
  ] as const)(
    'of the messages API is left out for a vendor of %s, and deferred tools are offered',
    async (_, format) => {
      const script: ChatScript = async ({ format: written }) =>
        written === 'chat'
          ? wholeAnswer()
          : { kind: 'whole', body: { type: 'message', content: [{ type: 'text', text: 'ok' }] } }
      const { buy, vendor } = gatewayOf(script, format)
      const { status, headers } = await buy(
        {
          model: 'vendor-g/chat-4.5-small',
          max_tokens: 100,
          messages: [{ role: 'user', content: 'hi' }],
          tools: [SERVER, FINDER, DEFERRED],
          tool_choice: { type: 'auto' },
        },
        MESSAGES,
      )
      expect([status, headers.get('x-tools-dropped')]).toEqual([
        200,
        'web_search_20250305, tool_search_tool_regex_20251119',
      ])
      const [tool, ...others] = (vendor.orders[0]?.body.tools ?? []) as any[]
      expect([others, 'defer_loading' in tool, tool.name ?? tool.function.name]).toEqual([[], false, 'later'])
    },
  )

  test('is not what a found tool is called: the reference is a sentence (contract 7.33)', async () => {
    const { buy, vendor } = gatewayOf()
    const found = {
      type: 'tool_result',
      tool_use_id: 't1',
      content: [{ type: 'tool_reference', tool_name: 'WebFetch' }],
    }
    await buy(
      {
        model: MODEL,
        max_tokens: 100,
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'ToolSearch', input: {} }] },
          { role: 'user', content: [found] },
        ],
        tools: [DEFERRED],
      },
      MESSAGES,
    )
    const { messages, tools } = (vendor.orders[0]?.body ?? {}) as any
    expect(messages.at(-1).content).toBe('The tool WebFetch is available: call it by this name.')
    expect(tools[0]).toEqual({ type: 'function', function: { name: 'later', parameters: EMPTY } })
  })
})

describe('the responses API (contract 7.12)', () => {
  test('serves every chat model, by all its names, at the price of chat', async () => {
    const amount = ({ status, body }: { status: number; body: any }) => [status, body.accepts?.[0].amount]
    for (const { id, aliases, billing, maxOutput } of chatRows) {
      // Free models have a limit of requests a minute.
      const { ask } = gatewayOf()
      const max_tokens = Math.min(1_000, maxOutput)
      const chat = await ask(
        { model: id, messages: [{ role: 'user', content: 'hi' }], max_tokens },
        '/api/v1/chat/completions',
      )
      for (const model of [id, ...aliases]) {
        const made = await ask({ model, input: 'hi', max_output_tokens: max_tokens })
        expect([model, ...amount(made)]).toEqual([model, ...amount(chat)])
      }
      expect([id, chat.status]).toEqual([id, billing.mode === 'free' ? 200 : 402])
    }
  })

  test.each([
    'vendor-b/chat-3.8-flash',
    'vendor-g/chat-5.5-large',
    'vendor-c/chat-4.7',
    MODEL,
    'vendor-open/llama-3.3-70b',
  ])('answers whole, streamed and in the background for %s', async (model) => {
    const { buy, events } = gatewayOf()
    const request = { model, input: 'hi', max_output_tokens: 1_000 }
    const { status, body } = await buy(request)
    expect([status, body.object, body.output[0].content[0].text]).toEqual([200, 'response', 'Hello'])
    expect((await events({ ...request, stream: true })).at(-1)).toMatchObject({
      type: 'response.completed',
      response: { output: [{ content: [{ text: 'Hello' }] }] },
    })
    const queued = await buy({ ...request, background: true })
    expect([queued.status, queued.body.status, queued.body.usage]).toEqual([200, 'queued', null])
  })
})

describe('usage in a chat stream (contract 6.67)', () => {
  const CHAT = '/api/v1/chat/completions'
  const body = { model: MODEL, messages: [{ role: 'user', content: 'hi' }], stream: true }

  test('stands on the chunk with the finish reason, and no chunk is without choices', async () => {
    const chunks = await gatewayOf().events(body, CHAT)
    expect(chunks.every(({ choices }) => choices.length > 0)).toBe(true)
    expect(chunks.filter(({ usage }) => usage)).toEqual([chunks.at(-1)])
    expect(chunks.at(-1)).toMatchObject({ choices: [{ finish_reason: 'stop' }], usage: { total_tokens: 12 } })
  })

  test('is a chunk without choices where include_usage asks for it', async () => {
    const chunks = await gatewayOf().events({ ...body, stream_options: { include_usage: true } }, CHAT)
    expect(chunks.slice(-2)).toMatchObject([
      { choices: [{ finish_reason: 'stop' }] },
      { choices: [], usage: { total_tokens: 12 } },
    ])
  })

  test('is estimated on the same chunk where the vendor counts nothing', async () => {
    const uncounted: ChatScript = async () =>
      streamAnswer([chunk({ content: 'Hello you' }), chunk({ content: ' there' }, { finish: 'stop' }), DONE])
    const chunks = await gatewayOf(uncounted).events(body, CHAT)
    expect(chunks.at(-1)).toMatchObject({
      choices: [{ delta: { content: ' there' }, finish_reason: 'stop' }],
      usage: { estimated: true, completion_tokens: 4 },
    })
  })
})

test('a stream of fewer answers than were quoted ends with an error, and is not settled (contract 6.45)', async () => {
  const part = (index: number) => [
    chunk({}, { choices: [{ index, delta: { content: 'a' }, finish_reason: null }] }),
    chunk({}, { choices: [{ index, delta: {}, finish_reason: 'stop' }] }),
  ]
  const settled = async (came: number) => {
    const indexes = Array.from({ length: came }, (_, index) => index)
    const { events, chain } = gatewayOf(async () => streamAnswer([...indexes.flatMap(part), usageChunk(), DONE]))
    const body = { model: 'vendor-c/chat-4.7', messages: [{ role: 'user', content: 'hi' }], n: 3, stream: true }
    const last = (await events(body, '/api/v1/chat/completions')).at(-1)
    return ['error' in last, chain.transfers.length]
  }
  expect([await settled(2), await settled(3)]).toEqual([
    [true, 0],
    [false, 1],
  ])
})
