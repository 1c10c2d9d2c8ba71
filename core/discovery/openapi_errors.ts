/** Documents the errors of each endpoint, with an example of each in its error format. */
import { errorReply, type ErrorFormat } from '../http/error_formats.ts'
import type { Endpoint, Price } from '../endpoint/mod.ts'
import { json, type Reply } from '../http/reply.ts'
import { ApiError, type ApiErrorCode, rateLimited, rowOf } from '../http/errors.ts'
import type { Charging } from '../endpoint/charging.ts'
import * as demands from '../endpoint/demands.ts'
import * as replies from '../endpoint/replies.ts'
import { namesIn } from '../endpoint/samples.ts'
import type { Bazaar } from '../x402/challenge.ts'
import type { Offer } from '../x402/protocol.ts'

const BODY: readonly ApiErrorCode[] = ['INVALID_JSON', 'INVALID_CONTENT_TYPE', 'INVALID_BODY', 'TOO_LARGE']
const PAYING: readonly ApiErrorCode[] = [
  'INVALID_PAYMENT_IDENTIFIER',
  'PAYMENT_IDENTIFIER_CONFLICT',
  'CALL_IN_PROGRESS',
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
function errorsOf(endpoint: Endpoint): readonly ApiErrorCode[] {
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

/** A documented error of an endpoint. */
type DocumentedError = { readonly name: string; readonly summary: string; readonly reply: Reply }

/** All documented errors except those of a 402: by code, and endpoint-specific ones. */
export function refusalsOf(endpoint: Endpoint): readonly DocumentedError[] {
  const apiErrors = [...new Set(errorsOf(endpoint))]
    .sort()
    .map((code) => ({ name: code, summary: rowOf(code).error, reply: exampleOf(code, endpoint) }))
  return endpoint.kind === 'free' ? [...apiErrors, ...(endpoint.refusals ?? [])] : apiErrors
}

/** An example error in the endpoint's format. */
function exampleOf(code: ApiErrorCode, endpoint: Endpoint): Reply {
  const errorFormat = endpoint.kind === 'poll' ? 'plain' : (endpoint.errorFormat ?? 'plain')
  if (code === 'RATE_LIMITED') return errorReply(rateLimited('vendor-a', 30), errorFormat)
  const named = code === 'WORK_FAILED' && endpoint.kind === 'sold' ? { error: endpoint.failure } : {}
  return errorReply(new ApiError(code, { ...rowOf(code).example, ...named }), errorFormat)
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
  readonly help: demands.Body
  /** How its 402s speak of MPP. */
  readonly charging: Charging
}

/** The 402 body of an unpaid request. */
export function demandExample(
  { bazaar, ...demanding }: ChallengeContext & { readonly bazaar: Bazaar },
  price: Price,
): unknown {
  return bodyOf(
    demands.demand(
      { ...demanding, resource: { ...NO_RESOURCE, bazaar } },
      demands.paymentRequired(price),
      demands.publicPrice(price),
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
export function rejectionExamples(demanding: ChallengeContext, price: Price): Readonly<Record<string, unknown>> {
  const asking = { ...demanding, resource: NO_RESOURCE, problem: 'verification-failed' as const }
  const rejected = (why: demands.Body) => bodyOf(demands.demand(asking, why, demands.publicPrice(price)))
  return {
    PAYMENT_INVALID: rejected(
      demands.verificationFailed('PAYMENT_INVALID', 'invalid_exact_evm_signature: it was not signed by the payer'),
    ),
    PAYMENT_UNFUNDED: rejected(
      demands.verificationFailed(
        'PAYMENT_UNFUNDED',
        'invalid_exact_evm_insufficient_balance: the payer has 0 base units',
      ),
    ),
    PAYMENT_REPLAY: rejected({
      ...demands.verificationFailed('PAYMENT_REPLAY', 'the payment authorization was already used'),
      ...JOB,
    }),
    settlement_failed: bodyOf(json(402, { ...replies.settlementFailed('the authorization has expired'), ...JOB })),
  }
}

/** The 402 body of a poll without a payment. */
export function collectExample(demanding: ChallengeContext, price: Price): unknown {
  return bodyOf(
    demands.demand(
      { ...demanding, resource: NO_RESOURCE },
      { ...demands.signToCollect, job_id: JOB.job_id },
      demands.publicPrice(price),
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
