/** Errors in the format of the program that asked, with the sentence that helps where the program shows it. */
import { fieldsOf } from '../../core/lib/mod.ts'
import { printable } from './payees.ts'

type Format = 'openai' | 'anthropic' | 'google'

/** The API that a path belongs to. */
export function formatOf(path: string): Format {
  if (/\/v1beta\//.test(path)) return 'google'
  return /\/messages(\/|$)/.test(path) ? 'anthropic' : 'openai'
}

/** Types of errors by status: OpenAI's, Anthropic's and Google's. */
const TYPES: Readonly<Record<number, readonly [string, string, string]>> = {
  400: ['invalid_request_error', 'invalid_request_error', 'INVALID_ARGUMENT'],
  401: ['invalid_api_key', 'authentication_error', 'UNAUTHENTICATED'],
  402: ['insufficient_quota', 'billing_error', 'FAILED_PRECONDITION'],
  403: ['permission_denied', 'permission_error', 'PERMISSION_DENIED'],
  413: ['invalid_request_error', 'request_too_large', 'INVALID_ARGUMENT'],
}
const FAILED = ['server_error', 'api_error', 'UNAVAILABLE'] as const

/** No error of the proxy is worth a retry: nothing changes by itself. */
export function errorReply(format: Format, { status, message }: { readonly status: number; readonly message: string }) {
  const [openai, anthropic, google] = TYPES[status] ?? FAILED
  const bodies = {
    openai: { error: { message, type: openai, param: null, code: openai } },
    anthropic: { type: 'error', error: { type: anthropic, message } },
    google: { error: { code: status, message, status: google } },
  }
  return Response.json(bodies[format], { status, headers: { 'x-should-retry': 'false', 'cache-control': 'no-store' } })
}

/** An answer of the proxy itself, in the format of the program that asked. */
export class Refused extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Why a seller refused, as a sentence, in whatever format its body is. */
export function reasonIn(body: string | undefined): string {
  try {
    const { error, message } = fieldsOf(JSON.parse(body ?? ''))
    const text = fieldsOf(error).message ?? message ?? error
    return typeof text === 'string' ? `${printable(text).replace(/\.$/, '')}.` : 'The seller gives no reason.'
  } catch {
    return 'The seller gives no reason.'
  }
}
