/**
 * Chat by Gemini's `generateContent`. Sources: @google/genai@3.1.0 `genai.d.ts`; request, reply and error shapes in the
 * sources of decision 75.
 */
import type { ChatFormat, ChatVendor, Fields, Rewriter, SseEvent } from '../../../core/mod.ts'
import {
  chatFromGenerateContentReply,
  chatFromGenerateContentStream,
  generateContentFromChat,
  sseJson,
  tryJson,
} from '../../../core/products/chat/mod.ts'
import { errorEvent } from '../lib/chat/translation.ts'
import type { ChatVendorConfig } from '../lib/chat/provider.ts'
import { under } from '../lib/image_provider.ts'
import { type Facts, nativeFormat, renamedBy } from '../lib/chat/native_format.ts'
import { envelope, type ErrorClassifier, record } from '../../http/error_replies.ts'

/**
 * Speaks `generate_content`. Tool calls without an id get one derived from the reply, so that two turns never share
 * one.
 *
 * @example
 * const chat = geminiChat({ baseUrl, key, maker: 'Google', timeoutMs: 120_000, clock, log })
 */
export function geminiChat(config: ChatVendorConfig): ChatVendor {
  const key: Record<string, string> = config.key ? { 'x-goog-api-key': config.key } : {}
  const headers = { ...key, ...config.headers }
  let replies = 0

  function factsOf({ model, created }: Facts, reply: unknown) {
    const { responseId, response_id } = record(reply)
    const named =
      [responseId, response_id].find((id) => typeof id === 'string' && id !== '') ?? `${created}-${++replies}`
    return { model, created, id: `chatcmpl-${String(named)}` }
  }

  const ask = nativeFormat(config, {
    name: 'gemini-chat',
    format: 'generate_content',
    address: ({ model, stream }) => ({
      url: under(config.baseUrl, `${pathOf(model)}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`),
      headers,
    }),
    own: ({ body }) => body,
    fromChat: ({ model, body }) => generateContentFromChat({ ...body, model }),
    callerPath: (path, format) => callerPath[format]?.(path) ?? path,
    quirks,
    isAnswer: hasAnswer,
    toChat: (reply, facts) => chatFromGenerateContentReply(reply, factsOf(facts, reply)),
    stream: (facts) => ({
      rewriter: startedBy((first) => chatFromGenerateContentStream(factsOf(facts, tryJson(first.data)))),
      errorIn: errorEvent,
      isEnding: ({ data }) => ENDS.test(data),
    }),
    events: (reply) => sseJson(reply),
  })
  return { format: 'generate_content', ask }
}

/** `gemini-x`, or a resource with a path of its own such as `tunedModels/x`. */
const pathOf = (model: string): string =>
  `/v1beta/${model.includes('/') ? '' : 'models/'}${model.split('/').map(encodeURIComponent).join('/')}`

/** A candidate, or a blocked prompt, which is an answer as well. Without either there is none. */
function hasAnswer({ candidates, promptFeedback, prompt_feedback }: Fields): boolean {
  const { blockReason, block_reason } = record(promptFeedback ?? prompt_feedback)
  return (Array.isArray(candidates) && candidates.length > 0) || Boolean(blockReason ?? block_reason)
}

const ENDS = /"(?:finishReason|finish_reason|blockReason|block_reason)": ?"/

/** Creates the rewriter with the first event, which names the reply. */
function startedBy(make: (first: SseEvent) => Rewriter): Rewriter {
  let made: Rewriter | undefined
  return {
    on: (event) => (made ??= make(event)).on(event),
    end: () => made?.end() ?? '',
  }
}

// ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The proto spelling of a path, as the caller's format has it. */
const snake = (path: string): string =>
  path.replace(/^GenerateContentRequest\./, '').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
const camel = (path: string): string =>
  path.replace(/^GenerateContentRequest\./, '').replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

const fromProto = renamedBy([
  [/^(?:contents|system_instruction)\b.*/, 'messages'],
  [/^tools\[\d+\]\.function_declarations\[(\d+)\].*/, 'tools[$1]'],
  [/^tool_config\b.*/, 'tool_choice'],
  [/^generation_config\.max_output_tokens$/, 'max_tokens'],
  [/^generation_config\.stop_sequences\b.*/, 'stop'],
  [/^generation_config\.candidate_count$/, 'n'],
  [/^generation_config\.thinking_config\b.*/, 'reasoning_effort'],
  [/^generation_config\.response_logprobs$/, 'logprobs'],
  [/^generation_config\.logprobs$/, 'top_logprobs'],
  [/^generation_config\.(\w+)$/, '$1'],
])

const callerPath: Partial<Record<ChatFormat, (path: string) => string>> = {
  chat: (path) => fromProto(snake(path)),
  generate_content: camel,
}

/**
 * Prepaid credits or a spending cap, which waiting does not restore. Other quotas are rates, and most state their wait.
 */
const SPENT = /prepa(?:id|yment)|credits? (?:are|is) depleted|spend(?:ing)? (?:cap|limit)/i
/** A link that Gemini could not fetch. */
const UNREAD =
  /(?:cannot|could not|failed to|unable to) (?:fetch|retrieve|access|download)\b.{0,60}\b(?:ur[il]s?|files?)\b/i

const quirks: ErrorClassifier = ({ status, body }) => {
  const { message } = envelope(body)
  const { status: name } = record(record(body).error)
  if (name === 'FAILED_PRECONDITION' || name === 'PERMISSION_DENIED' || name === 'UNAUTHENTICATED') return 'operator'
  if (name === 'RESOURCE_EXHAUSTED') return SPENT.test(message) ? 'operator' : 'rate_limited'
  if (name === 'DEADLINE_EXCEEDED') return 'timeout'
  return status === 400 && UNREAD.test(message) ? 'image' : undefined
}
