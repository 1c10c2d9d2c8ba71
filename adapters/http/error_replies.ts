/** Maps vendors' error replies to errors for the buyer and the operator (decision 72). */
import { ApiError, rateLimited } from '../../core/mod.ts'

/**
 * Cause of an error reply. `operator`: our key, balance, model or settings, which no buyer can fix. `request`: the
 * buyer's input, such as a prompt that is too long. `timeout`: the upstream or we gave up. `failed`: everything else.
 */
export type FailureKind = 'rate_limited' | 'policy' | 'image' | 'request' | 'operator' | 'timeout' | 'failed'

/** A reply without a result. `body` is undefined when it was not JSON. */
export type ErrorReply = { readonly status: number; readonly headers: Headers; readonly body: unknown }

/**
 * Reads a vendor's own error replies. Returns an ApiError when a kind says too little, undefined when the status says
 * enough.
 */
export type ErrorClassifier = (reply: ErrorReply) => FailureKind | ApiError | undefined

export const DEFAULT_RETRY_SECONDS = 30

const BUYER_MESSAGES = {
  policy: 'The safety system of the model refused this request. Nothing was charged.',
  image: 'The model could not read an image of this request. Nothing was charged.',
  request: 'The model did not accept this prompt. Nothing was charged.',
  timeout: 'The model did not answer in time. Nothing was charged.',
} as const

/** Creates the error for a failed call. `what` is for the operator, and contains no vendor text but a safe code. */
export type ErrorFor = (
  kind: FailureKind,
  about: { readonly maker: string; readonly retrySeconds: number; readonly what: string },
) => Error

/** The default errors. A plain Error reads as a failed call; its text is ours, without any of the vendor's. */
export const errorFor: ErrorFor = (kind, { maker, retrySeconds, what }) => {
  switch (kind) {
    case 'rate_limited':
      return rateLimited(maker, retrySeconds)
    case 'policy':
      return new ApiError('CONTENT_POLICY', { details: BUYER_MESSAGES.policy })
    case 'image':
      return new ApiError('INVALID_IMAGE', { details: BUYER_MESSAGES.image })
    case 'request':
      return new ApiError('INVALID_BODY', {
        message: BUYER_MESSAGES.request,
        details: [{ path: 'prompt', message: 'not accepted by the model' }],
      })
    case 'timeout':
      return new ApiError('UPSTREAM_TIMEOUT', { details: BUYER_MESSAGES.timeout })
    default:
      return new Error(what)
  }
}

/** The meaning of a status alone. An unexplained 4xx is a mistake in what we send, so the operator must see it. */
export function failureKindOf(status: number): FailureKind {
  if (status === 429) return 'rate_limited'
  if (status === 408 || status === 504 || status === 524) return 'timeout'
  if (status === 413) return 'image'
  return status < 500 ? 'operator' : 'failed'
}

/**
 * Members shared by most error envelopes: `{error: {code, message, type, param}}`, `{error: text, code}`, `{code,
 * message}`.
 */
export type Envelope = {
  readonly code: string
  readonly type: string
  readonly message: string
  readonly param: string
}

export function envelope(body: unknown): Envelope {
  const outer = record(body)
  const inner = record(outer.error)
  const read = (key: string) => text(inner[key]) || text(outer[key])
  return { code: read('code'), type: read('type'), message: read('message') || text(outer.error), param: read('param') }
}

export function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function text(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

/** An error code that is safe to log; empty for prose, which could quote a key or a prompt. */
export function safeCode(body: unknown): string {
  const { code, type } = envelope(body)
  return [code, type].find((word) => /^[\w.-]{1,64}$/.test(word)) ?? ''
}

/**
 * Whole seconds to wait, from 1 to one day: `retry-after-ms`, then `retry-after` as seconds or HTTP date (RFC 9110
 * 10.2.3), then Google's RetryInfo (google.rpc error_details.proto), else a default. `now` in milliseconds.
 */
export function retrySeconds({ headers, body }: Pick<ErrorReply, 'headers' | 'body'>, now: number): number {
  const waits = [
    Number.parseFloat(headers.get('retry-after-ms') ?? '') / 1000,
    retryAfter(headers.get('retry-after') ?? '', now),
    retryInfo(body),
  ]
  const seconds = waits.find((wait) => Number.isFinite(wait)) ?? DEFAULT_RETRY_SECONDS
  return Math.min(Math.max(Math.ceil(seconds), 1), 86_400)
}

function retryAfter(value: string, now: number): number {
  if (/^\s*\d+(\.\d+)?\s*$/.test(value)) return Number(value)
  return (Date.parse(value) - now) / 1000
}

function retryInfo(body: unknown): number {
  const details = record(record(body).error).details
  if (!Array.isArray(details)) return Number.NaN
  const info = details.map(record).find((detail) => String(detail['@type']).endsWith('google.rpc.RetryInfo'))
  return Number.parseFloat(text(info?.retryDelay))
}

// ── errors inside a 2xx reply ───────────────────────────────────────────────────────────────────────────────────────

/** Statuses by error type, for errors that lost their own. */
const STATUS_BY_TYPE: ReadonlyMap<string, number> = new Map([
  ['invalid_request_error', 400],
  ['authentication_error', 401],
  ['billing_error', 402],
  ['permission_error', 403],
  ['not_found_error', 404],
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['rate_limit_exceeded', 429],
  ['timeout_error', 504],
  ['overloaded_error', 529],
])

/**
 * Returns the error in a 2xx reply, or in a stream's first event; undefined for a result. Its status is the one that
 * the error names, as in OpenRouter (`error.code: 429`) and vLLM (`object: 'error', code: 400`), or 500.
 */
export function errorReplyIn(body: unknown, headers: Headers = new Headers()): ErrorReply | undefined {
  const { error, object, type } = record(body)
  const hasError = typeof error === 'string' ? error !== '' : Object.keys(record(error)).length > 0
  if (!hasError && object !== 'error' && type !== 'error') return undefined
  const { code, type: kind } = envelope(body)
  const status = [code, text(record(error).status), text(record(body).status)]
    .map(Number)
    .find((number) => number >= 400 && number < 600)
  return { status: status ?? STATUS_BY_TYPE.get(code) ?? STATUS_BY_TYPE.get(kind) ?? 500, headers, body }
}
