/** From what an upstream says when it makes nothing, to what the buyer and the operator are told (decision 72). */
import { ApiError, rateLimited } from '../../core/mod.ts'

/**
 * What a refusal means. `operator`: our key, balance, model or settings, which no buyer can mend. `request`: the buyer's words, for example
 * a prompt that is too long. `timeout`: the upstream gave up, or we did. `failed`: all else.
 */
export type Trouble = 'rate_limited' | 'policy' | 'image' | 'request' | 'operator' | 'timeout' | 'failed'

/** A reply that is no result. `body` is undefined when it was not JSON. */
export type Refusal = { readonly status: number; readonly headers: Headers; readonly body: unknown }

/** How a vendor reads its own refusals; a fault where a trouble says too little, undefined where its status says enough. */
export type Judge = (refusal: Refusal) => Trouble | ApiError | undefined

export const DEFAULT_RETRY_SECONDS = 30

const BUYER_READS = {
  policy: 'The safety system of the model refused this request. Nothing was charged.',
  image: 'The model could not read an image of this request. Nothing was charged.',
  request: 'The model did not accept this prompt. Nothing was charged.',
  timeout: 'The model did not answer in time. Nothing was charged.',
} as const

/** What is thrown for a trouble. `what` is the operator's to read, and holds nothing of the vendor's but a safe code. */
export type ErrorFor = (
  trouble: Trouble,
  about: { readonly maker: string; readonly retrySeconds: number; readonly what: string },
) => Error

/** What is thrown for a refusal. A plain error reads as a failed call; its text is ours alone, and nothing of the vendor's is in it. */
export const errorFor: ErrorFor = (trouble, { maker, retrySeconds, what }) => {
  switch (trouble) {
    case 'rate_limited':
      return rateLimited(maker, retrySeconds)
    case 'policy':
      return new ApiError('CONTENT_POLICY', { details: BUYER_READS.policy })
    case 'image':
      return new ApiError('INVALID_IMAGE', { details: BUYER_READS.image })
    case 'request':
      return new ApiError('INVALID_BODY', {
        message: BUYER_READS.request,
        details: [{ path: 'prompt', message: 'not accepted by the model' }],
      })
    case 'timeout':
      return new ApiError('UPSTREAM_TIMEOUT', { details: BUYER_READS.timeout })
    default:
      return new Error(what)
  }
}

/** What a status says by itself. A 4xx that a vendor file knows nothing of is a mistake in what we send: the operator's to see. */
export function usualTrouble(status: number): Trouble {
  if (status === 429) return 'rate_limited'
  if (status === 408 || status === 504 || status === 524) return 'timeout'
  if (status === 413) return 'image'
  return status < 500 ? 'operator' : 'failed'
}

/** The members that most error envelopes share: `{error: {code, message, type, param}}`, `{error: text, code}`, `{code, message}`. */
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

/** An error code fit for a log; empty for anything that could be prose, and so could quote a key or a prompt. */
export function safeCode(body: unknown): string {
  const { code, type } = envelope(body)
  return [code, type].find((word) => /^[\w.-]{1,64}$/.test(word)) ?? ''
}

/**
 * Whole seconds to wait, from 1 to a day: `retry-after-ms`, then `retry-after` as seconds or as an HTTP date (RFC 9110 10.2.3), then Google's
 * RetryInfo (google.rpc error_details.proto), else a default. `now` in milliseconds.
 */
export function retrySeconds({ headers, body }: Pick<Refusal, 'headers' | 'body'>, now: number): number {
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

// ── refusals inside a 2xx reply ─────────────────────────────────────────────────────────────────────────────────────

/** Statuses of the types that an error names where its own status is lost. */
const TYPES: ReadonlyMap<string, number> = new Map([
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
 * The refusal that a 2xx reply, or the first event of a stream, is instead of an answer; undefined for an answer. Its status is the one that
 * the error speaks of, as OpenRouter (`error.code: 429`) and vLLM (`object: 'error', code: 400`) write it, or 500.
 */
export function refusalIn(body: unknown, headers: Headers = new Headers()): Refusal | undefined {
  const { error, object, type } = record(body)
  const held = typeof error === 'string' ? error !== '' : Object.keys(record(error)).length > 0
  if (!held && object !== 'error' && type !== 'error') return undefined
  const { code, type: kind } = envelope(body)
  const status = [code, text(record(error).status), text(record(body).status)]
    .map(Number)
    .find((number) => number >= 400 && number < 600)
  return { status: status ?? TYPES.get(code) ?? TYPES.get(kind) ?? 500, headers, body }
}
