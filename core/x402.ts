import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { quoted } from './intake.ts'

/** The protocol version that Farebox speaks. */
export const VERSION = 2

/** Every header by which a payment may arrive; both carry the same v2 payload (house decision 2). */
export const PAYMENT_HEADERS = ['payment-signature', 'x-payment'] as const

/** Response headers that a browser must be allowed to read. */
export const EXPOSED_HEADERS = [
  'PAYMENT-REQUIRED',
  'PAYMENT-RESPONSE',
  'X-Payment-Required',
  'X-Payment-Receipt',
  'X-Payment-Settled',
  'X-Payment-Settle-Error-Class',
  'WWW-Authenticate',
  'X-Request-Id',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'X-RateLimit-Source',
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

/** Proof that money moved: the SettleResponse of the specification, as far as it is ours to keep. */
export type Receipt = { transaction: string; network: string; payer: string; amount: string }

export type Resource = { url: string; description: string; mimeType: string }

const isPayment = TypeCompiler.Compile(Payment)

/** Standard base64 with padding over UTF-8 JSON, the form of every x402 header (reference x402 1.1). */
export function encodeHeader(value: unknown): string {
  return toBase64(JSON.stringify(value))
}

/** HTTP servers let about 16 KiB through; a longer header comes from a program that embeds core, and is not worth reading. */
const MAX_HEADER = 32_768

export type Decoded = { ok: true; payment: Payment } | { ok: false; reason: string }

/** Reads a payment header; liberal about the base64 alphabet, strict about the v2 shape. Never throws. */
export function decodePayment(header: string): Decoded {
  if (header.length > MAX_HEADER) return { ok: false, reason: `the payment header is longer than ${MAX_HEADER} characters` }
  const text = fromBase64(header)
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
  return `the payment payload is malformed at ${first?.path || '/'}: ${first?.message ?? 'unknown shape'}`
}

/** The three equal challenge headers and the mirrored body of a 402 (spec 1, Authentication 3). */
export function challenge(offers: readonly Offer[], resource: Resource, body: Record<string, unknown>): Challenge {
  const error = typeof body.error === 'string' ? body.error : 'Payment Required'
  const required = encodeHeader({ x402Version: VERSION, error, resource, accepts: offers })
  return {
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-store, no-cache, must-revalidate, max-age=0',
      'payment-required': required,
      'x-payment-required': required,
      'www-authenticate': `X402 requirements=${required}`,
    },
    body: JSON.stringify({ x402Version: VERSION, accepts: offers, ...body }),
  }
}
export type Challenge = { headers: Record<string, string>; body: string }

/** Receipt headers of a settled reply. */
export function receiptHeaders(receipt: Receipt): Record<string, string> {
  return {
    'payment-response': encodeHeader({ success: true, ...receipt }),
    'x-payment-receipt': receipt.transaction,
  }
}

/** The PAYMENT-RESPONSE of a settlement that did not happen. */
export function refusalHeaders(refusal: { reason: string; network: string; payer: string }): Record<string, string> {
  const { reason, network, payer } = refusal
  return { 'payment-response': encodeHeader({ success: false, errorReason: reason, transaction: '', network, payer }) }
}

function toBase64(text: string): string {
  const bytes = new TextEncoder().encode(text)
  if (bytes.length === text.length) return btoa(text)
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary)
}

function fromBase64(text: string): string | undefined {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) return undefined
  try {
    const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0))
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Public clients run `btoa` over what a 402 says (reference clients 2): no caller's character may break that. */
export function ascii(text: string): string {
  return text.replace(/[^ -~]/g, '?')
}
