/** The generate_content wire against chat: requests, replies and streams, both ways. */
import { describe, expect, test } from 'bun:test'
import * as fc from 'fast-check'
import {
  chatFromGenerateContentReply,
  generateContentFromChatReply,
} from '../../../../../core/products/chat/formats/generate_content/reply.ts'
import {
  builtInTools,
  chatFromGenerateContent,
  generateContentFromChat,
} from '../../../../../core/products/chat/formats/generate_content/request.ts'
import {
  chatFromGenerateContentStream,
  generateContentFromChatStream,
} from '../../../../../core/products/chat/formats/generate_content/stream.ts'
import type { Fields } from '../../../../../core/lib/json.ts'
import {
  CHAT,
  CHAT_STREAM,
  FACTS,
  GEMINI_REPLY,
  GEMINI_STREAM,
  PARAMETERS,
  PNG,
  SIGNATURE,
  WEATHER,
  call,
  delta,
  part,
  read,
  rewritten,
} from './generate_content_samples.ts'
import { scaled } from '../../../../scope.ts'

describe('a chat request for Gemini', () => {
  const request = generateContentFromChat(CHAT) as any

  test('turns alternate, and system text stands outside of them', () => {
    expect(request.systemInstruction).toEqual({ parts: [{ text: 'Be brief.' }] })
    expect(request.contents.map(({ role }: any) => role)).toEqual(['user', 'model', 'user', 'model', 'user'])
    const merged = generateContentFromChat({
      messages: [
        { role: 'user', content: 'a' },
        { role: 'developer', content: 'b' },
        { role: 'user', content: 'c' },
      ],
    })
    expect(merged).toMatchObject({
      contents: [{ role: 'user', parts: [{ text: 'a' }, { text: 'c' }] }],
      systemInstruction: { parts: [{ text: 'b' }] },
    })
  })

  test('pictures and sound go inline, links as file data with a type', () => {
    expect(request.contents[0].parts).toEqual([
      { text: 'Where is this?' },
      { inlineData: { mimeType: 'image/png', data: PNG } },
      { fileData: { fileUri: 'https://example.com/a.webp?size=1', mimeType: 'image/webp' } },
      { inlineData: { mimeType: 'audio/wav', data: 'AAAA' } },
    ])
    const bare = generateContentFromChat({
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: 'https://example.com/a' }] }],
    })
    expect(bare).toMatchObject({
      contents: [{ parts: [{ fileData: { fileUri: 'https://example.com/a', mimeType: 'image/jpeg' } }] }],
    })
  })

  test('calls keep id, arguments and signature, and answers find their names', () => {
    expect(request.contents[1].parts).toEqual([
      { text: 'Two cities.', thought: true },
      { functionCall: { id: 'a', name: 'weather', args: { city: 'Bern' } }, thoughtSignature: SIGNATURE },
      { functionCall: { id: 'b', name: 'weather', args: { city: 'Basel' } } },
    ])
    expect(request.contents[2].parts).toEqual([
      { functionResponse: { id: 'a', name: 'weather', response: { sky: 'clear' } } },
      { functionResponse: { id: 'b', name: 'weather', response: { result: 'fog' } } },
    ])
  })

  test('a turn of calls whose signature was lost says so on its first call, from generation 3 on', () => {
    const messages = [{ role: 'assistant', content: null, tool_calls: [call('a', 'Bern'), call('b', 'Basel')] }]
    const signatures = (model: string) =>
      (generateContentFromChat({ model, messages }) as any).contents[0].parts.map((part: any) => part.thoughtSignature)
    expect(signatures('gemini-3.1-pro')).toEqual(['skip_thought_signature_validator', undefined])
    expect(signatures('gemini-2.5-pro')).toEqual([undefined, undefined])
  })

  test('keeps arguments that are not JSON', () => {
    const written = (text: string) => [
      { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: text } }] },
    ]
    expect(generateContentFromChat({ messages: written('{"a":') })).toMatchObject({
      contents: [{ parts: [{ functionCall: { args: { arguments: '{"a":' } } }] }],
    })
    expect(generateContentFromChat({ messages: written('') })).toMatchObject({
      contents: [{ parts: [{ functionCall: { args: {} } }] }],
    })
  })

  test('tools and choices', () => {
    expect(request.tools).toEqual([
      { functionDeclarations: [{ name: 'weather', description: 'Looks outside.', parametersJsonSchema: PARAMETERS }] },
    ])
    const mode = (tool_choice: any) =>
      (generateContentFromChat({ messages: [], tools: [WEATHER], tool_choice }) as any).toolConfig
        ?.functionCallingConfig
    expect(mode('auto')).toEqual({ mode: 'AUTO' })
    expect(mode('none')).toEqual({ mode: 'NONE' })
    expect(mode('required')).toEqual({ mode: 'ANY' })
    expect(mode(CHAT.tool_choice)).toEqual({ mode: 'ANY', allowedFunctionNames: ['weather'] })
    expect(mode({ type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [WEATHER] } })).toEqual({
      mode: 'VALIDATED',
      allowedFunctionNames: ['weather'],
    })
    expect(generateContentFromChat({ messages: [], tool_choice: 'auto' })).not.toHaveProperty('toolConfig')
  })

  test('settings have their names, and at most five stops', () => {
    expect(request.generationConfig).toEqual({
      maxOutputTokens: 300,
      temperature: 0.5,
      topP: 0.9,
      topK: 40,
      stopSequences: ['END', 'STOP'],
      seed: 7,
      candidateCount: 2,
      presencePenalty: 0.1,
      frequencyPenalty: 0.2,
      responseLogprobs: true,
      logprobs: 3,
      thinkingConfig: { includeThoughts: true, thinkingLevel: 'low' },
    })
    expect(generateContentFromChat({ stop: [...'abcdefg'] })).toMatchObject({
      generationConfig: { stopSequences: [...'abcde'] },
    })
    expect(generateContentFromChat({ stop: 'a' })).toMatchObject({ generationConfig: { stopSequences: ['a'] } })
  })

  test('every effort has a level, and none turns thinking off', () => {
    const thinking = (reasoning_effort?: string) =>
      (generateContentFromChat(reasoning_effort ? { reasoning_effort } : {}) as any).generationConfig.thinkingConfig
    expect(thinking()).toEqual({ includeThoughts: true })
    expect(thinking('none')).toEqual({ includeThoughts: false, thinkingBudget: 0 })
    const levels = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'].map((effort) => thinking(effort).thinkingLevel)
    expect(levels).toEqual(['minimal', 'low', 'medium', 'high', 'high', 'high'])
  })

  test("Gemini's own members pass, except for those that decide the price or name something of the operator's; all else is dropped", () => {
    const safetySettings = [{ category: 'HARM_CATEGORY_HATE_SPEECH', threshold: 'BLOCK_NONE' }]
    const generationConfig = {
      max_output_tokens: 65_536,
      candidateCount: 8,
      mediaResolution: 'LOW',
      responseModalities: ['IMAGE'],
      responseSchema: {},
      temperature: 2,
      thinking_config: { thinking_budget: 5 },
    }
    const body = {
      messages: [],
      user: 'me',
      stream: true,
      logit_bias: {},
      response_format: { type: 'json_object' },
      safetySettings,
      cachedContent: 'cachedContents/1',
    }
    expect(generateContentFromChat({ ...body, generationConfig, max_tokens: 10, temperature: 1 })).toEqual({
      contents: [],
      safetySettings,
      generationConfig: {
        mediaResolution: 'LOW',
        maxOutputTokens: 10,
        temperature: 1,
        thinkingConfig: { includeThoughts: true, thinkingBudget: 5 },
      },
    })
    expect(generateContentFromChat({ generationConfig, reasoning_effort: 'high' })).toMatchObject({
      generationConfig: { thinkingConfig: { thinkingLevel: 'high' } },
    })
  })
})

test('a file is never linked: its name would be one in the account of the operator', () => {
  const sent = (file_data: string) =>
    generateContentFromChat({ messages: [{ role: 'user', content: [{ type: 'file', file: { file_data } }] }] }).contents
  for (const name of ['files/abc', 'https://generativelanguage.googleapis.com/v1beta/files/x'])
    expect(JSON.stringify(sent(name))).not.toContain('fileData')
})

describe('a Gemini request for chat', () => {
  test('a conversation comes back as it was', () => {
    expect(chatFromGenerateContent(generateContentFromChat(CHAT))).toEqual(CHAT)
  })

  test('snake_case reads like camelCase', () => {
    const body = {
      system_instruction: 'Be brief.',
      contents: [
        { role: 'user', parts: [{ inline_data: { mime_type: 'image/png', data: PNG } }] },
        {
          role: 'model',
          parts: [{ function_call: { name: 'weather', args: { city: 'Bern' } }, thought_signature: SIGNATURE }],
        },
        { role: 'user', parts: [{ function_response: { name: 'weather', response: { result: 'fog' } } }] },
      ],
      tools: [
        { function_declarations: [{ name: 'weather', parameters_json_schema: PARAMETERS }] },
        { google_search: {} },
      ],
      tool_config: { function_calling_config: { mode: 'ANY', allowed_function_names: ['weather'] } },
      generation_config: {
        max_output_tokens: 9,
        stop_sequences: ['x'],
        response_mime_type: 'application/json',
        thinking_config: { thinking_budget: 0 },
      },
    }
    expect(chatFromGenerateContent(body)).toEqual({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } }] },
        { role: 'assistant', content: '', tool_calls: [call('call_0', 'Bern', SIGNATURE)] },
        { role: 'tool', tool_call_id: 'call_0', name: 'weather', content: 'fog' },
      ],
      tools: [{ type: 'function', function: { name: 'weather', parameters: PARAMETERS } }],
      tool_choice: { type: 'function', function: { name: 'weather' } },
      max_tokens: 9,
      stop: ['x'],
      reasoning_effort: 'none',
      response_format: { type: 'json_object' },
    })
    expect(builtInTools(body)).toEqual(['googleSearch'])
  })

  test('responses without ids answer the calls of their name in order', () => {
    const functionCall = { name: 'weather', args: {} }
    const functionResponse = { name: 'weather', response: { ok: true } }
    const contents = [
      { role: 'model', parts: [{ functionCall }, { functionCall }] },
      { role: 'user', parts: [{ functionResponse }, { functionResponse }] },
    ]
    const { messages } = chatFromGenerateContent({ contents }) as any
    expect(messages.slice(1).map((message: any) => message.tool_call_id)).toEqual(['call_0', 'call_1'])
  })

  test('contents may be text, parts or turns, and an empty turn says nothing', () => {
    const messages = (contents: any) => chatFromGenerateContent({ contents }).messages
    expect(messages('a')).toEqual([{ role: 'user', content: 'a' }])
    expect(messages(['a', { text: 'b' }])).toEqual([
      { role: 'user', content: 'a' },
      { role: 'user', content: 'b' },
    ])
    expect(messages([{ role: 'user', parts: { text: 'a' } }, { role: 'model' }])).toEqual([
      { role: 'user', content: 'a' },
    ])
    expect(messages(undefined)).toEqual([])
  })

  test('schemas are lowered to JSON schema', () => {
    const responseSchema = {
      type: 'OBJECT',
      propertyOrdering: ['a'],
      properties: {
        a: { type: 'ARRAY', minItems: '1', nullable: true, items: { type: 'STRING', example: 'x' } },
        type: { anyOf: [{ type: 'INTEGER' }] },
      },
    }
    const schema = {
      type: 'object',
      properties: {
        a: { type: ['array', 'null'], minItems: 1, items: { type: 'string', examples: ['x'] } },
        type: { anyOf: [{ type: 'integer' }] },
      },
    }
    const format = { type: 'json_schema', json_schema: { name: 'response', schema } }
    expect(chatFromGenerateContent({ generationConfig: { responseSchema } })).toMatchObject({ response_format: format })
    expect(chatFromGenerateContent({ generationConfig: { responseJsonSchema: schema } })).toMatchObject({
      response_format: format,
    })
    const declared = chatFromGenerateContent({
      tools: [{ functionDeclarations: [{ name: 'f', parameters: responseSchema }] }],
    }) as any
    expect(declared.tools[0].function.parameters).toEqual(schema)
  })

  test('budgets are efforts by size', () => {
    const effort = (thinkingBudget: number) =>
      chatFromGenerateContent({ generationConfig: { thinkingConfig: { thinkingBudget } } }).reasoning_effort
    expect([-1, 0, 1024, 8192, 24_576].map(effort)).toEqual([undefined, 'none', 'low', 'medium', 'high'])
  })
})

describe('a Gemini reply for chat', () => {
  test('text, thoughts, calls and counts', () => {
    expect(chatFromGenerateContentReply(GEMINI_REPLY, FACTS)).toEqual({
      id: FACTS.id,
      object: 'chat.completion',
      created: FACTS.created,
      model: FACTS.model,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'One moment.',
            reasoning_content: 'Let me look.',
            tool_calls: [
              call('call_0_chatcmpl-1', 'Bern', SIGNATURE),
              { id: 'own', type: 'function', function: { name: 'weather', arguments: '{}' } },
            ],
          },
          finish_reason: 'tool_calls',
        },
      ],
      usage: {
        prompt_tokens: 15,
        completion_tokens: 27,
        total_tokens: 42,
        prompt_tokens_details: { cached_tokens: 4 },
        cache_read_input_tokens: 4,
      },
    })
  })

  test('finish reasons', () => {
    const finish = (finishReason: string) =>
      (chatFromGenerateContentReply({ candidates: [{ finishReason }] }, FACTS) as any).choices[0].finish_reason
    expect(finish('STOP')).toBe('stop')
    expect(finish('MAX_TOKENS')).toBe('length')
    for (const reason of [
      'SAFETY',
      'RECITATION',
      'BLOCKLIST',
      'PROHIBITED_CONTENT',
      'SPII',
      'LANGUAGE',
      'IMAGE_SAFETY',
    ])
      expect(finish(reason)).toBe('content_filter')
  })

  test('a blocked prompt is an empty message, and no answer at all has no choices', () => {
    const blocked = chatFromGenerateContentReply({ promptFeedback: { blockReason: 'SAFETY' } }, FACTS)
    expect(blocked.choices).toEqual([
      { index: 0, message: { role: 'assistant', content: '' }, finish_reason: 'content_filter' },
    ])
    expect(chatFromGenerateContentReply({}, FACTS).choices).toEqual([])
  })

  test('a reply goes there and back', () => {
    const chat = chatFromGenerateContentReply(GEMINI_REPLY, FACTS)
    expect(chatFromGenerateContentReply(generateContentFromChatReply(chat, FACTS), FACTS)).toEqual(chat)
  })

  test('probabilities of tokens go there and back', () => {
    const token = { token: 'a', logprob: -0.5, bytes: null }
    const logprobs = { content: [{ ...token, top_logprobs: [token] }], refusal: null }
    const chat = {
      choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, logprobs, finish_reason: 'stop' }],
    }
    expect(chatFromGenerateContentReply(generateContentFromChatReply(chat, FACTS), FACTS)).toMatchObject(chat)
  })

  test('thoughts that are counted in the completion are counted apart', () => {
    const usage = {
      prompt_tokens: 3,
      completion_tokens: 10,
      total_tokens: 13,
      completion_tokens_details: { reasoning_tokens: 6 },
      prompt_tokens_details: { cached_tokens: 2 },
    }
    expect(generateContentFromChatReply({ usage }, FACTS).usageMetadata).toEqual({
      promptTokenCount: 3,
      candidatesTokenCount: 4,
      thoughtsTokenCount: 6,
      cachedContentTokenCount: 2,
      totalTokenCount: 13,
    })
  })
})

describe('a stream', () => {
  test('of Gemini ends with one finish, the last counts and [DONE]', () => {
    const chunks = read(rewritten(chatFromGenerateContentStream(FACTS), GEMINI_STREAM))
    expect(chunks.at(-1)).toBe('[DONE]')
    expect(chunks.at(-2)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 15, completion_tokens: 27, total_tokens: 42 },
    })
    const finishes = chunks
      .flatMap(({ choices }) => choices ?? [])
      .filter(({ finish_reason }) => finish_reason !== null)
    expect(finishes).toEqual([{ index: 0, delta: {}, finish_reason: 'tool_calls' }])
    const calls = chunks.flatMap(({ choices }) => choices?.[0]?.delta.tool_calls ?? [])
    expect(calls).toMatchObject([
      { index: 0, ...call('call_0_chatcmpl-1', 'Bern', SIGNATURE) },
      { index: 1, id: 'own' },
    ])
  })

  test('of Gemini with STOP in every event ends with the last one', () => {
    const event = (text: string) => ({ candidates: [{ content: { parts: [{ text }] }, finishReason: 'STOP' }] })
    const chunks = read(rewritten(chatFromGenerateContentStream(FACTS), [event('a'), event('b')]))
    expect(chunks.map((chunk) => chunk.choices?.[0]?.finish_reason)).toEqual([null, null, 'stop', undefined])
  })

  test('for a blocked prompt is an empty message', () => {
    const chunks = read(rewritten(chatFromGenerateContentStream(FACTS), [{ promptFeedback: { blockReason: 'OTHER' } }]))
    expect(chunks.map((chunk) => chunk.choices?.[0])).toMatchObject([
      { delta: { content: '' } },
      { finish_reason: 'content_filter' },
      undefined,
    ])
  })

  test('of chat has whole tool calls in its last event, with the finish reason and the counts', () => {
    const events = read(rewritten(generateContentFromChatStream(FACTS), CHAT_STREAM))
    expect(events.map(({ candidates }) => candidates[0].content.parts)).toEqual([
      [{ text: 'Let me look.', thought: true }],
      [{ text: 'One ' }],
      [{ text: 'moment.' }],
      [
        { functionCall: { id: 'a', name: 'weather', args: { city: 'Bern' } }, thoughtSignature: SIGNATURE },
        { functionCall: { id: 'b', name: 'weather', args: {} } },
      ],
    ])
    expect(events.at(-1)).toMatchObject({
      candidates: [{ finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 15, totalTokenCount: 42 },
      responseId: 'chatcmpl-9',
    })
    expect(events.slice(0, -1).every(({ candidates }) => candidates[0].finishReason === undefined)).toBe(true)
  })

  test('tells several choices apart, both ways', () => {
    const both = {
      candidates: [0, 1].map((index) => ({ content: { parts: [{ text: `${index}` }] }, index, finishReason: 'STOP' })),
    }
    const chunks = rewritten(chatFromGenerateContentStream(FACTS), [both])
    const back = read(rewritten(generateContentFromChatStream(FACTS), read(chunks)))
    expect(
      back.flatMap(({ candidates }) => candidates).map(({ index, content }) => `${index}${content.parts[0].text}`),
    ).toEqual(['00', '11', '0', '1'])
  })

  test('ends at an error, as an error of its own wire', () => {
    const error = { error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } }
    const late = delta({ content: 'late' })
    expect(read(rewritten(chatFromGenerateContentStream(FACTS), [error, part({ text: 'late' })]))).toMatchObject([
      { error: { message: 'overloaded', code: 'UNAVAILABLE' } },
    ])
    expect(
      read(rewritten(generateContentFromChatStream(FACTS), [{ error: { message: 'overloaded' } }, late])),
    ).toMatchObject([{ error: { code: 503, message: 'overloaded' } }])
  })
})

test('a translation of deeply nested input does not throw, and of long input is not quadratic', () => {
  for (const [open, close] of [
    ['[', ']'],
    ['{"items":', '}'],
  ] as const) {
    const deep = JSON.parse(`${open.repeat(200_000)}1${close.repeat(200_000)}`)
    chatFromGenerateContent({ contents: deep, generationConfig: { responseSchema: deep } })
    generateContentFromChat({ messages: [{ role: 'user', content: deep }] })
  }
  const args = JSON.parse('{"a":'.repeat(100_000) + '1' + '}'.repeat(100_000))
  chatFromGenerateContent({ contents: [{ role: 'model', parts: [{ functionCall: { name: 'f', args } }] }] })
  const parts = Array.from({ length: 100_000 }, () => ({ type: 'text', text: 'a' }))
  const { contents } = generateContentFromChat({
    messages: [
      { role: 'user', content: 'a' },
      { role: 'user', content: parts },
    ],
  }) as any
  expect(contents[0].parts).toHaveLength(100_001)
  const calls = Array.from({ length: 100_000 }, () => ({ functionCall: { name: 'f', args: {} } }))
  const answers = calls.map((_, at) => ({ functionResponse: { name: at % 2 === 0 ? 'f' : 'g', response: {} } }))
  const { messages } = chatFromGenerateContent({
    contents: [
      { role: 'model', parts: calls },
      { role: 'user', parts: answers },
    ],
  }) as any
  expect(messages).toHaveLength(100_001)
})

test('no JSON object makes any translation throw', () => {
  const names =
    'messages role content type text image_url url tool_calls function name arguments tools tool_choice stop contents parts functionCall functionResponse response'
  const more =
    'inlineData data mimeType generationConfig thinkingConfig candidates finishReason usageMetadata choices message delta index usage responseSchema properties items __proto__'
  const key = fc.oneof(fc.constantFrom(...names.split(' '), ...more.split(' ')), fc.string({ maxLength: 4 }))
  const leaf = fc.oneof(
    fc.constantFrom(
      'user',
      'model',
      'assistant',
      'tool',
      'STOP',
      'ANY',
      'data:image/png;base64,AA',
      '{"a":1}',
      'constructor',
    ),
    fc.jsonValue({ maxDepth: 1 }),
  )
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 6, withCrossShrink: true },
      leaf,
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.dictionary(key, tie('tree'), { maxKeys: 6 }),
    ),
  }))
  const bodies = fc.dictionary(key, tree, { maxKeys: 8 }).map((body) => JSON.parse(JSON.stringify(body)) as Fields)
  const law = (body: Fields) => {
    const wrapped = [
      body,
      { messages: [body] },
      { contents: [body] },
      { candidates: [body] },
      { choices: [body] },
      { choices: [{ delta: body }] },
    ]
    for (const one of wrapped) {
      const whole = [
        generateContentFromChat(one),
        chatFromGenerateContent(one),
        chatFromGenerateContentReply(one, FACTS),
        generateContentFromChatReply(one, FACTS),
      ]
      for (const made of whole) expect(JSON.parse(JSON.stringify(made))).toBeObject()
      builtInTools(one)
      read(rewritten(chatFromGenerateContentStream(FACTS), [one, one]))
      read(rewritten(generateContentFromChatStream(FACTS), [one, one]))
    }
  }
  fc.assert(fc.property(bodies, law), { numRuns: scaled(300, 1500) })
})
