/** What an endpoint is: a value. Routes, 402s, OpenAPI, discovery and the endpoint laws are all derived from it. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Catalog } from '../products/catalog.ts'
import type { GatewayFacts } from './gateway_info.ts'
import type { ApiErrorCode } from '../http/errors.ts'
import type { Effects, CallContext } from './call_context.ts'
import type { UnknownFields } from '../http/request_body.ts'
import type { Window } from '../http/rate_limit.ts'
import { type Usdc, usdc } from '../x402/money.ts'
import type { Call, Chain, Json, StoredRecord, Ports, Storage } from '../ports/mod.ts'
import type { MediaStream, Vendors } from '../ports/vendors.ts'
import type { ChatFormat } from '../products/chat/formats/wire.ts'

/** What pure functions of an endpoint may look at beside the input. */
export type Context = {
  readonly catalog: Catalog
  /** What the operator has switched off for a while; everything is on unless told. */
  readonly featureFlags?: { readonly referenceMedia?: boolean }
  /** Those that this gateway is paid on, CAIP-2. */
  readonly networks?: readonly string[]
}

/** What is on the shelf, and who of the operator's vendors can make it. */
export type Offering = Context & { readonly vendors: Vendors }

export type Price = {
  readonly amount: Usdc
  /** How long the signed authorization lives; work and settlement must fit into it. */
  readonly maxTimeoutSeconds: number
  /** Joins `amount` and `currency` in the body's `price`. */
  readonly publicPrice: Readonly<Record<string, Json>>
  /** Joins the body of the 402, for example `generation_info`. */
  readonly also?: Readonly<Record<string, Json>>
}

/** When the money of a call moves, and how long its buyer is kept waiting. */
export type Settle = { readonly mode: 'hybrid'; readonly windowMs: number } | { readonly mode: 'on_poll' }

/** Answers inline when the result is there within `windowMs`, else becomes a job. */
export const hybrid = (windowMs: number): Settle => ({ mode: 'hybrid', windowMs })
/** Always a job, settled by the first poll that sees it completed. */
export const onPoll: Settle = { mode: 'on_poll' }

/** The shape of an error body. `market` is plain without codes (contract 3.19); the wires word errors as their vendors do. */
export type ErrorFormat = 'plain' | 'market' | ChatFormat

/** One order for work. `signal` aborts at the work's deadline, never because the buyer hung up. */
export type Order<Input> = {
  readonly id: string
  readonly input: Input
  /** Empty where nobody pays. */
  readonly payer: string
  readonly catalog: Catalog
  readonly vendors: Vendors
  readonly networks?: Context['networks']
  /** When the work began, in milliseconds. */
  readonly now: number
  readonly clock: Ports['clock']
  /** The vendor's own id of a character that this payer has enrolled; undefined for anybody else's, and for none. */
  asset?(id: string): Promise<string | undefined>
  /** A record beside the calls, whoever's it is. In work that runs here only. */
  record?(kind: string, id: string): Promise<StoredRecord | undefined>
  readonly call?: CallContext
  readonly signal: AbortSignal
}

/** What looking at a job may use; `request` is what the endpoint remembers. */
export type UpstreamPollContext = Offering & { readonly request: Json; readonly signal: AbortSignal }
/** `error` and `fields` are what a poll says of a failed job. */
export type UpstreamStatus =
  | { readonly kind: 'running'; readonly progress?: number }
  | { readonly kind: 'done'; readonly made: Made }
  | { readonly kind: 'failed'; readonly error: string; readonly fields?: Readonly<Record<string, Json>> }

/** Begins to read a piece of media. `signal` aborts when it is given up. */
export type OpenMedia = (at: { signal: AbortSignal }) => Promise<MediaStream>

/**
 * Media to be mirrored to durable storage under `<folder>/<date>/`. `streams` reads a piece, by its index in `urls`, that its URL alone does not
 * give: its URL is then only what it falls back to. `kinds` says what a piece must be to be sold: of one that turns out to be nothing of the kind,
 * the URL is not handed out either. `foreign`: the URLs are the caller's own, of pictures.
 */
export type MadeMedia = {
  readonly folder: string
  readonly urls: readonly string[]
  readonly streams?: readonly (OpenMedia | undefined)[]
  readonly kinds?: readonly ('image' | 'video' | 'audio')[]
  readonly foreign?: true
}

/** What work made: a JSON result, and media. */
export type Made = {
  readonly result: Json
  readonly media?: MadeMedia
  /** When there is nothing left of it that anybody should pay for, where that is sooner than its endpoint says. */
  readonly until?: number
  /** What is kept for the payer beside the call, once the media are mirrored and before money moves. One that another wallet has already fails the call. */
  recordsToStore?(media: readonly Hosted[]): readonly Omit<StoredRecord, 'owner'>[]
}

/** One piece of media after mirroring. `key` is null where mirroring failed, and `url` is then the raw upstream value, or null where that is worth nothing. */
export type Hosted = { readonly key: string | null; readonly url: string | null; readonly source: string }

/** What storage keeps of a completed call. */
export type Stored = { readonly made: Json; readonly media: readonly Hosted[]; readonly created: number }

/** What showing a result may use: absolute URLs of hosted media, and inline (not in a poll) the raw values that the vendor gave. */
export type Showing = {
  readonly request: Json
  readonly href: (key: string) => string
  readonly raw?: readonly string[]
  readonly settlement?: Settled
}

/** What became of the payment of a one shot, for a body that tells it beside the headers. */
export type Settled = { readonly success: boolean; readonly tx_hash: string; readonly network: string }

/**
 * What a slow call looks like while it runs. `poll` has `{id}` in it. `query` makes of what is remembered a query that is signed, and without
 * which the poll is refused.
 */
export type JobDescription = {
  readonly object: string
  readonly poll: string
  readonly instructions: string
  readonly running: string
  query?(request: Json): Readonly<Record<string, string>>
}

type Common = {
  /** Name in the ledger and in logs, for example `images.generations`. */
  readonly name: string
  readonly path: string
  readonly aliases?: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly tag: string
  /** Faults of its own, for the documents; what its kind, dialect and input bring with them is known already. */
  readonly errors?: readonly ApiErrorCode[]
}

/** Whatever is sold by the call. It is checked first and then quoted: bad input never costs a signature. */
type Sale<Input> = Common & {
  readonly method: 'GET' | 'POST'
  /** Served under these methods as well, in the same way: for callers that cannot attach headers to a GET. */
  readonly methods?: readonly ('GET' | 'POST')[]
  readonly input: TObject
  /** Where the input is: in the body, or in path and query, as text. */
  readonly from: 'body' | 'query'
  /** Makes the input of what was sent, where it is not the body or the query itself. `body` is undefined where none came, or none that is JSON. */
  arrange?(said: {
    readonly params: Readonly<Record<string, string>>
    readonly query: Readonly<Record<string, string>>
    readonly body: unknown
  }): unknown
  /** Bad input is told before the quote, or only to those who pay: the quote then reads the raw input, and never fails for it. */
  readonly order: 'check_then_quote' | 'quote_then_check'
  /** Fields that the schema does not know: dropped, kept because they are forwarded verbatim, or refused by name. */
  readonly unknownFields: UnknownFields
  /** Whether the operator has configured what this input needs. */
  isAvailable(input: Input, offering: Offering): boolean
  /** What the stored call keeps: the model for the ledger, and what polls show. */
  remember(input: Input): { readonly model: string | null; readonly request: { readonly [key: string]: Json } }
  /** Lowest and highest price of one call, for discovery. */
  priceRange(offering: Offering): { readonly min: Usdc; readonly max: Usdc }
  readonly job: JobDescription
  readonly errorFormat: ErrorFormat
  /** The `error` text when the work fails for no reason of the buyer's. */
  readonly failure: string
  /** Reads a multipart form as the JSON body would be; absent where only JSON is accepted. */
  multipart?(form: FormData): Promise<Record<string, unknown>>
  /** Takes files: its bodies may be as large as an upload, and share a budget of bytes in flight. */
  readonly uploads?: true
  /** How long an unsettled result can be claimed, and a settled one is kept (contract 2.23). */
  readonly retention: { readonly unclaimedMs: number; readonly settledMs: number }
  readonly output: TSchema
  readonly effects?: Effects
}

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

/** What a live endpoint may look at beside the body: the path, and headers that belong to its wire. */
export type RequestHead = {
  readonly params: Readonly<Record<string, string>>
  readonly header: (name: string) => string | null
}
export type StreamedContext = Offering & Pick<Ports, 'countTokens'>

/** `id` is unique and unguessable, also where nothing is stored; `payer` is null where nobody pays. */
export type StreamedOrder<Input> = Offering &
  Pick<Ports, 'clock' | 'log' | 'countTokens'> & {
    readonly id: string
    readonly input: Input
    readonly payer: string | null
    readonly signal: AbortSignal
  }

/** A reply as it is made. `closing` are its last events, which follow the receipt; they are known when `next` has ended. */
export type AnswerStream = {
  next(): Promise<Uint8Array | undefined>
  /** Ends it at once, upstream too. Never throws; a pending `next` ends as well. */
  cancel(): void
  /** Whether anything was handed out that a reader pays for. */
  hasContent(): boolean
  closing(): string
  usage(): Json
}

export type Answer =
  | {
      readonly kind: 'whole'
      readonly headers: Readonly<Record<string, string>>
      readonly body: Readonly<Record<string, Json>>
      readonly usage: Json
    }
  | { readonly kind: 'stream'; readonly headers: Readonly<Record<string, string>>; readonly stream: AnswerStream }

/** Answers at once, whole or streamed, and is settled after the answer (decision 17). What costs nothing needs no payment. */
export type Streamed<Input = unknown> = Sale<Input> & {
  readonly kind: 'live'
  /** A valid body, shown in OpenAPI and quoted to probes without one; the first that this gateway can serve. */
  sample(offering: Offering): Readonly<Record<string, Json>>
  check(body: Readonly<Record<string, unknown>>, asked: RequestHead, context: StreamedContext): Promise<Input>
  price(input: Input): Price | 'free'
  answer(order: StreamedOrder<Input>): Promise<Answer>
  /** The operator's list of the wallets that may buy this; undefined where everybody may (contract 1.58). */
  allowlists?(input: Input): Allowlist | undefined
  /** The reply to one who does not wait: the work goes on, and is settled before its output can be read (contract 7.17). Absent on one who does. */
  deferred?(
    input: Input,
    call: { readonly id: string; readonly createdAt: number; readonly key: string },
  ): Readonly<Record<string, Json>> | undefined
}

/** `name` is its setting; `unset` says who may come while the operator has written none. */
export type Allowlist = { readonly name: string; readonly unset: 'nobody' | 'everybody' }

export type Sold = Paid | Streamed

/** Polls the jobs of the named paid endpoints, or of all. */
export type Polled = Common & {
  readonly kind: 'poll'
  readonly method: 'GET'
  readonly of: readonly string[] | 'all'
  /** Takes only the queries that we have signed for the jobs' own poll path. */
  readonly signedQuery?: true
}

export type FreeRequest = RequestHead & {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  /** The query as it came, with its question mark; '' where there is none. */
  readonly search: string
  readonly origin: string
  /** The body as it came, as text, or as JSON. All throw a `Fault`. */
  bytes(): Promise<Uint8Array>
  text(): Promise<string>
  json(): Promise<unknown>
}
export type Reply = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | ReadableStream<Uint8Array> | null
}
/** What a free endpoint may ask; `gateway` speaks of the one that was called. */
export type FreeContext = StreamedContext &
  Pick<Ports, 'objects' | 'clock' | 'log'> & {
    readonly gateway: GatewayFacts
    readonly calls: FreeCalls
    readonly chain: Pick<Chain, 'balance'>
    /** What wallets have spent, at all gateways of this storage. */
    readonly ledger: Pick<Storage, 'spendByModel'>
    /** Small records beside the calls, and the calls that they came from, of whichever gateway. */
    readonly records: Pick<Storage, 'putOwned' | 'getOwned' | 'moveOwned' | 'listOwned' | 'getCall'>
    /** Cryptographically strong bytes. */
    random(bytes: number): Uint8Array
    /** Whether an `Authorization` header is the operator's (contract 3.9). Takes the same time for any wrong one. */
    readonly isOperator: (authorization: string | null) => boolean
  }

/** Calls of this gateway, for free endpoints that follow one by its id and its poll key. */
export type FreeCalls = {
  /** Nothing for who does not show its poll key. */
  find(id: string, key: string): Promise<Call | undefined>
  /** Stops the work of an unfinished call, which then costs nothing. False when it had ended. */
  cancel(id: string, why: string): Promise<boolean>
}

/** A request that anybody may try; a value of path or query, as text, by its name. */
export type Sample = {
  readonly path?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: Json
}

export type Free = Common & {
  readonly kind: 'free'
  readonly method: 'GET' | 'POST'
  readonly methods?: readonly ('GET' | 'POST')[]
  readonly errorFormat?: ErrorFormat
  /** Its bodies may be as large as an upload. */
  readonly uploads?: true
  /** Of a POST's body, or of the query. */
  readonly input?: TObject
  /** Answers HEAD and OPTIONS with a 402 that asks for nothing: how indexers learn of free feeds (contract 10.14). */
  readonly discoverable?: true
  /** Requests per window and caller's address; endpoints that name the same `bucket` share one. */
  readonly limit?: { readonly requests: number; readonly windowMs: number; readonly bucket?: string }
  /** Absent for what is not JSON, such as media bytes. */
  readonly output?: TObject
  /** Its content type, where that is not JSON. */
  readonly produces?: string
  /** Shown in OpenAPI, which tells what is in the query from it as well as from `input`. */
  readonly sample?: Sample | ((offering: Offering) => Sample)
  /** Where it words its refusals itself, and takes any body: examples of them, for the documents. */
  readonly refusals?: readonly { readonly name: string; readonly summary: string; readonly reply: Reply }[]
  /** Left out of OpenAPI and discovery: it serves other endpoints. */
  readonly hidden?: true
  answer(request: FreeRequest, context: FreeContext): Reply | Promise<Reply>
}

export type Endpoint = Paid | Streamed | Polled | Free

const HOUR_MS = 3_600_000

/** How long an uncollected result can be claimed, and a settled one is kept: 48 hours and 30 days (contract 2.23). */
const KEEP = { unclaimedMs: 48 * HOUR_MS, settledMs: 30 * 24 * HOUR_MS }

/** The job of an endpoint that has no poll path of its own. */
const ANY_JOB: JobDescription = {
  object: 'call.job',
  poll: '/api/v1/calls/{id}',
  instructions:
    'GET poll_url, as it is, every 2 to 5 seconds with a payment header of the same wallet; its key is for you alone. You are charged once, by the first poll that finds the result ready.',
  running: 'Still working. Nothing has been charged. Poll again in 2 to 5 seconds.',
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

/** An answer is kept for those who lost the reply that they have paid for. */
const KEEP_ANSWERS = { unclaimedMs: 48 * HOUR_MS, settledMs: 24 * HOUR_MS }

type StreamedFields<Input> = Omit<
  Streamed<Input>,
  'kind' | 'method' | 'methods' | 'from' | 'order' | 'unknownFields' | 'job' | 'failure' | 'retention'
> &
  Partial<Pick<Streamed<Input>, 'failure' | 'retention'>>

/** Fills the usual words in, and forgets the type of the input. */
export function streamed<Input>(words: StreamedFields<Input>): Streamed {
  return {
    failure: 'Model unavailable',
    retention: KEEP_ANSWERS,
    ...words,
    kind: 'live',
    method: 'POST',
    from: 'body',
    order: 'check_then_quote',
    unknownFields: 'kept',
    job: ANY_JOB,
  } as unknown as Streamed
}

export const polled = (endpoint: Omit<Polled, 'kind' | 'method'>): Polled => ({
  ...endpoint,
  kind: 'poll',
  method: 'GET',
})
export const free = (endpoint: Omit<Free, 'kind' | 'method'> & { readonly method?: Free['method'] }): Free => ({
  method: 'GET',
  ...endpoint,
  kind: 'free',
})

/** A JSON reply. */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }
}
