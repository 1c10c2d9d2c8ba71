/**
 * The endpoints as OpenAPI 3.1: every field, price and error, each with an example. Prices come from the code that
 * quotes them.
 */
import { type Endpoint, type Sold, isSold, methodsOf } from '../endpoint/mod.ts'
import { DESCRIPTION, type GatewayDescription } from './document_input.ts'
import { INTENT, methodOf } from '../mpp/method.ts'
import { dollars, roundUp } from '../x402/money.ts'
import { components, componentsIn, paymentParameter } from './openapi_parts.ts'
import { priceRange } from './price_list.ts'
import { pricedTrial, trialOf } from '../endpoint/samples.ts'
import { requestOf } from './openapi_requests.ts'
import { isFree, type OperationContext, responsesOf, errorsOf, demand } from './openapi_responses.ts'

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

const pathsOf = ({ path, aliases = [] }: Endpoint): readonly string[] => [path, ...aliases]
const shapeOf = (path: string): string => path.replaceAll(/\{[^}]*\}/g, '{}')

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
