/** Replies of the operations of the OpenAPI document: results, 402s and errors, each with an example. */
import { bazaarOf, briefBazaarOf } from './bazaar.ts'
import { type Endpoint, type Polled, type Price, type Sold, servesBeforeSettlement } from '../endpoint/mod.ts'
import { type GatewayDescription, PLACEHOLDER_ORIGIN } from './document_input.ts'
import { helpAt } from '../endpoint/demands.ts'
import { methodOf } from '../mpp/method.ts'
import { usdc } from '../x402/money.ts'
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
  receiptHeaders,
  type schemas,
  windowHeaders,
  type Components,
} from './openapi_parts.ts'
import type { Trial } from '../endpoint/samples.ts'

type Fields = Readonly<Record<string, unknown>>

export type OperationContext = {
  readonly trial: Trial
  readonly facts: GatewayDescription
  readonly parts: Components
  /** Suffix of operation ids; '' at the endpoint's own path. */
  readonly suffix: string
}

/** Whether the endpoint is free as configured. */
export const isFree = ({ price }: Trial): boolean => price === 'free'

export function responsesOf(endpoint: Endpoint, operationContext: OperationContext): Fields {
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

export function demand(description: string, own: Fields, shared: Fields): Fields {
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

export function errorsOf(endpoint: Endpoint, { parts }: OperationContext): Fields {
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
