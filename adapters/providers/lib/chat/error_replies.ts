/** Maps vendors' error replies to errors for chat callers (contract 6.54; decision 72). */
import { ApiError, type Fields, rateLimited } from '../../../../core/mod.ts'
import {
  envelope,
  type ErrorFor,
  type ErrorClassifier,
  record,
  type ErrorReply,
  type FailureKind,
  failureKindOf,
} from '../../../http/error_replies.ts'

const BUYER_MESSAGES = {
  policy: 'The safety system of the model refused this conversation. Nothing was charged.',
  image: 'The model could not read an image of this conversation. Nothing was charged.',
  request: 'The model refused this request as invalid. Nothing was charged.',
  operator: 'The model is temporarily unreachable; the operator must fix its connection. Nothing was charged.',
  timeout: 'The model did not answer in time. Nothing was charged.',
  failed: 'The model is temporarily unavailable. Nothing was charged.',
  context: "The conversation exceeds the model's context length. Nothing was charged.",
  large: 'The conversation is larger than the model accepts. Nothing was charged.',
  stream: 'The model does not stream; send the request with stream: false. Nothing was charged.',
} as const

/** Errors for chat callers, always an ApiError, without any of the vendor's text. */
export const chatErrorFor: ErrorFor = (kind, { maker, retrySeconds }) => {
  const message = kind === 'rate_limited' ? '' : BUYER_MESSAGES[kind]
  switch (kind) {
    case 'rate_limited':
      return rateLimited(maker, retrySeconds)
    case 'policy':
      return new ApiError('CONTENT_POLICY', { message })
    case 'image':
      return new ApiError('INVALID_IMAGE', { message })
    case 'request':
      return new ApiError('INVALID_PARAMETER', { message })
    case 'operator':
      return new ApiError('PROVIDER_CONFIG_ERROR', { message })
    case 'timeout':
      return new ApiError('UPSTREAM_TIMEOUT', { message })
    default:
      return new ApiError('MODEL_UNAVAILABLE', { message })
  }
}

type RefusedRequest = {
  /** Body that the caller sent. An error may name its members and no others. */
  readonly body: Fields
  /** Members of `body` that the gateway has set or changed. */
  readonly ours?: readonly string[] | undefined
  /** Body that went upstream. A rejected member that is only here is ours, so the operator must fix it. */
  readonly sent: Fields
  readonly streams: boolean
  /** Maps a path in the vendor's terms to the caller's, such as `max_completion_tokens` to `max_tokens`. */
  readonly callerPath?: (path: string) => string
}

/**
 * Reads error replies of chat vendors: first by `own`, the vendor's special cases, then by common codes and sentences,
 * then by status. Never returns undefined. Of the vendor's text only the path of a member that the caller sent passes.
 */
export function chatErrorClassifier(
  request: RefusedRequest,
  classifyNative: ErrorClassifier = () => undefined,
): ErrorClassifier {
  return (reply) =>
    classifyNative(reply) ?? byCode(reply) ?? byWords(reply, request) ?? byField(reply, request) ?? byStatus(reply)
}

export const contextError = (): ApiError =>
  new ApiError('CONTEXT_LENGTH_EXCEEDED', { message: BUYER_MESSAGES.context, param: 'messages' })

// ── codes and sentences ─────────────────────────────────────────────────────────────────────────────────────────────

/** Codes in lower case, or types of vendors without codes. */
const CODES: ReadonlyMap<string, FailureKind | 'context'> = new Map([
  ['context_length_exceeded', 'context'],
  ['exceed_context_size_error', 'context'],
  ['content_filter', 'policy'],
  ['content_policy', 'policy'],
  ['content_policy_violation', 'policy'],
  ['image_content_policy_violation', 'policy'],
  ['moderation_blocked', 'policy'],
  ['safety', 'policy'],
  ['insufficient_quota', 'operator'],
  ['insufficient_balance', 'operator'],
  ['billing_hard_limit_reached', 'operator'],
  ['billing_not_active', 'operator'],
  ['billing_error', 'operator'],
  ['account_deactivated', 'operator'],
  ['quotaexceeded', 'operator'],
  ['accountoverdueerror', 'operator'],
  ['invalid_api_key', 'operator'],
  ['authentication_error', 'operator'],
  ['permission_error', 'operator'],
  ['model_not_found', 'operator'],
  ['not_found_error', 'operator'],
  ['rate_limit_exceeded', 'rate_limited'],
  ['rate_limit_error', 'rate_limited'],
  ['timeout_error', 'timeout'],
  ['overloaded_error', 'failed'],
])

/**
 * Codes about an input image: `ResponseError` of openai@7.55.0 responses.d.ts, and Anthropic's and OpenAI's for URLs.
 */
const IMAGE_CODES =
  /^(invalid_(base64_)?image(_\w+)?|image_(too_\w+|parse_error|file_too_large|file_not_found|url_\w+)|unsupported_image(_\w+)?|empty_image_file|failed_to_download_image)$/

function byCode({ status, body }: ErrorReply): FailureKind | ApiError | undefined {
  const { code, type } = envelope(body)
  if (status === 413) return new ApiError('TOO_LARGE', { message: BUYER_MESSAGES.large })
  if (IMAGE_CODES.test(code)) return 'image'
  const known = CODES.get(code.toLowerCase()) ?? CODES.get(type.toLowerCase())
  return known === 'context' ? contextError() : known
}

const CONTEXT_WORDS = new RegExp(
  [
    'maximum (context|prompt) length',
    'prompt (is|was) too long',
    'input tokens? (count )?.{0,40}exceeds?',
    'exceeds? the (maximum number of tokens|context (window|length|size)|available context)',
    'exceeds? (the )?context (limit|window|length|size)',
    'context (length|window|size) (is |was )?exceeded',
    'too large for model with \\d+ maximum context',
  ].join('|'),
  'i',
)
const POLICY_WORDS =
  /content (management |moderation )?policy|safety system|usage (guidelines|polic)|SAFETY_CHECK_TYPE|content[ _]filter|responsible ai policy/i
const IMAGE_WORDS =
  /(invalid|unsupported|corrupt\w*) image|image (url |data |file |format )?(is |was )?(invalid|unsupported|not (valid|supported)|too (large|small))|(could not|couldn't|cannot|unable to|failed to|(error|timeout) while) (process|download|fetch|decode|load|read|pars|retriev)\w*( \w+){0,3} (images?|urls?|files?|https?:)|(could not|unable to) download/i
const STREAM_WORDS =
  /\bstream(ing|ed)?\b.{0,40}(not|n't) (supported|available|allowed)|(not|n't) support(ed)? .{0,20}\bstream(ing)?\b/i
const OPERATOR_WORDS =
  /api[ _-]?key|credit balance|(insufficient|no|available) (balance|credits?|funds?)|billing|spending limit|\bmodel\b.{0,120}?\b(does not|doesn't|not) (exist|found)|(unknown|invalid|no such) model\b/i

/** How many characters of a vendor's message are read. */
const MAX_WORDS = 4000

function byWords({ status, body }: ErrorReply, { streams }: RefusedRequest): FailureKind | ApiError | undefined {
  const { message: words, param } = envelope(body)
  const message = words.slice(0, MAX_WORDS)
  const isJudged = status === 400 || status === 422
  if ((isJudged || status === 500) && CONTEXT_WORDS.test(message)) return contextError()
  if (!isJudged) return undefined
  if (POLICY_WORDS.test(message)) return 'policy'
  if (IMAGE_WORDS.test(message) || /\bimage(_url)?\b/.test(param)) return 'image'
  const isStream = param === 'stream' || (param === '' && STREAM_WORDS.test(message))
  if (isStream && streams)
    return new ApiError('STREAM_UNSUPPORTED', { message: BUYER_MESSAGES.stream, param: 'stream' })
  return undefined
}

// ── fields ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function byField({ status, body }: ErrorReply, request: RefusedRequest): FailureKind | ApiError | undefined {
  if (status !== 400 && status !== 422) return undefined
  const { code, message: words, param } = envelope(body)
  const message = words.slice(0, MAX_WORDS)
  const { callerPath = (path: string) => path } = request
  const named = [param, ...pathsIn(body), ...quotedIn(message), ...wordsIn(message, request.body)]
  const known = named.map((path) => knownPath(callerPath(path), request.body)).find(Boolean)
  if (known && isOurs(known, { request, words: `${code} ${message}` })) return 'operator'
  if (known)
    return new ApiError('INVALID_PARAMETER', {
      message: `The model did not accept \`${known}\`. Nothing was charged.`,
      param: known,
    })
  const others = [...named, ...wordsIn(message, request.sent)].map(firstOf)
  return OPERATOR_WORDS.test(message) || others.some((name) => name !== '' && Object.hasOwn(request.sent, name))
    ? 'operator'
    : undefined
}

const firstOf = (path: string): string => path.split(/[.[\]]/)[0] ?? ''

/** How the output limit is spelt is the gateway's choice. */
const LIMITS = new Set(['max_tokens', 'max_completion_tokens', 'max_output_tokens'])
const UNKNOWN_WORDS =
  /\b(?:unsupported|unknown|unrecogni[sz]ed|unexpected|extra)[ _](?:parameter|field|argument|key|member|input|keyword)|not supported|not permitted|instead/i

/** Whether the gateway has set a refused member by itself, or chosen its name. */
function isOurs(
  path: string,
  { request, words }: { readonly request: RefusedRequest; readonly words: string },
): boolean {
  const name = firstOf(path)
  return (request.ours ?? []).includes(name) || (LIMITS.has(name) && UNKNOWN_WORDS.test(words))
}

/** Paths from validators: FastAPI's `detail[].loc`, Google's `error.details[].fieldViolations[].field`. */
function pathsIn(body: unknown): string[] {
  const { detail, error } = record(body)
  const located = list(detail).map(({ loc }) =>
    Array.isArray(loc) ? loc.filter((part) => part !== 'body').join('.') : '',
  )
  const violated = list(record(error).details).flatMap(({ fieldViolations }) =>
    list(fieldViolations).map(({ field }) => String(field ?? '')),
  )
  return [...located, ...violated]
}

const list = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  Array.isArray(value) ? value.map(record) : []

/** Paths at the start of a message, as Anthropic writes them (`messages.0.content: …`), and paths in quotes. */
function quotedIn(message: string): string[] {
  const head = /^([A-Za-z_][\w.[\]-]*):/.exec(message)?.[1] ?? ''
  return [head, ...[...message.matchAll(/['"`]([A-Za-z_][\w.[\]-]{0,200})['"`]/g)].map(([, path = '']) => path)]
}

/** Members named without quotes, only words with no other meaning: DeepSeek's "Invalid temperature value". */
function wordsIn(message: string, caller: Fields): string[] {
  const words = new Set(message.match(/\w+/g))
  return Object.keys(caller).filter(
    (name) => (name.includes('_') || name === 'temperature' || name === 'logprobs') && words.has(name),
  )
}

/**
 * The part of a path that exists in what the caller sent; undefined if not even its first member does. So a vendor
 * cannot pass any text to the caller through a path.
 */
function knownPath(path: string, caller: Fields): string | undefined {
  let at: unknown = caller
  let end = 0
  for (const { 0: part, index } of path.matchAll(/[^.[\]]+/g)) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, part)) break
    at = (at as Record<string, unknown>)[part]
    end = index + part.length + (path[index + part.length] === ']' ? 1 : 0)
  }
  return end === 0 ? undefined : path.slice(0, end)
}

// ── statuses ────────────────────────────────────────────────────────────────────────────────────────────────────────

function byStatus({ status }: ErrorReply): FailureKind {
  return status === 400 || status === 422 ? 'request' : failureKindOf(status)
}
