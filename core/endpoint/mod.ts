/**
 * An endpoint is a plain value (decision 8). Routes, 402s, OpenAPI, discovery and the endpoint laws are derived from
 * it.
 */
import type { Paid } from './paid.ts'
import type { Streamed } from './streamed.ts'
import type { Free, Polled } from './free.ts'

export {
  type Free,
  free,
  type FreeCalls,
  type FreeContext,
  type FreeRequest,
  type Polled,
  polled,
  type Sample,
} from './free.ts'
export { type CatalogRow, type Context, type Offering, type RowKind, rowKind } from './offering.ts'
export { type Hybrid, type Inline, type Job, type Paid, paid, type PaidFields, type UpstreamJob } from './paid.ts'
export {
  cachedWhileTrue,
  type Price,
  type Prices,
  type Product,
  quotedRange,
  rateOf,
  sharedPrices,
  STANDARD_PRICES,
} from './prices.ts'
export type { JobDescription } from './sale.ts'
export {
  type Allowlist,
  type Answer,
  type AnswerStream,
  type RequestHead,
  type Streamed,
  streamed,
  type StreamedContext,
  type StreamedOrder,
  type Used,
} from './streamed.ts'
export type {
  Hosted,
  Made,
  MadeMedia,
  Mirror,
  OpenMedia,
  Order,
  Settled,
  Showing,
  Stored,
  UpstreamPollContext,
  UpstreamStatus,
} from './work.ts'

/**
 * Every method under which an endpoint is served.
 *
 * @example
 * const methods = endpoints.flatMap(methodsOf)
 */
export const methodsOf = (endpoint: Endpoint): readonly string[] =>
  ('methods' in endpoint && endpoint.methods) || [endpoint.method]

/**
 * Whether the endpoint asks for a payment.
 *
 * @example
 * const sold = endpoints.filter(isSold)
 */
export const isSold = (endpoint: Endpoint): endpoint is Sold => endpoint.kind === 'sold'

/** Whether an endpoint may answer before the payment is settled. */
export const servesBeforeSettlement = (endpoint: Sold | undefined): boolean =>
  endpoint?.delivery === 'stream' || endpoint?.delivery === 'inline'

/**
 * An endpoint that is sold by the call. `delivery` says when it is settled: before the reply, by a poll, or after the
 * answer.
 */
export type Sold = Paid | Streamed

export type Endpoint = Paid | Streamed | Polled | Free
