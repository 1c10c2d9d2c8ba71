/** An endpoint that answers at once and is settled after the answer. */
import type { Context, Offering } from './offering.ts'
import type { Price } from './prices.ts'
import type { Ports } from '../ports/mod.ts'
import type { Usdc } from '../x402/money.ts'
import type { Clock } from '../lib/clock.ts'
import type { Json } from '../lib/json.ts'
import { type Sale, ANSWER_RETENTION, ANY_JOB } from './sale.ts'

/** Parts of a request that a streamed endpoint reads besides the body: the path, and the headers of its chat format. */
export type RequestHead = {
  readonly params: Readonly<Record<string, string>>
  readonly header: (name: string) => string | null
}

export type StreamedContext = Offering & Pick<Ports, 'countTokens'>

/** A request that is quoted, or was a moment ago. */
export type QuotedRequest = {
  readonly requestContext: {
    readonly path: string
    readonly params: Readonly<Record<string, string>>
    readonly request: Request
  }
  readonly body: string | Uint8Array
}

/** Inputs of requests that were quoted a moment ago, within limits on their size, number and age. */
export type QuotedInputs = {
  /** Before the check, which is to read `head`; `store` once it has passed. */
  begin(request: QuotedRequest, clock: Clock): { readonly head: RequestHead; store(input: unknown): void }
  /** The input of the same path, body and headers. Takes it out, so that it belongs to one call. */
  take(request: QuotedRequest): { readonly input: unknown } | undefined
}

/** `id` is unique and unguessable, even when nothing is stored; `payer` is null for free calls. */
export type StreamedOrder<Input> = Offering &
  Pick<Ports, 'clock' | 'log' | 'countTokens'> & {
    readonly id: string
    readonly input: Input
    readonly payer: string | null
    readonly signal: AbortSignal
    /**
     * Hands over whether vendors were paid for what an error would lose, such as searches. The call counts against its
     * wallet then, as one that was abandoned.
     */
    watchCost?(isCostly: () => boolean): void
  }

/**
 * A reply as it is produced. `closing` are the last events, sent after the receipt; they are known once `next` has
 * ended.
 */
export type AnswerStream = {
  next(): Promise<Uint8Array | undefined>
  /** Cancels it at once, upstream included. Never throws; a pending `next` ends as well. */
  cancel(): void
  /** Whether any billable content was delivered. */
  hasContent(): boolean
  closing(): string
  usage(): Json
  /** The number of the next event, in formats that number events. */
  nextSequence?(): number
  /** Whether vendors were paid for what an error would lose, as `watchCost` says. */
  isCostly?(): boolean
}

export type Answer =
  | {
      readonly kind: 'whole'
      readonly headers: Readonly<Record<string, string>>
      readonly body: Readonly<Record<string, Json>>
      readonly usage: Json
    }
  | { readonly kind: 'stream'; readonly headers: Readonly<Record<string, string>>; readonly stream: AnswerStream }

/**
 * Usage of an answer. `usage` is what its vendor reported. `read` is given where its reader left before the end: the
 * events that were delivered or, of a long stream, the first of them, and how many times as much was delivered.
 */
export type Used = {
  readonly usage: Json
  readonly read?: { readonly events: Uint8Array; readonly times: number }
}

/** Answers at once, whole or streamed, and is settled after the answer (decision 17). Free inputs need no payment. */
export type Streamed<Input = unknown> = Sale<Input> & {
  readonly delivery: 'stream'
  /** A valid body, shown in OpenAPI and quoted to probes: the first one that this gateway can serve. */
  sample(offering: Offering): Readonly<Record<string, Json>>
  check(body: Readonly<Record<string, unknown>>, head: RequestHead, context: StreamedContext): Promise<Input>
  price(input: Input, context: Context): Price | 'free'
  /**
   * Inputs that this gateway has quoted, for a `check` that depends on nothing but its arguments. Absent where each
   * request is checked.
   */
  quoted?(context: Context): QuotedInputs
  /**
   * The most that an answer may cost the operator, at list price: a quote counts only a share of the longest answer.
   * Absent where the quote covers it.
   */
  worstCost?(input: Input): Usdc
  answer(order: StreamedOrder<Input>): Promise<Answer>
  /**
   * Prices an answer by its usage, at list price, for schemes that charge by use. Undefined where only the quote is
   * known: it is then charged. Absent where the quote is the price.
   */
  cost?(input: Input, used: Used, context: Pick<StreamedContext, 'countTokens' | 'prices'>): Promise<Usdc | undefined>
  /** The wallets that may buy this; undefined when all may (contract 1.58). */
  allowlists?(input: Input): Allowlist | undefined
  /**
   * The reply to a background order: the work continues and is settled before its output can be read (contract 7.17).
   * Absent when the caller waits.
   */
  deferred?(
    input: Input,
    call: { readonly id: string; readonly createdAt: number; readonly key: string },
  ): Readonly<Record<string, Json>> | undefined
  /** The stored answer of a background order, under the id that `deferred` returned. */
  deferredAnswer?(
    body: Readonly<Record<string, Json>>,
    call: { readonly id: string; readonly key: string },
  ): Readonly<Record<string, Json>>
}

/** `name` is its setting; `unset` says who may buy while the operator has configured no list. */
export type Allowlist = { readonly name: string; readonly unset: 'nobody' | 'everybody' }

type StreamedFields<Input> = Omit<
  Streamed<Input>,
  'kind' | 'delivery' | 'method' | 'methods' | 'from' | 'order' | 'unknownFields' | 'job' | 'failure' | 'retention'
> &
  Partial<Pick<Streamed<Input>, 'failure' | 'retention'>>

/**
 * Fills in the usual texts and erases the input type.
 *
 * @example
 * const shout = streamed<string>({
 *   name: 'shout',
 *   path: '/api/v1/shout',
 *   summary: 'Say it louder',
 *   tag: 'text',
 *   errorFormat: 'plain',
 *   input: Type.Object({ text: Type.String() }),
 *   output: Type.Object({ text: Type.String() }),
 *   sample: () => ({ text: 'hello' }),
 *   isAvailable: () => true,
 *   remember: () => ({ model: null, request: {} }),
 *   priceRange: ({ prices }) => ({ min: flatPrice('0.01', prices), max: flatPrice('0.01', prices) }),
 *   check: async ({ text }) => String(text),
 *   price: (_input, { prices }) => ({ amount: flatPrice('0.01', prices), maxTimeoutSeconds: 300, publicPrice: {} }),
 *   answer: async ({ input }) => ({ kind: 'whole', headers: {}, body: { text: input.toUpperCase() }, usage: null }),
 * })
 */
export function streamed<Input>(words: StreamedFields<Input>): Streamed {
  return {
    failure: 'Model unavailable',
    retention: ANSWER_RETENTION,
    ...words,
    kind: 'sold',
    delivery: 'stream',
    method: 'POST',
    from: 'body',
    order: 'check_then_quote',
    unknownFields: 'kept',
    job: ANY_JOB,
  } as unknown as Streamed
}
