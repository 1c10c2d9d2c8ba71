import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler, type ValueError } from '@sinclair/typebox/compiler'
import { fromBase64, toBase64 } from '../lib/base64.ts'
import type { Json } from '../lib/json.ts'
import { quoted } from '../lib/text.ts'

/** The protocol version that Farebox speaks. */
export const VERSION = 2

/**
 * Every header that may carry a payment; both carry the same v2 payload (contract 1.2).
 *
 * @example
 * const isPaying = PAYMENT_HEADERS.some((name) => request.headers.has(name))
 */
export const PAYMENT_HEADERS = ['payment-signature', 'x-payment'] as const

/**
 * Response headers that a browser must be allowed to read.
 *
 * @example
 * const header = { 'access-control-expose-headers': EXPOSED_HEADERS.join(', ') }
 */
export const EXPOSED_HEADERS = [
  'PAYMENT-REQUIRED',
  'PAYMENT-RESPONSE',
  'X-Payment-Required',
  'X-Payment-Receipt',
  'X-Payment-Settled',
  'X-Payment-Quoted',
  'X-Payment-Charged',
  'X-Payment-Balance',
  'X-Payment-Settle-Error-Class',
  'WWW-Authenticate',
  'Payment-Receipt',
  'X-Request-Id',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'X-RateLimit-Source',
  'X-Affiliate',
  'X-Free-Model',
  'X-Fallback-Used',
  'X-Original-Model',
  'X-Fallback-Model',
  'X-Max-Tokens-Capped',
  'X-Max-Tokens-Requested',
  'X-Max-Tokens-Effective',
  'X-Context-Truncated',
  'X-Messages-Removed',
  'X-Payment-Status',
  'X-Deposit-Tx',
  'Retry-After',
] as const

/** One way to pay: PaymentRequirements of the x402 v2 specification. `amount` is in base units of `asset`. */
export const Offer = Type.Object({
  scheme: Type.String(),
  network: Type.String(),
  amount: Type.String(),
  asset: Type.String(),
  payTo: Type.String(),
  maxTimeoutSeconds: Type.Number(),
  extra: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
})
export type Offer = Static<typeof Offer>

/** PaymentPayload of the x402 v2 specification. `payload` is the scheme's own; unknown extensions are tolerated. */
export const Payment = Type.Object({
  x402Version: Type.Literal(VERSION),
  accepted: Offer,
  payload: Type.Record(Type.String(), Type.Unknown()),
  resource: Type.Optional(Type.Unknown()),
  extensions: Type.Optional(Type.Unknown()),
})
export type Payment = Static<typeof Payment>

/** The extension by which a buyer names a purchase, to repeat it safely (reference 6.3). */
export const IDENTIFIER = 'payment-identifier'
export const Identifier = Type.String({ minLength: 16, maxLength: 128, pattern: '^[a-zA-Z0-9_-]+$' })

/**
 * Proof that money moved: the SettleResponse of the specification, as far as we store it. `block` is the block or slot
 * of the transaction, where known; it is stored and not sent to clients. `amount` is what was charged: at most the
 * offer's.
 */
export type Receipt = {
  transaction: string
  network: string
  payer: string
  amount: string
  block?: number
  /** Fields that the scheme adds for its clients. */
  extra?: Readonly<Record<string, Json>>
}

const isPayment = TypeCompiler.Compile(Payment)

/** Standard base64 with padding over UTF-8 JSON, the form of every x402 header (decision 46). */
export function encodeHeader(value: unknown): string {
  return encodeText(JSON.stringify(value))
}

export const encodeText = (text: string): string =>
  isAscii(text) ? btoa(text) : toBase64(new TextEncoder().encode(text))

/**
 * HTTP servers accept headers of about 16 KiB. A longer one can only come through an embedding program, and is not
 * decoded.
 */
const MAX_HEADER = 32_768

export type Decoded = { ok: true; payment: Payment } | { ok: false; reason: string }

/** Decodes a payment header; lenient about the base64 alphabet, strict about the v2 shape. Never throws. */
export function decodePayment(header: string): Decoded {
  if (header.length > MAX_HEADER)
    return { ok: false, reason: `the payment header is longer than ${MAX_HEADER} characters` }
  const text = textOf(header)
  if (text === undefined) return { ok: false, reason: 'the payment header is not base64' }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { ok: false, reason: 'the payment header is not base64 of JSON' }
  }
  if (isPayment.Check(value)) return { ok: true, payment: value }
  return { ok: false, reason: shapeProblem(value) }
}

function shapeProblem(value: unknown): string {
  const version = (value as { x402Version?: unknown } | null)?.x402Version
  if (version !== VERSION) return `x402Version must be 2, got ${ascii(quoted(version))}`
  const first = isPayment.Errors(value).First()
  return `the payment payload is malformed at ${first?.path || '/'}: ${first ? wrongField(first) : 'unknown shape'}`
}

/** The value that came, and what is expected: the schema's description where it has one. */
export function wrongField({ value, schema, message }: Pick<ValueError, 'value' | 'schema' | 'message'>): string {
  const allowed = schema.description ? `expected ${schema.description}` : message
  return `${allowed}; ${value === undefined ? 'it is missing' : `got ${ascii(quoted(value))}`}`
}

/** Hints that help a client for seconds only (decision 65); documents that are written once leave them out. */
const HINTS: ReadonlySet<string> = new Set(['recentBlockhash', 'lastValidBlockHeight'])

export const hasHint = ({ extra = {} }: Pick<Offer, 'extra'>): boolean =>
  Object.keys(extra).some((name) => HINTS.has(name))

export function withoutHint<T extends Pick<Offer, 'extra'>>(offer: T): T {
  const { extra } = offer
  return extra
    ? { ...offer, extra: Object.fromEntries(Object.entries(extra).filter(([name]) => !HINTS.has(name))) }
    : offer
}

/** Receipt headers of a settled reply. */
export function receiptHeaders({ block: _, ...receipt }: Receipt): Record<string, string> {
  return {
    'payment-response': encodeHeader({ success: true, ...receipt }),
    'x-payment-receipt': receipt.transaction,
  }
}

/** Maximum length of a reason in a header; the body has the full text. */
const MAX_REASON = 96

/** The PAYMENT-RESPONSE header of a failed settlement. */
export function refusalHeaders(refusal: {
  readonly reason: string
  readonly network: string
  readonly payer: string
  readonly extra?: Readonly<Record<string, unknown>> | undefined
}): Record<string, string> {
  const { network, payer, extra } = refusal
  const reason = refusal.reason.length > MAX_REASON ? `${refusal.reason.slice(0, MAX_REASON)}...` : refusal.reason
  const failed = { success: false, errorReason: reason, transaction: '', network, payer, ...(extra && { extra }) }
  return { 'payment-response': encodeHeader(failed) }
}

export const isAscii = (text: string): boolean => /^[\x20-\x7e]*$/.test(text)

/** Decodes UTF-8 from base64 in either alphabet; undefined for anything else. */
function textOf(base64: string): string | undefined {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(base64)) return undefined
  try {
    const bytes = fromBase64(base64.replaceAll('-', '+').replaceAll('_', '/'))
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** The JSON object in base64 of either alphabet; undefined for anything else. */
export function decodeObject(base64: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(textOf(base64) ?? '')
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

/** Public clients call `btoa` on the content of a 402 (contract 1.10), which only accepts Latin-1. */
export function ascii(text: string): string {
  return text.replace(/[^ -~]/g, '?')
}
