import { describe, expect, test } from 'bun:test'
import type { ChatVendorConfig } from '../../../../adapters/providers/lib/chat/provider.ts'
import { geminiChat } from '../../../../adapters/providers/gemini/chat.ts'
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
import { ERROR_FORMATS, inPieces, lawful } from '../lib/chat_stand_in.ts'
import { calm, KEY, PNG, errorText, type Seen, standIn } from '../lib/provider_kit.ts'

runLaws(
  'geminiChat()',
  chatVendorLaws,
  lawful(geminiChat, () => ERROR_FORMATS.generate_content),
)

const USAGE = {
  promptTokenCount: 9,
  candidatesTokenCount: 3,
  thoughtsTokenCount: 2,
  cachedContentTokenCount: 4,
  totalTokenCount: 14,
}
const reply = (parts: Fields[] = [{ text: 'hi' }], more: Fields = {}): Fields => ({
  candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0 }],
  usageMetadata: USAGE,
  modelVersion: 'model-x',
  responseId: 'r1',
  ...more,
})
const part = (parts: Fields[], more: Fields = {}): Fields => ({
  candidates: [{ content: { role: 'model', parts } }],
  responseId: 'r1',
  ...more,
})
const sseOf = (...events: readonly Fields[]): string =>
  events.map((event) => `data: ${JSON.stringify(event)}\r\n\r\n`).join('')
const CALL = { functionCall: { name: 'f', args: { a: 1 } }, thoughtSignature: 'sig' }
const ANSWER = sseOf(part([{ text: 'hm', thought: true }]), part([{ text: 'hé' }]), reply([CALL]))
const UNAVAILABLE = { error: { code: 503, message: `busy, ${KEY}`, status: 'UNAVAILABLE' } }
const BLOCKED = {
  promptFeedback: { blockReason: 'PROHIBITED_CONTENT' },
  usageMetadata: { promptTokenCount: 9, totalTokenCount: 9 },
  responseId: 'r1',
}

function vendorOn(answer: Parameters<typeof standIn>[0], more: Partial<ChatVendorConfig> = {}) {
  const server = standIn(answer)
  const { config, ...rest } = chatSetup(server.url, more)
  return { server, ...rest, vendor: geminiChat(config) }
}

/** A stream that the adapter gets from `fetch` itself; `urls` are the addresses that it asked. */
function streaming(response: () => Response) {
  const urls: string[] = []
  const fetch = async (url: string) => {
    urls.push(url)
    return response()
  }
  const { config, ...rest } = chatSetup('https://api.example.com/', { fetch })
  return { ...rest, urls, vendor: geminiChat(config) }
}

const OWN: ChatOrder = {
  format: 'generate_content',
  model: 'model-x',
  body: {
    contents: [{ role: 'user', parts: [{ text: 'hello' }] }],
    generationConfig: { maxOutputTokens: 64 },
    unheardOf: [null],
  },
  stream: false,
  headers: {},
}

async function sent(order: ChatOrder, more: Partial<ChatVendorConfig> = {}): Promise<Seen> {
  const { server, vendor } = vendorOn(() => Response.json(reply()), more)
  await vendor.ask(order, calm())
  return server.seen[0] as Seen
}

describe('requests of geminiChat()', () => {
  test('an order in its own format as it came, with the model in the path, and the key in its header', async () => {
    const { method, path, headers, json } = await sent(OWN)
    expect([method, path, headers.get('x-goog-api-key'), headers.has('authorization')]).toEqual([
      'POST',
      '/v1beta/models/model-x:generateContent',
      KEY,
      false,
    ])
    expect(json).toEqual(OWN.body)
  })

  test.each([
    ['model-x', 'https://api.example.com/v1beta/models/model-x:streamGenerateContent?alt=sse'],
    ['tunedModels/my model', 'https://api.example.com/v1beta/tunedModels/my%20model:streamGenerateContent?alt=sse'],
    ['a?b', 'https://api.example.com/v1beta/models/a%3Fb:streamGenerateContent?alt=sse'],
  ])('for a stream of %s, to its address', async (model, address) => {
    const { vendor, urls } = streaming(() => inPieces(ANSWER, 100))
    await drain(streamOf(await vendor.ask({ ...STREAMED, model }, calm())))
    expect(urls).toEqual([address])
  })

  test('an order in chat as contents: system, images, tools, results and signatures', async () => {
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
          tool_calls: [
            {
              id: 'c1',
              type: 'function',
              function: { name: 'f', arguments: '{"a":1}' },
              extra_content: { google: { thought_signature: 'sig' } },
            },
          ],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'ok' },
      ],
      tools: [
        {
          type: 'function',
          function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'integer' } } } },
        },
      ],
      tool_choice: 'required',
      top_p: 0.5,
      stop: 'x',
    }
    const { json } = await sent(ordered(body))
    expect(json).toMatchObject({
      systemInstruction: { parts: [{ text: 'be brief' }] },
      contents: [
        { role: 'user', parts: [{ text: 'see' }, { inlineData: { mimeType: 'image/png', data: PNG } }] },
        { role: 'model', parts: [{ functionCall: { name: 'f', args: { a: 1 } }, thoughtSignature: 'sig' }] },
        { role: 'user', parts: [{ functionResponse: { name: 'f', response: { result: 'ok' } } }] },
      ],
      tools: [{ functionDeclarations: [{ name: 'f' }] }],
      toolConfig: { functionCallingConfig: { mode: 'ANY' } },
      generationConfig: { maxOutputTokens: 64, topP: 0.5, stopSequences: ['x'] },
    })
    expect(Object.keys(json).filter((name) => name === 'model' || name === 'stream')).toEqual([])
  })

  test("the operator's parameters below the order, overrides above all, headers beside the key", async () => {
    const more = {
      parameters: { generationConfig: { topK: 5, maxOutputTokens: 1 } },
      overrides: { safetySettings: [] },
      headers: { 'x-goog-user-project': 'p' },
    }
    const { json, headers } = await sent(OWN, more)
    expect(json).toEqual({ ...OWN.body, generationConfig: { topK: 5, maxOutputTokens: 64 }, safetySettings: [] })
    expect([headers.get('x-goog-user-project'), headers.get('x-goog-api-key')]).toEqual(['p', KEY])
  })

  test('nothing for another format', async () => {
    const { vendor } = vendorOn(() => Response.json(reply()))
    await expect(vendor.ask({ ...HELLO, format: 'messages' }, calm())).rejects.toThrow(
      'supports the formats generate_content and chat, not messages',
    )
  })
})

describe('replies of geminiChat()', () => {
  test('its own format untouched, whole and streamed, a whole answer as one event included', async () => {
    const { vendor } = vendorOn(() => Response.json(reply()))
    expect(wholeOf(await vendor.ask(OWN, calm()))).toEqual(reply())
    expect(await drain(streamOf(await vendor.ask({ ...OWN, stream: true }, calm())))).toBe(
      `data: ${JSON.stringify(reply())}\n\n`,
    )
    expect(
      await drain(streamOf(await streaming(() => inPieces(ANSWER, 7)).vendor.ask({ ...OWN, stream: true }, calm()))),
    ).toBe(ANSWER)
  })

  test('chat: text, thoughts, calls, pictures and usage, under the upstream id of the model', async () => {
    const parts = [
      { text: 'hm', thought: true },
      { text: 'so' },
      { inlineData: { mimeType: 'image/png', data: PNG } },
      CALL,
    ]
    const { vendor, clock } = vendorOn(() => Response.json(reply(parts)))
    const { choices, usage, ...head } = wholeOf(await vendor.ask(HELLO, calm()))
    expect(head).toEqual({
      id: 'chatcmpl-r1',
      object: 'chat.completion',
      created: Math.floor(clock.now() / 1000),
      model: 'model-x',
    })
    expect(choices).toHaveLength(1)
    expect(choices[0]).toMatchObject({
      message: {
        content: 'so',
        reasoning_content: 'hm',
        images: [{ image_url: { url: PIXEL } }],
        tool_calls: [{ type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
      },
      finish_reason: 'tool_calls',
    })
    expect(choices[0].message.tool_calls[0].extra_content).toEqual({ google: { thought_signature: 'sig' } })
    expect(usage).toEqual({
      prompt_tokens: 9,
      completion_tokens: 5,
      total_tokens: 14,
      prompt_tokens_details: { cached_tokens: 4 },
      cache_read_input_tokens: 4,
    })
  })

  test('calls of two replies without ids never share one', async () => {
    const { responseId: _, ...anonymous } = reply([{ functionCall: { name: 'f', args: {} } }])
    const { vendor } = vendorOn(() => Response.json(anonymous))
    const ids = [await vendor.ask(HELLO, calm()), await vendor.ask(HELLO, calm())].map(
      (answer) => wholeOf(answer).choices[0].message.tool_calls[0].id,
    )
    expect(new Set(ids).size).toBe(2)
  })

  test.each([1, 5, 100_000])('a stream in chat that came in pieces of %d bytes', async (size) => {
    const { vendor } = streaming(() => inPieces(ANSWER, size))
    const text = await drain(streamOf(await vendor.ask(STREAMED, calm())))
    const chunks = eventsIn(text)
    expect(chunks.flatMap(({ choices }) => choices.map(({ delta }: any) => delta))).toEqual([
      { role: 'assistant', content: '', reasoning_content: 'hm' },
      { content: 'hé' },
      {
        tool_calls: [
          {
            index: 0,
            id: 'call_0_chatcmpl-r1',
            type: 'function',
            function: { name: 'f', arguments: '{"a":1}' },
            extra_content: { google: { thought_signature: 'sig' } },
          },
        ],
      },
      {},
    ])
    expect(chunks.at(-2).choices[0].finish_reason).toBe('tool_calls')
    expect(chunks.at(-1)).toMatchObject({
      id: 'chatcmpl-r1',
      choices: [],
      usage: { prompt_tokens: 9, completion_tokens: 5 },
    })
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  test('a blocked prompt is an answer that ends with content_filter, whole and streamed', async () => {
    const { choices, usage } = wholeOf(await vendorOn(() => Response.json(BLOCKED)).vendor.ask(HELLO, calm()))
    expect([choices[0].message.content, choices[0].finish_reason, usage.total_tokens]).toEqual([
      '',
      'content_filter',
      9,
    ])
    const text = await drain(streamOf(await streaming(() => inPieces(sseOf(BLOCKED))).vendor.ask(STREAMED, calm())))
    expect(eventsIn(text).at(-2).choices[0].finish_reason).toBe('content_filter')
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  test('neither candidates nor a block is MODEL_UNAVAILABLE, whole and streamed', async () => {
    for (const body of [{ usageMetadata: USAGE }, { candidates: [] }, { promptFeedback: {} }, null]) {
      const { vendor, log } = vendorOn(() => Response.json(body))
      for (const order of [HELLO, STREAMED, OWN])
        expect(await reading(vendor.ask(order, calm()), log)).toBe('MODEL_UNAVAILABLE')
    }
    const { vendor, log } = streaming(() => inPieces(sseOf({ usageMetadata: USAGE })))
    expect(await reading(vendor.ask(STREAMED, calm()), log)).toBe('MODEL_UNAVAILABLE')
  })
})

describe('a stream of geminiChat() in chat that fails', () => {
  test.each([1, 100_000])('before its first chunk is a refusal, in pieces of %d bytes', async (size) => {
    const { vendor, log } = streaming(() => inPieces(sseOf(UNAVAILABLE), size))
    expect(await reading(vendor.ask(STREAMED, calm()), log)).toBe('MODEL_UNAVAILABLE')
  })

  test('later says so in our words, and ends without [DONE]', async () => {
    const { vendor } = streaming(() => inPieces(sseOf(part([{ text: 'a' }]), UNAVAILABLE, reply())))
    const text = await drain(streamOf(await vendor.ask(STREAMED, calm())))
    expect(eventsIn(text).at(-1)).toEqual({
      error: {
        message: 'The model is temporarily unavailable. Nothing was charged.',
        type: 'upstream_error',
        param: null,
        code: 'MODEL_UNAVAILABLE',
      },
    })
    expect([text.includes('[DONE]'), text.includes(KEY)]).toEqual([false, false])
  })

  test('by ending without a finish reason', async () => {
    const { vendor } = streaming(() => inPieces(sseOf(part([{ text: 'a' }]))))
    expect((await apiErrorOf(drain(streamOf(await vendor.ask(STREAMED, calm()))))).code).toBe('MODEL_UNAVAILABLE')
  })

  test('not by arguments that have a member called error', async () => {
    const { vendor } = streaming(() =>
      inPieces(sseOf(reply([{ functionCall: { name: 'f', args: { error: { code: 500 } } } }]))),
    )
    expect((await drain(streamOf(await vendor.ask(STREAMED, calm())))).endsWith('data: [DONE]\n\n')).toBe(true)
  })
})

describe('a refusal of geminiChat()', () => {
  const e = (
    code: number,
    status: string,
    { message = 'no', details = [] }: { message?: string; details?: Fields[] } = {},
  ) => ({ error: { code, status, message: `${message} (key ${KEY} of org-9f8e7d)`, details } })
  const wait = { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '37s' }
  const field = (name: string) => ({
    details: [
      { '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations: [{ field: name, description: 'x' }] },
    ],
  })
  test.each([
    [
      'a rate limit',
      429,
      e(429, 'RESOURCE_EXHAUSTED', {
        message: 'You exceeded your current quota, please check your plan and billing details.',
        details: [wait],
      }),
      'RATE_LIMITED 37',
    ],
    [
      'spent credits',
      429,
      e(429, 'RESOURCE_EXHAUSTED', { message: 'Your prepayment credits are depleted.' }),
      'PROVIDER_CONFIG_ERROR !',
    ],
    [
      'a country',
      400,
      e(400, 'FAILED_PRECONDITION', { message: 'User location is not supported for the API use.' }),
      'PROVIDER_CONFIG_ERROR !',
    ],
    ['a key without rights', 403, e(403, 'PERMISSION_DENIED'), 'PROVIDER_CONFIG_ERROR !'],
    [
      'a wrong key',
      400,
      e(400, 'INVALID_ARGUMENT', { message: 'API key not valid. Please pass a valid API key.' }),
      'PROVIDER_CONFIG_ERROR !',
    ],
    ['a model that is gone', 404, e(404, 'NOT_FOUND'), 'PROVIDER_CONFIG_ERROR !'],
    ['an outage', 503, e(503, 'UNAVAILABLE'), 'MODEL_UNAVAILABLE'],
    ['an internal error', 500, e(500, 'INTERNAL'), 'MODEL_UNAVAILABLE'],
    ['a timeout behind it', 504, e(504, 'DEADLINE_EXCEEDED'), 'UPSTREAM_TIMEOUT'],
    [
      'the context',
      400,
      e(400, 'INVALID_ARGUMENT', {
        message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
      }),
      'CONTEXT_LENGTH_EXCEEDED messages',
    ],
    [
      'an image',
      400,
      e(400, 'INVALID_ARGUMENT', { message: 'Unable to process input image. Please retry or report.' }),
      'INVALID_IMAGE',
    ],
    [
      'a link',
      400,
      e(400, 'INVALID_ARGUMENT', { message: 'Cannot fetch content from the provided URL.' }),
      'INVALID_IMAGE',
    ],
    ['a setting', 400, e(400, 'INVALID_ARGUMENT', field('generation_config.top_p')), 'INVALID_PARAMETER top_p'],
    [
      'a count',
      400,
      e(400, 'INVALID_ARGUMENT', field('generationConfig.maxOutputTokens')),
      'INVALID_PARAMETER max_tokens',
    ],
    ['a stop', 400, e(400, 'INVALID_ARGUMENT', field('generation_config.stop_sequences[0]')), 'INVALID_PARAMETER stop'],
    ['a turn', 400, e(400, 'INVALID_ARGUMENT', field('contents[0].parts[1]')), 'INVALID_PARAMETER messages'],
    [
      'a tool',
      400,
      e(400, 'INVALID_ARGUMENT', field('tools[0].function_declarations[0].parameters.properties[x]')),
      'INVALID_PARAMETER tools[0]',
    ],
    ['nothing that has a name', 400, e(400, 'INVALID_ARGUMENT'), 'INVALID_PARAMETER'],
  ])('%s', async (_, status, body, expected) => {
    const request = { stop: ['x'], top_p: 0.5, tools: [{ type: 'function', function: { name: 'f' } }] }
    for (const order of [ordered(request), ordered(request, STREAMED)]) {
      const { vendor, log } = vendorOn(() => Response.json(body, { status }))
      const work = vendor.ask(order, calm())
      expect(await reading(work, log)).toBe(expected)
      const words = await errorText(work, log)
      expect([words.includes(KEY), words.includes('org-9f8e7d')]).toEqual([false, false])
    }
  })

  test('of an order in its own format names the path as the caller wrote it', async () => {
    const { vendor, log } = vendorOn(() =>
      Response.json(e(400, 'INVALID_ARGUMENT', field('generation_config.max_output_tokens')), { status: 400 }),
    )
    expect(await reading(vendor.ask(OWN, calm()), log)).toBe('INVALID_PARAMETER generationConfig.maxOutputTokens')
  })

  test('never tells the address, in which other servers want their key', async () => {
    const { config, log } = chatSetup(`http://127.0.0.1:1/?key=${KEY}`)
    expect((await errorText(geminiChat(config).ask(HELLO, calm()), log)).includes(KEY)).toBe(false)
  })
})

againstAimock('geminiChat', { create: geminiChat })
