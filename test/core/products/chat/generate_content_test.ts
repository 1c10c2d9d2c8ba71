/**
 * The generate-content surface: for listed payers, verbatim on vendors that speak it, converted on others (contract
 * 7.20, 3.17, 7.22).
 */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { type ChatScript, scriptedChat, streamAnswer, wholeAnswer } from '../../../fakes/chat.ts'
import { chatRows, ApiError, type Fields, rateLimited, type ChatFormat } from '../../../../core/mod.ts'
import { decodeHeader, encodePayment, kit, ORIGIN, read } from '../../../kit.ts'

const MODEL = 'vendor-b/chat-3.8-flash'
const pathOf = (model: string, verb = 'generateContent', version = 'v1beta') =>
  `/api/${version}/models/${model}:${verb}`
const path = pathOf(MODEL)
const order = (more: Record<string, unknown> = {}) => ({
  contents: [{ role: 'user', parts: [{ text: 'Why is the sky blue?' }] }],
  ...more,
})

const ANSWER: Fields = {
  candidates: [
    {
      content: {
        role: 'model',
        parts: [
          { text: 'Rayleigh.', thought: true },
          { text: 'Blue.', thoughtSignature: 'c2lnbmVk' },
        ],
      },
      finishReason: 'STOP',
      index: 0,
    },
  ],
  usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 2, thoughtsTokenCount: 3, totalTokenCount: 15 },
  modelVersion: 'gemini-3.8-flash',
  responseId: 'r-1',
}
const native: ChatScript = async ({ format }) =>
  format === 'generate_content' ? { kind: 'whole', body: ANSWER } : wholeAnswer()
const LISTED = { generate_content: [memoryChain().wallet('alice')] }

function gatewayOf(
  script: ChatScript = native,
  { format = 'generate_content' as ChatFormat, ...more }: Parameters<typeof kit>[0] & { format?: ChatFormat } = {},
) {
  const vendor = scriptedChat(script, { format })
  const subject = kit({ chatVendor: vendor, allowlists: LISTED, ...more })
  const alice = subject.buyer()
  return {
    ...subject,
    vendor,
    alice,
    ask: (body: unknown, at = path) => alice.ask(body, { path: at }),
    buy: (body: unknown, at = path) => alice.buy(body, { path: at }),
    /** A bought stream, as text. */
    async stream(body: unknown, at: string) {
      const headers = { 'content-type': 'application/json', 'x-goog-api-key': 'anything' }
      const send = (more: Record<string, string> = {}) =>
        subject.gateway.fetch(
          new Request(ORIGIN + at, { method: 'POST', headers: { ...headers, ...more }, body: JSON.stringify(body) }),
        )
      const response = await send({ 'payment-signature': encodePayment(alice.sign(await read(await send()))) })
      return { response, text: await response.text() }
    },
  }
}

describe('on a vendor that speaks generateContent', () => {
  test('an answer is passed on verbatim (contract 7.20, 7.23)', async () => {
    const { buy, chain } = gatewayOf()
    const { status, headers, body } = await buy(order())
    expect([status, body]).toEqual([200, ANSWER])
    expect(decodeHeader(headers.get('payment-response')).success).toBe(true)
    expect(chain.transfers.length).toBe(1)
  })

  test('a request is passed on verbatim, but for the size of its answer', async () => {
    const input = {
      contents: [
        { role: 'user', parts: [{ text: 'Look.' }, { inlineData: { mimeType: 'application/pdf', data: 'AAAA' } }] },
        { role: 'model', parts: [{ functionCall: { name: 'look', args: {} }, thoughtSignature: 'c2ln' }] },
        { role: 'user', parts: [{ functionResponse: { name: 'look', response: { result: 'a fox' } } }] },
      ],
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      tools: [{ functionDeclarations: [{ name: 'look', parameters: { type: 'OBJECT' } }] }],
      toolConfig: { functionCallingConfig: { mode: 'ANY' } },
      generationConfig: {
        temperature: 0.5,
        topK: 5,
        candidateCount: 2,
        thinkingConfig: { thinkingBudget: 1_000 },
        responseMimeType: 'application/json',
      },
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
    }
    const { buy, vendor } = gatewayOf()
    expect((await buy(input)).status).toBe(200)
    expect(vendor.orders[0]).toMatchObject({ format: 'generate_content', model: 'gemini-3.8-flash', stream: false })
    expect(vendor.orders[0]?.body).toEqual({
      ...input,
      generationConfig: { ...input.generationConfig, maxOutputTokens: 8_192 },
    } as never)
  })

  test('maxOutputTokens is clamped to the ceiling, in either spelling', async () => {
    for (const generation of [
      { generationConfig: { maxOutputTokens: 100_000 } },
      { generationConfig: { max_output_tokens: 100_000 } },
      { generation_config: { max_output_tokens: 100_000 } },
    ]) {
      const { buy, vendor } = gatewayOf()
      const { headers } = await buy(order(generation))
      expect([headers.get('x-max-tokens-requested'), headers.get('x-max-tokens-effective')]).toEqual([
        '100000',
        '65536',
      ])
      expect(vendor.orders[0]?.body.generationConfig).toEqual({ maxOutputTokens: 65_536 })
      expect(vendor.orders[0]?.body.generation_config).toBeUndefined()
    }
  })

  test('as many candidates are quoted as are asked for upstream, in either spelling (contract 7.20)', async () => {
    // 12 tokens of prompt at 0.75, 10% of 10,000 tokens at 3.75 for each, and the fee.
    const config = { maxOutputTokens: 10_000 }
    for (const [more, count] of [
      [{}, 1],
      [{ candidateCount: 3 }, 3],
      [{ candidate_count: 3 }, 3],
      [{ candidateCount: 3, candidate_count: 8 }, 3],
    ] as const) {
      const { buy, vendor, chain } = gatewayOf()
      expect((await buy(order({ generationConfig: { ...config, ...more } }))).status).toBe(200)
      expect(String(chain.transfers[0]?.value)).toBe(String(9 + 3_750 * count + 1_000))
      const { maxOutputTokens, ...sent } = (vendor.orders[0]?.body.generationConfig ?? {}) as Fields
      expect([maxOutputTokens, sent]).toEqual([10_000, count === 1 ? {} : { candidateCount: count }])
    }
  })

  test('a field in both spellings is forwarded once, as it was quoted', async () => {
    const { buy, vendor } = gatewayOf()
    const brief = { parts: [{ text: 'Be brief.' }] }
    const both = {
      systemInstruction: brief,
      system_instruction: { parts: [{ text: 'Be long.' }] },
      generationConfig: { topK: 1 },
      generation_config: { topK: 2 },
    }
    expect((await buy(order(both))).status).toBe(200)
    expect(vendor.orders[0]?.body).toEqual({
      ...order(),
      systemInstruction: brief,
      generationConfig: { topK: 1, maxOutputTokens: 8_192 },
    } as never)
  })

  test('a stream is passed on as it comes (contract 7.20, 7.23)', async () => {
    const events = [
      '{"candidates":[{"content":{"role":"model","parts":[{"text":"Bl"}]}}]}',
      '{"candidates":[{"content":{"role":"model","parts":[{"text":"ue."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}',
    ].map((data) => `data: ${data}\r\n\r\n`)
    const { stream, vendor, chain } = gatewayOf(async () => streamAnswer(events))
    const { response, text } = await stream(order(), `${pathOf(MODEL, 'streamGenerateContent')}?alt=sse`)
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
    const [first, last] = text.split(/(?<=\n\n)/)
    expect(first).toBe(events[0]?.replaceAll('\r', '') ?? '')
    const { payment, ...sent } = JSON.parse(last?.slice('data: '.length) ?? '')
    expect(`data: ${JSON.stringify(sent)}\r\n\r\n`).toBe(events[1] ?? '')
    expect(decodeHeader(payment['payment-response'])).toMatchObject({ success: true })
    expect(vendor.orders[0]).toMatchObject({ format: 'generate_content', stream: true })
    expect(chain.transfers.length).toBe(1)
  })
})

/** The framing that @google/genai 1.30.0 and @google/generative-ai 0.24.1 read: they match this, again and again. */
const READABLE = /^(?:data: [^\n]*\n\n)+$/

describe('a stream of generateContent has no comments (contract 7.36)', () => {
  const piece = (text: string, more: Fields = {}) =>
    `data: ${JSON.stringify({ candidates: [{ content: { role: 'model', parts: [{ text }] }, ...more }] })}\n\n`
  const events = [': working\n\n', piece('Bl'), ': working\n\n', piece('ue.', { finishReason: 'STOP' })]
  const vendors: readonly (readonly [string, Parameters<typeof gatewayOf>])[] = [
    ['one that speaks it', [async () => streamAnswer(events)]],
    ['one answer in one event', [async () => streamAnswer(events.slice(-1))]],
    ['any other one', [undefined, { chatVendor: scriptedChat() }]],
  ]
  for (const [vendor, options] of vendors) {
    test(`from ${vendor}: the receipt is the member payment of the last event`, async () => {
      const { stream, chain, alice } = gatewayOf(...options)
      const before = alice.balance()
      const { text } = await stream(order(), `${pathOf(MODEL, 'streamGenerateContent')}?alt=sse`)
      expect(text).toMatch(READABLE)
      const chunks = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? ''))
      expect(chunks.filter(({ payment }) => payment !== undefined)).toEqual(chunks.slice(-1))
      const { candidates, payment } = chunks.at(-1)
      expect(candidates[0].finishReason).toBe('STOP')
      const [transfer] = chain.transfers
      expect([chain.transfers.length, before - alice.balance()]).toEqual([1, transfer?.value ?? 0n])
      expect(payment['x-payment-receipt']).toBe(transfer?.transaction)
      expect(decodeHeader(payment['payment-response'])).toMatchObject({ success: true, payer: alice.wallet })
    })
  }

  test('one that breaks off ends with its error alone, unpaid', async () => {
    const { stream, chain } = gatewayOf(async () => streamAnswer([piece('Bl'), new Error('secret')]))
    const { text } = await stream(order(), `${pathOf(MODEL, 'streamGenerateContent')}?alt=sse`)
    expect(text).toMatch(READABLE)
    expect(JSON.parse(text.split('data: ').at(-1) ?? '')).toMatchObject({ error: { status: 'UNAVAILABLE' } })
    expect(chain.transfers).toEqual([])
  })
})

describe('on any other vendor', () => {
  test('a request goes out as chat, and its answer comes back as candidates (contract 7.23)', async () => {
    const { buy, vendor } = gatewayOf(async () => wholeAnswer({ content: 'Blue.', reasoning: 'Rayleigh.' }), {
      format: 'chat',
    })
    const { status, body } = await buy(
      order({ systemInstruction: { parts: [{ text: 'Be brief.' }] }, generationConfig: { maxOutputTokens: 500 } }),
    )
    expect(status).toBe(200)
    expect(vendor.orders[0]).toMatchObject({
      format: 'chat',
      body: {
        max_tokens: 500,
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'Why is the sky blue?' },
        ],
      },
    })
    expect(body).toMatchObject({
      candidates: [
        {
          content: { role: 'model', parts: [{ text: 'Rayleigh.', thought: true }, { text: 'Blue.' }] },
          finishReason: 'STOP',
        },
      ],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 2, totalTokenCount: 12 },
      modelVersion: MODEL,
    })
  })

  test('a stream comes back as chunks of candidates, with its finish reason at the end', async () => {
    const { stream } = gatewayOf(undefined, { chatVendor: scriptedChat() })
    const { text } = await stream(order(), pathOf(MODEL, 'streamGenerateContent'))
    const chunks = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? ''))
    expect(
      chunks
        .flatMap(
          ({ candidates }) => candidates[0]?.content?.parts?.map(({ text: part }: { text: string }) => part) ?? [],
        )
        .join(''),
    ).toBe('Hello')
    expect(chunks.at(-1).candidates[0].finishReason).toBe('STOP')
    expect(text).not.toContain('[DONE]')
  })
})

describe('its paths', () => {
  test('are four, under v1beta and v1, the slash of the id raw or as %2F, by any alias (contract 7.20, 7.21, 7.25)', async () => {
    for (const version of ['v1beta', 'v1']) {
      for (const model of [MODEL, MODEL.replace('/', '%2F'), 'gemini-3.8-flash', 'google/gemini-3.8-flash']) {
        const whole = gatewayOf()
        expect([version, model, (await whole.buy(order(), pathOf(model, 'generateContent', version))).status]).toEqual([
          version,
          model,
          200,
        ])
        const streamed = gatewayOf(undefined, { chatVendor: scriptedChat() })
        const { response } = await streamed.stream(order(), pathOf(model, 'streamGenerateContent', version))
        expect([version, model, response.status, streamed.vendor.orders.length]).toEqual([version, model, 200, 0])
        expect(response.headers.get('content-type')).toStartWith('text/event-stream')
      }
    }
  })

  test('are refused for an unknown or missing model', async () => {
    const unknown = await gatewayOf().ask(order(), pathOf('vendor-z/chat-1'))
    expect([unknown.status, unknown.body.error]).toEqual([
      400,
      { code: 400, status: 'INVALID_ARGUMENT', message: expect.stringContaining('Unknown model: vendor-z/chat-1') },
    ])
    expect((await gatewayOf().ask(order(), '/api/v1beta/models/:generateContent')).status).toBe(405)
  })
})

describe('a refusal', () => {
  test('a free model, or one of another maker, is pointed to chat', async () => {
    for (const model of [
      'vendor-a/chat-6-large',
      'vendor-g/chat-5.5-large',
      'vendor-open/gpt-oss-120b',
      'vendor-open/gemma-4-31b',
      'farebox/echo-free',
    ]) {
      const { status, body } = await gatewayOf().ask(order(), pathOf(model))
      expect([model, status, body.error.status]).toEqual([model, 400, 'INVALID_ARGUMENT'])
      expect(body.error.message).toContain('/api/v1/chat/completions')
    }
    for (const { id } of chatRows.filter(({ maker }) => maker === 'vendor-b'))
      expect([id, (await gatewayOf().ask(order(), pathOf(id))).status]).toEqual([id, 402])
  })

  test('only listed payers are served: 403 after verification, uncharged; nobody at all where no list is set (contract 1.58, 7.22)', async () => {
    for (const allowlists of [LISTED, { generate_content: [] }, {}]) {
      const { buyer, ask, chain, vendor } = gatewayOf(native, { allowlists })
      expect((await ask(order())).status).toBe(402)
      const bob = await buyer('bob').buy(order(), { path })
      expect([bob.status, bob.body.error.status, bob.body.error.code]).toEqual([403, 'PERMISSION_DENIED', 403])
      expect([vendor.orders.length, chain.transfers.length]).toEqual([0, 0])
    }
    const { buyer, ask, chain } = gatewayOf()
    const poor = buyer('poor')
    chain.drain(poor.wallet)
    expect((await poor.buy(order(), { path, payment: poor.sign(await ask(order())) })).status).toBe(402)
  })

  test('the authorization of a payer who is not listed stays free', async () => {
    const { buyer, ask, chain } = gatewayOf()
    const bob = buyer('bob')
    // The same price elsewhere, so that the same signature fits.
    const payment = bob.sign(await ask(order()))
    for (let i = 0; i < 2; i++) expect((await bob.buy(order(), { path, payment })).status).toBe(403)
    expect(chain.submit(payment)).toBe(true)
  })

  const REFUSED: readonly [string, Record<string, unknown>][] = [
    ['no contents', { contents: [] }],
    ['contents that are no list', { contents: 'Hello' }],
    ['a tool that the vendor runs and charges for', { tools: [{ googleSearch: {} }] }],
    ['something in the account of the operator', { cachedContent: 'cachedContents/1' }],
    ['the same, in the other spelling', { cached_content: 'cachedContents/1' }],
    ['a tier that costs more', { serviceTier: 'priority' }],
    ['the same, in the other spelling', { service_tier: 'priority' }],
    [
      "a file of the operator's, or behind an address",
      { contents: [{ parts: [{ fileData: { fileUri: 'https://www.youtube.com/watch?v=x' } }] }] },
    ],
    [
      'the same, in the other spelling',
      { contents: [{ parts: [{ text: 'x' }, { file_data: { file_uri: 'files/x' } }] }] },
    ],
    ['the same, in both', { contents: [{ parts: [{ fileData: null, file_data: { file_uri: 'files/x' } }] }] }],
    [
      'a file in the answer of a function',
      {
        contents: [
          { parts: [{ functionResponse: { name: 'f', response: {}, parts: [{ fileData: { fileUri: 'files/x' } }] } }] },
        ],
      },
    ],
    ['a file in the system instruction', { system_instruction: { parts: [{ fileData: { fileUri: 'files/x' } }] } }],
    ['an answer in pictures', { generationConfig: { responseModalities: ['TEXT', 'IMAGE'] } }],
    ['the same, in the other spelling', { generation_config: { response_modalities: ['AUDIO'] } }],
    ['a part that is null', { contents: [{ parts: [null] }] }],
    ['10,001 contents', { contents: Array.from({ length: 10_001 }, () => ({ parts: [{ text: 'x' }] })) }],
    ['2,001 parts', { contents: [{ parts: Array.from({ length: 2_001 }, () => ({ text: 'x' })) }] }],
    ['no tokens for an answer', { generationConfig: { maxOutputTokens: 0 } }],
    ['less than none', { generationConfig: { maxOutputTokens: -5 } }],
    ['half an answer', { generationConfig: { candidateCount: 0.5 } }],
    ['no answer', { generationConfig: { candidateCount: 0 } }],
    ['more answers than are sold', { generationConfig: { candidateCount: 9 } }],
    ['a count that is a text, which the vendor would read', { generationConfig: { candidateCount: '8' } }],
    ['the same, in the other spelling', { generation_config: { candidate_count: '8' } }],
    ['settings that are none', { generation_config: 7 }],
    ['a size that is a text', { generationConfig: { maxOutputTokens: '100' } }],
  ]
  for (const [name, more] of REFUSED) {
    test(`${name}: 400 in the vendor's envelope, before any 402 (contract 7.24)`, async () => {
      const { ask, vendor } = gatewayOf()
      const { status, body } = await ask(order(more))
      expect([status, body, vendor.orders.length]).toEqual([
        400,
        { error: { code: 400, message: expect.any(String), status: 'INVALID_ARGUMENT' } },
        0,
      ])
    })
  }

  test('the usual tier and text are taken, and the free form of a call may say what it likes', async () => {
    const contents = [
      { parts: [{ text: 'x' }] },
      { role: 'model', parts: [{ functionCall: { name: 'f', args: { fileData: [null] } } }] },
      { parts: [{ functionResponse: { name: 'f', response: { file_data: 1 } } }] },
    ]
    expect(
      (
        await gatewayOf().ask(
          order({ contents, serviceTier: 'standard', generationConfig: { responseModalities: ['TEXT'] } }),
        )
      ).status,
    ).toBe(402)
  })

  test('several candidates are not sold where another format gives one answer', async () => {
    const { status, body } = await gatewayOf(undefined, { format: 'messages' }).ask(
      order({ generationConfig: { candidateCount: 2 } }),
    )
    expect([status, body.error.message.startsWith('generationConfig.candidateCount: ')]).toEqual([400, true])
  })

  test('a 402 is in the envelope too, and carries the whole challenge (contract 3.20, 7.24)', async () => {
    const { status, headers, body } = await gatewayOf().ask(order())
    expect(status).toBe(402)
    expect(body).toMatchObject({
      x402Version: 2,
      error: { code: 402, status: 'PAYMENT_REQUIRED', message: expect.any(String) },
      accepts: [{ maxTimeoutSeconds: 300 }],
      price: { currency: 'USD' },
    })
    expect(decodeHeader(headers.get('payment-required')).accepts).toEqual(body.accepts)
    expect(body.code).toBeUndefined()
  })

  const API_ERRORS: readonly [ApiError, number, string][] = [
    [rateLimited('vendor-b', 9), 429, 'RESOURCE_EXHAUSTED'],
    [new ApiError('MODEL_UNAVAILABLE', { message: 'away' }), 503, 'UNAVAILABLE'],
    [new ApiError('UPSTREAM_TIMEOUT', { message: 'slow' }), 504, 'DEADLINE_EXCEEDED'],
    [new ApiError('CONTENT_POLICY', { message: 'unsafe' }), 400, 'INVALID_ARGUMENT'],
  ]
  for (const [apiError, status, name] of API_ERRORS) {
    test(`${apiError.code} of the vendor is ${status} ${name}, uncharged; the same signed request then succeeds`, async () => {
      const { alice, ask, chain } = gatewayOf(async (_, { attempt }) =>
        attempt === 1 ? Promise.reject(apiError) : { kind: 'whole', body: ANSWER },
      )
      const payment = alice.sign(await ask(order()))
      const failed = await alice.buy(order(), { path, payment })
      expect([failed.status, failed.body]).toEqual([
        status,
        { error: { code: status, message: expect.any(String), status: name } },
      ])
      expect((await alice.buy(order(), { path, payment })).body).toEqual(ANSWER)
      expect(chain.transfers.length).toBe(1)
    })
  }
})

describe('its free routes', () => {
  const client = () => {
    const { gateway, chain } = gatewayOf()
    const send = async (at: string, body?: unknown) =>
      await read(
        await gateway.fetch(
          new Request(ORIGIN + at, {
            method: body === undefined ? 'GET' : 'POST',
            headers: { 'content-type': 'application/json', 'x-goog-api-key': 'anything' },
            ...(body !== undefined && { body: JSON.stringify(body) }),
          }),
        ),
      )
    return { send, chain }
  }

  test('count what the quote is made from, bare or as a generateContentRequest (contract 7.34)', async () => {
    const { send, chain } = client()
    const system = { systemInstruction: { parts: [{ text: 'Be brief.' }] } }
    const { body: same } = await send('/api/v1/messages/count_tokens', {
      model: MODEL,
      system: 'Be brief.',
      messages: [{ role: 'user', content: 'Why is the sky blue?' }],
    })
    const bare = await send(pathOf(MODEL, 'countTokens'), order(system))
    const whole = await send(pathOf(MODEL, 'countTokens'), { generateContentRequest: order(system) })
    const counted = { totalTokens: same.input_tokens }
    expect([bare.status, bare.body, whole.body, chain.transfers.length]).toEqual([200, counted, counted, 0])
    expect((await send(pathOf(MODEL, 'countTokens', 'v1'), order(system))).body).toEqual(counted)
    const wrong = await send(pathOf(MODEL, 'countTokens'), {})
    expect([wrong.status, wrong.body.error.status]).toEqual([400, 'INVALID_ARGUMENT'])
  })

  test('list the models that are sold in this format, and each by its name (contract 7.35)', async () => {
    const { send } = client()
    const { status, body } = await send('/api/v1beta/models')
    const sold = chatRows.filter(({ surfaces, hidden }) => surfaces?.includes('generate_content') && !hidden)
    expect([status, body.models.map(({ name }: Fields) => name)]).toEqual([200, sold.map(({ id }) => `models/${id}`)])
    const [row] = sold.filter(({ id }) => id === MODEL)
    const entry = {
      name: `models/${MODEL}`,
      displayName: row?.name,
      description: row?.description,
      inputTokenLimit: row?.contextWindow,
      outputTokenLimit: row?.maxOutput,
      supportedGenerationMethods: ['generateContent', 'countTokens'],
    }
    expect(body.models).toContainEqual(entry)
    for (const id of [MODEL, encodeURIComponent(MODEL), ...(row?.aliases ?? [])])
      expect([id, (await send(`/api/v1beta/models/${id}`)).body]).toEqual([id, entry])
    const unknown = await send('/api/v1beta/models/vendor-a/chat-6-small')
    expect([unknown.status, unknown.body.error.status]).toEqual([404, 'NOT_FOUND'])
  })
})
