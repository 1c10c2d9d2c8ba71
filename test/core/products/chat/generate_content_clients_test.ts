/** The generate_content wire against the two official clients, over loopback. */
import { afterAll, describe, expect, test } from 'bun:test'
import { type GenerateContentParameters, GoogleGenAI, type Schema, Type } from '@google/genai'
import OpenAI from 'openai'
import {
  chatFromGenerateContentReply,
  generateContentFromChatReply,
} from '../../../../core/products/chat/formats/generate_content/reply.ts'
import { chatFromGenerateContent } from '../../../../core/products/chat/formats/generate_content/request.ts'
import {
  chatFromGenerateContentStream,
  generateContentFromChatStream,
} from '../../../../core/products/chat/formats/generate_content/stream.ts'
import {
  CHAT_STREAM,
  FACTS,
  GEMINI_REPLY,
  GEMINI_STREAM,
  PARAMETERS,
  PNG,
  SIGNATURE,
  WEATHER,
  call,
  part,
  rewritten,
} from './formats/generate_content_samples.ts'

type Seen = { path: string; headers: Headers; body: any }
const seen: Seen[] = []

/** Answers Gemini's paths out of chat, and chat's path out of Gemini, as a gateway does. */
const server = Bun.serve({
  port: 0,
  async fetch(request) {
    const { pathname, search } = new URL(request.url)
    const body: any = await request.json()
    seen.push({ path: `${pathname}${search}`, headers: request.headers, body })
    const sse = (text: string) => new Response(text, { headers: { 'content-type': 'text/event-stream' } })
    if (pathname.endsWith(':streamGenerateContent'))
      return sse(rewritten(generateContentFromChatStream(FACTS), CHAT_STREAM))
    if (pathname.endsWith(':generateContent'))
      return Response.json(generateContentFromChatReply(chatFromGenerateContentReply(GEMINI_REPLY, FACTS), FACTS))
    const events =
      body.messages[0].content === 'break'
        ? [part({ text: 'a' }), { error: { code: 503, message: 'overloaded' } }]
        : GEMINI_STREAM
    if (body.stream) return sse(rewritten(chatFromGenerateContentStream(FACTS), events))
    return Response.json(chatFromGenerateContentReply(GEMINI_REPLY, FACTS))
  },
})
afterAll(() => server.stop(true))
const baseUrl = `http://127.0.0.1:${server.port}`

describe('the client @google/genai', () => {
  const gemini = new GoogleGenAI({ apiKey: 'x', httpOptions: { baseUrl } })
  const parameters: Schema = { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ['city'] }
  const request: GenerateContentParameters = {
    model: 'gemini-3.1-pro',
    contents: [
      { role: 'user', parts: [{ text: 'Hi' }, { inlineData: { mimeType: 'image/png', data: PNG } }] },
      {
        role: 'model',
        parts: [{ functionCall: { name: 'weather', args: { city: 'Bern' } }, thoughtSignature: SIGNATURE }],
      },
      { role: 'user', parts: [{ functionResponse: { name: 'weather', response: { result: 'fog' } } }] },
    ],
    config: {
      systemInstruction: 'Be brief.',
      tools: [{ functionDeclarations: [{ name: 'weather', description: 'Looks outside.', parameters }] }],
      maxOutputTokens: 300,
      stopSequences: ['END'],
      responseMimeType: 'application/json',
      responseSchema: parameters,
    },
  }

  test('is understood', async () => {
    await gemini.models.generateContent(request)
    expect(chatFromGenerateContent(seen.at(-1)?.body)).toEqual({
      messages: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Hi' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
          ],
        },
        { role: 'assistant', content: '', tool_calls: [call('call_0', 'Bern', SIGNATURE)] },
        { role: 'tool', tool_call_id: 'call_0', name: 'weather', content: 'fog' },
      ],
      tools: [WEATHER],
      max_tokens: 300,
      stop: ['END'],
      response_format: { type: 'json_schema', json_schema: { name: 'response', schema: PARAMETERS } },
    })
  })

  test('reads a whole reply', async () => {
    const reply = await gemini.models.generateContent(request)
    expect(reply.text).toBe('One moment.')
    expect(reply.functionCalls).toEqual([
      { id: 'call_0_chatcmpl-1', name: 'weather', args: { city: 'Bern' } },
      { id: 'own', name: 'weather', args: {} },
    ])
    expect(reply.usageMetadata).toMatchObject({
      promptTokenCount: 15,
      candidatesTokenCount: 27,
      cachedContentTokenCount: 4,
      totalTokenCount: 42,
    })
    expect(reply.candidates?.[0]?.finishReason as string).toBe('STOP')
    expect(reply.modelVersion).toBe(FACTS.model)
  })

  test('reads a stream', async () => {
    const texts: (string | undefined)[] = []
    let last: any
    for await (const chunk of await gemini.models.generateContentStream(request)) {
      texts.push(chunk.text)
      last = chunk
    }
    expect(texts.join('')).toBe('One moment.')
    expect(last.functionCalls).toEqual([
      { id: 'a', name: 'weather', args: { city: 'Bern' } },
      { id: 'b', name: 'weather', args: {} },
    ])
    expect(last.usageMetadata).toEqual({ promptTokenCount: 15, candidatesTokenCount: 27, totalTokenCount: 42 })
  })

  test('keeps a chat going over streamed turns', async () => {
    const chat = gemini.chats.create({ model: 'gemini-3.1-pro' })
    for await (const chunk of await chat.sendMessageStream({ message: 'Hi' }))
      expect(chunk.candidates).toBeArrayOfSize(1)
    await chat.sendMessage({
      message: [{ functionResponse: { id: 'a', name: 'weather', response: { sky: 'clear' } } }],
    })
    const { messages } = chatFromGenerateContent(seen.at(-1)?.body) as any
    const calls = messages.flatMap(({ tool_calls }: any) => tool_calls ?? [])
    expect(calls[0]).toEqual(call('a', 'Bern', SIGNATURE))
    expect(messages.at(-1)).toEqual({ role: 'tool', tool_call_id: 'a', name: 'weather', content: '{"sky":"clear"}' })
  })

  test('calls v1 unless told otherwise, with the model id as it is, slash and all, and its key in x-goog-api-key', async () => {
    const model = 'google/gemini-3.1-pro'
    await gemini.models.generateContent({ model, contents: 'Hi' })
    expect(seen.at(-1)?.path).toBe('/v1/models/google/gemini-3.1-pro:generateContent')
    expect(seen.at(-1)?.headers.get('x-goog-api-key')).toBe('x')
    const beta = new GoogleGenAI({ apiKey: 'x', apiVersion: 'v1beta', httpOptions: { baseUrl: `${baseUrl}/api` } })
    await beta.models.generateContentStream({ model, contents: 'Hi' })
    expect(seen.at(-1)?.path).toBe('/api/v1beta/models/google/gemini-3.1-pro:streamGenerateContent?alt=sse')
  })
})

describe('the client openai', () => {
  const openai = new OpenAI({ apiKey: 'x', baseURL: baseUrl, maxRetries: 0 })
  const messages = [{ role: 'user' as const, content: 'Hi' }]

  test('reads a whole reply', async () => {
    const reply = await openai.chat.completions.create({ model: 'm', messages })
    expect(reply.choices[0]?.message.content).toBe('One moment.')
    expect(reply.choices[0]?.message.tool_calls).toHaveLength(2)
  })

  test('gathers a stream to the same reply', async () => {
    const whole = await openai.chat.completions.create({ model: 'm', messages })
    const streamed = await openai.chat.completions.stream({ model: 'm', messages }).finalChatCompletion()
    expect(streamed.usage).toEqual(whole.usage!)
    expect(streamed.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: 'One moment.', tool_calls: whole.choices[0]!.message.tool_calls! },
    })
  })

  test('hears of an error in a stream', async () => {
    const run = openai.chat.completions.stream({ model: 'm', messages: [{ role: 'user', content: 'break' }] })
    await expect(run.finalChatCompletion()).rejects.toThrow('overloaded')
  })
})
