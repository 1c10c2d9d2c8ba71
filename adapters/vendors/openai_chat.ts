/**
 * The OpenAI chat protocol: OpenAI itself, xAI, DeepSeek, Z.ai, and what vLLM, llama.cpp, Ollama and others serve under the same path.
 * Sources: openai@7.55.0 `resources/chat/completions`; reference/vendors.md 2.1, 2.3, 2.4, 2.8 and 11.
 */
import type { ChatAnswer, ChatOrder, ChatVendor, Fields, Json } from '../../core/mod.ts'
import { sseJson } from '../../core/wires/sse.ts'
import { usageOf } from '../../core/wires/usage.ts'
import { type ChatVendorConfig, chatHttp, writeChat } from './chat_vendor.ts'
import { chatJudge, contextFault } from './chat_refusals.ts'
import type { VendorHttp } from './http.ts'
import { bearer, under } from './image_vendor.ts'
import { envelope, type Judge, record, refusalIn, type Trouble } from './refusals.ts'

export type OpenaiChatConfig = ChatVendorConfig & {
  /** How the output cap is spelt; `max_completion_tokens` at api.openai.com, whose reasoning models refuse the other, else `max_tokens`. */
  readonly maxTokensField?: 'max_tokens' | 'max_completion_tokens' | undefined
}

/** Bodies pass as they came, plus `model`, `stream` and our own `stream_options`; what the gateway alone understands is left out. */
export function openaiChat(config: OpenaiChatConfig): ChatVendor {
  const http = chatHttp(config, 'openai-chat')
  const url = under(config.baseUrl, '/chat/completions')
  const headers = { ...bearer(config.key), ...config.headers }
  const cap = config.maxTokensField ?? (new URL(config.baseUrl).hostname === 'api.openai.com' ? 'max_completion_tokens' : 'max_tokens')

  return {
    wire: 'chat',
    async ask(order, { signal }) {
      const sent = writeChat(config, { order: write(order, cap) })
      const judge = chatJudge({ body: order.body, sent, streams: order.stream, callerPath }, quirks)
      const asking = { headers, signal, judge }
      if (!order.stream) return { kind: 'whole', body: read(await http.postJson(url, sent, asking), { http, judge }) }
      const answer = await http.postStream(url, sent, asking)
      return answer.kind === 'stream' ? answer : atOnce(read(answer.body, { http, judge }))
    },
  }
}

// ── what is sent ────────────────────────────────────────────────────────────────────────────────────────────────────

function write({ body, model, stream }: ChatOrder, cap: 'max_tokens' | 'max_completion_tokens'): Fields {
  const { prompt_cache, search_parameters, stream_options, max_tokens, max_completion_tokens, messages, ...rest } = body
  const most = max_tokens ?? max_completion_tokens
  return {
    model,
    ...(messages !== undefined && { messages: withoutSignatures(messages) }),
    ...rest,
    ...(most !== undefined && { [cap]: most }),
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  }
}

/** These members of a message belong to another wire, and strict servers refuse what they do not know. */
const isForeign = (message: Json): boolean => 'reasoning_signature' in record(message) || 'reasoning_blocks' in record(message)

function withoutSignatures(messages: Json): Json {
  if (!Array.isArray(messages) || !messages.some(isForeign)) return messages
  return messages.map((message: Json) => {
    if (!isForeign(message)) return message
    const { reasoning_signature, reasoning_blocks, ...rest } = message as Fields
    return rest
  })
}

const callerPath = (path: string): string => path.replace(/^max_completion_tokens$/, 'max_tokens')

// ── what is read ────────────────────────────────────────────────────────────────────────────────────────────────────

type Reading = { readonly http: VendorHttp; readonly judge: Judge }

function read(reply: unknown, { http, judge }: Reading): Fields {
  const error = refusalIn(reply)
  if (error) throw http.refused(error, judge)
  const { choices, usage, ...head } = record(reply) as Fields
  if (!Array.isArray(choices) || choices.length === 0 || !choices.every((choice) => isFields(record(choice).message as Json))) {
    throw http.refusal('failed', 'openai-chat answered in another shape')
  }
  const said = (choices as readonly Fields[]).map((choice) => ({ ...choice, message: spoken(choice.message as Fields) }))
  return { ...head, choices: said, ...(isFields(usage) && { usage: usageOf(usage) }) }
}

/** vLLM and OpenRouter call it `reasoning`. No reasoning is no member (spec 2, "Reasoning rules"). */
function spoken({ reasoning, reasoning_content, ...message }: Fields): Fields {
  const thought = [reasoning_content, reasoning].find((text) => typeof text === 'string' && text !== '')
  return { ...message, ...(thought !== undefined && { reasoning_content: thought }) }
}

function isFields(value: Json | undefined): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A whole answer as a stream, for a server that does not stream. */
function atOnce({ choices, usage, ...head }: Fields): ChatAnswer {
  const base = { ...head, object: 'chat.completion.chunk' }
  const chunks = (choices as readonly Fields[]).flatMap(({ message, finish_reason = 'stop', index = 0, ...rest }) => [
    { ...base, choices: [{ ...rest, index, delta: delta(message as Fields), finish_reason: null }] },
    { ...base, choices: [{ index, delta: {}, finish_reason }] },
  ])
  const all = [...chunks, ...(usage === undefined ? [] : [{ ...base, choices: [], usage }])]
  let held: Uint8Array | undefined = new TextEncoder().encode(`${all.map((chunk) => sseJson(chunk)).join('')}data: [DONE]\n\n`)
  const take = () => {
    const bytes = held
    held = undefined
    return bytes
  }
  return { kind: 'stream', stream: { next: async () => take(), cancel: () => void take() } }
}

/** The parts of a tool call are told apart by `index` in a stream. */
function delta({ tool_calls, ...message }: Fields): Fields {
  if (!Array.isArray(tool_calls)) return message
  return { ...message, tool_calls: (tool_calls as readonly Fields[]).map((call, index) => ({ index, ...call })) }
}

// ── quirks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Z.ai's codes (docs.z.ai; reference/vendors.md 2.4). 1113, an account in arrears, comes as a 429. */
const ZAI: readonly (readonly [RegExp, Trouble])[] = [
  [/^1(00[0-4]|11\d|12[01]|211|22[0-2]|304|308|309|310|311|313)$/, 'operator'],
  [/^1301$/, 'policy'],
  [/^1(302|303|305|312)$/, 'rate_limited'],
]

const quirks: Judge = ({ status, body }) => {
  const { code, message } = envelope(body)
  // xAI: a 403 is moderation as often as a bad key (reference/vendors.md 2.3).
  if (status === 403 && /violates usage guidelines|SAFETY_CHECK_TYPE_/.test(message)) return 'policy'
  if (code === '1261') return contextFault()
  return ZAI.find(([codes]) => codes.test(code))?.[1]
}
