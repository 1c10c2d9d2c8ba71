/** Errors and 402s in each error format: ours, and those of the vendors whose clients call us (contract 3.15). */
import type { Reply } from './reply.ts'
import { type ApiError, errorHeaders, plain, rowOf } from './errors.ts'
import { fieldsOf, type Json } from '../lib/json.ts'
import { withoutKeys } from '../x402/mod.ts'
import type { ChatFormat } from '../ports/vendors/chat.ts'

type Body = Readonly<Record<string, Json>>

/** An error as a reply in the error format of the route. It repeats no API key. */
export function errorReply(apiError: ApiError, errorFormat: ErrorFormat): Reply {
  const { status, headers, body } = writtenError(apiError, errorFormat)
  return { status, headers, body: withoutKeys(body) }
}

function writtenError(apiError: ApiError, errorFormat: ErrorFormat): ReturnType<typeof plain> {
  if (errorFormat === 'plain') return plain(apiError)
  if (errorFormat === 'market') return plain(apiError, { coded: false })
  const { status, code } = wording(apiError)
  const parts = { status, code, message: sentence(apiError), param: paramOf(apiError), ...apiError.parts }
  const body = envelopes[errorFormat]({ ...parts, message: sentence(apiError) })
  return { status, headers: errorHeaders(apiError, status), body: JSON.stringify(body) }
}

/** The fields by which a payer finds the call, in every format. */
const FINDS = ['job_id', 'poll_url', 'recoverable'] as const

/** The leading fields of a 402 in each error format; those of the challenge follow (contract 3.17, 7.1, 7.10). */
export function formatDemand(why: Body, errorFormat: ErrorFormat): Body {
  const { error, message, details } = why
  if (errorFormat === 'market') return without(why, 'code')
  const text = [error, message].filter((part) => typeof part === 'string').join(': ')
  const found = Object.fromEntries(
    FINDS.flatMap((name) => (why[name] === undefined ? [] : [[name, why[name] as Json]])),
  )
  if (errorFormat === 'messages') return { type: 'error', error: { type: 'payment_required', message: text }, ...found }
  if (errorFormat === 'responses')
    return { error: { message: text, type: 'payment_required', param: null, code: null }, ...found }
  if (errorFormat === 'generate_content')
    return { error: { code: 402, message: text, status: 'PAYMENT_REQUIRED' }, ...found }
  return typeof details === 'string' ? { ...why, debug: details } : why
}

function without(body: Body, name: string): Body {
  return Object.fromEntries(Object.entries(body).filter(([key]) => key !== name))
}

/** The headers of a request, and the error format of its route. */
type Reader = { readonly headers: { get(name: string): string | null }; readonly errorFormat: ErrorFormat }

/**
 * Whether the caller is an SDK of vendor-a or vendor-g, or sends chat with a field for a key. Such programs show
 * `error.message`, and nothing of an error that is a string.
 */
const readsErrorObject = ({ headers, errorFormat }: Reader): boolean =>
  headers.get('x-stainless-lang') !== null ||
  (errorFormat === 'chat' && /^bearer /i.test(headers.get('authorization') ?? ''))

/** The same error with its sentence in `error.message`, for programs that show nothing else (contract 3.26). */
export function withErrorObject(reply: Reply, reader: Reader): Reply {
  if (reply.status < 400 || typeof reply.body !== 'string' || !readsErrorObject(reader)) return reply
  const body = fieldsOf(parsedJson(reply.body))
  const { error, message, details, code } = body
  if (typeof error !== 'string') return reply
  const why = message ?? (typeof details === 'string' ? details : undefined)
  const text = [error, why].filter((part) => typeof part === 'string').join(': ')
  const type = reply.status === 402 ? 'payment_required' : typeOf(reply.status)
  const inner = { message: text, type, param: null, code: code ?? null }
  return { ...reply, body: JSON.stringify({ ...body, error: inner, ...(message === undefined && { message: text }) }) }
}

function parsedJson(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    return null
  }
}

/**
 * An error inside a stream that has begun: one last event in its chat format. `sequence` is its number, in formats that
 * number events.
 */
export function errorEvent(apiError: ApiError, errorFormat: ErrorFormat, sequence = 0): string {
  const { status, code } = wording(apiError)
  const body = envelopes[errorFormat === 'plain' || errorFormat === 'market' ? 'chat' : errorFormat]({
    status,
    code,
    message: sentence(apiError),
    param: paramOf(apiError),
  })
  if (errorFormat === 'messages') return `event: error\ndata: ${JSON.stringify(body)}\n\n`
  if (errorFormat !== 'responses') return `data: ${JSON.stringify(body)}\n\n`
  const param = paramOf(apiError)
  const event = { type: 'error', code, message: sentence(apiError), param, sequence_number: sequence }
  return `event: error\ndata: ${JSON.stringify(event)}\n\n`
}

type ErrorParts = {
  readonly status: number
  readonly code: string | null
  readonly message: string
  readonly param: string | null
  readonly details?: Json
  readonly fields?: Body
}

const envelopes: Readonly<Record<Exclude<ErrorFormat, 'plain' | 'market'>, (parts: ErrorParts) => Body>> = {
  chat: ({ status, code, message, param, details, fields }) => ({
    error: { message, type: typeOf(status), code, param },
    message,
    ...(code !== null && { code }),
    ...fields,
    ...(details !== undefined && { details }),
  }),
  messages: ({ status, message }) => ({ type: 'error', error: { type: ANTHROPIC[status] ?? typeOf(status), message } }),
  responses: ({ status, code, message, param }) => ({
    error: { message, type: typeOf(status), param, code: code?.toLowerCase() ?? null },
  }),
  generate_content: ({ status, message }) => ({
    error: { code: status, message, status: GOOGLE[status] ?? 'INTERNAL' },
  }),
}

function wording({ code }: ApiError): { status: number; code: string | null } {
  const { status, chat } = rowOf(code)
  return { status: chat?.status ?? status, code: chat?.code === undefined ? code : chat.code }
}

function sentence({ code, parts: { message, details, error } }: ApiError): string {
  return message ?? (typeof details === 'string' ? details : undefined) ?? error ?? rowOf(code).error
}

function paramOf({ parts: { param, details } }: ApiError): string | null {
  if (param !== undefined) return param
  const [first] = Array.isArray(details) ? details : []
  const path = (first as { path?: unknown } | undefined)?.path
  return typeof path === 'string' && path !== '' ? path : null
}

function typeOf(status: number): string {
  if (status === 429) return 'rate_limit_error'
  if (status === 402) return 'insufficient_quota'
  if (status === 403) return 'permission_error'
  if (status === 404) return 'not_found_error'
  if (status === 504) return 'timeout_error'
  return status < 500 ? 'invalid_request_error' : 'api_error'
}

/** Names of @anthropic-ai/sdk 1.10 where they differ. */
const ANTHROPIC: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  413: 'request_too_large',
  503: 'overloaded_error',
}
/** google.rpc.Code by HTTP status (google/rpc/code.proto). */
const GOOGLE: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

/**
 * The shape of an error body. `market` is plain without codes (contract 3.19); the chat formats word errors as their
 * vendors do.
 */
export type ErrorFormat = 'plain' | 'market' | ChatFormat
