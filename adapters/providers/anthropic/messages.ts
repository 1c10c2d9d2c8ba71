/**
 * The messages protocol: Anthropic itself, and what llama.cpp, Ollama and others serve under the same path. Sources:
 * @anthropic-ai/sdk@1.10.0 `resources/messages`; decision 75.
 */
import type { ChatFormat, ChatOrder, ChatVendor, SseEvent } from '../../../core/mod.ts'
import { chatFromMessagesReply, chatFromMessagesStream, messagesFromChat } from '../../../core/products/chat/mod.ts'
import { errorEvent } from '../lib/chat/translation.ts'
import type { ChatVendorConfig } from '../lib/chat/provider.ts'
import { under } from '../lib/image_provider.ts'
import { nativeFormat, renamedBy } from '../lib/chat/native_format.ts'
import { envelope, type ErrorClassifier } from '../../http/error_replies.ts'

const VERSION = '2023-06-01'
/** Core sets a cap in every order; this default is for other callers. */
const USUAL_TOKENS = 8_192

/**
 * Speaks `messages`. The caller's protocol version applies to native bodies; requests translated from chat use
 * 2023-06-01, because later versions refuse sampling parameters.
 *
 * @example
 * const chat = anthropicMessages({ baseUrl, key, maker: 'Anthropic', timeoutMs: 120_000, clock, log })
 */
export function anthropicMessages(config: ChatVendorConfig): ChatVendor {
  const url = under(config.baseUrl, '/v1/messages')
  const key: Record<string, string> = config.key ? { 'x-api-key': config.key } : {}
  const ours: Readonly<Record<string, string>> = { 'anthropic-version': VERSION, ...key, ...config.headers }

  /** Beta flags are merged; there is only one version. */
  function headers({ format, headers: theirs }: ChatOrder): Record<string, string> {
    const version = format === 'messages' ? theirs['anthropic-version'] : undefined
    const flags = [ours['anthropic-beta'], theirs['anthropic-beta']].filter(Boolean).join(',')
    return {
      ...ours,
      ...(version && { 'anthropic-version': version }),
      ...(flags !== '' && { 'anthropic-beta': flags }),
    }
  }

  const ask = nativeFormat(config, {
    name: 'anthropic-messages',
    format: 'messages',
    address: (order) => ({ url, headers: headers(order) }),
    own: ({ model, body, stream }) => ({ model, ...body, stream }),
    fromChat: ({ model, body, stream }) => ({ model, ...messagesFromChat(body, { maxTokens: USUAL_TOKENS }), stream }),
    callerPath: (path, format) => callerPath[format]?.(path) ?? path,
    quirks,
    isAnswer: ({ content }) => Array.isArray(content),
    toChat: chatFromMessagesReply,
    stream: (facts) => ({ rewriter: chatFromMessagesStream(facts), errorIn: errorEvent, isEnding }),
  })
  return { format: 'messages', ask }
}

/** Matches the last event, or the one before it with the stop reason, because some servers omit the last one. */
const ENDS = /"type": ?"message_stop"|"stop_reason": ?"/
const isEnding = ({ event, data }: SseEvent): boolean =>
  (event === undefined || event === 'message_stop' || event === 'message_delta') && ENDS.test(data)

const callerPath: Partial<Record<ChatFormat, (path: string) => string>> = {
  chat: renamedBy([
    [/^(?:messages|system)\b.*/, 'messages'],
    [/^stop_sequences\b.*/, 'stop'],
    [/^output_config\b.*/, 'reasoning_effort'],
    [/^metadata\.user_id$/, 'user'],
  ]),
}

/** The message names an image by its path: `messages.0.content.1.image.source.base64: image exceeds 5 MB maximum`. */
const quirks: ErrorClassifier = ({ status, body }) =>
  status === 400 && /^messages\.\d+\.content\.[\w.]*\bimage\b/.test(envelope(body).message) ? 'image' : undefined
