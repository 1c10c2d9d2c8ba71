/** Shared by the tests of the responses format: replies in both wires, and how a stream is read. */
import { eventSplitter } from '../../../../../core/lib/event_splitter.ts'
import { parseEvent } from '../../../../../core/products/chat/formats/sse.ts'
import type { Fields } from '../../../../../core/lib/json.ts'
import type { StreamTranslator } from '../../../../../core/products/chat/formats/stream_translator.ts'

export const PIXEL = 'data:image/png;base64,iVBORw0KGgo='
export const weather = {
  name: 'weather',
  description: 'The weather of a place',
  parameters: { type: 'object', properties: { place: { type: 'string' } } },
}
export const chatTool = { type: 'function', function: weather }
export const call = (id: string, place: string) => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: JSON.stringify({ place }) },
})
export const schema = {
  type: 'object',
  properties: { degrees: { type: 'number' } },
  required: ['degrees'],
  additionalProperties: false,
}

const cite = (url: string, start: number) => ({
  type: 'url_citation',
  url,
  title: 'T',
  start_index: start,
  end_index: start + 2,
})
export const facts = { model: 'vendor/model', created: 1_790_000_000 }
export const answer: Fields = {
  id: 'resp_abc',
  object: 'response',
  status: 'completed',
  model: 'upstream',
  output: [
    {
      id: 'rs_1',
      type: 'reasoning',
      summary: [
        { type: 'summary_text', text: 'One.' },
        { type: 'summary_text', text: 'Two.' },
      ],
    },
    { id: 'ws_1', type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'q' } },
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [
        { type: 'output_text', text: 'Hello ', annotations: [cite('https://a.org', 0)] },
        { type: 'output_text', text: 'world', annotations: [cite('https://b.org', 0), cite('https://a.org', 3)] },
      ],
    },
  ],
  usage: {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 },
    output_tokens: 7,
    output_tokens_details: { reasoning_tokens: 3 },
    total_tokens: 17,
    num_sources_used: 2,
  },
}
export const calling: Fields = {
  id: 'resp_def',
  status: 'completed',
  output: [
    { id: 'rs_1', type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Both.' }] },
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
    },
    {
      id: 'fc_1',
      type: 'function_call',
      call_id: 'call_a',
      name: 'weather',
      arguments: '{"place":"Bern"}',
      status: 'completed',
    },
    {
      id: 'fc_2',
      type: 'function_call',
      call_id: 'call_b',
      name: 'weather',
      arguments: '{"place":"Oslo"}',
      status: 'completed',
    },
  ],
  usage: { input_tokens: 1, output_tokens: 2 },
}
export const refusing: Fields = {
  id: 'resp_ghi',
  status: 'completed',
  output: [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'refusal', refusal: 'No.' }],
    },
  ],
}
export const chatUsage = {
  prompt_tokens: 10,
  completion_tokens: 7,
  total_tokens: 17,
  prompt_tokens_details: { cached_tokens: 4, cached_creation_tokens: 2 },
  completion_tokens_details: { reasoning_tokens: 3 },
  num_sources_used: 2,
}

export const request: Fields = {
  model: 'vendor/model',
  input: 'Weather?',
  instructions: 'Be brief.',
  max_output_tokens: 100,
  tools: [{ type: 'function', ...weather, strict: false }],
  reasoning: { effort: 'high' },
  metadata: { a: 'b' },
}
export const made = { model: 'vendor/model', id: 'resp_1f', createdAt: 1_790_000_000, request }
export const spoken: Fields = {
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'Hello world', reasoning_content: 'One.' },
      finish_reason: 'stop',
    },
  ],
  usage: chatUsage,
  citations: ['https://a.org'],
}
export const called: Fields = {
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: '',
        reasoning_content: 'Both.',
        tool_calls: [call('call_a', 'Bern'), call('call_b', 'Oslo')],
      },
      finish_reason: 'tool_calls',
    },
  ],
  usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
}

export const refused: Fields = {
  choices: [{ index: 0, message: { role: 'assistant', content: '', refusal: 'I will not.' }, finish_reason: 'stop' }],
}
export const cut: Fields = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hel' }, finish_reason: 'length' }],
  usage: { prompt_tokens: 1, completion_tokens: 1 },
}

export const eventsOf = (text: string) => {
  const splitter = eventSplitter()
  return [...splitter.push(new TextEncoder().encode(text)), splitter.flush()].flatMap(
    (event) => parseEvent(event) ?? [],
  )
}
export const rewrite = (rewriter: StreamTranslator, text: string) =>
  eventsOf(text)
    .map((event) => rewriter.on(event))
    .join('') + rewriter.end()
export const bodiesOf = (text: string): any[] =>
  eventsOf(text).flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data)]))
