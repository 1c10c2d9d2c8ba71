import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { fromBase64, toBase64 } from './base64.ts'
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

/** The extension by which a buyer names a purchase, to be safe to repeat it (reference 6.3). */
export const IDENTIFIER = 'payment-identifier'
export const Identifier = Type.String({ minLength: 16, maxLength: 128, pattern: '^[a-zA-Z0-9_-]+$' })

/** What every challenge declares, as the first members of a JSON object. Official clients echo it, with or without an id. */
const DECLARED = JSON.stringify({
  [IDENTIFIER]: {
    info: { required: false },
    schema: Type.Object({ required: Type.Boolean(), id: Type.Optional(Identifier) }, { $schema: 'https://json-schema.org/draft/2020-12/schema' }),
  },
}).slice(1, -1)

/** Proof that money moved: the SettleResponse of the specification, as far as it is ours to keep. */
export type Receipt = { transaction: string; network: string; payer: string; amount: string }

/** `bazaar`, already JSON, is told as the extension of that name where there is room (reference 6.1), and is no part of the resource. */
export type Resource = { url: string; description: string; mimeType: string; bazaar?: string | undefined }

const isPayment = TypeCompiler.Compile(Payment)

/** Standard base64 with padding over UTF-8 JSON, the form of every x402 header (reference x402 1.1). */
export function encodeHeader(value: unknown): string {
  return encodeText(JSON.stringify(value))
}

const encodeText = (text: string): string => (isAscii(text) ? btoa(text) : toBase64(new TextEncoder().encode(text)))

/** HTTP servers let about 16 KiB through; a longer header comes from a program that embeds core, and is not worth reading. */
const MAX_HEADER = 32_768

export type Decoded = { ok: true; payment: Payment } | { ok: false; reason: string }

/** Reads a payment header; liberal about the base64 alphabet, strict about the v2 shape. Never throws. */
export function decodePayment(header: string): Decoded {
  if (header.length > MAX_HEADER) return { ok: false, reason: `the payment header is longer than ${MAX_HEADER} characters` }
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
  return `the payment payload is malformed at ${first?.path || '/'}: ${first?.message ?? 'unknown shape'}`
}

/** Bytes of three headers, each 4/3 of its JSON, and of the body: what proxies let through (reference x402 1.1), less what encloses the parts. */
const MOST_CHALLENGE = 6_144 - 64

/** The three equal challenge headers and the mirrored body of a 402 (spec 1, Authentication 3). */
export function challenge(offers: readonly Offer[], { bazaar, ...resource }: Resource, body: Record<string, unknown>): Challenge {
  const error = typeof body.error === 'string' ? body.error : 'Payment Required'
  // The hottest path of all: what stands in header and body is written out once, what never changes never.
  const accepts = JSON.stringify(offers)
  const written = `{"x402Version":${VERSION},"accepts":${accepts},${JSON.stringify(body).slice(1)}`
  const told = `{"x402Version":${VERSION},"error":${JSON.stringify(error)},"resource":${JSON.stringify(resource)},"accepts":${accepts},"extensions":{${DECLARED}`
  // A catalog for those who only look is no part of what a client carries back.
  const carried = body.catalog === undefined ? written.length : written.length - JSON.stringify(body.catalog).length
  const isRoom = bazaar !== undefined && 4 * (told.length + bazaar.length) + carried < MOST_CHALLENGE
  const required = encodeText(isRoom ? `${told},"bazaar":${bazaar}}}` : `${told}}}`)
  return {
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-store, no-cache, must-revalidate, max-age=0',
      'payment-required': required,
      'x-payment-required': required,
      'www-authenticate': `X402 requirements=${required}`,
    },
    body: written,
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

const isAscii = (text: string): boolean => /^[\x20-\x7e]*$/.test(text)

/** UTF-8 behind base64, in either alphabet; undefined for anything else. */
function textOf(base64: string): string | undefined {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(base64)) return undefined
  try {
    const bytes = fromBase64(base64.replaceAll('-', '+').replaceAll('_', '/'))
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Public clients run `btoa` over what a 402 says (reference clients 2): no caller's character may break that. */
export function ascii(text: string): string {
  return text.replace(/[^ -~]/g, '?')
}
