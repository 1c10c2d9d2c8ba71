/**
 * Fields of a chat request, row by row of the contract's table, under the rules of its model (contract
 * 6.4, 6.31, 6.38, 6.43, 3.17).
 */
import { describe, expect, test } from 'bun:test'
import { PIXEL } from '../../../fakes/images.ts'
import { scriptedChat, wholeAnswer } from '../../../fakes/chat.ts'
import { catalog, chatRows, type Fields, type Json, type ChatFormat } from '../../../../core/mod.ts'
import { characters, upperBound } from '../../../../core/products/chat/token_estimate.ts'
import { kit, ORIGIN, read, x402Scheme } from '../../../kit.ts'
import { rowsOf } from '../../../vectors/rows.ts'

const COMPLETIONS = '/api/v1/chat/completions'
const FREE = 'farebox/echo-free'
const user = (content: Json = 'Why is the sky blue?'): Fields => ({ role: 'user', content })
const FUNCTION = { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }

function gatewayOf(more: Parameters<typeof kit>[0] = {}) {
  const vendor = scriptedChat()
  const subject = kit({ chatVendor: vendor, ...more })
  const alice = subject.buyer()
  return {
    ...subject,
    vendor,
    alice,
    ask: (body: unknown, path = COMPLETIONS) => alice.ask(body, { path }),
    /** The vendor's order for a request that is paid for. */
    async sent(body: Record<string, unknown>) {
      const answer = await alice.buy({ messages: [user()], ...body }, { path: COMPLETIONS })
      expect([answer.status, answer.body.message ?? 'answered']).toEqual([200, 'answered'])
      return vendor.orders.at(-1)?.body ?? {}
    },
    /** The refusal of a request that nobody has paid for. */
    async refused(body: Record<string, unknown>, path = COMPLETIONS) {
      const answer = await alice.ask({ messages: [user()], ...body }, { path })
      expect(vendor.orders).toEqual([])
      return {
        status: answer.status,
        code: answer.body.code ?? null,
        param: answer.body.error?.param ?? null,
        message: answer.body.message as string,
        body: answer.body,
      }
    },
  }
}

const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ')

describe('forwarded fields', () => {
  test('parameters that nobody here knows go to the vendor as they came (contract 4.2, 6.10, 6.11)', async () => {
    const unknown = {
      seed: 7,
      logprobs: true,
      top_logprobs: 3,
      top_k: 40,
      user: 'u-1',
      metadata: { a: [1, { b: null }] },
      stop: ['x'],
      top_p: 0.5,
      temperature: 0.2,
    }
    const { sent } = gatewayOf()
    expect(await sent({ model: 'vendor-d/chat-5.3', ...unknown, store: true })).toEqual({
      ...unknown,
      messages: [user()],
      max_tokens: 8192,
    })
  })

  test('stream_options is never forwarded, and neither are model and stream: the vendor writes them (contract 6.12)', async () => {
    const { vendor, ask } = gatewayOf()
    const body = { model: FREE, messages: [user()], stream_options: { include_usage: false }, stream: false }
    await ask(body)
    expect(Object.keys(vendor.orders[0]?.body ?? {})).toEqual(['messages', 'max_tokens'])
    expect(vendor.orders[0]).toMatchObject({ model: 'echo', stream: false, format: 'chat' })
  })

  test('messages go as they came: names, tool calls, echoed reasoning, and members that nobody knows (contract 6.6, 6.7)', async () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Look.', cache_control: { type: 'ephemeral' } }] },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'I look.',
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'call_1', name: 'look', content: 'a fox' },
      { role: 'function', name: 'look', content: 'a fox' },
      { role: 'user', content: 'And?', mood: 'curious' },
    ]
    const { sent } = gatewayOf()
    expect((await sent({ model: 'vendor-d/chat-5.3', messages })).messages).toEqual(messages)
  })

  test('no system text is added to a conversation (contract 6.24)', async () => {
    const { sent } = gatewayOf()
    expect((await sent({ model: 'vendor-g/chat-5.5-large' })).messages).toEqual([user()])
  })

  test('an optional null is as good as absent', async () => {
    const { ask, vendor } = gatewayOf()
    const nulls = {
      max_tokens: null,
      temperature: null,
      tools: null,
      tool_choice: null,
      response_format: null,
      reasoning_effort: null,
      thinking: null,
      search_parameters: null,
      stop: null,
      stream: null,
    }
    expect((await ask({ model: FREE, messages: [user()], ...nulls })).status).toBe(200)
    expect(vendor.orders[0]?.body).toEqual({ messages: [user()], max_tokens: 8192 })
  })
})

describe('input that is refused before payment', () => {
  type Case = readonly [string, Record<string, unknown>, string, string | null]
  const texts = (count: number) => Array.from({ length: count }, () => ({ type: 'text', text: 'x' }))
  const cases: readonly Case[] = [
    ...rowsOf<Case>('chat/refused_requests'),
    ['10,001 messages', { messages: Array(10_001).fill(user('x')) }, 'INVALID_REQUEST_BODY', 'messages'],
    [
      '2,001 parts in a message',
      { messages: [user(), user(texts(2_001))] },
      'INVALID_REQUEST_BODY',
      'messages.1.content',
    ],
    [
      '20,001 parts in all',
      { messages: Array(11).fill(user(texts(1_900))) },
      'INVALID_REQUEST_BODY',
      'messages.10.content',
    ],
    [
      '513 tools of both kinds',
      { tools: Array(512).fill(FUNCTION), functions: [FUNCTION.function] },
      'INVALID_REQUEST_BODY',
      'tools',
    ],
    ['no model', { model: undefined }, 'INVALID_REQUEST_BODY', 'model'],
  ]
  for (const [name, more, code, param] of cases) {
    test(`${name} is 400 and asks no vendor (contract 6.4, 6.5, 6.6, 6.7, 6.10, 6.13, 6.16, 6.45, 6.54)`, async () => {
      const { refused } = gatewayOf()
      const refusal = await refused({ model: 'vendor-d/chat-5.3', ...more })
      expect([refusal.status, refusal.code]).toEqual([400, code])
      if (param !== null) expect(refusal.param).toBe(param)
      if (code === 'INVALID_REQUEST_BODY')
        expect(refusal.body.details[0]).toEqual({
          path: expect.stringContaining(refusal.param),
          message: expect.any(String),
        })
    })
  }

  test('every refusal has one envelope: message, type, code and param, with message and code beside it (contract 3.15)', async () => {
    const { refused } = gatewayOf()
    const { body } = await refused({ model: 'vendor-d/chat-5.3', reasoning_effort: 'extreme' })
    const message = 'reasoning_effort: must be one of none, minimal, low, medium, high, xhigh, max, got "extreme".'
    expect(body).toEqual({
      error: { message, type: 'invalid_request_error', code: 'INVALID_PARAMETER', param: 'reasoning_effort' },
      message,
      code: 'INVALID_PARAMETER',
    })
  })

  test('several mistakes are told at once', async () => {
    const { refused } = gatewayOf()
    const { body } = await refused({ model: 'vendor-d/chat-5.3', temperature: 3, top_p: 3 })
    expect(body.details.map(({ path }: { path: string }) => path)).toEqual(['temperature', 'top_p'])
  })

  test('a body that is not JSON or not an object (contract 6.54)', async () => {
    const { gateway } = gatewayOf()
    const post = async (body: string, type = 'application/json') =>
      read(
        await gateway.fetch(
          new Request(ORIGIN + COMPLETIONS, { method: 'POST', headers: { 'content-type': type }, body }),
        ),
      )
    const broken = await post('{"model":')
    expect([broken.status, broken.body.code, broken.body.error.code, broken.body.error.type]).toEqual([
      400,
      'INVALID_JSON',
      'INVALID_JSON',
      'invalid_request_error',
    ])
    expect((await post('[]')).body.code).toBe('INVALID_REQUEST_BODY')
    expect((await post('null')).body.code).toBe('INVALID_REQUEST_BODY')
    expect((await post('{}', 'text/plain')).body.code).toBe('INVALID_REQUEST_BODY')
  })

  test('a body over the limit is 400 REQUEST_TOO_LARGE (contract 3.5, 6.54)', async () => {
    const { refused } = gatewayOf({ maxUpload: 1_000 })
    const refusal = await refused({ model: FREE, messages: [user(words(1_000))] })
    expect([refusal.status, refusal.code]).toEqual([400, 'REQUEST_TOO_LARGE'])
  })

  test('excessive nesting is refused without being written out', async () => {
    const deep = `{"model":"${FREE}","messages":[{"role":"user","content":"Hello"}],"x":${'['.repeat(5_000)}${']'.repeat(5_000)}}`
    const { gateway } = gatewayOf()
    const { status, body } = await read(
      await gateway.fetch(
        new Request(ORIGIN + COMPLETIONS, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: deep,
        }),
      ),
    )
    expect([status, body.code]).toEqual([400, 'INVALID_REQUEST_BODY'])
  })

  test('a model that nobody here serves is 503 before any 402, and is not estimated (contract 8.9)', async () => {
    const { refused } = gatewayOf({ ports: { vendors: { chat: () => undefined } } })
    for (const path of [COMPLETIONS, '/api/v1/chat/vendor-d/chat-5.3', '/api/v1/chat/estimate']) {
      const refusal = await refused({ model: 'vendor-d/chat-5.3' }, path)
      expect([path, refusal.status, refusal.code]).toEqual([path, 503, 'PROVIDER_CONFIG_ERROR'])
    }
  })
})

describe('models and paths', () => {
  test('an unknown model is 400 without a code, with alternatives and the way to the catalog (contract 6.4)', async () => {
    const { refused } = gatewayOf()
    const { status, code, message, body } = await refused({ model: 'vendor-a/chat-7-flagship' })
    expect([status, code, body.error.code]).toEqual([400, null, null])
    expect(message).toStartWith('Unknown model: vendor-a/chat-7-flagship')
    expect(message).toContain('GET /api/v1/models')
    expect(body.models_url).toBe('/api/v1/models')
    expect(body.alternatives.length).toBe(8)
    expect(body.alternatives).toContain('vendor-a/chat-6-flagship')
    for (const id of body.alternatives) expect(catalog().chat.get(id)?.hidden ?? false).toBe(false)
  })

  test('every public id and every alias is routed to its row (contract 8.7)', async () => {
    const { alice } = gatewayOf()
    for (const row of chatRows.filter(({ billing }) => billing.mode !== 'free')) {
      for (const model of [row.id, ...row.aliases]) {
        const { status } = await alice.ask({ model, messages: [user()] }, { path: COMPLETIONS })
        expect([model, status]).toEqual([model, 402])
      }
    }
  })

  test('an alias is answered under the public id, in dotted and in dashed spelling', async () => {
    for (const model of [
      'anthropic/claude-opus-5.5',
      'anthropic/claude-opus-5-5',
      'claude-opus-5.5',
      'claude-opus-5-5',
      'vendor-g/chat-5.5-large',
    ]) {
      const { alice, vendor } = gatewayOf()
      const { body } = await alice.buy({ model, messages: [user()] }, { path: COMPLETIONS })
      expect([model, body.model, vendor.orders[0]?.model]).toEqual([
        model,
        'vendor-g/chat-5.5-large',
        'claude-opus-5-5',
      ])
    }
  })

  test('a hidden row is still served (contract 8.6)', async () => {
    const hidden = chatRows.filter((row) => row.hidden)
    expect(hidden.length).toBeGreaterThan(0)
    for (const { id } of hidden) {
      const { alice } = gatewayOf()
      expect(
        (await alice.buy({ model: id, messages: [user()], max_tokens: 100 }, { path: COMPLETIONS })).body.model,
      ).toBe(id)
    }
  })

  test('the path may name the model, its slash raw or as %2F, and then the body need not (contract 4.4, 6.2)', async () => {
    for (const name of ['farebox/echo', 'farebox%2Fecho', 'gpt-6-sol', 'openai/gpt-6-sol']) {
      const { alice, vendor } = gatewayOf()
      const path = `/api/v1/chat/${name}`
      const challenge = await alice.ask({ messages: [user()] }, { path })
      expect([name, challenge.status]).toEqual([name, 402])
      const { status, body } = await alice.buy({ messages: [user()] }, { path, payment: alice.sign(challenge) })
      expect([name, status, body.model]).toEqual([name, 200, catalog().chat.get(decodeURIComponent(name))?.id])
      expect(vendor.orders.length).toBe(1)
    }
  })

  test('the path wins over the body', async () => {
    const { alice } = gatewayOf()
    expect(
      (await alice.ask({ model: 'vendor-a/chat-6-flagship', messages: [user()] }, { path: `/api/v1/chat/${FREE}` }))
        .body.model,
    ).toBe(FREE)
  })

  test('a path that names no model is 400 without a code', async () => {
    const { refused } = gatewayOf()
    const refusal = await refused({}, '/api/v1/chat/vendor-z/chat-1')
    expect([refusal.status, refusal.code]).toEqual([400, null])
    expect(refusal.message).toStartWith('Unknown model: vendor-z/chat-1')
  })

  test('completions and estimate are never model ids (contract 6.2)', async () => {
    const [row] = chatRows
    if (!row) throw new Error('an empty catalog')
    const chat = [{ ...row, id: 'completions', aliases: [] }, { ...row, id: 'estimate', aliases: [] }, row]
    const { ask, vendor } = gatewayOf({ catalog: catalog({ chat }) })
    expect((await ask({ messages: [user()] })).body.code).toBe('INVALID_REQUEST_BODY')
    const estimate = await ask({ model: row.id, messages: [user()] }, '/api/v1/chat/estimate')
    expect([estimate.status, estimate.body.model]).toEqual([200, row.id])
    expect(vendor.orders).toEqual([])
  })
})

describe('max_tokens', () => {
  const capped = (headers: Headers) =>
    ['capped', 'requested', 'effective'].map((name) => headers.get(`x-max-tokens-${name}`))

  test('is the smaller of the ceiling and 8192 where nothing is said, without a header (contract 4.3, 6.8)', async () => {
    const { alice, vendor } = gatewayOf()
    const answer = await alice.buy({ model: 'vendor-a/chat-6-flagship', messages: [user()] }, { path: COMPLETIONS })
    expect(vendor.orders[0]?.body.max_tokens).toBe(8192)
    expect(capped(answer.headers)).toEqual([null, null, null])
  })

  test('is clamped to the ceiling of the model, and the headers say so (contract 6.8, 6.9)', async () => {
    const { alice, vendor } = gatewayOf()
    const answer = await alice.buy(
      { model: 'vendor-a/chat-6-flagship', messages: [user()], max_tokens: 200_000 },
      { path: COMPLETIONS },
    )
    expect(vendor.orders[0]?.body.max_tokens).toBe(128_000)
    expect(capped(answer.headers)).toEqual(['true', '200000', '128000'])
  })

  test('is clamped to what the prompt leaves of the window, and the headers say so (contract 6.8, 6.9)', async () => {
    const { alice, vendor } = gatewayOf()
    const answer = await alice.buy(
      { model: 'farebox/echo', messages: [user(words(32_000))], max_tokens: 5_000 },
      { path: COMPLETIONS },
    )
    expect(vendor.orders[0]?.body.max_tokens).toBe(761)
    expect(capped(answer.headers)).toEqual(['true', '5000', '761'])
  })

  test('may be called max_completion_tokens, and goes on under one name; max_tokens wins (contract 6.8)', async () => {
    const { sent } = gatewayOf()
    expect(await sent({ model: 'vendor-d/chat-5.3', max_completion_tokens: 77 })).toEqual({
      messages: [user()],
      max_tokens: 77,
    })
    expect(await sent({ model: 'vendor-d/chat-5.3', max_completion_tokens: 77, max_tokens: 66 })).toEqual({
      messages: [user()],
      max_tokens: 66,
    })
  })

  test('is clamped to the window for free models too', async () => {
    const { ask, vendor } = gatewayOf()
    const answer = await ask({ model: FREE, messages: [user(words(32_000))], max_tokens: 5_000 })
    expect([answer.status, vendor.orders[0]?.body.max_tokens]).toEqual([200, 761])
    expect(capped(answer.headers)).toEqual(['true', '5000', '761'])
  })
})

describe('a prompt that is too long', () => {
  const echo = 'farebox/echo' // a window of 32768
  const call = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
  }
  const result = { role: 'tool', tool_call_id: 'c1', content: 'a fox' }

  test('loses its oldest turns before it is quoted; the system stays, and the headers count what went (contract 6.43)', async () => {
    const { alice, vendor } = gatewayOf()
    const system = { role: 'system', content: 'Be brief.' }
    const late = { role: 'system', content: 'Be polite.' }
    const messages = [
      system,
      user(words(20_000)),
      { role: 'assistant', content: words(10_000) },
      late,
      user(words(5_000)),
      { role: 'assistant', content: 'yes' },
      user('And now?'),
    ]
    const challenge = await alice.ask({ model: echo, messages }, { path: COMPLETIONS })
    // The prompt is 10_000 + 5_000 + 2 + 2 + 1 + 2 words, 6 messages of 4, and 3; its answer may have 8192 tokens.
    expect(challenge.body.accepts[0].amount).toBe(String(Math.ceil(15_034 * 0.5 + 819.2 * 1.5 + 1_000)))
    const answer = await alice.buy({ model: echo, messages }, { path: COMPLETIONS, payment: alice.sign(challenge) })
    expect(answer.status).toBe(200)
    expect(vendor.orders[0]?.body.messages).toEqual(messages.filter((_, index) => index !== 1) as never)
    expect([answer.headers.get('x-context-truncated'), answer.headers.get('x-messages-removed')]).toEqual(['true', '1'])
  })

  test('keeps a tool call together with its results', async () => {
    const { alice, vendor } = gatewayOf()
    const messages = [call, result, user('And now?')]
    const fits = [user(words(40_000)), ...messages]
    expect(
      (await alice.buy({ model: echo, messages: fits }, { path: COMPLETIONS })).headers.get('x-messages-removed'),
    ).toBe('1')
    expect(vendor.orders[0]?.body.messages).toEqual(messages as never)
    const tooLong = [user('Look.'), call, { ...result, content: words(40_000) }, user('And now?')]
    expect(
      (await alice.buy({ model: echo, messages: tooLong }, { path: COMPLETIONS })).headers.get('x-messages-removed'),
    ).toBe('3')
    expect(vendor.orders[1]?.body.messages).toEqual([user('And now?')])
  })

  test('is refused where the system and the last turn alone do not fit (contract 6.44)', async () => {
    const { refused } = gatewayOf()
    for (const messages of [
      [user('Hello'), user(words(33_000))],
      [{ role: 'system', content: words(33_000) }, user('Hello')],
    ]) {
      const refusal = await refused({ model: echo, messages })
      expect([refusal.status, refusal.code, refusal.param]).toEqual([400, 'CONTEXT_LENGTH_EXCEEDED', 'messages'])
    }
  })

  test('fits when one token is left for the answer, and not one token later', async () => {
    const { ask } = gatewayOf()
    const prompt = async (count: number) =>
      (await ask({ model: echo, messages: [user(words(count))] }, '/api/v1/chat/estimate')).body
    expect((await prompt(32_768 - 7 - 1)).estimate).toEqual({
      prompt_tokens: 32_767,
      max_tokens: 1,
      messages_removed: 0,
    })
    expect((await prompt(32_768 - 7)).code).toBe('CONTEXT_LENGTH_EXCEEDED')
  })

  test('is trimmed in a time that grows linearly with its turns', async () => {
    const messages = Array.from({ length: 10_000 }, () => user(words(150)))
    const { ask } = gatewayOf()
    const { body } = await ask({ model: 'vendor-b/chat-3.8-flash', messages }, '/api/v1/chat/completions')
    expect(body.accepts?.length).toBe(1)
  })

  test('is trimmed for a flat and for a free model as well', async () => {
    const { ask, alice, vendor } = gatewayOf()
    const messages = [user(words(40_000)), user('And now?')]
    expect((await ask({ model: FREE, messages })).headers.get('x-messages-removed')).toBe('1')
    const flat = { model: 'vendor-open/llama-3.3-70b', messages: [user(words(140_000)), user('And now?')] }
    expect((await alice.buy(flat, { path: COMPLETIONS })).headers.get('x-messages-removed')).toBe('1')
    expect(vendor.orders.map(({ body }) => body.messages)).toEqual([[user('And now?')], [user('And now?')]])
  })
})

describe('requests that cost nothing beyond the quote', () => {
  test('is taken: the words for the usual, files and sounds with their data, refusals that are echoed', async () => {
    const parts = [
      { type: 'text', text: 'x' },
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
      { type: 'file', file: { file_data: 'AAAA' } },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
      { type: 'refusal', refusal: 'No.' },
    ]
    const usual = {
      speed: 'standard',
      modalities: ['text'],
      store: false,
      plugins: null,
      generationConfig: { mediaResolution: 'LOW' },
    }
    const body = await gatewayOf().sent({
      model: 'vendor-b/chat-3.8-flash',
      messages: [user(parts as never)],
      ...usual,
    })
    expect(body).toMatchObject({ messages: [user(parts as never)], modalities: ['text'] })
    expect(body).not.toHaveProperty('store')
  })

  test('on every surface: what chat refuses is refused by its own name there too (contract 6.45)', async () => {
    const surfaces = [
      ['/api/v1/messages', { model: 'vendor-a/chat-5.4', max_tokens: 10, messages: [user()] }],
      ['/api/v1/responses', { model: 'vendor-a/chat-5.4', input: 'x' }],
    ] as const
    for (const [path, body] of surfaces) {
      for (const name of [
        'web_search_options',
        'plugins',
        'models',
        'provider',
        'container',
        'mcp_servers',
        'prediction',
        'audio',
      ]) {
        const { ask, vendor } = gatewayOf()
        const answer = await ask({ ...body, [name]: { any: 1 } }, path)
        expect([
          path,
          name,
          answer.status,
          answer.body.error.message.startsWith(`${name}: `),
          vendor.orders.length,
        ]).toEqual([path, name, 400, true, 0])
      }
    }
  })
})

describe('several answers', () => {
  test('are sold where the row delivers them, each of them quoted', async () => {
    const { ask } = gatewayOf()
    const amount = async (n: number) =>
      Number(
        (
          await ask(
            { model: 'vendor-c/chat-4.7', messages: [user()], max_tokens: 100_000, n },
            '/api/v1/chat/completions',
          )
        ).body.accepts[0].amount,
      )
    expect((await amount(4)) - (await amount(1))).toBeGreaterThan(2 * (await amount(1)))
  })

  test('are 400 where it does not: by its row, flat, free, by the responses format, or for a vendor of another format', async () => {
    const cases: [Record<string, unknown>, ChatFormat?][] = [
      [{ model: 'vendor-g/chat-5-medium' }],
      [{ model: 'vendor-b/chat-3.8-flash' }],
      [{ model: 'vendor-d/chat-5.3' }],
      [{ model: 'vendor-h/chat-4-pro' }],
      [{ model: 'vendor-open/llama-3.3-70b' }],
      [{ model: FREE }],
      [{ model: 'vendor-a/chat-6-large', tools: [FUNCTION] }],
      [{ model: 'vendor-c/chat-4.7', search_parameters: { mode: 'on' } }],
      [{ model: 'vendor-c/chat-4.7' }, 'messages'],
    ]
    for (const [more, format] of cases) {
      const chatVendor = scriptedChat(undefined, { format: format ?? 'chat' })
      const refusal = await gatewayOf({ chatVendor }).refused({ ...more, n: 2 })
      expect([more.model, refusal.status, refusal.code, refusal.param]).toEqual([
        more.model,
        400,
        'INVALID_PARAMETER',
        'n',
      ])
      expect((await gatewayOf({ chatVendor }).ask({ messages: [user()], ...more, n: 1 })).status).not.toBe(400)
    }
  })

  test('come from vendor-a by its chat API, and not by a vendor that speaks the responses API alone', async () => {
    const ask = async (translatesChat: boolean) => {
      const chatVendor = {
        ...scriptedChat(undefined, { format: 'responses' }),
        ...(translatesChat && { translatesChat }),
      }
      const { status } = await gatewayOf({ chatVendor }).ask({
        model: 'vendor-a/chat-6-small',
        messages: [user()],
        n: 2,
      })
      return status
    }
    expect([await ask(false), await ask(true)]).toEqual([402, 400])
  })

  const ORDER = { model: 'vendor-c/chat-4.7', messages: [user()], n: 3 }

  test('that did not all come are not charged: a whole answer is 503 (contract 6.45)', async () => {
    const { alice, chain } = gatewayOf({ chatVendor: scriptedChat(async () => wholeAnswer()) })
    const { status, body } = await alice.buy(ORDER, { path: COMPLETIONS })
    expect([status, body.message, chain.transfers.length]).toEqual([
      503,
      'The model returned 1 of 3 answers. Nothing was charged. Ask for one: leave n out.',
      0,
    ])
  })
})

describe('the text of a request', () => {
  test('may hold 8,388,608 characters, whatever they are written with, and not one more', async () => {
    const { ask } = gatewayOf()
    const sizes = async (content: string) =>
      await ask({ model: 'vendor-b/chat-3.8-flash', messages: [user(content), user('x')] }, '/api/v1/chat/completions')
    const over = await sizes('ab'.repeat(4_194_304))
    expect([over.status, over.body.code]).toEqual([400, 'REQUEST_TOO_LARGE'])
    expect(over.body.message).toBe('A request may hold at most 8388608 characters of text; this one holds 8388609.')
  })

  test('counts a character of two units once', () => {
    expect([
      characters({ messages: [user('a\u{1f98a}é語')] }),
      upperBound({ messages: [user('a\u{1f98a}é語')] }, {}),
    ]).toEqual([4, 17])
  })
})

test('an unknown model is answered with models that are served here (contract 6.4)', async () => {
  const vendor = scriptedChat()
  const { ask } = gatewayOf({
    ports: { vendors: { chat: ({ id }) => (id === 'vendor-d/chat-5.3' ? vendor : undefined) } },
  })
  const { status, body } = await ask({ model: 'vendor-a/chat-99', messages: [user()] })
  expect([status, body.alternatives]).toEqual([400, ['vendor-d/chat-5.3']])
  const nobody = gatewayOf({ ports: { vendors: { chat: () => undefined } } })
  expect((await nobody.ask({ model: 'vendor-a/chat-99', messages: [user()] })).body.message).toBe(
    'Unknown model: vendor-a/chat-99. All models: GET /api/v1/models.',
  )
})

describe('controls of an answer are checked before the quote (contract 6.59)', () => {
  const schema = (more: Record<string, unknown>) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema: {}, ...more } },
  })
  const tool = (more: Record<string, unknown>) => ({ tools: [{ type: 'function', function: { name: 'f', ...more } }] })
  const stops = (count: number) => ({ stop: Array.from({ length: count }, (_, at) => `s${at}`) })
  const choose = (tool_choice: unknown) => ({ tools: [FUNCTION], tool_choice })
  const cases: readonly (readonly [string, Record<string, unknown>, string])[] = [
    ['a tool without a function', { tools: [{ type: 'function' }] }, 'tools.0.function'],
    ['a tool without a name', tool({ name: undefined }), 'tools.0.function.name'],
    ['a name with a space', tool({ name: 'look up' }), 'tools.0.function.name'],
    ['parameters that are a text', tool({ parameters: '{}' }), 'tools.0.function.parameters'],
    ['a description that is a list', tool({ description: ['x'] }), 'tools.0.function.description'],
    ['strict that is a text', tool({ strict: 'yes' }), 'tools.0.function.strict'],
    ['an old function without a name', { functions: [{}] }, 'functions.0.name'],
    ['a choice that is no word', choose('any'), 'tool_choice'],
    ['a choice of another type', choose({ type: 'tool', name: 'look' }), 'tool_choice.type'],
    [
      'a choice of a tool that is not offered',
      choose({ type: 'function', function: { name: 'see' } }),
      'tool_choice.function.name',
    ],
    ['a forced choice of no tools', { tool_choice: 'required' }, 'tool_choice'],
    [
      'allowed tools of no mode',
      choose({ type: 'allowed_tools', allowed_tools: { tools: [FUNCTION] } }),
      'tool_choice.allowed_tools.mode',
    ],
    [
      'allowed tools that are no list',
      choose({ type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: 'look' } }),
      'tool_choice.allowed_tools.tools',
    ],
    [
      'allowed tools of a request without any',
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [] } } },
      'tool_choice',
    ],
    ['an old choice that is no word', { functions: [{ name: 'f' }], function_call: 'any' }, 'function_call'],
    [
      'an old choice of a function that is not offered',
      { functions: [{ name: 'f' }], function_call: { name: 'g' } },
      'function_call.name',
    ],
    ['an old choice of no functions', { function_call: { name: 'g' } }, 'function_call.name'],
    ['a format of no type that exists', { response_format: { type: 'xml' } }, 'response_format.type'],
    ['a schema that is missing', { response_format: { type: 'json_schema' } }, 'response_format.json_schema'],
    ['a schema that is a text', schema({ schema: '{}' }), 'response_format.json_schema.schema'],
    ['a schema with a name of two words', schema({ name: 'my trip' }), 'response_format.json_schema.name'],
    ['a stop that is empty', { stop: ['x', ''] }, 'stop.1'],
  ]
  for (const [name, body, param] of cases) {
    test(`${name}: 400 that names it, on every model`, async () => {
      for (const model of ['vendor-a/chat-5.4-mini', 'vendor-b/chat-3.8-flash', 'vendor-g/chat-5.5-large', FREE]) {
        const refusal = await gatewayOf().refused({ model, ...body })
        expect([model, refusal.status, refusal.param]).toEqual([model, 400, param])
      }
    })
  }

  test('as many stop strings pass as the vendor of the model takes, and no more', async () => {
    for (const [model, most] of [
      ['vendor-a/chat-5.4-mini', 4],
      ['vendor-b/chat-3.8-flash', 5],
      ['vendor-c/chat-4.7', 4],
      ['vendor-h/chat-4', 16],
    ] as const) {
      expect((await gatewayOf().ask({ model, messages: [user()], ...stops(most) })).status).toBe(402)
      expect(await gatewayOf().refused({ model, ...stops(most + 1) })).toMatchObject({
        status: 400,
        code: 'INVALID_PARAMETER',
        param: 'stop',
        message: `stop: may be at most ${most} strings for ${model}, got ${most + 1}.`,
      })
    }
    expect((await gatewayOf().ask({ model: 'vendor-g/chat-5.5-large', messages: [user()], ...stops(40) })).status).toBe(
      402,
    )
  })

  test('a stop that the vendor has no place for is refused, not dropped', async () => {
    const search = { model: 'vendor-c/chat-4.7', stop: 'x', search_parameters: { mode: 'on' } }
    expect(await gatewayOf().refused(search)).toMatchObject({ status: 400, param: 'stop' })
  })

  test('custom tools are refused where the vendor has none', async () => {
    const tools = [{ type: 'custom', custom: { name: 'grep' } }]
    for (const format of ['messages', 'generate_content'] as const) {
      const vendor = scriptedChat(undefined, { format })
      const { alice } = gatewayOf({ chatVendor: vendor })
      const { status, body } = await alice.ask(
        { model: 'vendor-a/chat-5.4-mini', messages: [user()], tools },
        { path: COMPLETIONS },
      )
      expect([status, body.error.param]).toEqual([400, 'tools.0.type'])
    }
    expect((await gatewayOf().sent({ model: 'vendor-a/chat-5.4-mini', tools })).tools).toEqual(tools)
  })

  test('a choice that says nothing is left out where there are no tools: vendors refuse it there', async () => {
    for (const tool_choice of ['auto', 'none'])
      expect(await gatewayOf().sent({ model: 'vendor-a/chat-5.4-mini', tool_choice })).not.toHaveProperty('tool_choice')
  })

  test('valid controls are forwarded unchanged', async () => {
    const body = {
      tools: [FUNCTION],
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [FUNCTION] } },
      ...schema({ strict: true }),
      stop: ['a', '\n'],
    }
    expect(await gatewayOf().sent({ model: 'vendor-d/chat-5.3', ...body })).toMatchObject(body)
    // Its function tools go over the responses API, which has no stop.
    expect(await gatewayOf().refused({ model: 'vendor-a/chat-5.4-mini', ...body })).toMatchObject({ param: 'stop' })
  })
})

test('the vendor is told whose model it is, and which members the gateway has set (contract 6.61, 6.63)', async () => {
  const ours = async (body: Record<string, unknown>) => {
    const { sent, vendor } = gatewayOf()
    await sent(body)
    const { family, ours } = vendor.orders.at(-1) ?? {}
    return [family, ours]
  }
  expect(await ours({ model: 'vendor-d/chat-5.3' })).toEqual(['vendor-d', ['max_tokens']])
  expect(await ours({ model: 'vendor-d/chat-5.3', max_tokens: 64, temperature: 1 })).toEqual(['vendor-d', []])
  expect(await ours({ model: 'vendor-d/chat-5.3', max_completion_tokens: 64 })).toEqual(['vendor-d', []])
  expect(await ours({ model: 'vendor-d/chat-5.3', max_tokens: 999_999 })).toEqual(['vendor-d', ['max_tokens']])
  expect(await ours({ model: 'vendor-a/chat-6-flagship', max_tokens: 64, reasoning_effort: 'minimal' })).toEqual([
    'vendor-a',
    ['reasoning_effort'],
  ])
})

describe('the rules of a model', () => {
  test('the six-series refuses what its maker refuses, before the 402; a temperature of 1 passes (contract 6.33)', async () => {
    const refusals = {
      temperature: 0.7,
      top_p: 0.9,
      presence_penalty: 1,
      frequency_penalty: 1,
      logprobs: true,
      stop: 'x',
    }
    for (const [param, value] of Object.entries(refusals)) {
      for (const model of ['vendor-a/chat-6-flagship', 'vendor-a/chat-6-small']) {
        const refusal = await gatewayOf().refused({ model, [param]: value })
        expect([refusal.status, refusal.code, refusal.param]).toEqual([400, 'INVALID_PARAMETER', param])
      }
    }
    expect(await gatewayOf().sent({ model: 'vendor-a/chat-6-flagship', temperature: 1 })).toMatchObject({
      temperature: 1,
    })
    expect(await gatewayOf().sent({ model: 'vendor-a/chat-5.6-medium', ...refusals })).toMatchObject(refusals)
  })

  test('the newest of vendor-g are spared the sampling parameters that they reject; older ones get them (contract 6.31)', async () => {
    const sampling = { temperature: 0.7, top_p: 0.9, top_k: 40 }
    for (const model of ['vendor-g/chat-5.5-large', 'vendor-g/chat-5.1-flagship', 'vendor-g/chat-4.8-large'])
      expect(await gatewayOf().sent({ model, ...sampling })).toEqual({ messages: [user()], max_tokens: 8192 })
    expect(await gatewayOf().sent({ model: 'vendor-g/chat-4.5-small', ...sampling })).toMatchObject(sampling)
  })

  test('a forced tool choice is served as auto where the model rejects it (contract 6.32)', async () => {
    for (const tool_choice of ['required', { type: 'function', function: { name: 'look' } }]) {
      expect(
        (await gatewayOf().sent({ model: 'vendor-g/chat-5.5-large', tools: [FUNCTION], tool_choice })).tool_choice,
      ).toBe('auto')
      expect(
        (await gatewayOf().sent({ model: 'vendor-g/chat-4.5-small', tools: [FUNCTION], tool_choice })).tool_choice,
      ).toEqual(tool_choice)
    }
    for (const tool_choice of ['none', 'auto'])
      expect(
        (await gatewayOf().sent({ model: 'vendor-g/chat-5.5-large', tools: [FUNCTION], tool_choice })).tool_choice,
      ).toBe(tool_choice)
  })

  test('effort: raised and lowered as the contract says, with tools and without (contract 6.13, 6.34, 6.35)', async () => {
    const requests = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max', undefined] as const
    const sentBy = async (model: string, more: Record<string, unknown> = {}) => {
      const { sent } = gatewayOf()
      const efforts: unknown[] = []
      for (const reasoning_effort of requests)
        efforts.push(
          (await sent({ model, max_tokens: 100, ...more, ...(reasoning_effort && { reasoning_effort }) }))
            .reasoning_effort,
        )
      return efforts
    }
    const tools = [FUNCTION]
    const always = ['low', 'low', 'low', 'medium', 'high', 'xhigh']
    const smaller = ['none', 'low', 'low', 'medium', 'high', 'xhigh']
    for (const model of [
      'vendor-a/chat-6-flagship',
      'vendor-a/chat-6.1-large',
      'vendor-a/chat-6.2-flagship',
      'vendor-a/chat-6.2-large',
    ]) {
      expect([model, await sentBy(model)]).toEqual([model, [...always, 'xhigh', undefined]])
      expect([model, await sentBy(model, { tools })]).toEqual([model, [...always, 'max', 'medium']])
    }
    for (const model of ['vendor-a/chat-6-large', 'vendor-a/chat-6-small']) {
      expect([model, await sentBy(model)]).toEqual([model, [...smaller, 'xhigh', undefined]])
      expect([model, await sentBy(model, { tools })]).toEqual([model, [...smaller, 'max', 'medium']])
    }
  })

  test('tools on the five-point-six series force the effort none, whatever was asked (contract 6.36)', async () => {
    for (const reasoning_effort of ['high', 'max', undefined]) {
      expect(
        (
          await gatewayOf().sent({
            model: 'vendor-a/chat-5.6-large',
            tools: [FUNCTION],
            ...(reasoning_effort && { reasoning_effort }),
          })
        ).reasoning_effort,
      ).toBe('none')
    }
    expect(
      (await gatewayOf().sent({ model: 'vendor-a/chat-5.6-large', reasoning_effort: 'high' })).reasoning_effort,
    ).toBe('high')
    expect((await gatewayOf().sent({ model: 'vendor-a/chat-5.6-large', tools: [] })).reasoning_effort).toBeUndefined()
  })

  test('six-series tools go over the responses API, where they run at the requested effort; nothing else does (contract 6.35)', async () => {
    const by = async (more: Record<string, unknown>) => {
      const { sent, vendor } = gatewayOf()
      await sent(more)
      return vendor.orders[0]?.by
    }
    expect(await by({ model: 'vendor-a/chat-6-large', tools: [FUNCTION] })).toBe('responses')
    expect(await by({ model: 'vendor-a/chat-6-large' })).toBeUndefined()
    expect(await by({ model: 'vendor-a/chat-5.6-large', tools: [FUNCTION] })).toBeUndefined()
  })

  test('live search goes on with its parameters and by the way that can do it; mode off is not sent at all (contract 6.16)', async () => {
    const search_parameters = {
      mode: 'on',
      sources: [{ type: 'web' }],
      return_citations: true,
      from_date: '2026-01-01',
      to_date: '2026-02-01',
      max_search_results: 50,
    }
    const on = gatewayOf()
    expect((await on.sent({ model: 'vendor-c/chat-4.7', search_parameters })).search_parameters).toEqual(
      search_parameters,
    )
    expect(on.vendor.orders[0]?.by).toBe('responses')
    for (const model of ['vendor-c/chat-4.7', 'vendor-d/chat-5.3']) {
      const off = gatewayOf()
      expect((await off.sent({ model, search_parameters: { mode: 'off' } })).search_parameters).toBeUndefined()
      expect(off.vendor.orders[0]?.by).toBeUndefined()
    }
  })

  test('live search is refused on a free model: nobody pays its surcharge', async () => {
    const refusal = await gatewayOf().refused({ model: FREE, search_parameters: { mode: 'auto' } })
    expect([refusal.status, refusal.code, refusal.param]).toEqual([400, 'INVALID_PARAMETER', 'search_parameters'])
  })

  test('prompt_cache is consumed where there is nothing to ask for (contract 6.15)', async () => {
    expect((await gatewayOf().sent({ model: 'vendor-d/chat-5.3', prompt_cache: true })).prompt_cache).toBeUndefined()
    expect((await gatewayOf().sent({ model: 'vendor-g/chat-5.5-large', prompt_cache: true })).prompt_cache).toBe(true)
  })

  test('thinking is accepted enabled, with a budget and without, and disabled (contract 6.14)', async () => {
    for (const thinking of [
      { type: 'enabled', budget_tokens: 2_000 },
      { type: 'enabled' },
      { type: 'disabled' },
      { type: 'adaptive' },
    ]) {
      expect((await gatewayOf().sent({ model: 'vendor-g/chat-5-large', thinking })).thinking).toEqual(thinking)
    }
  })
})

describe('images', () => {
  const see = (url: Json) => ({
    messages: [
      user([
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url } },
      ]),
    ],
  })
  const VISION = 'vendor-a/chat-5.6-medium'

  test('by URL and as data are forwarded unchanged (contract 6.7)', async () => {
    for (const url of ['https://example.com/a.png', 'http://example.com/a.png', PIXEL]) {
      const { sent } = gatewayOf()
      expect(await sent({ model: VISION, ...see(url) })).toMatchObject(see(url) as never)
    }
  })

  test('that are malformed are 400 INVALID_IMAGE_URL, with their path', async () => {
    for (const url of [
      'https://www.youtube.com/watch?v=x',
      'https://youtu.be/x',
      'https://generativelanguage.googleapis.com/v1beta/files/x',
      '',
      'a.png',
      'ftp://example.com/a.png',
      'file:///etc/passwd',
      'javascript:alert(1)',
      'https://',
      'data:image/png;base64,!!!!',
      'data:image/png;base64,aGVsbG8=',
      'data:text/html,<b>',
    ]) {
      const refusal = await gatewayOf().refused({ model: VISION, ...see(url) })
      expect([url, refusal.status, refusal.code, refusal.param]).toEqual([
        url,
        400,
        'INVALID_IMAGE_URL',
        'messages.0.content.1.image_url.url',
      ])
    }
  })

  test('an image part without an address is 400', async () => {
    for (const part of [{ type: 'image_url' }, { type: 'image_url', image_url: {} }])
      expect((await gatewayOf().refused({ model: VISION, messages: [user([part])] })).status).toBe(400)
  })

  test('are refused by a model that sees none, with a way out (contract 6.7)', async () => {
    const refusal = await gatewayOf().refused({ model: 'vendor-d/chat-5.3', ...see(PIXEL) })
    expect([refusal.status, refusal.code]).toEqual([400, 'INVALID_PARAMETER'])
    expect(refusal.message).toContain('vision')
  })
})

describe('structured outputs', () => {
  const schema = { type: 'object', properties: { sky: { type: 'string' } } }
  const efforts = { type: 'json_schema', json_schema: { name: 'sky', schema } }

  test('are forwarded verbatim where the decoder enforces the shape (contract 6.18)', async () => {
    for (const model of ['vendor-a/chat-6-large', 'vendor-h/chat-4-pro', 'vendor-d/chat-5.3']) {
      for (const response_format of [{ type: 'json_object' }, efforts]) {
        expect(await gatewayOf().sent({ model, response_format })).toMatchObject({
          response_format,
          messages: [user()],
        })
      }
    }
  })

  test('are asked for at the end of the system prompt elsewhere, and a fence is stripped (contract 6.19)', async () => {
    for (const model of ['vendor-g/chat-5.5-large', 'vendor-b/chat-3.8-flash']) {
      const vendor = scriptedChat(async () => wholeAnswer({ content: '```json\n{"sky":"blue"}\n```' }))
      const { alice } = gatewayOf({ chatVendor: vendor })
      const { body } = await alice.buy(
        { model, messages: [{ role: 'system', content: 'Be brief.' }, user()], response_format: efforts },
        { path: COMPLETIONS },
      )
      expect(body.choices[0].message.content).toBe('{"sky":"blue"}')
      const [system, ...rest] = (vendor.orders[0]?.body.messages ?? []) as readonly { role: string; content: string }[]
      expect(system?.content).toStartWith('Be brief.')
      expect(system?.content).toEndWith(JSON.stringify(schema))
      expect(rest).toEqual([user()] as never)
      expect(vendor.orders[0]?.body.response_format).toBeUndefined()
    }
  })

  test('add a system prompt if the conversation has none', async () => {
    const messages = (
      await gatewayOf().sent({ model: 'vendor-g/chat-5.5-large', response_format: { type: 'json_object' } })
    ).messages as readonly { role: string }[]
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user'])
  })

  test('leave an answer alone that has no fence, or that nobody asked to be JSON', async () => {
    const tokenChecked = '```json\n{}\n```'
    for (const [content, response_format] of [
      ['{"a":1}', { type: 'json_object' }],
      [tokenChecked, { type: 'text' }],
      [tokenChecked, undefined],
    ] as const) {
      const { alice } = gatewayOf({ chatVendor: scriptedChat(async () => wholeAnswer({ content })) })
      const { body } = await alice.buy(
        { model: 'vendor-g/chat-5.5-large', messages: [user()], ...(response_format && { response_format }) },
        { path: COMPLETIONS },
      )
      expect(body.choices[0].message.content).toBe(content)
    }
  })
})

describe('a probe', () => {
  const PATHS = [
    COMPLETIONS,
    '/api/v1/chat/farebox/echo',
    '/api/v1/messages',
    '/api/v1/responses',
    '/api/v1beta/models/vendor-b/chat-3.8-flash:generateContent',
    '/api/v1/models/vendor-b%2Fchat-3.8-flash:streamGenerateContent',
  ]

  test('without a body, by GET, by HEAD or by POST, is answered with the default quote on every surface', async () => {
    const { gateway } = gatewayOf()
    for (const path of PATHS) {
      for (const method of ['GET', 'HEAD', 'POST']) {
        const response = await gateway.fetch(new Request(ORIGIN + path, { method }))
        expect([path, method, response.status, response.headers.has('payment-required')]).toEqual([
          path,
          method,
          402,
          true,
        ])
      }
    }
  })

  test('with another method is 405, with the allowed ones', async () => {
    const { gateway } = gatewayOf()
    for (const path of PATHS) {
      const response = await gateway.fetch(new Request(ORIGIN + path, { method: 'DELETE' }))
      expect([path, response.status, response.headers.get('allow')]).toEqual([path, 405, 'GET, HEAD, OPTIONS, POST'])
    }
  })
})

describe('a 402 of chat', () => {
  test('has a string error, the challenge and the price (contract 3.17, 6.42)', async () => {
    const { ask } = gatewayOf()
    const { status, headers, body } = await ask({ model: 'farebox/echo', messages: [user('word')] })
    expect(status).toBe(402)
    expect(body).toMatchObject({
      x402Version: 2,
      error: 'Payment Required',
      price: { amount: '0.002233', currency: 'USD' },
      paymentInfo: { network: 'base-sepolia', asset: 'USDC', x402Version: 2 },
    })
    expect(body.accepts).toMatchObject([
      { scheme: 'exact', network: 'eip155:84532', amount: '2233', maxTimeoutSeconds: 300 },
    ])
    expect(headers.get('cache-control')).toBe('no-store, no-cache, must-revalidate, max-age=0')
    expect(headers.get('x-payment-required')).toBe(headers.get('payment-required'))
    expect(x402Scheme(headers)).toBe(`X402 requirements=${headers.get('payment-required')}`)
  })

  test('for a rejected payment has a code, a debug text and a fresh challenge (contract 3.17)', async () => {
    const body = { model: 'farebox/echo', messages: [user('word')] }
    const { alice, buyer, chain, clock, vendor } = gatewayOf()
    const challenge = await alice.ask(body, { path: COMPLETIONS })
    const refusal = async (payment: ReturnType<typeof alice.sign>) => {
      const answer = await alice.buy(body, { path: COMPLETIONS, payment })
      const { debug, payer } = answer.body
      expect(answer.status).toBe(402)
      expect(answer.body).toMatchObject({
        x402Version: 2,
        error: 'Payment verification failed',
        message: expect.any(String),
        debug: expect.any(String),
        accepts: [{ amount: '2233' }],
      })
      expect(answer.headers.has('payment-required')).toBe(true)
      // Nobody has signed where the signature does not hold.
      const { from } = payment.payload.authorization as { from: string }
      expect([debug, payer?.toLowerCase()]).toEqual([debug, /signature/.test(debug) ? undefined : from.toLowerCase()])
      return answer.body.code
    }
    expect(await refusal(alice.sign(challenge, { by: buyer('mallory').wallet }))).toBe('PAYMENT_INVALID')
    expect(await refusal(alice.sign(challenge, { value: 2_232n }))).toBe('PAYMENT_INVALID')
    expect(await refusal(alice.sign(challenge, { validBefore: BigInt(clock.now() / 1000) }))).toBe('PAYMENT_UNFUNDED')
    const poor = alice.sign(challenge, { from: chain.wallet('poor') })
    expect(await refusal(poor)).toBe('PAYMENT_UNFUNDED')
    const used = alice.sign(challenge)
    chain.cancel(used)
    expect(await refusal(used)).toBe('PAYMENT_REPLAY')
    expect([vendor.orders.length, chain.transfers.length]).toEqual([0, 0])
  })

  test('is what X-Payment answers to as well', async () => {
    const body = { model: 'farebox/echo', messages: [user('word')] }
    const { alice, chain } = gatewayOf()
    expect((await alice.buy(body, { path: COMPLETIONS, header: 'x-payment' })).status).toBe(200)
    expect(chain.transfers.length).toBe(1)
  })

  test('the authorization of one request does not buy another', async () => {
    const { alice, chain, vendor } = gatewayOf()
    const payment = alice.sign(
      await alice.ask({ model: 'farebox/echo', messages: [user('word')] }, { path: COMPLETIONS }),
    )
    expect(
      (await alice.buy({ model: 'farebox/echo', messages: [user('word')] }, { path: COMPLETIONS, payment })).status,
    ).toBe(200)
    const again = await alice.buy({ model: 'farebox/echo', messages: [user('other')] }, { path: COMPLETIONS, payment })
    expect([again.status, again.body.code]).toEqual([402, 'PAYMENT_REPLAY'])
    expect([vendor.orders.length, chain.transfers.length]).toEqual([1, 1])
  })
})

test('a payment that comes with a request to a free model is not looked at', async () => {
  const { alice, chain, vendor, ports } = gatewayOf()
  const payment = alice.sign(await alice.ask({ model: 'farebox/echo', messages: [user()] }, { path: COMPLETIONS }))
  const answer = await alice.buy({ model: FREE, messages: [user()] }, { path: COMPLETIONS, payment })
  expect([answer.status, answer.headers.get('x-free-model'), answer.headers.get('payment-response')]).toEqual([
    200,
    'true',
    null,
  ])
  const nonsense = await alice.buy(
    { model: FREE, messages: [user()] },
    { path: COMPLETIONS, payment: 'nonsense' as never },
  )
  expect(nonsense.status).toBe(200)
  expect([vendor.orders.length, chain.transfers.length]).toEqual([2, 0])
  expect(await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 10)).toEqual([])
})
