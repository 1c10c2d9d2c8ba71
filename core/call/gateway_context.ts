/** What the call engine needs to know of one gateway. */
import type { Timeouts } from '../payment/timeouts.ts'
import type { Catalog } from '../endpoint/offering.ts'
import type { Context, Sold } from '../endpoint/mod.ts'
import type { Budget } from '../http/request_body.ts'
import type { Limits, Window } from '../http/rate_limit.ts'
import type { ActiveCalls } from '../payment/active_calls.ts'
import type { PrepaidCalls } from '../payment/prepaid_calls.ts'
import type { Controls } from '../payment/control/controls.ts'
import type { NewWalletsLimit } from '../payment/unpaid/new_wallets.ts'
import type { SignIns } from '../x402/sign_in.ts'
import type { Mirror } from './media_mirror.ts'
import type { Authorization, Call, NewWalletLimit, Ports } from '../ports/mod.ts'
import type { PollUrls } from './poll_urls.ts'
import type { SignedReplies } from '../http/signed_replies.ts'
import type { UnpaidWork } from '../http/unpaid_work.ts'
import type { RequestContext } from './request_context.ts'

export type GatewayContext = {
  readonly name: string
  /** `base`, `base-sepolia`, ... (contract 1.13). */
  readonly label: string
  /** Path under which the host mounts the gateway; empty or like `/ai`. */
  readonly basePath: string
  readonly ports: Ports
  readonly catalog: Catalog
  readonly sold: ReadonlyMap<string, Sold>
  readonly timeouts: Timeouts
  readonly windows: Limits
  readonly unpaidWork: UnpaidWork
  readonly pollUrls: PollUrls
  /** Wallets that show who they are without paying. */
  readonly signIns: SignIns
  readonly networks: readonly string[]
  readonly featureFlags: NonNullable<Context['featureFlags']>
  /** HTTP status when the chain cannot be reached (contract 1.27). */
  readonly unverifiable: 402 | 503
  /** Rate limits of free models for each IP address. */
  readonly freeTier: readonly Window[]
  /** Whether web pages of this origin may use free models. Absent: all may. */
  readonly freeToOrigin?: (origin: string) => boolean
  /** Wallets in lower case, by allowlist name (contract 1.58). */
  readonly allowlists: Readonly<Record<string, readonly string[]>>
  /** Identifies this process in the calls that it works on. */
  readonly workerId: string
  /** Calls that this process works on. */
  readonly activeCalls: ActiveCalls
  /** Calls in its memory, paid by deposits. Absent where other processes use the storage. */
  readonly prepaid?: PrepaidCalls | undefined
  /** Largest request body, in bytes. */
  readonly maxBody: number
  readonly maxUpload: number
  /** Memory budget shared by all request bodies of this process. */
  readonly bodies: Budget
  /** Copies media to durable storage. */
  readonly mirror: Mirror
  /** Limits for wallets that have never paid, on calls that are served before settlement (contract 1.47). */
  readonly newWallet: NewWalletLimit
  /** Limits for all wallets that have not paid yet, together (contract 1.95). */
  readonly newWallets: NewWalletsLimit
  /** The operator's limits, lists, margins and maintenance switch. Absent: none are in force. */
  readonly controls?: Controls
  /** Signs offers and receipts. Absent: they are not signed. */
  readonly signing?: SignedReplies
  /** Overrides every inline window, in milliseconds. */
  readonly inlineMs?: number
}

/** A call that has been opened and is ready for its work. */
export type OpenedCall<Endpoint extends Sold = Sold> = {
  readonly endpoint: Endpoint
  readonly input: unknown
  readonly call: Call
  readonly authorization: Authorization
  readonly requestContext: RequestContext
  /** The operator's margin in its quote, in percent. */
  readonly margin?: string | undefined
  /**
   * The wallet has never paid and may have no other such call open, so its stream is settled before any content is sent
   * (contract 1.47).
   */
  readonly settlesEarly?: boolean
  /** What the buyer is told of its deposit where the work fails. */
  readonly secured?: Readonly<Record<string, unknown>>
}
