/** Endpoints without payment: polls of paid jobs, and free routes. */
import type { Common } from './sale.ts'
import type { RequestHead, StreamedContext } from './streamed.ts'
import type { Call, CallStorage, Chain, LedgerReads, Ports, RecordStorage } from '../ports/mod.ts'
import type { GatewayFacts } from './gateway_info.ts'
import type { Json } from '../lib/json.ts'
import type { ErrorFormat } from '../http/error_formats.ts'
import type { TObject } from '@sinclair/typebox'
import type { Offering } from './offering.ts'
import type { Reply } from '../http/reply.ts'
import type { Offer, Payment } from '../x402/protocol.ts'
import type { SignIns } from '../x402/sign_in.ts'

/** Polls the jobs of the named paid endpoints, or of all. */
export type Polled = Common & {
  readonly kind: 'poll'
  readonly method: 'GET'
  readonly of: readonly string[] | 'all'
  /** Accepts only queries that we signed for the poll path of the jobs. */
  readonly signedQuery?: true
}

export type FreeRequest = RequestHead & {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  /** The raw query with its question mark; '' when there is none. */
  readonly search: string
  readonly origin: string
  /** Whether the origin is the gateway's own, and not only what the Host header says. */
  readonly isHostTrusted: boolean
  /** The raw body as bytes, as text, or as JSON. All throw an `ApiError`. */
  bytes(): Promise<Uint8Array>
  text(): Promise<string>
  json(): Promise<unknown>
}

/** Context of a free endpoint. `gateway` describes the gateway that was called. */
export type FreeContext = StreamedContext &
  Pick<Ports, 'objects' | 'clock' | 'log'> & {
    readonly gateway: GatewayFacts
    readonly calls: FreeCalls
    readonly chain: Pick<Chain, 'apiKeys' | 'balance'>
    /** Spending of wallets, over all gateways of this storage. */
    readonly ledger: Pick<LedgerReads, 'spendByModel' | 'listCalls'>
    /** Small records beside the calls, and the calls that they came from, on any gateway. */
    readonly records: RecordStorage & Pick<CallStorage, 'getCall'>
    /** Wallets that show who they are without paying. */
    readonly signIns: SignIns
    /** Throws where the operator sells nothing to this wallet, or blocks the other address (contract 1.67). */
    requireListed(payer: string, otherAddress: string): void
    /** Cryptographically strong bytes. */
    random(bytes: number): Uint8Array
    /** Whether an `Authorization` header is the operator's (contract 3.9). Takes constant time. */
    readonly isOperator: (authorization: string | null) => boolean
  }

/** Calls of this gateway, for free endpoints that follow one by its id and poll key. */
export type FreeCalls = {
  /** Undefined without the right poll key. */
  find(id: string, key: string): Promise<Call | undefined>
  /** Cancels an unfinished call, which then costs nothing. False when it had already ended. */
  cancel(id: string, why: string): Promise<boolean>
  /** Where its wallet collects it, with its poll key: only for that wallet. */
  pollUrl(id: string): Promise<string>
  /** Settles the call of an authorization if its result is there and unpaid. Anything else stays as it is. */
  settleFinished(authorization: string, payFor: (offer: Offer) => Payment): Promise<void>
}

/** A request that anybody may try. Path and query values are text, by name. */
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
  /** Its largest body in bytes, if it differs from the gateway's. */
  readonly maxBody?: number
  /** Schema of the POST body, or of the query. */
  readonly input?: TObject
  /** Answers HEAD and OPTIONS with a 402 for zero: how indexers discover free feeds (contract 10.14). */
  readonly discoverable?: true
  /** Only for a wallet that has signed in; everybody else gets a 402 with a challenge (contract 18.16). */
  readonly signsIn?: true
  /** Rate limit per caller address; endpoints with the same `bucket` share one. */
  readonly limit?: { readonly requests: number; readonly windowMs: number; readonly bucket?: string }
  /** Absent for replies other than JSON, such as media bytes. */
  readonly output?: TObject
  /** Content type of replies other than JSON. */
  readonly produces?: string
  /** Shown in OpenAPI, which derives the query parameters from it and from `input`. */
  readonly sample?: Sample | ((offering: Offering) => Sample)
  /** Example refusals for the documents, for an endpoint that takes any body and words its refusals itself. */
  readonly refusals?: readonly { readonly name: string; readonly summary: string; readonly reply: Reply }[]
  /** It refers to an earlier order or call by id, so documents have no example of it. */
  readonly follows?: true
  /** Left out of OpenAPI and discovery, because it serves other endpoints. */
  readonly hidden?: true
  answer(request: FreeRequest, context: FreeContext): Reply | Promise<Reply>
}

/**
 * An endpoint at which the jobs of others are polled.
 *
 * @example
 * const poll = polled({
 *   name: 'haiku.poll',
 *   path: '/api/v1/haikus/{id}',
 *   of: ['haiku'],
 *   summary: 'Poll a haiku',
 *   tag: 'haiku',
 * })
 */
export const polled = (endpoint: Omit<Polled, 'kind' | 'method'>): Polled => ({
  ...endpoint,
  kind: 'poll',
  method: 'GET',
})

/**
 * An endpoint that costs nothing.
 *
 * @example
 * const hello = free({
 *   name: 'hello',
 *   path: '/api/v1/hello',
 *   summary: 'Says hello',
 *   description: 'Free.',
 *   tag: 'site',
 *   output: Type.Object({ hello: Type.String() }),
 *   answer: () => json(200, { hello: 'world' }),
 * })
 */
export const free = (endpoint: Omit<Free, 'kind' | 'method'> & { readonly method?: Free['method'] }): Free => ({
  method: 'GET',
  ...endpoint,
  kind: 'free',
})
