/** Every error that a request can end with, and its reply. */
import type { Json } from '../lib/json.ts'
import type { Reply } from './reply.ts'

type Row = {
  readonly status: number
  /** The `error` text of the body. */
  readonly error: string
  /** Whether the plain format includes the code. */
  readonly coded?: true
  /** Differences in the chat format (contract 3.15); a code of null omits it. */
  readonly chat?: { readonly status?: number; readonly code?: string | null }
}

const table = {
  INVALID_JSON: { status: 400, error: 'Invalid JSON', coded: true },
  INVALID_CONTENT_TYPE: { status: 400, error: 'Invalid content type', chat: { code: 'INVALID_REQUEST_BODY' } },
  INVALID_FORM: { status: 400, error: 'Invalid multipart form' },
  INCOMPLETE_BODY: { status: 400, error: 'Incomplete request body', chat: { code: 'INVALID_REQUEST_BODY' } },
  INVALID_BODY: { status: 400, error: 'Invalid request body', chat: { code: 'INVALID_REQUEST_BODY' } },
  INVALID_MODEL: { status: 400, error: 'Invalid model', chat: { code: null } },
  INVALID_SIZE: { status: 400, error: 'Invalid size' },
  CONTENT_POLICY: { status: 400, error: 'Content policy violation', chat: { code: 'CONTENT_FILTERED' } },
  INVALID_IMAGE: { status: 400, error: 'Invalid input image', chat: { code: 'INVALID_IMAGE_URL' } },
  EMPTY_CONVERSATION: { status: 400, error: 'Empty conversation', coded: true },
  INVALID_PARAMETER: { status: 400, error: 'Invalid parameter', coded: true },
  CONTEXT_LENGTH_EXCEEDED: { status: 400, error: 'Context length exceeded', coded: true },
  STREAM_UNSUPPORTED: { status: 400, error: 'Streaming is not supported', coded: true },
  INVALID_PAYMENT_IDENTIFIER: { status: 400, error: 'Invalid payment identifier', coded: true },
  PASSED_ON: { status: 400, error: 'Bad Request' },
  INVALID_JOB_ID: { status: 400, error: 'Invalid job id' },
  INPUT_IMAGE_REAL_PERSON: { status: 400, error: 'Input image contains a real person', coded: true },
  INVALID_VIDEO_REQUEST: { status: 400, error: 'Invalid video request', coded: true },
  NOT_ALLOWED: { status: 403, error: 'Not allowed' },
  PAYER_MISMATCH: { status: 403, error: 'Payment payer mismatch' },
  MODEL_NOT_FOUND: { status: 404, error: 'Model not found', coded: true },
  JOB_NOT_FOUND: { status: 404, error: 'Job not found' },
  NOT_FOUND: { status: 404, error: 'Not found' },
  METHOD_NOT_ALLOWED: { status: 405, error: 'Method not allowed' },
  FACE_REJECTED: { status: 422, error: 'Face rejected', coded: true },
  FACE_NOT_ACTIVE: { status: 425, error: 'Group not active', coded: true },
  AUTHORIZATION_USED: { status: 409, error: 'Authorization already used' },
  PAYMENT_IDENTIFIER_CONFLICT: { status: 409, error: 'Payment identifier conflict', coded: true },
  TOO_SLOW: { status: 408, error: 'Request timeout' },
  TOO_LARGE: { status: 413, error: 'Request body too large', chat: { status: 400, code: 'REQUEST_TOO_LARGE' } },
  TOO_MANY_REQUESTS: { status: 429, error: 'Rate limit exceeded' },
  RATE_LIMITED: { status: 429, error: 'Rate limit exceeded', coded: true },
  SPENDING_LIMIT: { status: 429, error: 'Limit reached', coded: true },
  FREE_TIER_RATE_LIMITED: { status: 429, error: 'Rate limit exceeded', coded: true },
  WORK_FAILED: { status: 500, error: 'Work failed', chat: { status: 503, code: 'MODEL_UNAVAILABLE' } },
  INTERNAL: { status: 500, error: 'Internal server error' },
  ENROLLMENT_FAILED: { status: 502, error: 'Enrollment failed', coded: true },
  FEED_UNAVAILABLE: { status: 502, error: 'Price feed unavailable' },
  UPSTREAM_FAILED: { status: 502, error: 'Upstream provider error' },
  NOT_CONFIGURED: { status: 503, error: 'Not configured', chat: { code: 'PROVIDER_CONFIG_ERROR' } },
  MODEL_UNAVAILABLE: { status: 503, error: 'Model unavailable', coded: true },
  PROVIDER_CONFIG_ERROR: { status: 503, error: 'Model unavailable', coded: true },
  BUSY: { status: 503, error: 'Busy' },
  NOT_READY: { status: 503, error: 'Not ready' },
  MAINTENANCE: { status: 503, error: 'Maintenance', coded: true },
  UPSTREAM_TIMEOUT: { status: 504, error: 'The model timed out', chat: { code: 'TIMEOUT' } },
  PAYMENT_VERIFICATION_UNAVAILABLE: { status: 503, error: 'Payment verification unavailable', coded: true },
} as const satisfies Record<string, Row>

export type ApiErrorCode = keyof typeof table

export const apiErrorCodes = Object.keys(table) as readonly ApiErrorCode[]

/** The row of a code: its status, its text, and its chat form. */
export const rowOf = (code: ApiErrorCode): Row => table[code]

/**
 * `details` and `fields` are added to the body; `error` replaces the table's text; `headers` are added to the reply.
 */
export type ApiErrorParts = {
  /** Status of a passed-through 4xx of a service; in the plain format only. */
  readonly status?: number
  readonly error?: string
  readonly message?: string
  /** The request field that the error is about. */
  readonly param?: string
  readonly details?: Json
  readonly fields?: Readonly<Record<string, Json>>
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * The only exception that core throws on purpose. Its texts are for the buyer: never put a secret or a vendor's raw
 * body in one.
 *
 * @example
 * const error = new ApiError('INVALID_PARAMETER', { message: 'must be a word', param: 'word' })
 */
export class ApiError extends Error {
  readonly code: ApiErrorCode
  readonly parts: ApiErrorParts

  constructor(code: ApiErrorCode, parts: ApiErrorParts = {}) {
    super(parts.message ?? parts.error ?? table[code].error)
    this.name = 'ApiError'
    this.code = code
    this.parts = parts
  }
}

/**
 * Text of a failure for the operator's timeline: the `cause` that the vendor adapter noted, in our words, or the text
 * of an error that is not for the buyer. Undefined if the ApiError is complete in itself.
 */
export function vendorErrorOf(error: unknown): string | undefined {
  const { cause, message } = error as { readonly cause?: unknown; readonly message?: unknown }
  if (typeof cause === 'string') return cause
  return error instanceof ApiError || typeof message !== 'string' ? undefined : message
}

/** The same error for the buyer, with what the operator's timeline shows of another one. */
export function causedBy(apiError: ApiError, error: unknown): ApiError {
  const vendorError = vendorErrorOf(error)
  if (vendorError !== undefined && apiError.cause === undefined) apiError.cause = vendorError
  return apiError
}

/** Retry-After in seconds. Problems that only the operator can fix get a longer one. */
const RETRY_SECONDS: Readonly<Partial<Record<ApiErrorCode, number>>> = { NOT_CONFIGURED: 60, PROVIDER_CONFIG_ERROR: 30 }
const USUAL_RETRY_SECONDS = 5

/** Headers of every error. A 503 carries Retry-After (contract 3.25). */
export function errorHeaders({ code, parts }: ApiError, status: number): Record<string, string> {
  const retry = status === 503 && { 'retry-after': String(RETRY_SECONDS[code] ?? USUAL_RETRY_SECONDS) }
  return { 'content-type': 'application/json', 'cache-control': 'no-store', ...retry, ...parts.headers }
}

/** Adds `Retry-After` to a 503 that an endpoint has written without one. */
export function withRetryAfter(reply: Reply): Reply {
  if (reply.status !== 503 || Object.keys(reply.headers).some((name) => name.toLowerCase() === 'retry-after'))
    return reply
  return { ...reply, headers: { ...reply.headers, 'retry-after': String(USUAL_RETRY_SECONDS) } }
}

/** An error in the plain format (contract 3.1); `coded: false` omits the machine-readable codes. */
export function plain(
  apiError: ApiError,
  { coded = true }: { coded?: boolean } = {},
): { status: number; headers: Record<string, string>; body: string } {
  const row: Row = table[apiError.code]
  const { error, message, details, fields } = apiError.parts
  const status = apiError.parts.status ?? row.status
  const body = {
    error: error ?? row.error,
    ...(row.coded && coded && { code: apiError.code }),
    ...(message !== undefined && { message }),
    ...fields,
    ...(details !== undefined && { details }),
  }
  return { status, headers: errorHeaders(apiError, status), body: JSON.stringify(body) }
}

/**
 * A vendor's rate limit: 429 RATE_LIMITED with the vendor's name and a wait in whole seconds (contract 5.47).
 *
 * @example
 * const error = rateLimited('OpenAI', 12)
 */
export function rateLimited(maker: string, retryAfterSeconds: number): ApiError {
  return new ApiError('RATE_LIMITED', {
    fields: { source: maker, retry_after_seconds: retryAfterSeconds },
    details: 'The model is at capacity. Nothing was charged.',
    headers: { 'retry-after': String(retryAfterSeconds), 'x-ratelimit-source': maker },
  })
}
