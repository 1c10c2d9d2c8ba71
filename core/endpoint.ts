/** What an endpoint is: a value. Routes, 402s, OpenAPI, discovery and the endpoint laws are all derived from it. */
import type { Static, TObject } from '@sinclair/typebox'
import type { Catalog } from './catalog/mod.ts'
import type { Usdc } from './money.ts'
import type { Json, Ports, Vendors } from './ports.ts'
import type { Wire } from './wires/wire.ts'

/** What pure functions of an endpoint may look at beside the input. */
export type Context = { readonly catalog: Catalog }

/** What is on the shelf, and who of the operator's vendors can make it. */
export type Offering = Context & { readonly vendors: Vendors }

export type Price = {
  readonly amount: Usdc
  /** How long the signed authorization lives; work and settlement must fit into it. */
  readonly maxTimeoutSeconds: number
  /** Joins `amount` and `currency` in the body's `price`. */
  readonly shown: Readonly<Record<string, Json>>
  /** Joins the body of the 402, for example `generation_info`. */
  readonly also?: Readonly<Record<string, Json>>
}

/** When the money of a call moves, and how long its buyer is kept waiting. */
export type Settle = { readonly mode: 'hybrid'; readonly windowMs: number } | { readonly mode: 'on_poll' }

/** Answers inline when the result is there within `windowMs`, else becomes a job. */
export const hybrid = (windowMs: number): Settle => ({ mode: 'hybrid', windowMs })
/** Always a job, settled by the first poll that sees it completed. */
export const onPoll: Settle = { mode: 'on_poll' }

/** The shape of an error body. */
export type Dialect = 'plain' | Wire

/** One order for work. `signal` aborts at the work's deadline, never because the buyer hung up. */
export type Order<Input> = {
  readonly id: string
  readonly input: Input
  readonly payer: string
  readonly catalog: Catalog
  readonly vendors: Vendors
  readonly signal: AbortSignal
}

/** What work made: a JSON result, and media to be mirrored to durable storage under `<folder>/<date>/`. */
export type Made = { readonly result: Json; readonly media?: { readonly folder: string; readonly urls: readonly string[] } }

/** One piece of media after mirroring. `key` is null where mirroring failed, and `url` is then the raw upstream value. */
export type Hosted = { readonly key: string | null; readonly url: string | null; readonly source: string }

/** What storage keeps of a completed call. */
export type Stored = { readonly made: Json; readonly media: readonly Hosted[]; readonly created: number }

/** What showing a result may use: absolute URLs of hosted media, and inline (not in a poll) the raw values that the vendor gave. */
export type Showing = { readonly request: Json; readonly href: (key: string) => string; readonly raw?: readonly string[] }

/** What a slow call looks like while it runs. `poll` has `{id}` in it. */
export type Job = { readonly object: string; readonly poll: string; readonly instructions: string; readonly running: string }

type Common = {
  /** Name in the ledger and in logs, for example `images.generations`. */
  readonly name: string
  readonly path: string
  readonly aliases?: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly tag: string
}

/** Sold by the call, checked first and then quoted: bad input never costs a signature. */
export type Paid<Input = unknown> = Common & {
  readonly kind: 'paid'
  readonly method: 'POST'
  readonly input: TObject
  /** A valid request, shown in OpenAPI and quoted to probes without a body (ruling 2). */
  readonly example: Input
  /** Checks what the schema cannot, fills defaults in; throws a `Fault`. */
  check(input: Input, context: Context): Input
  price(input: Input, context: Context): Price
  /** A request that this gateway can serve as it is configured; its price is the default price in discovery. Undefined: the example. */
  sample(offering: Offering): Input | undefined
  /** Lowest and highest price of one call, for discovery. */
  span(offering: Offering): { readonly min: Usdc; readonly max: Usdc }
  /** Whether the operator has configured what this input needs. */
  serves(input: Input, offering: Offering): boolean
  /** What the stored call keeps: the model for the ledger, and what polls show. */
  remember(input: Input): { readonly model: string | null; readonly request: { readonly [key: string]: Json } }
  settle(input: Input, context: Context): Settle
  run(order: Order<Input>): Promise<Made>
  /** Members of the 200 body, beside id, price and payment. */
  show(stored: Stored, showing: Showing): Readonly<Record<string, Json>>
  readonly job: Job
  readonly dialect: Dialect
  /** The `error` text when the work fails for no reason of the buyer's. */
  readonly failure: string
  /** Reads a multipart form as the JSON body would be; absent where only JSON is accepted. */
  multipart?(form: FormData): Promise<Record<string, unknown>>
  /** Takes files: its bodies may be as large as an upload, and share a budget of bytes in flight. */
  readonly uploads?: true
  /** How long an unsettled result can be claimed, and a settled one is kept (ruling 8). */
  readonly keep: { readonly unclaimedMs: number; readonly settledMs: number }
  readonly output: TObject
}

/** Polls the jobs of the named paid endpoints, or of all. */
export type Poll = Common & { readonly kind: 'poll'; readonly method: 'GET'; readonly of: readonly string[] | 'all' }

export type FreeRequest = {
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly origin: string
  readonly header: (name: string) => string | null
}
export type Reply = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | ReadableStream<Uint8Array> | null
}
/** What a free endpoint may ask; `gateway` speaks of the one that was called. */
export type FreeContext = Context & Pick<Ports, 'objects' | 'vendors' | 'clock'> & { readonly gateway: GatewayFacts }

/** Facts that anybody may know of a gateway, derived from the menu and its chain. */
export type GatewayFacts = {
  readonly name: string
  /** `base`, `base-sepolia`, ... (ruling 7). */
  readonly label: string
  readonly version: string
  readonly startedAt: number
  /** Whether paid routes have an offer. */
  isReady(): boolean
  openapi(origin: string): string
  wellKnown(origin: string): string
}

export type Free = Common & {
  readonly kind: 'free'
  readonly method: 'GET'
  /** Requests per window and caller's address. */
  readonly limit?: { readonly requests: number; readonly windowMs: number }
  /** Absent for what is not JSON, such as media bytes. */
  readonly output?: TObject
  /** Left out of OpenAPI and discovery: it serves other endpoints. */
  readonly hidden?: true
  answer(request: FreeRequest, context: FreeContext): Reply | Promise<Reply>
}

export type Endpoint = Paid | Poll | Free

const HOUR_MS = 3_600_000

/** How long an uncollected result can be claimed, and a settled one is kept: 48 hours and 30 days (ruling 8). */
const KEEP = { unclaimedMs: 48 * HOUR_MS, settledMs: 30 * 24 * HOUR_MS }

/** The job of an endpoint that has no poll path of its own. */
const ANY_JOB: Job = {
  object: 'call.job',
  poll: '/api/v1/calls/{id}',
  instructions: 'GET poll_url every 2 to 5 seconds with a payment header of the same wallet. You are charged once, by the first poll that finds the result ready.',
  running: 'Still working. Nothing has been charged. Poll again in 2 to 5 seconds.',
}

const INLINE_WINDOW_MS = 30_000

type Defaulted = 'method' | 'check' | 'sample' | 'span' | 'serves' | 'remember' | 'settle' | 'job' | 'dialect' | 'failure' | 'keep'
type PaidWords<Input> = Omit<Paid<Input>, 'kind' | 'input' | Defaulted> & Partial<Pick<Paid<Input>, Defaulted>>

/**
 * Types the words by the input schema, fills the usual ones in, and forgets the type: the menu holds them all. Unless told, a call is
 * valid when its schema says so, costs what its example costs, answers within 30 seconds or becomes a job under /api/v1/calls.
 */
export function paid<Schema extends TObject>(words: PaidWords<Static<Schema>> & { readonly input: Schema }): Paid {
  const usual = {
    method: 'POST',
    check: (input) => input,
    sample: () => undefined,
    span: (context) => priceOfExample(words as unknown as Paid, context),
    serves: () => true,
    remember: () => ({ model: null, request: {} }),
    settle: () => hybrid(INLINE_WINDOW_MS),
    job: ANY_JOB,
    dialect: 'plain',
    failure: 'Internal server error',
    keep: KEEP,
  } satisfies Pick<Paid, Defaulted>
  return { ...usual, ...words, kind: 'paid' } as unknown as Paid
}

function priceOfExample({ price, example }: Pick<Paid, 'price' | 'example'>, context: Context): { min: Usdc; max: Usdc } {
  const { amount } = price(example, context)
  return { min: amount, max: amount }
}

export const poll = (endpoint: Omit<Poll, 'kind' | 'method'>): Poll => ({ ...endpoint, kind: 'poll', method: 'GET' })
export const free = (endpoint: Omit<Free, 'kind' | 'method'>): Free => ({ ...endpoint, kind: 'free', method: 'GET' })

/** A JSON reply. */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }
}
