/** An endpoint whose call makes a result, delivered in one of four ways once it is paid for (decision 111). */
import type { Static, TObject } from '@sinclair/typebox'
import type { Window } from '../http/rate_limit.ts'
import type { Json } from '../lib/json.ts'
import type { RecordStorage } from '../ports/mod.ts'
import type { CountTokens } from '../ports/vendors/chat.ts'
import type { Vendors } from '../ports/vendors/mod.ts'
import { type Usdc, usdc } from '../x402/money.ts'
import type { Context, Offering } from './offering.ts'
import type { Price } from './prices.ts'
import { ANY_JOB, JOB_RETENTION, type Sale } from './sale.ts'
import type { Made, Order, Showing, Stored, UpstreamPollContext, UpstreamStatus } from './work.ts'

/** Fields that all deliveries share. */
type Result<Input> = Sale<Input> & {
  /** A valid request, shown in OpenAPI and quoted to probes without a body (contract 1.53). */
  readonly example: Input
  /** Checks what the schema cannot, and fills in defaults. Throws an `ApiError`. */
  check(input: Input, offering: Offering): Input
  /**
   * Counts the tokens of a checked input, before it is priced. Documents that only ask whether the endpoint is
   * available price an input without it.
   */
  measure?(input: Input, context: Offering & { readonly countTokens: CountTokens }): Promise<Input>
  /** `free` needs no payment and is rate limited by address. */
  price(input: Input, context: Context): Price | 'free'
  /**
   * Asked before a call is opened: throws an `ApiError` where the work would only be turned away. The payment stays
   * unused.
   */
  admit?(input: Input, offering: Pick<Offering, 'catalog' | 'vendors'>): void
  /** Rate limits of its free inputs; by default those of free models. */
  readonly freeLimits?: readonly Window[]
  /**
   * A request that this gateway can serve as it is configured; its price is the default price in discovery. Undefined:
   * use the example.
   */
  sample(offering: Offering): Input | undefined
  /** Added to the 402 of a probe, for example a catalog. */
  discovery?(offering: Offering): Readonly<Record<string, Json>>
  /** Whether the result is still available, asked before a poll settles. When unknown, it counts as available. */
  isStillValid?(
    made: Json,
    at: {
      readonly vendors: Vendors
      readonly signal: AbortSignal
      readonly records: Pick<RecordStorage, 'getRecord'>
      readonly now: number
    },
  ): Promise<boolean>
  /** Whether the reply to this stored request holds the bytes of its media. */
  embedsMedia?(request: Json): boolean
  /** Fields of the 200 body, beside id, price and payment. */
  show(stored: Stored, showing: Showing): Readonly<Record<string, Json>>
}

/** The work runs in this process. */
type Run<Input> = {
  run(order: Order<Input>): Promise<Made>
  readonly submit?: never
  readonly pollUpstream?: never
}

/** Settled before the reply. The reply is the bare result, with the receipt in its headers. */
export type Inline<Input = unknown> = Result<Input> &
  Run<Input> & {
    readonly delivery: 'inline'
    /** The result is JSON text, or `{text, headers}`, passed through as it came; `show` is not called. */
    readonly verbatim?: true
    readonly windowMs?: never
  }

/**
 * Answered in the reply when the result is ready within the window, otherwise a job. A window of 0 ms makes the order a
 * job at once.
 */
export type Hybrid<Input = unknown> = Result<Input> &
  Run<Input> & {
    readonly delivery: 'hybrid'
    readonly windowMs: number | ((input: Input, context: Context) => number)
    readonly verbatim?: never
  }

/** Always a job, settled by the first poll that finds it completed. */
export type Job<Input = unknown> = Result<Input> &
  Run<Input> & { readonly delivery: 'job'; readonly windowMs?: never; readonly verbatim?: never }

/** A job that runs at the vendor. No process owns it, and any replica can poll it. */
export type UpstreamJob<Input = unknown> = Result<Input> & {
  readonly delivery: 'upstream_job'
  /** Submits the order to the vendor. `handle` finds it from any process. */
  submit(order: Order<Input>): Promise<{ readonly handle: string }>
  /** The state of a submitted job. Throws when the vendor cannot be reached: the job continues. */
  pollUpstream(handle: string, looking: UpstreamPollContext): Promise<UpstreamStatus>
  readonly run?: never
  readonly windowMs?: never
  readonly verbatim?: never
}

/** Makes a result and delivers it once it is paid for: at once, or to a poll. */
export type Paid<Input = unknown> = Inline<Input> | Hybrid<Input> | Job<Input> | UpstreamJob<Input>

/** The default window in milliseconds: 30 seconds. */
const USUAL_WINDOW_MS = 30_000

type Defaulted =
  | 'method'
  | 'from'
  | 'order'
  | 'unknownFields'
  | 'check'
  | 'sample'
  | 'priceRange'
  | 'isAvailable'
  | 'remember'
  | 'job'
  | 'errorFormat'
  | 'failure'
  | 'retention'

type Fields<Endpoint extends Record<Defaulted, unknown>> = Omit<Endpoint, 'kind' | 'input' | Defaulted> &
  Partial<Pick<Endpoint, Defaulted>>
type HybridFields<Input> = Omit<Fields<Hybrid<Input>>, 'delivery' | 'windowMs'> &
  Partial<Pick<Hybrid<Input>, 'delivery' | 'windowMs'>>

/** The fields that declare an endpoint, by its delivery. */
export type PaidFields<Input> =
  | Fields<Inline<Input>>
  | HybridFields<Input>
  | Fields<Job<Input>>
  | Fields<UpstreamJob<Input>>

/**
 * Types the fields by the input schema, fills in defaults, and erases the type, because one list holds all endpoints.
 * By default a call is valid when it fits its schema, costs what its example costs, and is `hybrid`: it answers within
 * 30 seconds or becomes a job under /api/v1/calls.
 *
 * @example
 * const haiku = paid({
 *   name: 'haiku',
 *   path: '/api/v1/haiku',
 *   summary: 'Write a haiku',
 *   tag: 'text',
 *   input: Type.Object({ about: Type.String({ minLength: 1, maxLength: 200 }) }),
 *   output: Type.Object({ lines: Type.Array(Type.String()) }),
 *   example: { about: 'snow' },
 *   price: (_input, { prices }) => ({ amount: flatPrice('0.01', prices), maxTimeoutSeconds: 300, publicPrice: {} }),
 *   run: async ({ input }) => ({ result: [`first light on ${input.about}`, 'the page is still white'] }),
 *   show: ({ made }) => ({ lines: made }),
 * })
 */
export function paid<Schema extends TObject>(fields: PaidFields<Static<Schema>> & { readonly input: Schema }): Paid {
  const { delivery = 'hybrid', errorFormat = 'plain' } = fields
  const usual = {
    method: 'POST',
    from: 'body',
    order: 'check_then_quote',
    unknownFields: 'dropped',
    check: (input) => input,
    sample: () => undefined,
    priceRange: (context) => priceOfExample(fields as unknown as Paid, context),
    isAvailable: () => true,
    remember: () => ({ model: null, request: {} }),
    job: ANY_JOB,
    errorFormat,
    failure: 'Internal server error',
    retention: JOB_RETENTION,
  } satisfies Pick<Result<unknown>, Defaulted>
  return {
    ...usual,
    ...(delivery === 'hybrid' && { windowMs: USUAL_WINDOW_MS }),
    ...(delivery === 'inline' && errorFormat === 'plain' && { replayError: 'Payment authorization already used' }),
    ...fields,
    delivery,
    kind: 'sold',
  } as unknown as Paid
}

function priceOfExample(
  { price, example }: Pick<Paid, 'price' | 'example'>,
  context: Context,
): { min: Usdc; max: Usdc } {
  const quote = price(example, context)
  const amount = quote === 'free' ? usdc(0n) : quote.amount
  return { min: amount, max: amount }
}
