import { describe, expect, test } from 'bun:test'
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
import { chatBench, chatSuite } from '../lib/chat_suite.ts'
import { ERROR_FORMATS, inPieces, lawful } from '../lib/chat_stand_in.ts'
import { calm, KEY, PNG, errorText } from '../lib/provider_kit.ts'

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

const { vendorOn, streaming, sent } = chatBench({ create: geminiChat, reply: reply() })

chatSuite('geminiChat', {
  create: geminiChat,
  own: OWN,
  formats: ['generate_content', 'chat', 'messages'],
  reply: reply(),
  stream: ANSWER,
  deltas: [
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
  ],
  last: { id: 'chatcmpl-r1', usage: { prompt_tokens: 9, completion_tokens: 5 } },
  early: { events: sseOf(UNAVAILABLE), why: 'gemini-chat answered 503 (503)' },
  late: sseOf(part([{ text: 'a' }]), UNAVAILABLE, reply()),
  refusals: {
    vectors: 'chat/gemini_refusals',
    request: { stop: ['x'], top_p: 0.5, tools: [{ type: 'function', function: { name: 'f' } }] },
  },
})

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
})

describe('replies of geminiChat()', () => {
  test('a whole answer to a stream in its own format is one event', async () => {
    const { vendor } = vendorOn(() => Response.json(reply()))
    expect(await drain(streamOf(await vendor.ask({ ...OWN, stream: true }, calm())))).toBe(
      `data: ${JSON.stringify(reply())}\n\n`,
    )
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
  const field = (name: string) => ({
    details: [
      { '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations: [{ field: name, description: 'x' }] },
    ],
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
