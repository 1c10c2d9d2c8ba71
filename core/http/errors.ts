/**
 * Every error that a request can end with: its reply, its advice and an example (decision 6). One row is all there is
 * of it.
 */
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
  /** Retry-After of its 503 in seconds, if not the usual one: longer if only the operator can fix it. */
  readonly retrySeconds?: number
  /** Advice to clients, for the documents; by default that of its status. */
  readonly advice?: string
  /** A reply with it, for the documents. */
  readonly example?: ApiErrorParts
}

const rows = <Code extends string>(table: Readonly<Record<Code, Row>>) => table

const table = rows({
  INVALID_JSON: {
    status: 400,
    error: 'Invalid JSON',
    coded: true,
    example: { message: 'The request body is not valid JSON.' },
  },
  INVALID_CONTENT_TYPE: {
    status: 400,
    error: 'Invalid content type',
    chat: { code: 'INVALID_REQUEST_BODY' },
    advice: 'Send `content-type: application/json`.',
    example: { message: 'The content type must be application/json, got "text/plain".' },
  },
  INVALID_FORM: {
    status: 400,
    error: 'Invalid multipart form',
    example: { message: 'The request body is not a well-formed multipart form.' },
  },
  INCOMPLETE_BODY: { status: 400, error: 'Incomplete request body', chat: { code: 'INVALID_REQUEST_BODY' } },
  INVALID_BODY: {
    status: 400,
    error: 'Invalid request body',
    chat: { code: 'INVALID_REQUEST_BODY' },
    example: {
      message: 'n: Expected integer to be less or equal to 10; got 11',
      details: [{ path: 'n', message: 'Expected integer to be less or equal to 10; got 11' }],
    },
  },
  INVALID_MODEL: {
    status: 400,
    error: 'Invalid model',
    chat: { code: null },
    advice: 'Choose one of `available_models`.',
    example: {
      message: 'Unknown model: "nobody". Available models: vendor-a/image-1.',
      fields: { available_models: ['vendor-a/image-1'] },
    },
  },
  INVALID_SIZE: {
    status: 400,
    error: 'Invalid size',
    advice: 'Choose one of `valid_sizes`.',
    example: {
      message: 'vendor-a/image-1 does not support the size "9x9". Valid sizes: 1024x1024.',
      fields: { valid_sizes: ['1024x1024'] },
    },
  },
  CONTENT_POLICY: {
    status: 400,
    error: 'Content policy violation',
    chat: { code: 'CONTENT_FILTERED' },
    advice: 'Change the prompt or the picture: the model refuses this one.',
    example: { details: 'The model refused the request for its content. Nothing was charged.' },
  },
  INVALID_IMAGE: {
    status: 400,
    error: 'Invalid input image',
    chat: { code: 'INVALID_IMAGE_URL' },
    example: { details: 'The model cannot read this file.' },
  },
  EMPTY_CONVERSATION: {
    status: 400,
    error: 'Empty conversation',
    coded: true,
    example: { message: 'messages must not be empty.', param: 'messages' },
  },
  INVALID_PARAMETER: {
    status: 400,
    error: 'Invalid parameter',
    coded: true,
    example: { message: 'temperature: must be at most 2.', param: 'temperature' },
  },
  CONTEXT_LENGTH_EXCEEDED: {
    status: 400,
    error: 'Context length exceeded',
    coded: true,
    advice: 'Shorten the conversation, or choose a model with a larger window.',
    example: {
      message:
        'The prompt is longer than the context window of the model: at least 128000 tokens, and the window has 128000.',
      param: 'messages',
    },
  },
  STREAM_UNSUPPORTED: {
    status: 400,
    error: 'Streaming is not supported',
    coded: true,
    advice: 'Leave `stream` out.',
    example: { message: 'This model does not stream.', param: 'stream' },
  },
  INVALID_PAYMENT_IDENTIFIER: {
    status: 400,
    error: 'Invalid payment identifier',
    coded: true,
    example: {
      message:
        'extensions.payment-identifier.info.id must be 16 to 128 characters of A-Z, a-z, 0-9, _ and -. Nothing was charged.',
    },
  },
  PASSED_ON: {
    status: 400,
    error: 'Bad Request',
    example: {
      message: 'The service 404: market not found (payment NOT charged).',
      fields: { status: 404, details: { error: 'market not found' } },
      status: 404,
    },
  },
  INVALID_JOB_ID: { status: 400, error: 'Invalid job id' },
  INPUT_IMAGE_REAL_PERSON: { status: 400, error: 'Input image contains a real person', coded: true },
  INVALID_VIDEO_REQUEST: { status: 400, error: 'Invalid video request', coded: true },
  INVALID_API_KEY: {
    status: 401,
    error: 'Invalid API key',
    coded: true,
    chat: { code: 'invalid_api_key' },
    advice: 'Check the key and the base URL. Do not retry with the same key.',
    example: { message: 'The API key is mistyped: its checksum does not match. Nothing was charged.' },
  },
  INSUFFICIENT_BALANCE: {
    status: 402,
    error: 'Insufficient balance',
    coded: true,
    chat: { code: 'insufficient_quota' },
    advice: 'Send a deposit to the key, or ask for less. Do not retry unchanged.',
    example: {
      message: 'the key has 0.000400 USDC left, and the call may cost 0.002000 USDC. Nothing was charged.',
    },
  },
  NOT_ALLOWED: {
    status: 403,
    error: 'Not allowed',
    advice: 'Ask the operator to list this wallet.',
    example: { message: 'The operator has not listed this wallet for this route. Nothing was charged.' },
  },
  PAYER_MISMATCH: {
    status: 403,
    error: 'Payment payer mismatch',
    advice: 'Use the wallet that has bought it.',
    example: { message: 'Another wallet has submitted this job.' },
  },
  MODEL_NOT_FOUND: { status: 404, error: 'Model not found', coded: true },
  JOB_NOT_FOUND: {
    status: 404,
    error: 'Job not found',
    example: { message: 'There is no such job here: it never existed, or has expired.' },
  },
  NOT_FOUND: { status: 404, error: 'Not found', example: { message: 'There is no such thing here.' } },
  METHOD_NOT_ALLOWED: { status: 405, error: 'Method not allowed' },
  FACE_REJECTED: { status: 422, error: 'Face rejected', coded: true },
  FACE_NOT_ACTIVE: {
    status: 425,
    error: 'Group not active',
    coded: true,
    advice: 'Finish the check of the face first, then send it again.',
  },
  AUTHORIZATION_USED: {
    status: 409,
    error: 'Authorization already used',
    advice: 'Sign a new payment.',
    example: {
      error: 'Authorization already used',
      message:
        'The deposit authorization, or the payment, has served another request. Nothing was charged for this one.',
      fields: { code: 'PAYMENT_REPLAY' },
    },
  },
  PAYMENT_IDENTIFIER_CONFLICT: {
    status: 409,
    error: 'Payment identifier conflict',
    coded: true,
    advice: 'Choose a new id for a new request.',
    example: {
      message:
        'extensions.payment-identifier.info.id was already used with another request. Nothing was charged; choose a new id.',
    },
  },
  CALL_IN_PROGRESS: {
    status: 409,
    error: 'Call in progress',
    coded: true,
    advice: 'Send the same request again, after `Retry-After`.',
    example: {
      message: 'The first request with this Idempotency-Key is still worked on. Nothing was charged for this one.',
      headers: { 'retry-after': '5', 'x-should-retry': 'true' },
    },
  },
  TOO_SLOW: { status: 408, error: 'Request timeout' },
  TOO_LARGE: {
    status: 413,
    error: 'Request body too large',
    chat: { status: 400, code: 'REQUEST_TOO_LARGE' },
    advice: 'Send less: `max_bytes` says how much is allowed.',
    example: { message: 'The request body may be at most 1048576 bytes.', fields: { max_bytes: 1_048_576 } },
  },
  TOO_MANY_REQUESTS: {
    status: 429,
    error: 'Rate limit exceeded',
    example: {
      message: 'At most 60 requests in 1 minutes; retry after 2026-11-20T00:01:00.000Z.',
      headers: {
        'retry-after': '60',
        'x-ratelimit-limit': '60',
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': '1795132860000',
      },
    },
  },
  RATE_LIMITED: { status: 429, error: 'Rate limit exceeded', coded: true },
  SPENDING_LIMIT: { status: 429, error: 'Limit reached', coded: true },
  FREE_TIER_RATE_LIMITED: {
    status: 429,
    error: 'Rate limit exceeded',
    coded: true,
    advice: 'Wait, or use a paid model.',
    example: {
      message: 'Free tier limit reached: 30 requests per minute per IP address. Retry after 12 s, or use a paid model.',
      headers: {
        'retry-after': '60',
        'x-ratelimit-limit': '30',
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': '1795132860',
      },
    },
  },
  WORK_FAILED: {
    status: 500,
    error: 'Work failed',
    chat: { status: 503, code: 'MODEL_UNAVAILABLE' },
    advice: 'Send it again with the same payment, or change the request.',
    example: {
      details: 'The model did not deliver a result. Nothing was charged, and the authorization is free again.',
    },
  },
  INTERNAL: {
    status: 500,
    error: 'Internal server error',
    example: {
      details: 'Internal error. Send the same request again: an authorization is charged at most once.',
    },
  },
  ENROLLMENT_FAILED: { status: 502, error: 'Enrollment failed', coded: true },
  FEED_UNAVAILABLE: {
    status: 502,
    error: 'Price feed unavailable',
    example: { message: 'The price feed did not answer. Nothing was charged; try again.' },
  },
  UPSTREAM_FAILED: {
    status: 502,
    error: 'Upstream provider error',
    example: { message: 'The service did not answer in time. Payment was NOT charged.' },
  },
  NOT_CONFIGURED: {
    status: 503,
    error: 'Not configured',
    chat: { code: 'PROVIDER_CONFIG_ERROR' },
    retrySeconds: 60,
    advice: 'Only the operator can turn it on. Choose something else.',
    example: { message: 'The operator has not configured this. Nothing was charged.' },
  },
  MODEL_UNAVAILABLE: {
    status: 503,
    error: 'Model unavailable',
    coded: true,
    advice: 'Choose another model, or come back later.',
    example: {
      message: 'The model is temporarily unavailable. Nothing was charged.',
      headers: { 'retry-after': '30' },
    },
  },
  PROVIDER_CONFIG_ERROR: {
    status: 503,
    error: 'Model unavailable',
    coded: true,
    retrySeconds: 30,
    advice: 'Choose another model, or come back later.',
    example: { message: 'The operator has to fix the access to this model. Nothing was charged.' },
  },
  BUSY: {
    status: 503,
    error: 'Busy',
    example: {
      message: 'Too many uploads are in progress. Nothing was charged; send the same request again.',
      headers: { 'retry-after': '2' },
    },
  },
  NOT_READY: {
    status: 503,
    error: 'Not ready',
    example: {
      message: 'The gateway has not yet been able to check its chain. Nothing was charged.',
      headers: { 'retry-after': '5' },
    },
  },
  MAINTENANCE: { status: 503, error: 'Maintenance', coded: true },
  UPSTREAM_TIMEOUT: {
    status: 504,
    error: 'The model timed out',
    chat: { code: 'TIMEOUT' },
    advice: 'Send it again with the same payment, or ask for less.',
    example: { message: 'The model did not answer in time. Nothing was charged.' },
  },
  PAYMENT_VERIFICATION_UNAVAILABLE: {
    status: 503,
    error: 'Payment verification unavailable',
    coded: true,
    example: {
      message: 'The payment could not be verified just now. Nothing was charged; send the same signed request again.',
      headers: { 'retry-after': '5' },
    },
  },
})

export type ApiErrorCode = keyof typeof table

export const apiErrorCodes = Object.keys(table) as readonly ApiErrorCode[]

/** The row of a code: its status, its text, and its chat form. */
export const rowOf = (code: ApiErrorCode): Row => table[code]

/**
 * `details` and `fields` are added to the body; `error` replaces the table's text; `headers` are added to the reply.
 */
type ApiErrorParts = {
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

const USUAL_RETRY_SECONDS = 5

/** Headers of every error. A 503 carries Retry-After (contract 3.25). */
export function errorHeaders({ code, parts }: ApiError, status: number): Record<string, string> {
  const retry = status === 503 && { 'retry-after': String(rowOf(code).retrySeconds ?? USUAL_RETRY_SECONDS) }
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
