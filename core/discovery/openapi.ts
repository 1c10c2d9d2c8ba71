/**
 * The endpoints as OpenAPI 3.1: every field, price and error, each with an example. Prices come from the code that
 * quotes them.
 */
import { bazaarOf, briefBazaarOf } from './bazaar.ts'
import {
  type Endpoint,
  type Free,
  type Polled,
  type Price,
  type Sold,
  isSold,
  methodsOf,
  servesBeforeSettlement,
} from '../endpoint/mod.ts'
import { DESCRIPTION, type GatewayDescription, PLACEHOLDER_ORIGIN } from './document_input.ts'
import { helpAt } from '../endpoint/demands.ts'
import { INTENT, methodOf } from '../mpp/method.ts'
import { dollars, roundUp, usdc } from '../x402/money.ts'
import { offerOf } from '../x402/offer.ts'
import {
  collectExample,
  SIGN_IN_EXAMPLE,
  demandExample,
  type ChallengeContext,
  meaningOf,
  refusalsOf,
  rejectionExamples,
} from './openapi_errors.ts'
import {
  challengeHeaders,
  errorSchemaOf,
  isText,
  paymentParameter,
  receiptHeaders,
  schemas,
  windowHeaders,
} from './openapi_parts.ts'
import { priceRange } from './price_list.ts'
import { namesIn, pricedTrial, type Trial, trialOf } from '../endpoint/samples.ts'

type Fields = Readonly<Record<string, unknown>>

/** Described in one turn of the event loop: all of them take 60 ms. */
const ENDPOINTS_PER_TURN = 10

/**
 * Builds the document of these endpoints. Those that are not `offered` are marked `x-available: false`. Rejects only if
 * a sample request fails unexpectedly.
 */
export async function openapi(
  endpoints: readonly Endpoint[],
  facts: GatewayDescription,
  { origin, offered }: { readonly origin: string; readonly offered: ReadonlySet<Endpoint> },
): Promise<Fields> {
  const listed = endpoints.filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden)
  const parts = components()
  const gets = new Set(
    listed.flatMap((endpoint) => (methodsOf(endpoint).includes('GET') ? pathsOf(endpoint).map(shapeOf) : [])),
  )
  const paths: Record<string, Record<string, unknown>> = {}
  for (const [order, endpoint] of listed.entries()) {
    if (order % ENDPOINTS_PER_TURN === 0) await facts.pause()
    const trial = isSold(endpoint) ? await pricedTrial(endpoint, facts.offering) : trialOf(endpoint, facts.offering)
    const marks = offered.has(endpoint) ? {} : { 'x-available': false }
    for (const [index, written] of pathsOf(endpoint).entries()) {
      const path = written.replaceAll('...}', '}')
      const operations: Record<string, unknown> = {}
      const operationContext = { trial, facts, parts, suffix: index === 0 ? '' : `.alias_${index}` }
      const alias = index === 0 ? {} : { 'x-alias-of': endpoint.path.replaceAll('...}', '}') }
      for (const method of methodsOf(endpoint))
        operations[method.toLowerCase()] = { ...operation(endpoint, method, operationContext), ...alias, ...marks }
      if (isSold(endpoint) && !gets.has(shapeOf(written)))
        operations.get = { ...quoteOperation(endpoint, operationContext), ...alias, ...marks }
      paths[path] = { ...paths[path], ...operations }
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Farebox',
      version: facts.version,
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      contact: contactOf(facts, origin),
      'x-guidance': guidance(listed, origin),
    },
    servers: [{ url: origin }],
    tags: [...new Set(listed.map(({ tag }) => tag))].map((name) => ({ name })),
    'x-service-info': {
      categories: [...new Set(listed.filter(isSold).map(({ tag }) => tag))],
      docs: { apiReference: `${origin}/docs`, homepage: origin, llms: `${origin}/llms.txt` },
    },
    paths,
    components: {
      ...componentsIn(paths, parts),
      ...(listed.some(({ kind }) => kind === 'poll') && { securitySchemes: SECURITY_SCHEMES }),
    },
    externalDocs: { url: `${origin}/docs`, description: 'The same as a page.' },
  }
}

type OperationContext = {
  readonly trial: Trial
  readonly facts: GatewayDescription
  readonly parts: Components
  /** Suffix of operation ids; '' at the endpoint's own path. */
  readonly suffix: string
}

const pathsOf = ({ path, aliases = [] }: Endpoint): readonly string[] => [path, ...aliases]
const shapeOf = (path: string): string => path.replaceAll(/\{[^}]*\}/g, '{}')
/** Whether the endpoint is free as configured. */
const isFree = ({ price }: Trial): boolean => price === 'free'

/** How a wallet shows who it is: by a payment that it has signed, or by signing in. A poll accepts both in one. */
const SECURITY_SCHEMES = {
  wallet: {
    type: 'apiKey',
    in: 'header',
    name: paymentParameter.name,
    description: 'A payment header, or sign-in-with-x, of the wallet that submitted the job. It proves the wallet.',
    'x-agentcash-auth-kind': 'siwx',
  },
  sign_in: {
    type: 'apiKey',
    in: 'header',
    name: 'SIGN-IN-WITH-X',
    description: 'The challenge of a 402 (`extensions.sign-in-with-x`), signed by the wallet, as base64 of JSON.',
  },
}

function contactOf({ contact = '' }: GatewayDescription, origin: string): Fields {
  if (contact.includes('@') && !contact.startsWith('http')) return { email: contact }
  return { url: contact === '' ? `${origin}/docs` : contact }
}

/** Writes the guidance that an agent needs before its first call. */
function guidance(listed: readonly Endpoint[], origin: string): string {
  const sold = [...new Set(listed.filter(isSold).map(({ tag }) => tag))]
  return [
    `This gateway sells ${sold.join(', ')} by the call, paid in USDC by x402 version 2. No account, no API key.`,
    'Send the request without payment: the 402 has the exact price of this very request. Sign one of its offers and send the same request again with the payment in PAYMENT-SIGNATURE.',
    'A 400 says which field is wrong, and comes before the 402. A failure costs nothing.',
    'A 202 has a poll_url: GET it as it is, every 2 to 5 seconds, with a payment header of the same wallet. The first poll that finds the result ready charges for it, once.',
    'If a reply is lost, send the same request with the same signed payment again: it is charged once.',
    `Models and rates: ${origin}/api/v1/models and ${origin}/api/pricing. As a page: ${origin}/docs.`,
  ].join('\n')
}

/** GET on the path of a paid POST: the 402 of the default price. It never sells. */
function quoteOperation(endpoint: Sold, operationContext: OperationContext): Fields {
  const { name, summary, tag, path } = endpoint
  const { trial, suffix } = operationContext
  const { parameters = [] } = requestOf(endpoint, 'GET', trial) as { readonly parameters?: readonly Fields[] }
  const inPath = parameters.filter((each) => each.in === 'path')
  const refusals = Object.entries(errorsOf(endpoint, operationContext)).filter(([status]) => status.startsWith('5'))
  return {
    operationId: `${name}.quote${suffix}`,
    summary: `${summary}: the default price`,
    description: `Answers 402 with the price of the example of POST ${path.replaceAll('...}', '}')}, and never sells.`,
    tags: [tag],
    'x-quote-of': name,
    security: [],
    ...(inPath.length > 0 && { parameters: inPath }),
    responses: { 402: demand('The default price. Nothing was charged.', {}, {}), ...Object.fromEntries(refusals) },
  }
}

function operation(endpoint: Endpoint, method: string, operationContext: OperationContext): Fields {
  const { name, summary, description, tag, variantOf, aliases = [] } = endpoint
  const isTwin = method !== endpoint.method
  const original = isTwin ? name : variantOf
  const also = aliases.length > 0 ? `Also at ${aliases.join(', ')}.` : undefined
  const words = [description, also].filter((text) => text !== undefined).join(' ')
  return {
    operationId: `${isTwin ? `${name}.${method.toLowerCase()}` : name}${operationContext.suffix}`,
    summary,
    ...(words !== '' && { description: words }),
    tags: [tag],
    ...(original !== undefined && { 'x-variant-of': original }),
    ...(isSold(endpoint) && !isFree(operationContext.trial)
      ? {
          'x-payment-info': paymentInfo(endpoint, operationContext.facts),
        }
      : { security: securityOf(endpoint) }),
    ...requestOf(endpoint, method, operationContext.trial),
    responses: responsesOf(endpoint, operationContext),
  }
}

/** Prices of the protocols that the operation is paid by: for MPP in base units, null if the request decides. */
function paymentInfo(endpoint: Sold, { offering, terms, charges }: GatewayDescription): Fields {
  const price = priceRange(endpoint, offering)
  const amount = price.mode === 'fixed' ? String(roundUp(dollars(price.amount))) : null
  const charged = terms().flatMap((each) => {
    const method = methodOf(charges, each)?.name
    return method === undefined ? [] : [{ method, intent: INTENT, currency: each.asset }]
  })
  const offers = charged.map((charge) => ({ ...charge, amount, description: endpoint.summary }))
  return {
    protocols: [{ x402: {} }, ...charged.map((charge) => ({ mpp: charge }))],
    price,
    ...(offers.length > 0 && { offers }),
  }
}

const securityOf = (endpoint: Endpoint): readonly Fields[] => {
  if (endpoint.kind === 'poll') return [{ wallet: [] }]
  return endpoint.kind === 'free' && endpoint.signsIn ? [{ sign_in: [] }] : []
}

// ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────

function requestOf(endpoint: Endpoint, method: string, trial: Trial): Fields {
  const names = namesIn(endpoint.path)
  const input = endpoint.kind === 'poll' ? undefined : endpoint.input
  const isBody = isSold(endpoint) ? endpoint.from === 'body' : method === 'POST' && input !== undefined
  const properties = (input?.properties ?? {}) as Readonly<Record<string, Fields>>
  const required: readonly string[] = input?.required ?? []
  const inPath = names.map((name) =>
    parameter('path', name, { schema: properties[name], isRequired: true, example: trial.path[name] }),
  )
  const undeclared = Object.keys(properties).filter((name) => !isBody && !names.includes(name))
  const inQuery = [...new Set([...undeclared, ...Object.keys(isBody ? {} : trial.query)])].map((name) => {
    return parameter('query', name, {
      schema: properties[name],
      isRequired: required.includes(name),
      example: trial.query[name],
    })
  })
  const paying = endpoint.kind === 'free' ? [] : [{ $ref: '#/components/parameters/payment' }]
  const parameters = [...inPath, ...inQuery, ...paying]
  return {
    ...(parameters.length > 0 && { parameters }),
    ...(isBody && input && { requestBody: bodyOf(endpoint as Sold | Free, trial) }),
    ...(!isBody && isSold(endpoint) && method === 'POST' && { requestBody: fieldsBodyOf(endpoint, trial) }),
  }
}

function parameter(
  where: 'path' | 'query',
  name: string,
  {
    schema = { type: 'string' },
    isRequired,
    example,
  }: { schema: Fields | undefined; isRequired: boolean; example: string | undefined },
): Fields {
  const { description, ...rest } = schema
  return {
    name,
    in: where,
    required: isRequired,
    ...(description !== undefined && { description }),
    schema: rest,
    ...(example !== undefined && { example }),
  }
}

/** The same fields as the JSON body, with files in place of data URIs. */
const FORM = {
  schema: {
    type: 'object',
    description:
      'The fields of the JSON body as form fields, with files where it has data URIs; several files of one field are written `name[]`.',
  },
}

/** A POST may have its fields in the body instead of the query. */
function bodyOf(endpoint: Sold | Free, { body, query }: Trial): Fields {
  const isStrict = endpoint.kind === 'sold' && endpoint.unknownFields === 'refused'
  const schema =
    endpoint.kind === 'sold' && endpoint.delivery === 'stream'
      ? { ...endpoint.input, additionalProperties: true }
      : { ...withoutPath(endpoint), ...(isStrict && { additionalProperties: false }) }
  const isOptional = endpoint.kind === 'free' && endpoint.method === 'GET'
  const form = endpoint.kind === 'sold' && endpoint.multipart ? { 'multipart/form-data': FORM } : {}
  return { required: !isOptional, content: { 'application/json': { schema, example: body ?? query }, ...form } }
}

/** The body of a POST whose fields are in the query: it may have them instead. */
function fieldsBodyOf(endpoint: Sold, { query }: Trial): Fields {
  const { required: _, ...schema } = withoutPath(endpoint)
  return { required: false, content: { 'application/json': { schema, example: query } } }
}

/** The body without the path parameters. */
function withoutPath({ input, path }: Sold | Free): Fields {
  const names = namesIn(path)
  const properties = Object.fromEntries(
    Object.entries(input?.properties ?? {}).filter(([name]) => !names.includes(name)),
  )
  return {
    ...input,
    properties,
    ...(input?.required && { required: input.required.filter((name) => !names.includes(name)) }),
  }
}

// ── responses ───────────────────────────────────────────────────────────────────────────────────────────────────────

function responsesOf(endpoint: Endpoint, operationContext: OperationContext): Fields {
  return { ...answersOf(endpoint, operationContext), ...errorsOf(endpoint, operationContext) }
}

function answersOf(endpoint: Endpoint, { trial, facts, parts }: OperationContext): Fields {
  if (endpoint.kind === 'free')
    return {
      200: answer(
        'OK',
        endpoint.output ?? (isText(endpoint.produces) ? { type: 'string' } : { type: 'object' }),
        endpoint.produces,
      ),
      ...(endpoint.signsIn && {
        402: demand('Sign the challenge. Nothing has to be paid.', { sign_in: { value: SIGN_IN_EXAMPLE } }, {}),
      }),
    }
  if (endpoint.kind === 'poll') {
    const why =
      'Sign with the wallet that submitted the job; or the payment was refused, or its settlement failed and the result is kept.'
    return {
      200: {
        ...answer('Completed and settled, or failed and free.', {
          anyOf: [ref('Result'), ref('Failed'), { type: 'object' }],
        }),
        headers: receiptHeaders,
      },
      202: answer(
        'Still running, or its settlement is being confirmed, or the chain is temporarily unreachable.',
        ref('Running'),
      ),
      402: demand(
        why,
        { required: { value: collectExample(challengeContext(endpoint, NOMINAL, facts), NOMINAL) } },
        rejectionsOf(endpoint, facts, parts),
      ),
    }
  }
  const result = {
    ...answer(endpoint.delivery === 'stream' ? LIVE : 'The result; the payment is settled.', endpoint.output),
    headers: receiptHeaders,
  }
  const quoted =
    trial.price && trial.price !== 'free' ? { required: { value: quotedExample(endpoint, trial.price, facts) } } : {}
  return {
    200:
      endpoint.delivery === 'stream'
        ? { ...result, content: { ...result.content, 'text/event-stream': EVENTS } }
        : result,
    ...(!servesBeforeSettlement(endpoint) && {
      202: answer('A job: poll `poll_url`. Nothing has been charged.', ref('Envelope')),
    }),
    402: demand(
      'Payment required, rejected, replayed or not settled. Nothing was charged by this request.',
      quoted,
      rejectionsOf(endpoint, facts, parts),
    ),
  }
}

function quotedExample(endpoint: Sold, price: Price, facts: GatewayDescription): unknown {
  return demandExample(
    {
      ...challengeContext(endpoint, price, facts),
      bazaar: { whole: bazaarOf(endpoint, facts.offering), brief: briefBazaarOf(endpoint) },
    },
    price,
  )
}

const LIVE =
  'The answer, or its events where `stream` is true. A paid one is settled after it was made; see `PAYMENT-RESPONSE`, or the comment before the last event (in streams of generateContent, the member `payment` of the last event).'
const EVENTS = { schema: { type: 'string' }, example: 'data: {}\n\n' }

/** The price in shared examples. */
const NOMINAL: Price = { amount: usdc(22_000n), maxTimeoutSeconds: 600, publicPrice: {} }

function challengeContext(
  endpoint: Sold | Polled,
  price: Price,
  { terms, label, charges, documents }: GatewayDescription,
): ChallengeContext {
  const offers = terms().map((each) => offerOf(each, price))
  const isCharged = offers.some((offer) => methodOf(charges, offer))
  const charging = { hasX402: true, ...(isCharged && { charge: { realm: '', methods: charges } }) }
  const help = helpAt(PLACEHOLDER_ORIGIN, documents)
  return { offers, label, charging, help, errorFormat: endpoint.kind === 'poll' ? 'plain' : endpoint.errorFormat }
}

/** One set of examples for each error format. */
function rejectionsOf(endpoint: Sold | Polled, facts: GatewayDescription, { example }: Components): Fields {
  const challenge = challengeContext(endpoint, NOMINAL, facts)
  return Object.fromEntries(
    Object.entries(rejectionExamples(challenge, NOMINAL)).map(([code, value]) => [
      code,
      example(`${challenge.errorFormat}_${code}`, value),
    ]),
  )
}

function demand(description: string, own: Fields, shared: Fields): Fields {
  const headers = Object.fromEntries(
    Object.keys(challengeHeaders).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
  )
  return {
    description,
    headers,
    content: {
      'application/json': {
        schema: ref('PaymentRequired'),
        ...(Object.keys({ ...own, ...shared }).length > 0 && { examples: { ...own, ...shared } }),
      },
    },
  }
}

function errorsOf(endpoint: Endpoint, { parts }: OperationContext): Fields {
  const refusals = refusalsOf(endpoint)
  const statuses = [...new Set(refusals.map(({ reply }) => reply.status))].sort((a, b) => a - b)
  const errorFormat = endpoint.kind === 'poll' ? 'plain' : (endpoint.errorFormat ?? 'plain')
  return Object.fromEntries(
    statuses.map((status) => {
      const those = refusals.filter(({ reply }) => reply.status === status)
      const sent = Object.assign({}, ...those.map(({ reply }) => reply.headers)) as Record<string, string>
      const headers = Object.fromEntries(Object.entries(windowHeaders).filter(([name]) => name.toLowerCase() in sent))
      const examples = Object.fromEntries(
        those.map(({ name, summary, reply }) => [
          name,
          { summary, value: JSON.parse(reply.body as string) as unknown },
        ]),
      )
      const content = { 'application/json': { schema: ref(errorSchemaOf(errorFormat)), examples } }
      const description = meaningOf(those) + (endpoint.kind === 'free' ? '' : ' Nothing was charged.')
      return [
        status,
        parts.response(`${errorFormat}_${status}`, {
          description,
          ...(Object.keys(headers).length > 0 && { headers }),
          content,
        }),
      ]
    }),
  )
}

const ref = (name: keyof typeof schemas) => ({ $ref: `#/components/schemas/${name}` })
const answer = (description: string, schema: unknown, type = 'application/json') => ({
  description,
  content: { [type]: { schema } },
})

// ── shared components ───────────────────────────────────────────────────────────────────────────────────────────────

type Components = ReturnType<typeof components>

/** Collects repeated parts under names and returns references to them. */
function components() {
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
function componentsIn(paths: unknown, parts: Components): Fields {
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
