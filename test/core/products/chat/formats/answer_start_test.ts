/**
 * A stream is a reply from its first real event on: until then it may fail over to another model, or be refused
 * (decision 17).
 */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../../../adapters/chains/evm/memory.ts'
import { chatPieces, chunk, DONE, scriptedChat, streamAnswer, usageChunk, wholeAnswer } from '../../../../fakes/chat.ts'
import { catalog, type ChatAnswer, type Fields, type ChatFormat } from '../../../../../core/mod.ts'
import { isAnswerStart } from '../../../../../core/products/chat/formats/answer_start.ts'
import { rateLimited } from '../../../../../core/http/errors.ts'
import { COMPLETIONS, HELLO, MODEL, reading, deltaChunk, STREAM, streaming, table } from '../../../call/stream_kit.ts'
import { rowsOf } from '../../../../vectors/rows.ts'

const ROLE = deltaChunk({ role: 'assistant', content: '' })
const HI = deltaChunk({ content: 'Hi' })

/** Streams in which nobody says anything. */
const NOTHING: readonly (readonly [string, readonly (string | Error)[]])[] = [
  ['comments', [': ping\n\n', ': ping\n\n']],
  ['nothing', []],
  ['a speaker', [chunk({ role: 'assistant', content: '' })]],
  ['a speaker, and how it ended', [chunk({ role: 'assistant', content: '' }), chunk({}, { finish: 'stop' }), DONE]],
  [
    'white space, and how it ended',
    [
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: '  \n' }),
      chunk({ content: '\t ' }),
      chunk({}, { finish: 'stop' }),
      usageChunk(),
      DONE,
    ],
  ],
  ['blank thoughts, and how it ended', [chunk({ reasoning_content: ' \n' }), chunk({}, { finish: 'stop' }), DONE]],
  ['garbage', ['upstream connect error']],
  ['events that are garbage', ['data: nonsense\n\n']],
  ['HTML', ['<!doctype html>\n\n<title>502</title>\n\n']],
  ['a [DONE]', [DONE]],
  ['an error', ['data: {"error":{"message":"secret"}}\n\n']],
  [
    'a speaker and an error in one piece',
    [`${chunk({ role: 'assistant', content: '' })}data: {"error":{"message":"secret"}}\n\n`],
  ],
  ['a speaker, and a broken connection', [chunk({ role: 'assistant', content: '' }), new Error('reset')]],
]

type Case = { readonly name: string; readonly path: string; readonly body: Fields; readonly model: string }

/** A model with a fallback on each surface, free and paid. */
const FREE = 'vendor-open/gpt-oss-20b'
const messages = [{ role: 'user', content: 'Hello' }]
const CASES: readonly Case[] = [
  { name: 'chat, free', path: COMPLETIONS, body: { model: FREE, messages, stream: true }, model: FREE },
  {
    name: 'messages, free',
    path: '/api/v1/messages',
    body: { model: FREE, messages, max_tokens: 10, stream: true },
    model: FREE,
  },
  {
    name: 'chat, paid',
    path: COMPLETIONS,
    body: { model: MODEL, messages, max_tokens: 10, stream: true },
    model: MODEL,
  },
  {
    name: 'messages, paid',
    path: '/api/v1/messages',
    body: { model: 'vendor-g/chat-4.6-medium', messages, max_tokens: 10, stream: true },
    model: 'vendor-g/chat-4.6-medium',
  },
  {
    name: 'responses, paid',
    path: '/api/v1/responses',
    body: { model: MODEL, input: 'Hello', stream: true },
    model: MODEL,
  },
  {
    name: 'generateContent, paid',
    path: '/api/v1beta/models/vendor-b/chat-3.8-flash:streamGenerateContent?alt=sse',
    body: { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] },
    model: 'vendor-b/chat-3.8-flash',
  },
]

describe.each(CASES)('on $name: a model whose stream says nothing', ({ path, body, model }) => {
  const well = () =>
    streamAnswer([
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: 'Hello' }),
      chunk({}, { finish: 'stop' }),
      usageChunk(),
      DONE,
    ])

  async function ask(answers: readonly (() => ChatAnswer)[], order: { path: string; body: Fields } = { path, body }) {
    const vendor = scriptedChat(async (_, { attempt }) =>
      (answers[attempt - 1] ?? (answers.at(-1) as () => ChatAnswer))(),
    )
    const { chat: rows } = catalog()
    const chat = rows.all.map((row) => (row.id === model && !row.fallbacks ? { ...row, fallbacks: [FREE] } : row))
    const subject = await table(undefined, {
      chatVendor: vendor,
      catalog: catalog({ chat }),
      allowlists: { generate_content: [memoryChain().wallet('alice')] },
    })
    const payment = model === FREE ? {} : { payment: await subject.signed(order.body, { path: order.path }) }
    const response = await subject.post(order.body, { path: order.path, ...payment })
    const text = await response.text()
    await subject.idle()
    return {
      status: response.status,
      headers: response.headers,
      text,
      orders: vendor.orders,
      transfers: subject.chain.transfers.length,
    }
  }

  test.each(NOTHING)('but %s falls over to the next, and nothing of it is told (contract 6.58)', async (_, pieces) => {
    const { status, headers, text, orders, transfers } = await ask([() => streamAnswer(pieces), well])
    expect([status, headers.get('x-fallback-used'), headers.get('x-original-model'), orders.length]).toEqual([
      200,
      'true',
      model,
      2,
    ])
    expect([text.includes('Hello'), text.includes('secret'), text.includes('nonsense'), transfers]).toEqual([
      true,
      false,
      false,
      model === FREE ? 0 : 1,
    ])
    if (path === COMPLETIONS) expect(text.match(/"role":"assistant"/g)?.length).toBe(1)
  })

  test('is 503 with Retry-After, uncharged, where no other says more', async () => {
    const { status, headers, orders, transfers } = await ask([
      () => streamAnswer([chunk({ role: 'assistant', content: '' })]),
    ])
    expect([status, headers.get('retry-after'), headers.get('content-type'), orders.length > 1, transfers]).toEqual([
      503,
      '5',
      'application/json',
      true,
      0,
    ])
  })

  test.each<[unknown]>([['   \n '], [[{ type: 'text', text: ' ' }]]])(
    'or whose whole answer is %j: likewise (contract 6.29)',
    async (content) => {
      const { stream: _, ...plain } = body
      const whole = { path: path.replace(':streamGenerateContent?alt=sse', ':generateContent'), body: plain as Fields }
      const blank = () => wholeAnswer({ content: content as string })
      const alone = await ask([blank], whole)
      expect([alone.status, alone.transfers]).toEqual([503, 0])
      const helped = await ask([blank, () => wholeAnswer()], whole)
      expect([helped.status, helped.headers.get('x-fallback-used'), helped.transfers]).toEqual([
        200,
        'true',
        model === FREE ? 0 : 1,
      ])
    },
  )

  test('and is refused for its rate after its speaker falls over where it is free, and is 429 where it is paid', async () => {
    const refused = (): ChatAnswer => {
      const { stream } = streamAnswer([chunk({ role: 'assistant', content: '' }), 'data: {"error":{"code":429}}\n\n'])
      return { kind: 'stream', stream: { ...stream, apiErrorOf: () => rateLimited('maker-x', 17) } }
    }
    // As adapters hand it out: the scripted vendor knows no refusals.
    const orders: unknown[] = []
    const subject = await table(undefined, {
      chatVendor: { format: 'chat', ask: async (order) => (orders.push(order) === 1 ? refused() : well()) },
      allowlists: { generate_content: [memoryChain().wallet('alice')] },
    })
    const payment = model === FREE ? {} : { payment: await subject.signed(body, { path }) }
    const { status, headers } = await subject.post(body, { path, ...payment })
    expect([status, headers.get('retry-after'), headers.get('x-fallback-used'), orders.length]).toEqual(
      model === FREE ? [200, null, 'true', 2] : [429, '17', null, 1],
    )
    expect(subject.chain.transfers).toEqual([])
  })
})

describe('a paid stream', () => {
  test('is begun by its first word, no earlier and no later; what came before goes out with it, as it came (contract 6.58)', async () => {
    const pieces = chatPieces(': ping\n\n', ROLE)
    const { post, signed, clock } = await table(streaming(pieces.answer))
    let response: Response | undefined
    const pending = post(STREAM, { payment: await signed() }).then((reply) => (response = reply))
    await pieces.requested()
    await clock.settle()
    expect(response).toBeUndefined()
    pieces.push(HI)
    const reader = reading(await pending)
    expect([await reader.next(), await reader.next(), await reader.next()]).toEqual([': working\n\n', ROLE, HI])
    await reader.leave()
  })

  test.each(NOTHING)(
    'of %s is 503 with Retry-After, uncharged, its upstream is left, and the same payment buys afterwards (contract 6.29, 6.58)',
    async (_, pieces) => {
      let isCancelled = false
      let isWell = false
      const answer = async () =>
        isWell ? streamAnswer(HELLO) : streamAnswer(pieces, { onCancel: () => void (isCancelled = true) })
      const { post, signed, chain, idle } = await table(undefined, { chatVendor: { format: 'chat', ask: answer } })
      const payment = await signed()
      const response = await post(STREAM, { payment })
      expect([
        response.status,
        response.headers.get('retry-after'),
        response.headers.get('content-type'),
        isCancelled,
        chain.transfers.length,
      ]).toEqual([503, '5', 'application/json', true, 0])
      expect(await response.text()).not.toContain('secret')
      isWell = true
      expect((await (await post(STREAM, { payment })).text()).endsWith(DONE)).toBe(true)
      await idle()
      expect(chain.transfers.length).toBe(1)
    },
  )

  test('forwards leading white space unchanged, with the first word', async () => {
    const pieces = [
      ROLE,
      deltaChunk({ content: ' \n' }),
      deltaChunk({ content: '  ' }),
      HI,
      deltaChunk({ content: '\n\n' }),
    ]
    const { post, signed, chain, idle } = await table(
      streaming(streamAnswer([...pieces, deltaChunk({}, { finish: 'stop' }), DONE])),
    )
    const text = await (await post(STREAM, { payment: await signed() })).text()
    await idle()
    expect([text.startsWith(pieces.join('')), chain.transfers.length]).toEqual([true, 1])
  })

  test('whose first word is in its closing events forwards them once', async () => {
    const call = chunk({
      tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }],
    })
    const path = '/api/v1beta/models/vendor-b/chat-3.8-flash:streamGenerateContent?alt=sse'
    const body = { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] }
    const { post, signed, chain } = await table(
      streaming(streamAnswer([call, chunk({}, { finish: 'tool_calls' }), DONE])),
      { allowlists: { generate_content: [memoryChain().wallet('alice')] } },
    )
    const text = await (await post(body, { path, payment: await signed(body, { path }) })).text()
    expect([text.match(/functionCall/g)?.length, chain.transfers.length]).toEqual([1, 1])
  })

  test('is 503 after four megabytes without a word, and its upstream is closed', async () => {
    let [reads, isCancelled] = [0, false]
    const pad = deltaChunk({ role: 'assistant', content: '' }, { pad: 'x'.repeat(1 << 20) })
    const stream = {
      next: async () => (reads++, new TextEncoder().encode(pad)),
      cancel: () => void (isCancelled = true),
    }
    const { post, signed, chain } = await table(async () => ({ kind: 'stream', stream }))
    const { status } = await post(STREAM, { payment: await signed() })
    expect([status, reads, isCancelled, chain.transfers.length]).toEqual([503, 4, true, 0])
  })

  test.each([
    [{ reasoning_content: 'hm' }],
    [{ reasoning: 'hm' }],
    [{ reasoning_details: [{ type: 'reasoning.encrypted', data: 'x' }] }],
    [{ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '' } }] }],
    [{ refusal: 'No.' }],
    [{ content: 'Hi' }],
  ])('has begun with %j', async (delta) => {
    const pieces = chatPieces(ROLE, deltaChunk(delta as Fields))
    const { post, signed } = await table(streaming(pieces.answer))
    const response = await post(STREAM, { payment: await signed() })
    expect(response.status).toBe(200)
    await response.body?.cancel()
  })
})

describe('an answer of white space in a format that its vendor speaks', () => {
  const events = (...all: readonly (readonly [event: string, data: object])[]) =>
    all.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify({ type: event, ...data })}\n\n`)
  const stop = [
    ['message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } }],
    ['message_stop', {}],
  ] as const
  const blankText = [
    ['content_block_start', { index: 0, content_block: { type: 'text', text: '' } }],
    ['content_block_delta', { index: 0, delta: { type: 'text_delta', text: ' \n' } }],
    ['content_block_stop', { index: 0 }],
  ] as const
  const thinking = [
    ['content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '' } }],
    ['content_block_delta', { index: 0, delta: { type: 'signature_delta', signature: 'x' } }],
    ['content_block_stop', { index: 0 }],
  ] as const
  const begin = ['message_start', { message: { id: 'm', content: [], usage: { input_tokens: 1 } } }] as const
  const message = (text: string) => ({ type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] })
  const [chat46, contents] = ['vendor-g/chat-4.6-medium', [{ role: 'user', parts: [{ text: 'Hello' }] }]]
  const input = { model: chat46, messages, max_tokens: 10 }
  const gemini = (verb: string) => `/api/v1beta/models/vendor-b/chat-3.8-flash:${verb}`
  const part = (text: string) => ({ candidates: [{ content: { parts: [{ text }] }, finishReason: 'STOP' }] })

  type Native = readonly [ChatFormat, string, Fields, (text: string) => object, string, readonly (readonly string[])[]]
  const NATIVE: readonly Native[] = [
    [
      'messages',
      '/api/v1/messages',
      input,
      (text) => ({ type: 'message', role: 'assistant', content: [{ type: 'text', text }], stop_reason: 'end_turn' }),
      '/api/v1/messages',
      [events(begin, ...blankText, ...stop), events(begin, ...thinking, ...blankText, ...stop)],
    ],
    [
      'responses',
      '/api/v1/responses',
      { model: MODEL, input: 'Hello' },
      (text) => ({ id: 'r', object: 'response', status: 'completed', output: [message(text)] }),
      '/api/v1/responses',
      [
        events(
          ['response.created', { response: { id: 'r' } }],
          ['response.output_text.delta', { delta: ' \n' }],
          ['response.output_text.done', { text: ' \n' }],
          ['response.completed', { response: { id: 'r', output: [message(' \n')] } }],
        ),
      ],
    ],
    [
      'generate_content',
      gemini('generateContent'),
      { contents },
      part,
      gemini('streamGenerateContent?alt=sse'),
      [[`data: ${JSON.stringify(part(' \n'))}\n\n`]],
    ],
  ]

  async function buy(format: ChatFormat, answer: ChatAnswer, order: { readonly path: string; readonly body: Fields }) {
    const { post, signed, chain, idle } = await table(undefined, {
      chatVendor: { format, ask: async () => answer },
      allowlists: { generate_content: [memoryChain().wallet('alice')] },
    })
    const response = await post(order.body, { path: order.path, payment: await signed(order.body, order) })
    const text = await response.text()
    await idle()
    return { status: response.status, text, paid: chain.transfers.length }
  }

  for (const [format, path, body, whole, streamPath, streams] of NATIVE) {
    test(`${format}: is 503 and uncharged; with a word in it, it is passed on as it came`, async () => {
      const ask = (text: string) => buy(format, { kind: 'whole', body: whole(text) as Fields }, { path, body })
      expect(await ask('   \n ')).toMatchObject({ status: 503, paid: 0 })
      const good = await ask(' \n Hi  \n')
      expect([good.status, good.paid, good.text.includes(JSON.stringify(' \n Hi  \n'))]).toEqual([200, 1, true])
    })

    test(`${format}: is not settled as a stream (contract 6.29)`, async () => {
      const streamed = format === 'generate_content' ? body : { ...body, stream: true }
      for (const pieces of streams)
        expect((await buy(format, streamAnswer(pieces), { path: streamPath, body: streamed })).paid).toBe(0)
    })
  }
})

describe('the first real event', () => {
  const cases = rowsOf<readonly [Exclude<ChatFormat, 'chat'>, object, boolean]>('chat/answer_starts')
  test.each(cases)('%s: %j is one: %p', (format, expected, is) => {
    expect(isAnswerStart(`data: ${JSON.stringify(expected)}\n\n`, format)).toBe(is)
  })
})
