/**
 * Parts of the OpenAPI document that operations share: protocol headers, envelopes, error schemas, and repeated
 * replies.
 */
import type { ErrorFormat } from '../http/error_formats.ts'

type Fields = Readonly<Record<string, unknown>>

const text = { type: 'string' }
const model = { type: ['string', 'null'], description: 'Null where the product has no models.' }

const object = (properties: Record<string, unknown>, required: readonly string[] = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
})
const priced = object({
  amount: { type: 'string', description: 'US dollars, margin and fee included.' },
  currency: { const: 'USD' },
})
const offer = object({
  scheme: text,
  network: text,
  amount: text,
  asset: text,
  payTo: text,
  maxTimeoutSeconds: { type: 'integer' },
  extra: { type: 'object' },
})

export const paymentParameter = {
  name: 'PAYMENT-SIGNATURE',
  in: 'header',
  required: false,
  description:
    'Base64 of an x402 v2 PaymentPayload. `X-Payment` is accepted as well, with the same payload. Without it the answer is a 402 with the quote.',
  schema: text,
}

const challengeHeader = { description: 'Base64 of the x402 v2 PaymentRequired object.', schema: text }
export const challengeHeaders = {
  'PAYMENT-REQUIRED': challengeHeader,
  'X-Payment-Required': challengeHeader,
  'WWW-Authenticate': challengeHeader,
}

export const receiptHeaders = {
  'PAYMENT-RESPONSE': {
    description: 'Base64 of {success, transaction, network, payer, amount}; absent where nothing was paid.',
    schema: text,
  },
  'X-Payment-Receipt': { description: 'The transaction that settled it.', schema: text },
}

const whole = { type: 'integer' }
export const windowHeaders = {
  'Retry-After': { description: 'Seconds to wait.', schema: whole, example: 60 },
  'X-RateLimit-Limit': { description: 'Requests in one window.', schema: whole, example: 60 },
  'X-RateLimit-Remaining': { description: 'Requests left in this one.', schema: whole, example: 0 },
  'X-RateLimit-Reset': {
    description: 'When the next window begins: unix milliseconds, on the free tier of chat unix seconds.',
    schema: whole,
    example: 1_795_132_860_000,
  },
  'X-RateLimit-Source': {
    description: 'The maker of the model that is at capacity.',
    schema: text,
    example: 'vendor-a',
  },
}

/** Whether a content type is text that is not JSON. */
export const isText = (type: string | undefined): boolean => type?.startsWith('text/') === true

const SHAPES = {
  plain: 'Error',
  market: 'Error',
  chat: 'ChatError',
  messages: 'MessagesError',
  responses: 'ResponsesError',
  generate_content: 'GenerateContentError',
} as const

export const errorSchemaOf = (errorFormat: ErrorFormat): keyof typeof schemas => SHAPES[errorFormat]

export const schemas = {
  Error: object({ error: text, message: text, code: text, details: {} }, ['error']),
  ChatError: object(
    {
      error: object({
        message: text,
        type: text,
        code: { type: ['string', 'null'] },
        param: { type: ['string', 'null'] },
      }),
      message: text,
      code: text,
    },
    ['error', 'message'],
  ),
  MessagesError: object({ type: { const: 'error' }, error: object({ type: text, message: text }) }),
  ResponsesError: object({
    error: object({
      message: text,
      type: text,
      param: { type: ['string', 'null'] },
      code: { type: ['string', 'null'] },
    }),
  }),
  GenerateContentError: object({ error: object({ code: whole, message: text, status: text }) }),
  PaymentRequired: object(
    {
      x402Version: { const: 2 },
      accepts: { type: 'array', items: offer },
      error: { type: ['string', 'object'] },
      message: text,
      code: text,
      price: priced,
      job_id: text,
      poll_url: text,
      recoverable: { type: 'boolean' },
      help: object({ header: text, docs: text, llms: text }, ['header']),
    },
    ['error'],
  ),
  Envelope: object(
    {
      id: text,
      object: text,
      status: { enum: ['queued', 'in_progress'] },
      model: text,
      price: priced,
      payment_status: { const: 'verified' },
      created: whole,
      poll_url: text,
      poll_instructions: text,
    },
    ['id', 'object', 'status', 'price', 'payment_status', 'created', 'poll_url', 'poll_instructions'],
  ),
  Running: object({
    id: text,
    object: text,
    status: { enum: ['queued', 'in_progress'] },
    model,
    payment_status: { const: 'verified' },
    note: text,
  }),
  Failed: object({
    id: text,
    object: text,
    status: { const: 'failed' },
    model,
    error: text,
    payment_status: { const: 'not_charged' },
    note: text,
  }),
  Result: object(
    {
      id: text,
      created: whole,
      data: { type: 'array', items: { type: 'object' } },
      price: priced,
      payment: object({ status: { enum: ['settled', 'already_settled', 'unresolved'] }, tx_hash: text, network: text }),
    },
    ['id', 'price', 'payment'],
  ),
}

export type Components = ReturnType<typeof components>

/** Collects repeated parts under names and returns references to them. */
export function components() {
  const responses = new Map<string, { readonly name: string; readonly value: unknown }>()
  const examples = new Map<string, unknown>()
  const nameCounts = new Map<string, number>()
  return {
    response(name: string, value: unknown): Fields {
      const text = JSON.stringify(value)
      const known = responses.get(text)
      const count = known ? 0 : (nameCounts.get(name) ?? 0) + 1
      const used = known ?? { name: count === 1 ? name : `${name}_${count}`, value }
      if (!known) nameCounts.set(name, count)
      responses.set(text, used)
      return { $ref: `#/components/responses/${used.name}` }
    },
    example(name: string, value: unknown): Fields {
      examples.set(name, { value })
      return { $ref: `#/components/examples/${name}` }
    },
    all: (): Readonly<Record<string, Fields>> => ({
      responses: Object.fromEntries([...responses.values()].map(({ name, value }) => [name, value])),
      examples: Object.fromEntries(examples),
    }),
  }
}

/** The components that are referenced. */
export function componentsIn(paths: unknown, parts: Components): Fields {
  const all: Readonly<Record<string, Fields>> = {
    schemas,
    parameters: { payment: paymentParameter },
    headers: challengeHeaders,
    ...parts.all(),
  }
  const text = JSON.stringify([paths, all])
  const isUsed = (kind: string, name: string) => text.includes(`"#/components/${kind}/${name}"`)
  const used = Object.entries(all).map(
    ([kind, members]) =>
      [kind, Object.fromEntries(Object.entries(members).filter(([name]) => isUsed(kind, name)))] as const,
  )
  return Object.fromEntries(used.filter(([, members]) => Object.keys(members).length > 0))
}
