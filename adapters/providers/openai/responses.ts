/** The responses protocol: OpenAI, xAI, vLLM, Ollama. Sources: openai@7.55.0 `resources/responses`; decision 75. */
import type { ChatFormat, ChatOrder, ChatVendor, Fields, SseEvent } from '../../../core/mod.ts'
import {
  chatFromResponsesReply,
  chatFromResponsesStream,
  liveSearch,
  responseEvents,
  responseFailure,
  responsesError,
  responsesFromChat,
  tryJson,
} from '../../../core/products/chat/mod.ts'
import type { ChatVendorConfig } from '../lib/chat/provider.ts'
import { bearer, under } from '../lib/image_provider.ts'
import { nativeFormat, renamedBy } from '../lib/chat/native_format.ts'
import { openaiQuirks } from './chat.ts'
import { envelope, type ErrorClassifier, record, type ErrorReply } from '../../http/error_replies.ts'

/**
 * Speaks `responses` with storage disabled. A chat order with `search_parameters` uses the vendor's search tools.
 *
 * @example
 * const chat = openaiResponses({ baseUrl, key, maker: 'OpenAI', timeoutMs: 120_000, clock, log })
 */
export function openaiResponses(config: ChatVendorConfig): ChatVendor {
  const url = under(config.baseUrl, '/responses')
  const headers = { ...bearer(config.key), ...config.headers }

  const ask = nativeFormat(config, {
    name: 'openai-responses',
    format: 'responses',
    address: () => ({ url, headers }),
    own: ({ model, body, stream }) => ({ model, ...body, store: false, stream }),
    fromChat: ({ model, body, stream }) => ({ model, ...translated(body), stream }),
    callerPath: (path, format) => callerPath[format]?.(path) ?? path,
    quirks,
    failureIn: (reply) => (responseFailure(reply) ? failed(reply) : undefined),
    isAnswer: ({ output, status }) =>
      Array.isArray(output) && (status === undefined || status === 'completed' || status === 'incomplete'),
    toChat: chatFromResponsesReply,
    stream: (facts) => ({ rewriter: chatFromResponsesStream(facts), errorIn, isEnding: ends, isPrelude }),
    events: (reply) => responseEvents(reply).join(''),
  })
  return { format: 'responses', translatesChat: true, ask }
}

function translated(body: ChatOrder['body']): Fields {
  return body.search_parameters === undefined || body.search_parameters === null
    ? responsesFromChat(body)
    : liveSearch(body)
}

// ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const isOf =
  (types: RegExp) =>
  ({ event, data }: SseEvent): boolean =>
    types.test(event === undefined ? data : `"${event}"`)
const ends = isOf(/"response\.(?:completed|incomplete)"/)
/** Sent when the request is accepted, before the model starts. */
const isPrelude = isOf(/"response\.(?:created|queued|in_progress)"/)

function errorIn(event: SseEvent): ErrorReply | undefined {
  if (!responsesError(event)) return undefined
  const fields = tryJson(event.data) ?? {}
  return failed(record(fields.response ?? fields) as Fields)
}

/** HTTP statuses of the codes of a `ResponseError` (responses.d.ts); those of images are known by themselves. */
const STATUSES: ReadonlyMap<string, number> = new Map([
  ['rate_limit_exceeded', 429],
  ['vector_store_timeout', 504],
  ['invalid_prompt', 400],
  ['bio_policy', 400],
])

function failed(body: Fields): ErrorReply {
  return { status: STATUSES.get(envelope(body).code) ?? 500, headers: new Headers(), body }
}

// ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────

const callerPath: Partial<Record<ChatFormat, (path: string) => string>> = {
  chat: renamedBy([
    [/^(?:input|instructions)\b.*/, 'messages'],
    [/^max_output_tokens$/, 'max_tokens'],
    [/^text\.format\b.*/, 'response_format'],
    [/^text\.verbosity$/, 'verbosity'],
    [/^reasoning\.effort$/, 'reasoning_effort'],
  ]),
}

const quirks: ErrorClassifier = (refusal) =>
  envelope(refusal.body).code === 'bio_policy' ? 'policy' : openaiQuirks(refusal)
