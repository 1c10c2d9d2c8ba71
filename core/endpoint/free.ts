/** Endpoints that nobody pays for: polls of what was bought, and what is free. */
import type { Common } from './sale.ts'
import type { RequestHead, StreamedContext } from './streamed.ts'
import type { Ports, Chain, Storage, Call } from '../ports/mod.ts'
import type { GatewayFacts } from './gateway_info.ts'
import type { Json } from '../lib/json.ts'
import type { ErrorFormat } from '../http/error_formats.ts'
import type { TObject } from '@sinclair/typebox'
import type { Offering } from './offering.ts'
import type { Reply } from '../http/reply.ts'

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
  /** The body as it came, as text, or as JSON. All throw an `ApiError`. */
  bytes(): Promise<Uint8Array>
  text(): Promise<string>
  json(): Promise<unknown>
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
    readonly records: Pick<Storage, 'putRecord' | 'getRecord' | 'moveRecord' | 'listRecords' | 'getCall'>
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
  /** It asks for what an order or an earlier call made, by its id: documents have no example of it. */
  readonly follows?: true
  /** Left out of OpenAPI and discovery: it serves other endpoints. */
  readonly hidden?: true
  answer(request: FreeRequest, context: FreeContext): Reply | Promise<Reply>
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
