/** What one gateway is made of, as its flow sees it. */
import type { Timeouts } from '../payment/timeouts.ts'
import type { Catalog } from '../endpoint/offering.ts'
import type { Context, Sold } from '../endpoint/mod.ts'
import type { Budget } from '../http/request_body.ts'
import type { Limits, Window } from '../http/rate_limit.ts'
import type { ActiveCalls } from '../payment/active_calls.ts'
import type { Mirror } from './media_mirror.ts'
import type { Authorization, Call, NewWalletLimit, Ports } from '../ports/mod.ts'
import type { PollUrls } from './poll_urls.ts'
import type { UnpaidWork } from '../http/unpaid_work.ts'
import type { RequestContext } from './request_context.ts'

export type GatewayContext = {
  readonly name: string
  /** `base`, `base-sepolia`, ... (contract 1.13). */
  readonly label: string
  readonly ports: Ports
  readonly catalog: Catalog
  readonly sold: ReadonlyMap<string, Sold>
  readonly timeouts: Timeouts
  readonly windows: Limits
  readonly unpaidWork: UnpaidWork
  readonly pollUrls: PollUrls
  readonly networks: readonly string[]
  readonly featureFlags: NonNullable<Context['featureFlags']>
  /** Status of the answer while the chain cannot be asked (contract 1.27). */
  readonly unverifiable: 402 | 503
  /** What an address may ask of free models. */
  readonly freeTier: readonly Window[]
  /** Whether a web page of this origin may use what is free; absent, every page may. */
  readonly freeToOrigin?: (origin: string) => boolean
  /** Wallets by the name of their list, in lower case (contract 1.58). */
  readonly allowlists: Readonly<Record<string, readonly string[]>>
  /** Names this process in the calls that it works on. */
  readonly workerId: string
  /** The calls that this process works on. */
  readonly activeCalls: ActiveCalls
  /** Largest request body, in bytes. */
  readonly maxBody: number
  readonly maxUpload: number
  /** What all request bodies of this process may hold at a time. */
  readonly bodies: Budget
  /** Makes the media of all calls durable. */
  readonly mirror: Mirror
  /** What a wallet that never paid may have open of what is served before it is paid for (contract 1.47). */
  readonly newWallet: NewWalletLimit
  /** Overrides every inline window, in milliseconds. */
  readonly inlineMs?: number
}

/** A call that has been opened, and is to be worked on. */
export type OpenedCall<Endpoint extends Sold = Sold> = {
  readonly endpoint: Endpoint
  readonly input: unknown
  readonly call: Call
  readonly authorization: Authorization
  readonly requestContext: RequestContext
  /**
   * Its wallet has never paid and may open no other call like it: a stream is settled before any content leaves
   * (contract 1.47).
   */
  readonly settlesEarly?: boolean
}
