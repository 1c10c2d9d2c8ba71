/** The menu as documents: OpenAPI 3.1 and /.well-known/x402. Prices come from the code that quotes them. */
import type { Endpoint, Free, Live, Offering, Paid, Poll, Sold } from './endpoint.ts'
import { isSold } from './menu.ts'
import { print } from './money.ts'
import type { Terms } from './ports.ts'

/** Facts of one gateway that its documents speak of. */
export type Described = {
  readonly label: string
  readonly version: string
  readonly terms: readonly Terms[]
  readonly offering: Offering
}

const DESCRIPTION =
  'Sells AI by the call. A request without payment is answered 402 with an exact quote; sign a USDC authorization (x402 version 2) and send the request again with a payment header. Money moves only when there is a result.'

/** OpenAPI 3.1: every endpoint, field and price. */
export function openapi(endpoints: readonly Endpoint[], origin: string, facts: Described): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const endpoint of shown(endpoints)) {
    const path = template(endpoint)
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint, facts) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Farebox', version: facts.version, description: DESCRIPTION, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: origin }],
    tags: [...new Set(shown(endpoints).map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: { schemas: schemas, parameters: { payment: paymentParameter }, headers: challengeHeaders },
  }
}

/** The x402 v2 metadata and the v1 list of resource URLs, in one document (reference x402 6.1, clients 6.15). */
export function wellKnown(endpoints: readonly Endpoint[], origin: string, { label, version, terms, offering }: Described): Record<string, unknown> {
  const sold = endpoints.filter(isSold)
  return {
    x402Version: 2,
    version: 1,
    name: 'Farebox',
    description: DESCRIPTION,
    serviceVersion: version,
    resources: sold.map((endpoint) => origin + template(endpoint)),
    resource: { url: origin, description: DESCRIPTION, mimeType: 'application/json' },
    services: sold.map((endpoint) => ({
      name: endpoint.name,
      endpoint: origin + template(endpoint),
      method: endpoint.method,
      description: endpoint.summary,
      pricing: priceRange(endpoint, offering),
      payment: terms.map(({ scheme, network, asset, payTo, extra }) => ({ scheme, network, networkName: label, asset, payTo, extra })),
    })),
  }
}

/** A path as URI templates have it; `{rest...}` is our own. */
const template = ({ path }: Endpoint): string => path.replaceAll('...}', '}')

function shown(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  return endpoints.filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden)
}

function operation(endpoint: Endpoint, facts: Described): Record<string, unknown> {
  const { name, summary, description, tag } = endpoint
  const common = { operationId: name, summary, ...(description && { description }), tags: [tag] }
  if (endpoint.kind === 'paid') return { ...common, ...paidOperation(endpoint, facts) }
  if (endpoint.kind === 'live') return { ...common, ...liveOperation(endpoint, facts) }
  if (endpoint.kind === 'poll') return { ...common, ...pollOperation(endpoint) }
  return { ...common, ...freeOperation(endpoint) }
}

function paidOperation(endpoint: Paid, { offering }: Described): Record<string, unknown> {
  return {
    'x-payment-info': { protocols: ['x402'], price: priceRange(endpoint, offering) },
    parameters: [{ $ref: '#/components/parameters/payment' }],
    requestBody: { required: true, content: { 'application/json': { schema: endpoint.input, example: endpoint.example }, ...(endpoint.multipart && { 'multipart/form-data': FORM }) } },
    responses: {
      200: ok('The result; the payment is settled.', endpoint.output),
      202: ok('A job: poll `poll_url`. Nothing has been charged.', ref('Envelope')),
      400: ok('Bad input. Nothing was charged.', ref('Error')),
      402: paymentRequired('Payment required, rejected, replayed or not settled. Nothing was charged by this request.'),
      409: ok('The same payment-identifier came with another request. Nothing was charged.', ref('Error')),
      413: ok('The body is too large.', ref('Error')),
      429: ok('The model is at capacity; see `Retry-After`. Nothing was charged.', ref('Error')),
      500: ok('The work failed. Nothing was charged, and the authorization is free again.', ref('Error')),
      503: ok('Not configured, not ready, or the chain cannot be asked. Nothing was charged.', ref('Error')),
      ...(endpoint.multipart && { 504: ok('The model timed out. Nothing was charged.', ref('Error')) }),
    },
  }
}

function liveOperation(endpoint: Live, { offering }: Described): Record<string, unknown> {
  const events = { schema: { type: 'string' }, example: 'data: {}\n\n' }
  const answer = ok('The answer, or its events where `stream` is true. A paid one is settled after it was made; see `PAYMENT-RESPONSE`, or the comment before the last event.', endpoint.output)
  return {
    'x-payment-info': { protocols: ['x402'], price: priceRange(endpoint, offering) },
    parameters: [...pathParameters(endpoint.path), { $ref: '#/components/parameters/payment' }],
    requestBody: { required: true, content: { 'application/json': { schema: { ...endpoint.input, additionalProperties: true }, example: endpoint.sample(offering) } } },
    responses: {
      200: { ...answer, content: { ...answer.content, 'text/event-stream': events } },
      400: ok('Bad input, also where the model finds it so. Nothing was charged.', ref('ChatError')),
      402: paymentRequired('Payment required, or rejected. Nothing was charged by this request.'),
      429: ok('The model is at capacity, or the free tier of this address is spent; see `Retry-After`. Nothing was charged.', ref('ChatError')),
      503: ok('The model is not available. Nothing was charged, and the authorization is free again.', ref('ChatError')),
      504: ok('The model did not answer in time. Nothing was charged.', ref('ChatError')),
    },
  }
}

function pollOperation(endpoint: Poll): Record<string, unknown> {
  return {
    parameters: [...pathParameters(endpoint.path), { $ref: '#/components/parameters/payment' }],
    responses: {
      200: ok('Completed and settled, or failed and free.', { anyOf: [ref('Result'), ref('Failed')] }),
      202: ok('Still running, or its settlement is being confirmed, or the chain cannot be asked just now.', ref('Running')),
      402: paymentRequired('Sign with the wallet that submitted the job; or the settlement failed and the result is kept.'),
      403: ok('The job belongs to another wallet.', ref('Error')),
      404: ok('No such job, or it has expired.', ref('Error')),
    },
  }
}

function freeOperation(endpoint: Free): Record<string, unknown> {
  const limited = endpoint.limit && {
    429: ok(`More than ${endpoint.limit.requests} requests in ${endpoint.limit.windowMs / 60_000} minutes from one address.`, ref('Error')),
  }
  const { input } = endpoint
  const body = input && { requestBody: { required: true, content: { 'application/json': { schema: input } } } }
  return { parameters: pathParameters(endpoint.path), ...body, responses: { 200: ok('OK', endpoint.output ?? { type: 'object' }), ...limited } }
}

function priceRange(endpoint: Sold, offering: Offering): Record<string, string> {
  const { min, max } = endpoint.span(offering)
  if (min === max) return { mode: 'fixed', currency: 'USD', amount: print(min) }
  return { mode: 'dynamic', currency: 'USD', min: print(min), max: print(max) }
}

function pathParameters(path: string): readonly Record<string, unknown>[] {
  return [...path.matchAll(/\{(\w+)(?:\.{3})?\}/g)].map(([, name]) => ({ name, in: 'path', required: true, schema: { type: 'string' } }))
}

/** The same fields as the JSON body; files stand where it has data URIs. */
const FORM = { schema: { type: 'object', description: 'The fields of the JSON body as form fields, with files where it has data URIs; several files of one field are written `name[]`.' } }

const ref = (name: keyof typeof schemas) => ({ $ref: `#/components/schemas/${name}` })
const ok = (description: string, schema: unknown) => ({ description, content: { 'application/json': { schema } } })
const paymentRequired = (description: string) => ({
  ...ok(description, ref('PaymentRequired')),
  headers: Object.fromEntries(Object.keys(challengeHeaders).map((name) => [name, { $ref: `#/components/headers/${name}` }])),
})

const paymentParameter = {
  name: 'PAYMENT-SIGNATURE',
  in: 'header',
  required: false,
  description: 'Base64 of an x402 v2 PaymentPayload. `X-Payment` is accepted as well, with the same payload.',
  schema: { type: 'string' },
}

const text = { type: 'string' }
const model = { type: ['string', 'null'], description: 'Null where the product has no models.' }
const challengeHeader = { description: 'Base64 of the x402 v2 PaymentRequired object.', schema: text }
const challengeHeaders = { 'PAYMENT-REQUIRED': challengeHeader, 'X-Payment-Required': challengeHeader, 'WWW-Authenticate': challengeHeader }

const object = (properties: Record<string, unknown>, required: readonly string[] = Object.keys(properties)) => ({ type: 'object', properties, required })
const priced = object({ amount: { type: 'string', description: 'US dollars, six decimals, margin and fee included.' }, currency: { const: 'USD' } })
const offer = object({ scheme: text, network: text, amount: text, asset: text, payTo: text, maxTimeoutSeconds: { type: 'integer' }, extra: { type: 'object' } })

const schemas = {
  ChatError: object({ error: {}, message: text, code: text }, ['error']),
  Error: object({ error: text, message: text, code: text, details: {} }, ['error']),
  PaymentRequired: object(
    { x402Version: { const: 2 }, accepts: { type: 'array', items: offer }, error: text, message: text, code: text, price: priced, job_id: text, poll_url: text, recoverable: { type: 'boolean' } },
    ['error'],
  ),
  Envelope: object(
    { id: text, object: text, status: text, model: text, price: priced, payment_status: { const: 'verified' }, created: { type: 'integer' }, poll_url: text, poll_instructions: text },
    ['id', 'object', 'status', 'price', 'payment_status', 'created', 'poll_url', 'poll_instructions'],
  ),
  Running: object({ id: text, object: text, status: { enum: ['queued', 'in_progress'] }, model, payment_status: { const: 'verified' }, note: text }),
  Failed: object({ id: text, object: text, status: { const: 'failed' }, model, error: text, payment_status: { const: 'not_charged' }, note: text }),
  Result: object(
    { id: text, created: { type: 'integer' }, data: { type: 'array', items: { type: 'object' } }, price: priced, payment: object({ status: { enum: ['settled', 'already_settled', 'unresolved'] }, tx_hash: text, network: text }) },
    ['id', 'price', 'payment'],
  ),
}
