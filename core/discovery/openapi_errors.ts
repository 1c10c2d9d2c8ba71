/** Documents the errors of each endpoint, with an example of each in its error format. */
import { errorReply, type ErrorFormat } from '../http/error_formats.ts'
import type { Endpoint, Price } from '../endpoint/mod.ts'
import { json, type Reply } from '../http/reply.ts'
import { ApiError, type ApiErrorCode, type ApiErrorParts, rateLimited, rowOf } from '../http/errors.ts'
import * as replies from '../endpoint/replies.ts'
import { namesIn } from '../endpoint/samples.ts'
import type { Bazaar } from '../x402/challenge.ts'
import type { Offer } from '../x402/protocol.ts'

const BODY: readonly ApiErrorCode[] = ['INVALID_JSON', 'INVALID_CONTENT_TYPE', 'INVALID_BODY', 'TOO_LARGE']
const PAYING: readonly ApiErrorCode[] = [
  'INVALID_PAYMENT_IDENTIFIER',
  'PAYMENT_IDENTIFIER_CONFLICT',
  'NOT_CONFIGURED',
  'NOT_READY',
  'PAYMENT_VERIFICATION_UNAVAILABLE',
  'INTERNAL',
]
const MODEL: readonly ApiErrorCode[] = ['INVALID_MODEL', 'CONTENT_POLICY', 'RATE_LIMITED']
const FILES: readonly ApiErrorCode[] = ['INVALID_FORM', 'INVALID_IMAGE', 'BUSY', 'UPSTREAM_TIMEOUT']
const FEED: readonly ApiErrorCode[] = ['INVALID_BODY', 'NOT_FOUND', 'FEED_UNAVAILABLE', 'NOT_CONFIGURED']
const CHAT: readonly ApiErrorCode[] = [
  'EMPTY_CONVERSATION',
  'INVALID_PARAMETER',
  'CONTEXT_LENGTH_EXCEEDED',
  'STREAM_UNSUPPORTED',
  'INVALID_IMAGE',
  'FREE_TIER_RATE_LIMITED',
  'MODEL_UNAVAILABLE',
  'PROVIDER_CONFIG_ERROR',
  'BUSY',
  'UPSTREAM_TIMEOUT',
]

/** Every error code that an endpoint may return, except those of a 402. */
export function errorsOf(endpoint: Endpoint): readonly ApiErrorCode[] {
  const own = endpoint.errors ?? []
  if (endpoint.kind === 'poll') return ['PAYER_MISMATCH', 'JOB_NOT_FOUND', 'INTERNAL', ...own]
  if (endpoint.kind === 'sold' && endpoint.delivery === 'stream')
    return [...BODY, ...PAYING, ...MODEL, ...CHAT, ...(endpoint.allowlists ? (['NOT_ALLOWED'] as const) : []), ...own]
  if (endpoint.kind === 'free') return freeErrors(endpoint, own)
  if (endpoint.errorFormat === 'market')
    return [...FEED, 'INVALID_JSON', 'INVALID_CONTENT_TYPE', 'TOO_LARGE', ...PAYING, ...own]
  const model = 'model' in endpoint.input.properties ? MODEL : (['RATE_LIMITED'] as const)
  return [
    ...BODY,
    ...('size' in endpoint.input.properties ? (['INVALID_SIZE'] as const) : []),
    ...model,
    ...(endpoint.multipart ? FILES : []),
    'WORK_FAILED',
    ...PAYING,
    ...own,
  ]
}

function freeErrors(
  { method, methods, input, errorFormat, limit, path, refusals }: Extract<Endpoint, { kind: 'free' }>,
  own: readonly ApiErrorCode[],
): readonly ApiErrorCode[] {
  const takesBody = method === 'POST' || methods?.includes('POST') === true
  if (refusals)
    return [
      ...(takesBody ? (['TOO_LARGE'] as const) : []),
      ...(limit ? (['TOO_MANY_REQUESTS'] as const) : []),
      'INTERNAL',
      ...own,
    ]
  return [
    ...(takesBody ? BODY : []),
    ...(errorFormat === 'market' ? FEED : []),
    ...(input ? (['INVALID_BODY'] as const) : []),
    ...(errorFormat === 'responses' ? (['INVALID_PARAMETER', 'JOB_NOT_FOUND'] as const) : []),
    ...(errorFormat === 'chat' && takesBody ? MODEL : []),
    ...(namesIn(path).length > 0 && errorFormat === undefined ? (['NOT_FOUND'] as const) : []),
    ...(limit ? (['TOO_MANY_REQUESTS'] as const) : []),
    'INTERNAL',
    ...own,
  ]
}

/** Example details of each error. Codes that are absent use their defaults. */
const EXAMPLE_PARTS: Readonly<Partial<Record<ApiErrorCode, ApiErrorParts>>> = {
  INVALID_JSON: { message: 'The request body is not valid JSON.' },
  INVALID_CONTENT_TYPE: { message: 'The content type must be application/json, got "text/plain".' },
  INVALID_FORM: { message: 'The request body is not a well-formed multipart form.' },
  INVALID_BODY: {
    message: 'n: Expected integer to be less or equal to 10; got 11',
    details: [{ path: 'n', message: 'Expected integer to be less or equal to 10; got 11' }],
  },
  INVALID_MODEL: {
    message: 'Unknown model: "nobody". Available models: vendor-a/image-1.',
    fields: { available_models: ['vendor-a/image-1'] },
  },
  INVALID_SIZE: {
    message: 'vendor-a/image-1 does not support the size "9x9". Valid sizes: 1024x1024.',
    fields: { valid_sizes: ['1024x1024'] },
  },
  CONTENT_POLICY: { details: 'The model refused the request for its content. Nothing was charged.' },
  INVALID_IMAGE: { details: 'The model cannot read this file.' },
  EMPTY_CONVERSATION: { message: 'messages must not be empty.', param: 'messages' },
  INVALID_PARAMETER: { message: 'temperature: must be at most 2.', param: 'temperature' },
  CONTEXT_LENGTH_EXCEEDED: {
    message:
      'The prompt is longer than the context window of the model: at least 128000 tokens, and the window has 128000.',
    param: 'messages',
  },
  STREAM_UNSUPPORTED: { message: 'This model does not stream.', param: 'stream' },
  INVALID_PAYMENT_IDENTIFIER: {
    message:
      'extensions.payment-identifier.info.id must be 16 to 128 characters of A-Z, a-z, 0-9, _ and -. Nothing was charged.',
  },
  NOT_ALLOWED: { message: 'The operator has not listed this wallet for this route. Nothing was charged.' },
  PAYER_MISMATCH: { message: 'Another wallet has submitted this job.' },
  JOB_NOT_FOUND: { message: 'There is no such job here: it never existed, or has expired.' },
  NOT_FOUND: { message: 'There is no such thing here.' },
  PASSED_ON: {
    message: 'The service 404: market not found (payment NOT charged).',
    fields: { status: 404, details: { error: 'market not found' } },
    status: 404,
  },
  UPSTREAM_FAILED: { message: 'The service did not answer in time. Payment was NOT charged.' },
  AUTHORIZATION_USED: {
    error: 'Authorization already used',
    message: 'The deposit authorization, or the payment, has served another request. Nothing was charged for this one.',
    fields: { code: 'PAYMENT_REPLAY' },
  },
  PAYMENT_IDENTIFIER_CONFLICT: {
    message:
      'extensions.payment-identifier.info.id was already used with another request. Nothing was charged; choose a new id.',
  },
  TOO_LARGE: { message: 'The request body may be at most 1048576 bytes.', fields: { max_bytes: 1_048_576 } },
  TOO_MANY_REQUESTS: {
    message: 'At most 60 requests in 1 minutes; retry after 2026-11-20T00:01:00.000Z.',
    headers: {
      'retry-after': '60',
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': '1795132860000',
    },
  },
  FREE_TIER_RATE_LIMITED: {
    message: 'Free tier limit reached: 30 requests per minute per IP address. Retry after 12 s, or use a paid model.',
    headers: {
      'retry-after': '60',
      'x-ratelimit-limit': '30',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': '1795132860',
    },
  },
  WORK_FAILED: {
    details: 'The model did not deliver a result. Nothing was charged, and the authorization is free again.',
  },
  INTERNAL: {
    details: 'Internal error. Send the same request again: an authorization is charged at most once.',
  },
  FEED_UNAVAILABLE: { message: 'The price feed did not answer. Nothing was charged; try again.' },
  NOT_CONFIGURED: { message: 'The operator has not configured this. Nothing was charged.' },
  MODEL_UNAVAILABLE: {
    message: 'The model is temporarily unavailable. Nothing was charged.',
    headers: { 'retry-after': '30' },
  },
  PROVIDER_CONFIG_ERROR: { message: 'The operator has to fix the access to this model. Nothing was charged.' },
  BUSY: {
    message: 'Too many uploads are in progress. Nothing was charged; send the same request again.',
    headers: { 'retry-after': '2' },
  },
  NOT_READY: {
    message: 'The gateway has not yet been able to check its chain. Nothing was charged.',
    headers: { 'retry-after': '5' },
  },
  UPSTREAM_TIMEOUT: { message: 'The model did not answer in time. Nothing was charged.' },
  PAYMENT_VERIFICATION_UNAVAILABLE: {
    message: 'The payment could not be verified just now. Nothing was charged; send the same signed request again.',
    headers: { 'retry-after': '5' },
  },
}

/** A documented error of an endpoint. */
export type DocumentedError = { readonly name: string; readonly summary: string; readonly reply: Reply }

/** All documented errors except those of a 402: by code, and endpoint-specific ones. */
export function refusalsOf(endpoint: Endpoint): readonly DocumentedError[] {
  const apiErrors = [...new Set(errorsOf(endpoint))]
    .sort()
    .map((code) => ({ name: code, summary: rowOf(code).error, reply: exampleOf(code, endpoint) }))
  return endpoint.kind === 'free' ? [...apiErrors, ...(endpoint.refusals ?? [])] : apiErrors
}

/** An example error in the endpoint's format. */
export function exampleOf(code: ApiErrorCode, endpoint: Endpoint): Reply {
  const errorFormat = endpoint.kind === 'poll' ? 'plain' : (endpoint.errorFormat ?? 'plain')
  if (code === 'RATE_LIMITED') return errorReply(rateLimited('vendor-a', 30), errorFormat)
  const named = code === 'WORK_FAILED' && endpoint.kind === 'sold' ? { error: endpoint.failure } : {}
  return errorReply(new ApiError(code, { ...EXAMPLE_PARTS[code], ...named }), errorFormat)
}

/** The description of a status. */
export function meaningOf(errors: readonly DocumentedError[]): string {
  return `${[...new Set(errors.map(({ summary }) => summary))].join('; ')}.`
}

// ── 402 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

export type ChallengeContext = {
  readonly offers: readonly Offer[]
  readonly label: string
  readonly errorFormat: ErrorFormat
}

/** The 402 body of an unpaid request. */
export function demandExample(
  { offers, label, errorFormat, bazaar }: ChallengeContext & { readonly bazaar: Bazaar },
  price: Price,
): unknown {
  return bodyOf(
    replies.demand(
      { offers, label, errorFormat, resource: { ...NO_RESOURCE, bazaar } },
      replies.paymentRequired(price),
      replies.publicPrice(price),
      price.also,
    ),
  )
}

const JOB = {
  job_id: 'd1b2f3a4c5e60718293a4b5c6d7e8f90',
  poll_url: '/api/v1/calls/d1b2f3a4c5e60718293a4b5c6d7e8f90',
  recoverable: true,
} as const

/** The 402 bodies of rejected payments, by code. */
export function rejectionExamples(
  { offers, label, errorFormat }: ChallengeContext,
  price: Price,
): Readonly<Record<string, unknown>> {
  const asking = { offers, label, errorFormat, resource: NO_RESOURCE }
  const rejected = (why: replies.Body) => bodyOf(replies.demand(asking, why, replies.publicPrice(price)))
  return {
    PAYMENT_INVALID: rejected(
      replies.verificationFailed('PAYMENT_INVALID', 'invalid_exact_evm_signature: it was not signed by the payer'),
    ),
    PAYMENT_UNFUNDED: rejected(
      replies.verificationFailed(
        'PAYMENT_UNFUNDED',
        'invalid_exact_evm_insufficient_balance: the payer has 0 base units',
      ),
    ),
    PAYMENT_REPLAY: rejected({
      ...replies.verificationFailed('PAYMENT_REPLAY', 'the payment authorization was already used'),
      ...JOB,
    }),
    settlement_failed: bodyOf(json(402, { ...replies.settlementFailed('the authorization has expired'), ...JOB })),
  }
}

/** The 402 body of a poll without a payment. */
export function collectExample(demanding: ChallengeContext, price: Price): unknown {
  return bodyOf(
    replies.demand(
      { ...demanding, resource: NO_RESOURCE },
      { ...replies.signToCollect, job_id: JOB.job_id },
      replies.publicPrice(price),
    ),
  )
}

/** The 402 body of what only a signed-in wallet may read. */
export const SIGN_IN_EXAMPLE = {
  x402Version: 2,
  accepts: [],
  error: 'Sign in',
  message: 'Sign the challenge with the wallet whose calls you want to see. It pays nothing.',
}

const NO_RESOURCE = { url: '', description: '', mimeType: '' }
const bodyOf = ({ body }: Reply): unknown => JSON.parse(body as string)
