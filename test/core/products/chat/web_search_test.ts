/** Web search that this gateway runs for a chat, in both formats that offer it (contract 7.37). */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { ApiError, type ChatFormat, type ChatOrder, type Fields, type WebSearchVendor } from '../../../../core/mod.ts'
import { parseEvent } from '../../../../core/products/chat/formats/sse.ts'
import {
  chunk,
  DONE,
  scriptedChat,
  streamAnswer,
  type ToolCall,
  toolCall,
  usageChunk,
  type Whole,
  wholeAnswer,
} from '../../../fakes/chat.ts'
import { door, encodePayment, kit, ORIGIN } from '../../../kit.ts'
import { reading } from '../../call/stream_kit.ts'
import { challengeIn, headerOf, payCharge } from '../../mpp/mpp_kit.ts'

const RESPONSES = '/api/v1/responses'
const MESSAGES = '/api/v1/messages'
/** 1.4 and 4.4 USDC per million tokens; behind chat. */
const MODEL = 'vendor-d/chat-5.3'
const SERVER = { type: 'web_search_20250305', name: 'web_search', max_uses: 2 }
const LIVE = { type: 'web_search', external_web_access: true }
const OWN = { name: 'Bash', input_schema: { type: 'object', properties: {} } }
const order = (more: object = {}) => ({
  model: MODEL,
  max_tokens: 100,
  messages: [{ role: 'user', content: 'Who won?' }],
  tools: [SERVER],
  ...more,
})
const response = (more: object = {}) => ({
  model: MODEL,
  max_output_tokens: 100,
  input: 'Who won?',
  tools: [LIVE],
  ...more,
})

const query = (text: string, id = 'call_1'): ToolCall => ({ id, name: 'web_search', arguments: { query: text } })
const PAGES = [
  { url: 'https://a.example/1', title: 'One', publishedDate: '2026-11-01' },
  { url: 'https://b.example/2', title: 'Two' },
]

type Question = { question: string; order: Fields; signal: AbortSignal }

function engine(answer: (request: Question) => Promise<Fields> = async (request) => usual(request)) {
  const questions: Question[] = []
  const vendor: WebSearchVendor = {
    async ask(question, given, { signal }) {
      const one = { question, order: given, signal }
      questions.push(one)
      return JSON.stringify(await answer(one))
    },
  }
  return { questions, vendor }
}
const usual = ({ question }: Question): Fields =>
  question === 'search' ? { results: PAGES } : { results: PAGES.map(({ url }) => ({ url, text: `text of ${url}` })) }

/** Behaviour of the model in each round; the last one repeats. */
type Rounds = readonly Whole[]

function streamOf({ content = '', toolCalls = [], usage }: Whole) {
  const calls = toolCalls.map((call, index) => chunk({ tool_calls: [{ index, ...toolCall(call, index) }] }))
  const text = content === '' || content === null ? [] : [chunk({ content })]
  return streamAnswer([
    chunk({ role: 'assistant', content: '' }),
    ...text,
    ...calls,
    chunk({}, { finish: toolCalls.length > 0 ? 'tool_calls' : 'stop' }),
    usageChunk(usage),
    DONE,
  ])
}

function tableOf(
  rounds: Rounds,
  {
    search = engine(),
    format = 'chat',
    schemes = ['upto'],
    gate = async () => {},
  }: {
    search?: ReturnType<typeof engine> | undefined
    format?: ChatFormat
    schemes?: ('exact' | 'upto')[]
    gate?: (order: ChatOrder, attempt: number) => Promise<void>
  } = {},
) {
  const chain = memoryChain({ schemes })
  /** Orders and transfers of an earlier purchase. */
  let earlier = 0
  const vendor = scriptedChat(
    async (request, { attempt: all }) => {
      const attempt = all - earlier
      if (attempt < 1)
        return wholeAnswer({ usage: { prompt_tokens: 200_000, completion_tokens: 1, total_tokens: 200_001 } })
      await gate(request, attempt)
      const round = rounds[Math.min(attempt, rounds.length) - 1] ?? {}
      return request.stream ? streamOf(round) : wholeAnswer(round)
    },
    { format },
  )
  const subject = kit({ chain, chatVendor: vendor, ports: { vendors: { websearch: search.vendor } } })
  const alice = subject.buyer()
  async function post(body: object, path: string, gone?: AbortSignal) {
    const payment = alice.sign(await alice.ask(body, { path }))
    const headers = { 'content-type': 'application/json', 'payment-signature': encodePayment(payment) }
    const request = new Request(ORIGIN + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return await subject.gateway.fetch(request, { ip: '192.0.2.1', ...(gone && { gone }) })
  }
  return {
    ...subject,
    alice,
    vendor,
    search,
    charges: () => chain.transfers.slice(earlier).map(({ value }) => Number(value)),
    /** Streams of a wallet that has paid little are settled before their end, at the quote (contract 1.74). */
    async settledBefore() {
      earlier = 1
      const messages = [{ role: 'user', content: 'word '.repeat(200_000) }]
      await alice.buy({ model: MODEL, max_tokens: 10, messages }, { path: MESSAGES })
    },
    quote: async (body: object, path = MESSAGES) => Number((await alice.ask(body, { path })).body.accepts[0].amount),
    buy: (body: object, path = MESSAGES) => alice.buy(body, { path }),
    post,
    async events(body: object, path = MESSAGES) {
      const text = await (await post({ ...body, stream: true }, path)).text()
      return text.split('\n\n').flatMap((raw): any[] => {
        const data = parseEvent(raw)?.data
        return data === undefined || data === '[DONE]' ? [] : [JSON.parse(data)]
      })
    },
  }
}

const USED = { prompt_tokens: 1_000, completion_tokens: 10, total_tokens: 1_010 }
const SEARCHES: Rounds = [
  { content: 'Let me look.', toolCalls: [query('final 2026')], usage: USED },
  { content: 'Spain won.', usage: { prompt_tokens: 2_000, completion_tokens: 20, total_tokens: 2_020 } },
]
const SEARCH_ID = 'srvtoolu_call_1'
const BLOCKS = [
  { type: 'text', text: 'Let me look.' },
  { type: 'server_tool_use', id: SEARCH_ID, name: 'web_search', input: { query: 'final 2026' } },
  {
    type: 'web_search_tool_result',
    tool_use_id: SEARCH_ID,
    content: PAGES.map(({ url, title, publishedDate }) => ({
      type: 'web_search_result',
      url,
      title,
      page_age: publishedDate ?? null,
      encrypted_content: btoa(JSON.stringify({ text: `text of ${url}` })),
    })),
  },
  { type: 'text', text: 'Spain won.' },
]
/** 3,000 tokens in, 30 out, a search, two pages and the fee, in base units. */
const CHARGE = 4_200 + 132 + 10_000 + 4_000 + 1_000

describe('a search of the messages API', () => {
  test('is run between two rounds of the model, and reported as blocks (contract 7.37)', async () => {
    const { buy, vendor, search } = tableOf(SEARCHES)
    const { status, body, headers } = await buy(order({ tools: [SERVER, OWN] }))
    expect([status, headers.get('x-tools-dropped'), body.content]).toEqual([200, null, BLOCKS])
    expect([body.stop_reason, body.usage]).toEqual([
      'end_turn',
      { input_tokens: 3_000, output_tokens: 30, server_tool_use: { web_search_requests: 1 } },
    ])
    expect(search.questions.map(({ question, order: sent }) => [question, sent])).toEqual([
      ['search', { query: 'final 2026', numResults: 5 }],
      ['contents', { urls: PAGES.map(({ url }) => url) }],
    ])
    const [first, second] = vendor.orders.map(({ body }) => body as any)
    expect(first.tools.map((tool: any) => tool.function.name)).toEqual(['Bash', 'web_search'])
    expect(second.messages.slice(-2)).toEqual([
      {
        role: 'assistant',
        content: 'Let me look.',
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'web_search', arguments: '{"query":"final 2026"}' } },
        ],
      },
      {
        role: 'tool',
        tool_call_id: 'call_1',
        content:
          '[1] One\nhttps://a.example/1 (2026-11-01)\ntext of https://a.example/1\n\n[2] Two\nhttps://b.example/2\ntext of https://b.example/2',
      },
    ])
    expect([second.max_tokens, second.tool_choice]).toEqual([90, 'auto'])
  })

  test('is streamed as the same blocks, and the reader sees it begin', async () => {
    const { events } = tableOf(SEARCHES)
    const all = await events(order())
    const blocks: any[] = []
    for (const { type, index, content_block, delta } of all) {
      if (type === 'content_block_start') blocks[index] = { ...content_block }
      if (type !== 'content_block_delta') continue
      if (delta.type === 'text_delta') blocks[index].text += delta.text
      if (delta.type === 'input_json_delta') blocks[index].input = JSON.parse(delta.partial_json)
    }
    expect(blocks).toEqual(BLOCKS)
    const ends = all.filter(({ type }) => type === 'content_block_stop').map(({ index }) => index)
    expect(ends).toEqual([0, 1, 2, 3])
    expect(all.at(-2)).toMatchObject({
      delta: { stop_reason: 'end_turn' },
      usage: { input_tokens: 3_000, output_tokens: 30, server_tool_use: { web_search_requests: 1 } },
    })
  })

  test.each([false, true])('is charged with the tokens of all rounds (stream: %p)', async (stream) => {
    const { post, charges, quote, settledBefore } = tableOf(SEARCHES)
    await settledBefore()
    await (await post(order({ stream }), MESSAGES)).text()
    expect(charges()).toEqual([CHARGE])
    // Three prompts with 4,000 tokens of results, a tenth of 100 tokens, two searches of five pages, the fee.
    const [low, high] = [3 * 4_000 * 1.4 + 40_000 + 1_000, 3 * 4_200 * 1.4 + 44 + 40_000 + 1_000]
    expect(await quote(order())).toBeGreaterThan(low)
    expect(await quote(order())).toBeLessThan(high)
  })

  test('costs one round where the model does not search', async () => {
    const { buy, charges, search } = tableOf([{ content: 'Spain.', usage: USED }])
    const { body } = await buy(order())
    expect([body.content, search.questions.length]).toEqual([[{ type: 'text', text: 'Spain.' }], 0])
    expect(charges()).toEqual([1_400 + 44 + 1_000])
  })

  test('is forced in the first round alone', async () => {
    const { buy, vendor } = tableOf(SEARCHES)
    await buy(order({ tool_choice: { type: 'tool', name: 'web_search' } }))
    expect(vendor.orders.map(({ body }) => body.tool_choice)).toEqual([
      { type: 'function', function: { name: 'web_search' } },
      'auto',
    ] as never)
  })

  test('is limited to domains, and an entry that is none is 400', async () => {
    const { buy, search, alice } = tableOf(SEARCHES)
    await buy(order({ tools: [{ ...SERVER, allowed_domains: ['a.example', '*.b.example'] }] }))
    expect(search.questions[0]?.order.includeDomains).toEqual(['a.example', '*.b.example'])
    const refused = await alice.ask(order({ tools: [{ ...SERVER, blocked_domains: ['not a domain'] }] }), {
      path: MESSAGES,
    })
    expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining('blocked_domains')])
  })

  test('is text in a later request, also what another vendor has encrypted', async () => {
    const { buy, vendor } = tableOf([{ content: 'ok' }], { format: 'messages' })
    const foreign = {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_x',
      content: [{ type: 'web_search_result', url: 'https://c.example', title: 'C', encrypted_content: 'EqgfCioIARgB' }],
    }
    const messages = [
      { role: 'user', content: 'Who won?' },
      { role: 'assistant', content: [...BLOCKS, foreign] },
      { role: 'user', content: 'Sure?' },
    ]
    expect((await buy(order({ messages }))).status).toBe(200)
    const turn = ((vendor.orders[0] as ChatOrder).body.messages as any[])[1]
    expect(turn.content).toContain('I searched the web for "final 2026".')
    expect(turn.content).toContain('text of https://a.example/1')
    expect(turn.content).toContain('C\nhttps://c.example')
  })

  test('and a call of the caller’s own tool end the turn with both', async () => {
    const calls = [query('final 2026'), { id: 'call_2', name: 'Bash', arguments: {} }]
    for (const stream of [false, true]) {
      const { vendor, buy, events } = tableOf([{ toolCalls: calls, usage: USED }])
      const body = order({ tools: [SERVER, OWN] })
      const kinds = stream
        ? (await events(body)).flatMap(({ content_block }) => content_block?.type ?? [])
        : (await buy(body)).body.content.map(({ type }: any) => type)
      expect(kinds.toSorted()).toEqual(['server_tool_use', 'tool_use', 'web_search_tool_result'])
      expect(vendor.orders).toHaveLength(1)
    }
  })
})

describe('a search of the responses API', () => {
  const CALL = { type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'final 2026' } }

  test('is an item of the output, at the same price (contract 7.37)', async () => {
    const { buy, charges } = tableOf(SEARCHES)
    const { status, body, headers } = await buy(response(), RESPONSES)
    expect([status, headers.get('x-tools-dropped')]).toEqual([200, null])
    expect(body.output.map(({ id: _, ...item }: any) => item)).toMatchObject([
      { type: 'message', content: [{ text: 'Let me look.' }] },
      CALL,
      { type: 'message', content: [{ text: 'Spain won.' }] },
    ])
    expect([body.tools, charges()]).toEqual([[LIVE], [CHARGE]])
  })

  test('is streamed with its events, and ends as the whole Response', async () => {
    const all = await tableOf(SEARCHES).events(response(), RESPONSES)
    const about = all.filter(({ type, item }) => type.includes('web_search') || item?.type === 'web_search_call')
    expect(about.map(({ type }) => type)).toEqual([
      'response.output_item.added',
      'response.web_search_call.in_progress',
      'response.web_search_call.searching',
      'response.web_search_call.completed',
      'response.output_item.done',
    ])
    expect(all.map(({ sequence_number }) => sequence_number)).toEqual(all.map((_, at) => at))
    const { output } = all.at(-1).response
    const whole = (await tableOf(SEARCHES).buy(response(), RESPONSES)).body.output
    const bare = (items: any[]) => items.map(({ id: _, ...item }) => item)
    expect(bare(output)).toEqual(bare(whole))
  })

  test.each([
    [{}, 1],
    [{ max_tool_calls: 2 }, 2],
    [{ max_tool_calls: 9 }, 3],
  ])('%o is at most %p', async (more, uses) => {
    const { post, search, quote } = tableOf([{ toolCalls: [query('again')], usage: USED }])
    await (await post(response({ ...more, stream: true }), RESPONSES)).text()
    expect(search.questions.filter(({ question }) => question === 'search')).toHaveLength(uses)
    expect(await quote(response(more), RESPONSES)).toBeGreaterThan(uses * 20_000)
    expect(await quote(response(more), RESPONSES)).toBeLessThan(uses * 20_000 + (uses + 1) * uses * 3_000 + 2_000)
  })

  test('is left out where it may not read the web, as Codex asks by default', async () => {
    const { buy, vendor, quote } = tableOf([{ content: 'ok' }])
    const cached = response({ tools: [{ type: 'web_search', external_web_access: false }] })
    const { headers } = await buy(cached, RESPONSES)
    expect([headers.get('x-tools-dropped'), vendor.orders[0]?.body.tools]).toEqual(['web_search', undefined])
    expect(await quote(cached, RESPONSES)).toBeLessThan(3_000)
  })

  test('is left out for a vendor that speaks the format and would run it itself', async () => {
    const { alice, quote } = tableOf([{ content: 'ok' }], { format: 'responses' })
    expect(await quote(response(), RESPONSES)).toBeLessThan(3_000)
    const { status } = await alice.ask(response({ tool_choice: { type: 'web_search' } }), { path: RESPONSES })
    expect(status).toBe(400)
  })
})

describe('what a search may cost', () => {
  const insisting: Rounds = [{ toolCalls: [query('again')], usage: USED }]

  test.each([
    [1, 1],
    [2, 2],
    [50, 3],
    [undefined, 3],
  ])('is bounded for a model that does nothing else: max_uses %p is %p', async (max_uses, uses) => {
    for (const stream of [false, true]) {
      const { post, vendor, search, charges, quote, chain } = tableOf(insisting)
      const body = order({ tools: [{ ...SERVER, max_uses }], stream })
      const quoted = await quote(body)
      await (await post(body, MESSAGES)).text()
      expect(vendor.orders.length).toBeLessThanOrEqual(uses + 1)
      expect(search.questions.filter(({ question }) => question === 'search')).toHaveLength(uses)
      expect(vendor.orders.at(-1)?.body.tool_choice).toBe('none')
      // Whole answers too: the caller has the pages, and the operator has paid for them.
      expect(charges()[0]).toBeLessThanOrEqual(quoted)
      expect(chain.transfers.length).toBe(1)
    }
  })

  test.each([
    [MESSAGES, 'tools.0.max_uses', (uses: unknown) => order({ tools: [{ ...SERVER, max_uses: uses }] })],
    [RESPONSES, 'max_tool_calls', (uses: unknown) => response({ max_tool_calls: uses })],
  ])('has a limit that is kept: another one is 400 (%s)', async (path, param, bodyOf) => {
    const { alice } = tableOf([])
    for (const uses of [0, -1, 0.5, 2.9, '2']) {
      const { status, body } = await alice.ask(bodyOf(uses), { path })
      expect([status, body.error.message]).toEqual([
        400,
        `${param}: must be an integer of at least 1, got ${JSON.stringify(uses)}.`,
      ])
    }
    const doubled = await alice.ask(
      { ...bodyOf(1), tools: [SERVER, { ...SERVER, type: 'web_search_20260101' }, LIVE, LIVE] },
      { path },
    )
    expect([doubled.status, doubled.body.error.message]).toEqual([
      400,
      expect.stringContaining('one tool of web search'),
    ])
  })

  test('is charged for an answer of searches alone, unless all of them failed', async () => {
    const silent: Rounds = [
      { toolCalls: [query('a')], usage: USED },
      { content: '', usage: USED },
    ]
    for (const [path, body, kind] of [
      [MESSAGES, order(), 'web_search_tool_result'],
      [RESPONSES, response(), 'web_search_call'],
    ] as const) {
      const { buy, charges } = tableOf(silent)
      const bought = await buy(body, path)
      expect([bought.status, JSON.stringify(bought.body).includes(kind)]).toEqual([200, true])
      expect(charges()).toEqual([2_800 + 88 + 14_000 + 1_000])
    }
    const search = engine(() => Promise.reject(new ApiError('WORK_FAILED')))
    const failed = tableOf(silent, { search })
    expect([(await failed.buy(order())).status, failed.charges()]).toEqual([503, []])
    for (const rounds of [silent, silent.slice(0, 1)]) {
      const streamed = tableOf(rounds, { search })
      await streamed.settledBefore()
      const all = await streamed.events(order())
      expect([all.at(-1).error.message, streamed.charges()]).toEqual([expect.stringContaining('empty answer'), []])
    }
    expect((await tableOf(SEARCHES, { search }).events(order())).at(-1).type).toBe('message_stop')
  })

  test('is not what a vendor counts as its searches', async () => {
    const counted = { searches: 1_000, pages: 1_000, longest_prompt: 5 }
    const { buy, charges } = tableOf([{ content: 'ok', usage: { ...USED, web_search: counted } }])
    await buy(order({ tools: [], messages: [{ role: 'user', content: 'word '.repeat(3_000) }] }))
    expect(charges()).toEqual([1_400 + 44 + 1_000])
  })

  test('is bounded when many are wanted at once', async () => {
    const many = Array.from({ length: 20 }, (_, at) => query(`q${at}`, `call_${at}`))
    const { buy, search } = tableOf([{ toolCalls: many }, { content: 'done' }])
    const { body } = await buy(order())
    expect(search.questions.filter(({ question }) => question === 'search')).toHaveLength(2)
    const errors = body.content.flatMap(({ content }: any) => content?.error_code ?? [])
    expect(errors).toEqual(Array(18).fill('max_uses_exceeded'))
  })

  test('is the quote, for exact: searches that were not made included', async () => {
    const { buy, quote, charges } = tableOf(SEARCHES, { schemes: ['exact'] })
    await buy(order())
    expect(charges()).toEqual([await quote(order())])
  })

  test('is charged to a reader who leaves with what was found', async () => {
    const search = engine()
    const waiting = door()
    const { post, charges, idle, settledBefore } = tableOf(SEARCHES, {
      search,
      gate: (_, attempt) => (attempt === 2 ? waiting.passed : Promise.resolve()),
    })
    await settledBefore()
    const reader = reading(await post(order({ stream: true }), MESSAGES))
    let text = ''
    while (!text.includes('web_search_tool_result')) text += await reader.next()
    await reader.leave()
    waiting.open()
    await idle()
    // The first round as reported, the prompt of the second, the search with its pages, the fee.
    expect(charges()[0]).toBeGreaterThan(1_400 + 14_000 + 1_000)
    expect(charges()[0]).toBeLessThan(CHARGE + 1_000)
  })

  test('is charged to a reader who leaves while it runs', async () => {
    const sent = door()
    const search = engine(({ signal }) => {
      sent.open()
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
    })
    const { post, charges, idle, settledBefore, vendor } = tableOf(SEARCHES, { search })
    await settledBefore()
    const messages = [{ role: 'user', content: 'word '.repeat(900) }]
    const reader = reading(await post(order({ stream: true, messages }), MESSAGES))
    let text = ''
    while (!text.includes('server_tool_use')) text += await reader.next()
    const next = reader.next().catch(() => undefined)
    await sent.passed
    await reader.leave()
    await next
    await idle()
    expect([search.questions.length, search.questions[0]?.signal.aborted, vendor.orders.length]).toEqual([1, true, 2])
    expect(charges()[0]).toBeGreaterThan(1_400 + 10_000 + 1_000)
    // Not the prompt again: no second round was sent.
    expect(charges()[0]).toBeLessThan(1_400 + 10_000 + 1_000 + 200)
  })

  test('is nothing where the search engine fails, and the model answers without it', async () => {
    for (const [code, reported] of [
      ['RATE_LIMITED', 'too_many_requests'],
      ['WORK_FAILED', 'unavailable'],
    ] as const) {
      const search = engine(() => Promise.reject(new ApiError(code)))
      const { buy, charges } = tableOf(SEARCHES, { search })
      const { body } = await buy(order())
      expect(body.content[2].content).toEqual({ type: 'web_search_tool_result_error', error_code: reported })
      expect([body.usage.server_tool_use, charges()]).toEqual([{ web_search_requests: 0 }, [4_200 + 132 + 1_000]])
    }
  })

  test('is without pages that could not be read', async () => {
    const [{ url } = { url: '' }] = PAGES
    const none = { results: [] }
    const one = {
      results: [
        { url, text: 'text' },
        { url: 'https://c.example/unwanted', text: 'text' },
      ],
    }
    for (const [read, pages] of [
      [undefined, 0],
      [none, 0],
      [one, 1],
    ] as const) {
      const search = engine(async (request) => {
        if (request.question === 'search') return usual(request)
        if (!read) throw new ApiError('PASSED_ON', { status: 404 })
        return read as unknown as Fields
      })
      const { buy, charges } = tableOf(SEARCHES, { search })
      await buy(order())
      expect(charges()).toEqual([CHARGE - 4_000 + pages * 2_000])
    }
  })

  test('has at most 2,000 tokens of pages in the prompt', async () => {
    const long = 'a '.repeat(5_000)
    const search = engine(async ({ question }) =>
      question === 'search' ? { results: PAGES } : { results: PAGES.map(({ url }) => ({ url, text: long })) },
    )
    const { buy, vendor, ports } = tableOf(SEARCHES, { search })
    await buy(order())
    const found = ((vendor.orders[1] as ChatOrder).body.messages as any[]).at(-1).content
    expect(await ports.countTokens(found)).toBeLessThanOrEqual(2_000)
    expect(found.length).toBeGreaterThan(1_500)
  })

  test('ends with the caller: the search is cancelled, and nothing is charged', async () => {
    const gone = new AbortController()
    const search = engine(({ signal }) => {
      gone.abort()
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
    })
    const { post, charges, idle, vendor } = tableOf(SEARCHES, { search })
    await post(order(), MESSAGES, gone.signal).catch(() => undefined)
    await idle()
    expect([search.questions.length, vendor.orders.length, charges()]).toEqual([1, 1, []])
  })

  test('is not sold to an empty wallet: neither the model nor the search engine is called', async () => {
    const { alice, chain, vendor, search } = tableOf(SEARCHES)
    for (const [path, body] of [
      [MESSAGES, order()],
      [RESPONSES, response()],
    ] as const) {
      const payment = alice.sign(await alice.ask(body, { path }))
      chain.drain(alice.wallet)
      expect((await alice.buy(body, { path, payment })).status).toBe(402)
      chain.fund(alice.wallet, 100_000_000n)
    }
    expect([vendor.orders.length, search.questions.length]).toEqual([0, 0])
  })
})

describe('an answer that fails after a search', () => {
  /** The model fails in this round. */
  const failingIn = (round: number) => async (_: ChatOrder, attempt: number) => {
    if (attempt % 2 === round % 2) throw new ApiError('MODEL_UNAVAILABLE')
  }

  /** How many calls fail uncharged before the wallet is refused. */
  async function failuresOf({ post }: ReturnType<typeof tableOf>, body: object): Promise<number> {
    for (let failures = 0; failures < 20; failures++) {
      const text = await (await post(body, MESSAGES)).text()
      if (text.includes('abandoned or cancelled')) return failures
    }
    return Number.POSITIVE_INFINITY
  }

  test('is not charged, and its wallet gets few of them: searches were paid for (contract 1.62, 7.37)', async () => {
    const table = tableOf([SEARCHES[0] ?? {}], { gate: failingIn(2) })
    expect([await failuresOf(table, order()), table.charges()]).toEqual([3, []])
    expect(table.search.questions.filter(({ question }) => question === 'search').length).toBe(3)
  })

  test('streamed counts the same, and what the wallet has paid covers some of them (contract 1.62)', async () => {
    const table = tableOf([SEARCHES[0] ?? {}], { gate: failingIn(2) })
    await table.settledBefore()
    const failures = await failuresOf(table, order({ stream: true }))
    expect(failures).toBeGreaterThan(3)
    expect(failures).toBeLessThan(12)
    expect(table.charges()).toEqual([])
  })

  test('because time ran out counts the same: a long answer gives no searches away (contract 1.62, 7.37)', async () => {
    const { clock, post, charges, search } = tableOf([SEARCHES[0] ?? {}], {
      gate: async (_, attempt) => {
        if (attempt % 2 === 1) return
        const never = Promise.withResolvers<void>()
        await clock.advance(120_000)
        await never.promise
      },
    })
    const statuses: number[] = []
    for (let call = 0; call < 5; call++) {
      const reply = await post(order(), MESSAGES)
      await reply.text()
      statuses.push(reply.status)
    }
    expect([statuses, charges()]).toEqual([[504, 504, 504, 402, 402], []])
    expect(search.questions.filter(({ question }) => question === 'search').length).toBe(3)
  })

  test('without a search is its vendor’s fault alone: the wallet may order on', async () => {
    const { post, charges } = tableOf(SEARCHES, { gate: () => Promise.reject(new ApiError('MODEL_UNAVAILABLE')) })
    for (let call = 0; call < 8; call++) expect((await post(order(), MESSAGES)).status).toBe(503)
    expect(charges()).toEqual([])
  })
})

describe('a search that is bought by MPP', () => {
  test('is charged as quoted, once, with a receipt (contract 7.37, 24.6)', async () => {
    const { gateway, alice, chain, charges, quote, search } = tableOf(SEARCHES, { schemes: ['exact'] })
    const send = (headers: Record<string, string> = {}) =>
      gateway.fetch(
        new Request(ORIGIN + MESSAGES, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: JSON.stringify(order()),
        }),
        { ip: '192.0.2.1' },
      )
    const credential = payCharge(chain, challengeIn((await send()).headers), { from: alice.wallet })
    const answer = await send({ authorization: headerOf(credential) })
    expect([answer.status, answer.headers.has('payment-receipt')]).toEqual([200, true])
    expect(((await answer.json()) as any).content).toEqual(BLOCKS)
    expect(charges()).toEqual([await quote(order())])
    const again = await send({ authorization: headerOf(credential) })
    await again.text()
    expect([charges().length, search.questions.length]).toEqual([1, 2])
  })
})

describe('no search', () => {
  test('is sold with a free model, or without a search engine: the tool is left out and named', async () => {
    const vendor = scriptedChat()
    const free = kit({ chatVendor: vendor, ports: { vendors: { websearch: engine().vendor } } })
    const request = await free.buyer().ask({ ...order(), model: 'farebox/echo-free' }, { path: MESSAGES })
    expect([request.status, request.headers.get('x-tools-dropped')]).toEqual([200, SERVER.type])
    const without = kit({ chatVendor: vendor })
    const bought = await without.buyer().buy(order(), { path: MESSAGES })
    expect([bought.status, bought.headers.get('x-tools-dropped')]).toEqual([200, SERVER.type])
  })

  test('replaces a tool of the caller’s that has its name', async () => {
    const { buy, vendor } = tableOf([{ toolCalls: [query('mine')] }])
    const { body, headers } = await buy(order({ tools: [SERVER, { ...OWN, name: 'web_search' }] }))
    expect([headers.get('x-tools-dropped'), body.stop_reason, vendor.orders.length]).toEqual([
      SERVER.type,
      'tool_use',
      1,
    ])
  })
})
