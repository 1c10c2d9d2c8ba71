/**
 * The OpenAI chat protocol: OpenAI itself, xAI, DeepSeek, Z.ai, and what vLLM, llama.cpp, Ollama and others serve under
 * the same path. Sources: openai@7.55.0 `resources/chat/completions`; decision 75.
 */
import type { ChatOrder, ChatVendor, Fields, Json } from '../../../core/mod.ts'
import { usageOf } from '../../../core/products/chat/mod.ts'
import { asStream } from '../lib/chat/translation.ts'
import { type ChatStyle, type ChatVendorConfig, chatHttp, writeChat } from '../lib/chat/provider.ts'
import { chatErrorClassifier, contextError } from '../lib/chat/error_replies.ts'
import type { VendorHttp } from '../../http/fetch.ts'
import { bearer, under } from '../lib/image_provider.ts'
import { envelope, type ErrorClassifier, record, errorReplyIn, type FailureKind } from '../../http/error_replies.ts'

export type OpenaiChatConfig = ChatVendorConfig & {
  /**
   * The name of the output cap: `max_completion_tokens` for OpenAI's own models, which refuse the other one when they
   * reason, otherwise `max_tokens`.
   */
  readonly maxTokensField?: 'max_tokens' | 'max_completion_tokens' | undefined
  /** Whether the server reads `cache_control` of parts and tools, as OpenRouter does; others may refuse it. */
  readonly acceptsCacheControl?: boolean | undefined
}

/**
 * Bodies are passed through with `model`, `stream` and our own `stream_options`; fields that only the gateway
 * understands are left out.
 *
 * @example
 * const chat = openaiChat({ baseUrl, key, maker: 'OpenAI', timeoutMs: 120_000, clock, log })
 */
export function openaiChat(config: OpenaiChatConfig): ChatVendor {
  const http = chatHttp(config, 'openai-chat')
  const url = under(config.baseUrl, '/chat/completions')
  const headers = { ...bearer(config.key), ...config.headers }
  const tastes = { openai: tasteOf(config, true), compatible: tasteOf(config, false) }

  return {
    format: 'chat',
    async ask(order, { signal }) {
      const sent = writeChat(config, { order: write(order, tastes[styleOf(config, order)]) })
      const classify = chatErrorClassifier(
        { body: order.body, ours: order.ours, sent, streams: order.stream, callerPath },
        openaiQuirks,
      )
      const options = { headers, signal, classify }
      if (!order.stream)
        return { kind: 'whole', body: read(await http.postJson(url, sent, options), { http, classify }) }
      const answer = await http.postStream(url, sent, options)
      return answer.kind === 'stream' ? answer : asStream(read(answer.body, { http, classify }))
    },
  }
}

// ── what is sent ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Fields that a server accepts beyond the protocol or refuses. */
type Taste = {
  readonly cap: 'max_tokens' | 'max_completion_tokens'
  /** OpenAI's own models, which refuse the reasoning fields that DeepSeek and Z.ai need. */
  readonly isOpenai: boolean
  readonly drops: ReadonlySet<string>
}

/** Fields of messages, parts, tools and calls that belong to other formats; strict servers refuse unknown fields. */
const FOREIGN = ['reasoning_signature', 'reasoning_blocks', 'content_before_tools', 'citations', 'other_blocks']

/** The catalog's name for OpenAI. */
const OPENAI_FAMILY = 'vendor-a'

/**
 * By the family of the model, wherever it is served, unless the operator configures another style (decision 116).
 * Without a family, by host: api.openai.com and its regions, such as eu.api.openai.com.
 */
function styleOf({ style, baseUrl }: OpenaiChatConfig, { family }: ChatOrder): ChatStyle {
  if (style) return style
  const isOpenai =
    family === undefined ? /^(?:[\w-]+\.)?api\.openai\.com$/.test(new URL(baseUrl).hostname) : family === OPENAI_FAMILY
  return isOpenai ? 'openai' : 'compatible'
}

function tasteOf({ baseUrl, maxTokensField, acceptsCacheControl = false }: OpenaiChatConfig, isOpenai: boolean): Taste {
  const { hostname } = new URL(baseUrl)
  const drops = new Set([
    ...FOREIGN,
    // Thought signatures, which Google's own host requires.
    ...(hostname === 'generativelanguage.googleapis.com' ? [] : ['extra_content']),
    ...(acceptsCacheControl ? [] : ['cache_control']),
    ...(isOpenai ? ['reasoning_content'] : []),
  ])
  return { cap: maxTokensField ?? (isOpenai ? 'max_completion_tokens' : 'max_tokens'), isOpenai, drops }
}

/**
 * Fields of other formats, which arrive when this model replaces an unavailable one; a compatible server would refuse
 * them.
 */
const ELSEWHERE = new Set(['context_management', 'output_config', 'speed'])

function write({ body: given, model, stream }: ChatOrder, { cap, isOpenai, drops }: Taste): Fields {
  const body = without(given, ELSEWHERE)
  const {
    prompt_cache,
    search_parameters,
    stream_options,
    max_tokens,
    max_completion_tokens,
    messages,
    tools,
    thinking,
    cache_control,
    response_format,
    ...rest
  } = body
  const most = max_tokens ?? max_completion_tokens
  return {
    model,
    ...(messages !== undefined && { messages: eachOf(messages, (message) => plain(message, drops)) }),
    ...(tools !== undefined && { tools: eachOf(tools, (tool) => without(tool, drops)) }),
    ...(thinking !== undefined && !isOpenai && { thinking }),
    ...(cache_control !== undefined && !drops.has('cache_control') && { cache_control }),
    ...rest,
    ...(response_format !== undefined && { response_format: named(response_format) }),
    ...(most !== undefined && { [cap]: most }),
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  }
}

/** A message with only the protocol's own fields. Text before tool calls is moved back into `content`. */
function plain(message: Fields, drops: ReadonlySet<string>): Fields {
  const { content, tool_calls, content_before_tools: before } = message
  const isSilent = content === '' || content === null || content === undefined
  const text = isSilent && typeof before === 'string' && before !== '' ? before : content
  const own = without(message, drops)
  if (text === content && !Array.isArray(text) && tool_calls === undefined) return own
  return {
    ...own,
    ...(text !== undefined && { content: eachOf(text, (part) => without(part, drops)) }),
    ...(tool_calls !== undefined && { tool_calls: eachOf(tool_calls, (call) => without(call, drops)) }),
  }
}

/** This protocol requires a schema name, which not every client sends. */
function named(format: Json): Json {
  if (!isFields(format) || format.type !== 'json_schema' || !isFields(format.json_schema ?? null)) return format
  return { ...format, json_schema: { name: 'response', ...(format.json_schema as Fields) } }
}

const eachOf = (list: Json, change: (entry: Fields) => Fields): Json =>
  Array.isArray(list) ? list.map((entry: Json) => (isFields(entry) ? change(entry) : entry)) : list

function without(entry: Fields, names: ReadonlySet<string>): Fields {
  for (const dropped in entry) {
    if (!names.has(dropped)) continue
    return Object.fromEntries(Object.entries(entry).filter(([name]) => !names.has(name)))
  }
  return entry
}

const callerPath = (path: string): string => path.replace(/^max_completion_tokens$/, 'max_tokens')

// ── what is read ────────────────────────────────────────────────────────────────────────────────────────────────────

type ReadOptions = { readonly http: VendorHttp; readonly classify: ErrorClassifier }

function read(reply: unknown, { http, classify }: ReadOptions): Fields {
  const error = errorReplyIn(reply)
  if (error) throw http.errorFrom(error, classify)
  const { choices, usage, ...head } = record(reply) as Fields
  if (
    !Array.isArray(choices) ||
    choices.length === 0 ||
    !choices.every((choice) => isFields(record(choice).message as Json))
  ) {
    throw http.failure('failed', 'openai-chat answered in another shape')
  }
  const mapped = (choices as readonly Fields[]).map((choice) => ({
    ...choice,
    message: spoken(choice.message as Fields),
  }))
  return { ...head, choices: mapped, ...(isFields(usage) && { usage: usageOf(usage) }) }
}

/** vLLM and OpenRouter name it `reasoning`. Without reasoning there is no field (contract 6.25). */
function spoken({ reasoning, reasoning_content, ...message }: Fields): Fields {
  const thought = [reasoning_content, reasoning].find((text) => typeof text === 'string' && text !== '')
  return { ...message, ...(thought !== undefined && { reasoning_content: thought }) }
}

function isFields(value: Json | undefined): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

// ── quirks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Z.ai's codes (docs.z.ai; decision 75). 1113, an account in arrears, comes as a 429. */
const ZAI: readonly (readonly [RegExp, FailureKind])[] = [
  [/^1(00[0-4]|11\d|12[01]|211|22[0-2]|304|308|309|310|311|313)$/, 'operator'],
  [/^1301$/, 'policy'],
  [/^1(302|303|305|312)$/, 'rate_limited'],
]

/** The quirks of all servers of OpenAI's protocols. */
export const openaiQuirks: ErrorClassifier = ({ status, body }) => {
  const { code, message } = envelope(body)
  // xAI: a 403 is moderation as often as a bad key (decision 75).
  if (status === 403 && /violates usage guidelines|SAFETY_CHECK_TYPE_/.test(message)) return 'policy'
  if (code === '1261') return contextError()
  return ZAI.find(([codes]) => codes.test(code))?.[1]
}
