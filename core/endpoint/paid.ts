/** An endpoint whose call makes a result that is shown once it is paid. */
import { type Sale, ANY_JOB, KEEP } from './sale.ts'
import type { Offering, Context, Price } from './offering.ts'
import type { Window } from '../http/rate_limit.ts'
import type { Json } from '../lib/json.ts'
import type { Order, Made, UpstreamPollContext, UpstreamStatus, Stored, Showing } from './work.ts'
import type { Vendors } from '../ports/vendors/mod.ts'
import type { StoredRecord } from '../ports/mod.ts'
import type { TObject, Static } from '@sinclair/typebox'
import { type Usdc, usdc } from '../x402/money.ts'

/** When the money of a call moves, and how long its buyer is kept waiting. */
export type Settle = { readonly mode: 'hybrid'; readonly windowMs: number } | { readonly mode: 'on_poll' }

/** Answers inline when the result is there within `windowMs`, else becomes a job. */
export const hybrid = (windowMs: number): Settle => ({ mode: 'hybrid', windowMs })

/** Always a job, settled by the first poll that sees it completed. */
export const onPoll: Settle = { mode: 'on_poll' }

/** Makes a result, and shows it when it is paid: at once, or to a poll. */
export type Paid<Input = unknown> = Sale<Input> & {
  readonly kind: 'paid'
  /** A valid request, shown in OpenAPI and quoted to probes without a body (contract 1.53). */
  readonly example: Input
  /** Checks what the schema cannot, fills defaults in; throws a `Fault`. */
  check(input: Input, offering: Offering): Input
  /** `free` needs no payment, and is rationed by address. */
  price(input: Input, context: Context): Price | 'free'
  /** The windows of what is free of it; those of free models unless told. */
  readonly freeLimits?: readonly Window[]
  /** A request that this gateway can serve as it is configured; its price is the default price in discovery. Undefined: the example. */
  sample(offering: Offering): Input | undefined
  settle(input: Input, context: Context): Settle
  /** Joins the 402 of a look without an order, for example a catalog. */
  discovery?(offering: Offering): Readonly<Record<string, Json>>
  /** A one shot whose result is JSON as text, or `{text, headers}`, passed on as it came: `show` is not asked. */
  readonly verbatim?: true
  /** One shot, instead of `settle`: settled before its reply, which is the bare result; the receipt is in the headers. */
  readonly inline?: true
  run(order: Order<Input>): Promise<Made>
  /** Whether what was made is still to be had, asked before a poll's money moves; what nobody can tell is taken to be there. */
  stands?(
    made: Json,
    at: {
      readonly vendors: Vendors
      readonly signal: AbortSignal
      kept(kind: string, id: string): Promise<StoredRecord | undefined>
    },
  ): Promise<boolean>
  /** Instead of `run`, where the work goes on at the vendor's place: `handle` finds it from any process. Always a job. */
  submit?(order: Order<Input>): Promise<{ readonly handle: string }>
  /** What has become of a submitted job. Throws where the vendor cannot be asked just now: the job goes on. */
  pollUpstream?(handle: string, looking: UpstreamPollContext): Promise<UpstreamStatus>
  /** Members of the 200 body, beside id, price and payment. */
  show(stored: Stored, showing: Showing): Readonly<Record<string, Json>>
}

type Defaulted =
  | 'method'
  | 'run'
  | 'from'
  | 'order'
  | 'unknownFields'
  | 'check'
  | 'sample'
  | 'priceRange'
  | 'isAvailable'
  | 'remember'
  | 'settle'
  | 'job'
  | 'errorFormat'
  | 'failure'
  | 'retention'

type PaidWords<Input> = Omit<Paid<Input>, 'kind' | 'input' | Defaulted> & Partial<Pick<Paid<Input>, Defaulted>>

/**
 * Types the words by the input schema, fills the usual ones in, and forgets the type: the menu holds them all. Unless told, a call is
 * valid when its schema says so, costs what its example costs, answers within 30 seconds or becomes a job under /api/v1/calls.
 */
export function paid<Schema extends TObject>(words: PaidWords<Static<Schema>> & { readonly input: Schema }): Paid {
  const usual = {
    method: 'POST',
    from: 'body',
    order: 'check_then_quote',
    unknownFields: 'dropped',
    check: (input) => input,
    sample: () => undefined,
    run: () => Promise.reject(new Error('this work is submitted, not run')),
    priceRange: (context) => priceOfExample(words as unknown as Paid, context),
    isAvailable: () => true,
    remember: () => ({ model: null, request: {} }),
    settle: () => hybrid(30_000),
    job: ANY_JOB,
    errorFormat: 'plain',
    failure: 'Internal server error',
    retention: KEEP,
  } satisfies Pick<Paid, Defaulted>
  return { ...usual, ...words, kind: 'paid' } as unknown as Paid
}

function priceOfExample(
  { price, example }: Pick<Paid, 'price' | 'example'>,
  context: Context,
): { min: Usdc; max: Usdc } {
  const quote = price(example, context)
  const amount = quote === 'free' ? usdc(0n) : quote.amount
  return { min: amount, max: amount }
}
