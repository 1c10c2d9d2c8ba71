/** Fields that everything sold by the call has in common. */
import type { Json } from '../lib/json.ts'
import type { ApiErrorCode } from '../http/errors.ts'
import type { TObject, TSchema } from '@sinclair/typebox'
import type { UnknownFields } from '../http/request_body.ts'
import type { Offering, RowKind } from './offering.ts'
import type { Usdc } from '../x402/money.ts'
import type { ErrorFormat } from '../http/error_formats.ts'
import type { Effects } from './call_context.ts'

/**
 * Report of a slow call while it runs. `poll` contains `{id}`. `query` builds a query from the stored request
 * fields; it is signed, and polls without it are refused.
 */
export type JobDescription = {
  readonly object: string
  readonly poll: string
  /** Where the host mounts the gateway; `poll` begins with it. Set by the gateway. */
  readonly basePath?: string
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
  /** Name of the endpoint that sells the same in another format. A list of tools has that one alone. */
  readonly variantOf?: string
  /** Its own error codes, for the documents; those that follow from its kind, error format and input are added. */
  readonly errors?: readonly ApiErrorCode[]
  /**
   * Whether this gateway can serve it as it is configured; documents leave out what it cannot. By default free
   * endpoints can, paid ones when their sample can be bought, and polls when anything that they poll can.
   */
  isOffered?(offering: Offering): boolean
}

/** Anything sold by the call. Input is validated before it is quoted, so bad input never costs a signature. */
export type Sale<Input> = Common & {
  readonly kind: 'sold'
  readonly method: 'GET' | 'POST'
  /** Other methods with the same behavior, for callers that cannot attach headers to a GET. */
  readonly methods?: readonly ('GET' | 'POST')[]
  readonly input: TObject
  /** Where the input comes from: the body, or path and query as text. */
  readonly from: 'body' | 'query'
  /**
   * Builds the input from the request, when it is not simply the body or the query. `body` is undefined when none was
   * sent, or none that is JSON.
   */
  arrange?(request: {
    readonly params: Readonly<Record<string, string>>
    readonly query: Readonly<Record<string, string>>
    readonly body: unknown
  }): unknown
  /**
   * Whether input is validated before the quote or only for paying callers; in the second case the quote reads the raw
   * input and never fails for it.
   */
  readonly order: 'check_then_quote' | 'quote_then_check'
  /** Fields outside the schema: dropped, kept because they are forwarded verbatim, or refused by name. */
  readonly unknownFields: UnknownFields
  /** Whether the operator has configured what this input needs. */
  isAvailable(input: Input, offering: Offering): boolean
  /** Returns what the stored call records: the model for the ledger, and the fields that polls show. */
  remember(input: Input): { readonly model: string | null; readonly request: { readonly [key: string]: Json } }
  /** Lowest and highest price of one call, for discovery. */
  priceRange(offering: Offering): { readonly min: Usdc; readonly max: Usdc }
  readonly job: JobDescription
  readonly errorFormat: ErrorFormat
  /**
   * The `error` text of a 402 whose authorization was used before (contract 9.9); by default that of any refused
   * payment.
   */
  readonly replayError?: string
  /** The `error` text when the work fails for a reason that is not the buyer's. */
  readonly failure: string
  /** Reads a multipart form into the same fields as the JSON body; absent when only JSON is accepted. */
  multipart?(form: FormData): Promise<Record<string, unknown>>
  /** Takes files: its bodies may be as large as an upload, and share a memory budget. */
  readonly uploads?: true
  /**
   * Its result is one hosted file of this kind in this folder: a client that accepts such a file and no JSON gets the
   * file in place of the result.
   */
  readonly file?: { readonly kind: 'audio'; readonly folder: string }
  /** How long an unsettled result can be claimed, and a settled one is retained (contract 2.23). */
  readonly retention: { readonly unclaimedMs: number; readonly settledMs: number; readonly backgroundMs?: number }
  readonly output: TSchema
  /** The models that it sells, where its product declares their kind. */
  readonly rows?: RowKind
  readonly effects?: Effects
}

const HOUR_MS = 3_600_000

/** An uncollected result can be claimed for 48 hours, and a settled one is retained for 30 days (contract 2.23). */
export const JOB_RETENTION = { unclaimedMs: 48 * HOUR_MS, settledMs: 30 * 24 * HOUR_MS }

/** The job of an endpoint without a poll path of its own. */
export const ANY_JOB: JobDescription = {
  object: 'call.job',
  poll: '/api/v1/calls/{id}',
  instructions:
    'GET poll_url, as it is, every 2 to 5 seconds with a payment header of the same wallet; its key is for you alone. You are charged once, by the first poll that finds the result ready.',
  running: 'Still working. Nothing has been charged. Poll again in 2 to 5 seconds.',
}

/** Retention of answers, for buyers who lost a reply that they paid for. */
export const ANSWER_RETENTION = { unclaimedMs: 48 * HOUR_MS, settledMs: 24 * HOUR_MS }
