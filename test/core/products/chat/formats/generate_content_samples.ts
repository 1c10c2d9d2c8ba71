/** Conversations, replies and streams that have everything in them that `chat` and `generate_content` both know. */
import { eventSplitter } from '../../../../../core/lib/event_splitter.ts'
import { parseEvent } from '../../../../../core/products/chat/formats/sse.ts'
import type { Fields } from '../../../../../core/lib/json.ts'
import type { StreamTranslator } from '../../../../../core/products/chat/formats/stream_translator.ts'

export const FACTS = { model: 'google/gemini-3.1-pro', created: 1_795_000_000, id: 'chatcmpl-1' }
export const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
export const WEATHER = {
  type: 'function',
  function: { name: 'weather', description: 'Looks outside.', parameters: PARAMETERS },
}
export const PNG = 'iVBORw0KGgo='
export const SIGNATURE = 'c2lnbmVk'

export const call = (id: string, city: string, signature?: string) => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: JSON.stringify({ city }) },
  ...(signature ? { extra_content: { google: { thought_signature: signature } } } : {}),
})

/** A conversation that has everything in it that both wires know. */
export const CHAT: Fields = {
  messages: [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Where is this?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
        { type: 'image_url', image_url: { url: 'https://example.com/a.webp?size=1' } },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
      ],
    },
    {
      role: 'assistant',
      content: '',
      reasoning_content: 'Two cities.',
      tool_calls: [call('a', 'Bern', SIGNATURE), call('b', 'Basel')],
    },
    { role: 'tool', tool_call_id: 'a', name: 'weather', content: '{"sky":"clear"}' },
    { role: 'tool', tool_call_id: 'b', name: 'weather', content: 'fog' },
    { role: 'assistant', content: 'Bern, or Basel.', extra_content: { google: { thought_signature: SIGNATURE } } },
    { role: 'user', content: 'Thanks.' },
  ],
  tools: [WEATHER],
  tool_choice: { type: 'function', function: { name: 'weather' } },
  max_tokens: 300,
  temperature: 0.5,
  top_p: 0.9,
  top_k: 40,
  stop: ['END', 'STOP'],
  seed: 7,
  n: 2,
  presence_penalty: 0.1,
  frequency_penalty: 0.2,
  logprobs: true,
  top_logprobs: 3,
  reasoning_effort: 'low',
}

export const GEMINI_REPLY = {
  candidates: [
    {
      content: {
        role: 'model',
        parts: [
          { text: 'Let me look.', thought: true },
          { text: 'One ' },
          { text: 'moment.' },
          { functionCall: { name: 'weather', args: { city: 'Bern' } }, thoughtSignature: SIGNATURE },
          { functionCall: { id: 'own', name: 'weather', args: {} } },
        ],
      },
      finishReason: 'STOP',
      index: 0,
    },
  ],
  usageMetadata: {
    promptTokenCount: 10,
    toolUsePromptTokenCount: 5,
    cachedContentTokenCount: 4,
    candidatesTokenCount: 7,
    thoughtsTokenCount: 20,
    totalTokenCount: 42,
  },
  modelVersion: 'gemini-3.1-pro',
  responseId: 'r1',
}

/** Everything that a rewriter says to these events, as one text. */
export function rewritten(rewriter: StreamTranslator, events: readonly unknown[]): string {
  return (
    events.map((event) => rewriter.on({ data: typeof event === 'string' ? event : JSON.stringify(event) })).join('') +
    rewriter.end()
  )
}

export function read(sse: string): any[] {
  const splitter = eventSplitter()
  const events = [...splitter.push(new TextEncoder().encode(sse)), splitter.flush()]
  return events
    .flatMap((event) => parseEvent(event)?.data ?? [])
    .map((data) => (data === '[DONE]' ? data : JSON.parse(data)))
}

// ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export const part = (...parts: unknown[]) => ({
  candidates: [{ content: { role: 'model', parts }, index: 0 }],
  responseId: 'r1',
})
export const GEMINI_STREAM = [
  part({ text: 'Let me ', thought: true }),
  part({ text: 'look.', thought: true }),
  part({ text: 'One ' }),
  part({ text: 'moment.' }),
  part({ functionCall: { name: 'weather', args: { city: 'Bern' } }, thoughtSignature: SIGNATURE }),
  { ...part({ functionCall: { id: 'own', name: 'weather', args: {} } }), usageMetadata: { promptTokenCount: 1 } },
  {
    candidates: [{ content: { role: 'model', parts: [{ text: '' }] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: GEMINI_REPLY.usageMetadata,
  },
]

export const delta = (content: Fields, finish_reason: string | null = null) => ({
  id: 'chatcmpl-9',
  choices: [{ index: 0, delta: content, finish_reason }],
})
const fragment = (index: number, written: string, more: Fields = {}) =>
  delta({ tool_calls: [{ index, function: { arguments: written }, ...more }] })
export const CHAT_STREAM = [
  delta({ role: 'assistant', content: '' }),
  delta({ reasoning_content: 'Let me look.' }),
  delta({ content: 'One ' }),
  delta({ content: 'moment.' }),
  fragment(0, '', {
    id: 'a',
    function: { name: 'weather', arguments: '' },
    extra_content: { google: { thought_signature: SIGNATURE } },
  }),
  fragment(0, '{"city":'),
  fragment(0, '"Bern"}'),
  fragment(1, '{}', { id: 'b', function: { name: 'weather', arguments: '{}' } }),
  delta({}, 'tool_calls'),
  { id: 'chatcmpl-9', choices: [], usage: { prompt_tokens: 15, completion_tokens: 27, total_tokens: 42 } },
  '[DONE]',
]
