/** What everything that is sold by the call has in common. */
import type { Json } from '../lib/json.ts'
import type { ApiErrorCode } from '../http/errors.ts'
import type { TObject, TSchema } from '@sinclair/typebox'
import type { UnknownFields } from '../http/request_body.ts'
import type { Offering } from './offering.ts'
import type { Usdc } from '../x402/money.ts'
import type { ErrorFormat } from '../http/error_formats.ts'
import type { Effects } from './call_context.ts'

/**
 * What a slow call looks like while it runs. `poll` has `{id}` in it. `query` makes of what is remembered a query that
 * is signed, and without which the poll is refused.
 */
export type JobDescription = {
  readonly object: string
  readonly poll: string
  readonly instructions: string
  readonly running: string
  query?(request: Json): Readonly<Record<string, string>>
}

export type Common = {
  /** Name in the ledger and in logs, for example `images.generations`. */
  readonly name: string
  readonly path: string
  readonly aliases?: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly tag: string
  /** Errors of its own, for the documents; what its kind, dialect and input bring with them is known already. */
  readonly errors?: readonly ApiErrorCode[]
  /**
   * Whether this gateway serves it as it is configured; documents leave out what is not served. The default: free
   * endpoints are served, paid ones where their sample can be bought, and polls where anything that they poll is.
   */
  isOffered?(offering: Offering): boolean
}

/** Whatever is sold by the call. It is checked first and then quoted: bad input never costs a signature. */
export type Sale<Input> = Common & {
  readonly kind: 'sold'
  readonly method: 'GET' | 'POST'
  /** Served under these methods as well, in the same way: for callers that cannot attach headers to a GET. */
  readonly methods?: readonly ('GET' | 'POST')[]
  readonly input: TObject
  /** Where the input is: in the body, or in path and query, as text. */
  readonly from: 'body' | 'query'
  /**
   * Makes the input of what was sent, where it is not the body or the query itself. `body` is undefined where none
   * came, or none that is JSON.
   */
  arrange?(request: {
    readonly params: Readonly<Record<string, string>>
    readonly query: Readonly<Record<string, string>>
    readonly body: unknown
  }): unknown
  /**
   * Bad input is told before the quote, or only to those who pay: the quote then reads the raw input, and never fails
   * for it.
   */
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
  /**
   * The `error` text of a 402 whose authorization was used before (contract 9.9); that of any refused payment unless
   * told.
   */
  readonly replayError?: string
  /** The `error` text when the work fails for no reason of the buyer's. */
  readonly failure: string
  /** Reads a multipart form as the JSON body would be; absent where only JSON is accepted. */
  multipart?(form: FormData): Promise<Record<string, unknown>>
  /** Takes files: its bodies may be as large as an upload, and share a budget of bytes in flight. */
  readonly uploads?: true
  /** How long an unsettled result can be claimed, and a settled one is kept (contract 2.23). */
  readonly retention: { readonly unclaimedMs: number; readonly settledMs: number; readonly backgroundMs?: number }
  readonly output: TSchema
  readonly effects?: Effects
}

const HOUR_MS = 3_600_000

/** How long an uncollected result can be claimed, and a settled one is kept: 48 hours and 30 days (contract 2.23). */
export const JOB_RETENTION = { unclaimedMs: 48 * HOUR_MS, settledMs: 30 * 24 * HOUR_MS }

/** The job of an endpoint that has no poll path of its own. */
export const ANY_JOB: JobDescription = {
  object: 'call.job',
  poll: '/api/v1/calls/{id}',
  instructions:
    'GET poll_url, as it is, every 2 to 5 seconds with a payment header of the same wallet; its key is for you alone. You are charged once, by the first poll that finds the result ready.',
  running: 'Still working. Nothing has been charged. Poll again in 2 to 5 seconds.',
}

/** An answer is kept for those who lost the reply that they have paid for. */
export const ANSWER_RETENTION = { unclaimedMs: 48 * HOUR_MS, settledMs: 24 * HOUR_MS }
