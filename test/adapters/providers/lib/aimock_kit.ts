/** Every chat vendor against aimock, a stand-in that this project did not write. */
import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import type { ChatVendor, Fields } from '../../../../core/mod.ts'
import type { ChatVendorConfig } from '../../../../adapters/providers/lib/chat/provider.ts'
import { chatSetup, drain, eventsIn, HELLO, ordered, reading, streamOf, wholeOf } from './chat_kit.ts'
import { calm } from './provider_kit.ts'

type Options = {
  readonly create: (config: ChatVendorConfig) => ChatVendor
  /** Behind the host in the base URL. */
  readonly path?: string
  readonly hasReasoning?: boolean
}

export function againstAimock(name: string, { create, path = '', hasReasoning = false }: Options): void {
  describe(`${name}() against aimock`, async () => {
    const mock = new LLMock({ port: 0 })
    mock.on({ userMessage: /^hello/ }, { content: 'Hi, I am here.' })
    mock.on({ userMessage: /think/ }, { content: 'Four.', reasoning: 'Two and two.' })
    mock.on(
      { userMessage: /weather/ },
      { toolCalls: [{ name: 'weather', arguments: '{"city":"Oslo"}', id: 'call_1' }] },
    )
    mock.on(
      { userMessage: /slow/ },
      { error: { message: 'slow', type: 'rate_limit_error' }, status: 429, retryAfter: 17 },
    )
    await mock.start()
    afterAll(() => mock.stop())
    const saying = (content: string, stream: boolean, more: Fields = {}) => {
      const { config, log } = chatSetup(`${mock.url}${path}`)
      const order = ordered({ messages: [{ role: 'user', content }], ...more }, { ...HELLO, stream })
      return { work: create(config).ask(order, calm()), log }
    }
    const deltas = (text: string) => eventsIn(text).flatMap(({ choices }) => choices.map(({ delta }: any) => delta))

    test('text, whole and streamed', async () => {
      expect(wholeOf(await saying('hello', false).work).choices[0]).toMatchObject({
        message: { content: 'Hi, I am here.' },
        finish_reason: 'stop',
      })
      const text = await drain(streamOf(await saying('hello', true).work))
      const pieces = deltas(text).map(({ content }) => content ?? '')
      expect(pieces.join('')).toBe('Hi, I am here.')
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    })

    if (hasReasoning)
      test('reasoning, whole and streamed', async () => {
        expect(wholeOf(await saying('think', false).work).choices[0].message).toMatchObject({
          content: 'Four.',
          reasoning_content: 'Two and two.',
        })
        const text = await drain(streamOf(await saying('think', true).work))
        const pieces = deltas(text).map(({ reasoning_content }) => reasoning_content ?? '')
        expect(pieces.join('')).toBe('Two and two.')
      })

    test('a call, whole and streamed', async () => {
      const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
      const {
        message: { tool_calls: calls },
        finish_reason,
      } = wholeOf(await saying('weather', false, { tools }).work).choices[0]
      expect([finish_reason, calls[0].function]).toEqual([
        'tool_calls',
        { name: 'weather', arguments: '{"city":"Oslo"}' },
      ])
      const streamed = deltas(await drain(streamOf(await saying('weather', true, { tools }).work)))
      const parts = streamed.flatMap(({ tool_calls = [] }) => tool_calls)
      expect(parts.map((call: any) => call.function.arguments ?? '').join('')).toBe('{"city":"Oslo"}')
    })

    test('a rate limit, whole and streamed', async () => {
      for (const stream of [false, true]) {
        const { work, log } = saying('slow', stream)
        expect(await reading(work, log)).toBe('RATE_LIMITED 17')
      }
    })
  })
}
