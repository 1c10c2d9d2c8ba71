/** Given to every step of a call beside its order: the parts of one gateway, built once. */
import type { Catalog, Context } from './endpoint/offering.ts'
import type { Mirror, Prices, Sold } from './endpoint/mod.ts'
import type { QuoteCache } from './endpoint/quote_cache.ts'
import type { Budget } from './http/body_bytes.ts'
import type { InputParser } from './http/request_body.ts'
import type { Json } from './lib/json.ts'
import type { Limits, Window } from './http/rate_limit.ts'
import type { SignedReplies } from './http/signed_replies.ts'
import type { UnpaidWork } from './http/unpaid_work.ts'
import type { Charges } from './identity/charges.ts'
import type { PollUrls } from './identity/poll_urls.ts'
import type { Calls } from './payment/calls/calls.ts'
import type { Controls } from './payment/control/controls.ts'
import type { Offers } from './payment/offers.ts'
import type { SettleContext } from './payment/settlement/context.ts'
import type { Timeouts } from './payment/timeouts.ts'
import type { KnownWallets, NewWalletsLimit } from './payment/unpaid/new_wallets.ts'
import type { NewWalletLimit, Ports } from './ports/mod.ts'
import type { CountTokens } from './ports/vendors/chat.ts'
import type { Vendors } from './ports/vendors/mod.ts'
import type { SignIns } from './x402/sign_in.ts'

export type Engine = {
  readonly gateway: GatewayIdentity
  /** The gateways of this process over the same storage, this one too, by name. */
  readonly gateways: ReadonlyMap<string, Engine>
  /** The outside. Its storage has the verbs of `calls` in place of its own. */
  readonly ports: Ports
  readonly settings: Settings
  readonly products: Products
  /** Offers at a price, and who signed for one. */
  readonly offers: Offers
  /** Parts that settlements are given. */
  readonly money: SettleContext
  /** The verbs of calls, whose events are reported to observers, and the calls that this process works on. */
  readonly calls: Calls
  readonly limits: EngineLimits
  /** How callers show who they are without paying: by the key of a poll URL, or by signing in. */
  readonly identity: { readonly pollUrls: PollUrls; readonly signIns: SignIns }
  /** Calls that this process delivers now. */
  readonly deliveries: Deliveries
  /** Copies media to durable storage. */
  readonly mirror: Mirror
  /** Signs offers and receipts. Absent: they are not signed. */
  readonly signing?: SignedReplies | undefined
  /** Takes MPP beside x402, where there are offers that it can pay. Absent: switched off. */
  readonly charges?: Charges | undefined
}

/** State of the deliveries that outlives a request. */
export type Deliveries = {
  /** Ends each active stream. */
  readonly streams: Set<() => void>
  /** Cancels background work, by call. */
  readonly background: Map<string, AbortController>
  /** Memory for orders on their way to the vendors of upstream jobs. */
  readonly submissions: Budget
  /** Compresses long results for storage, a few at a time. */
  readonly compress: (made: Json) => Promise<Json>
}

/** Name of a gateway in the ledger, in replies and in URLs. */
export type GatewayIdentity = {
  readonly name: string
  /** `base`, `base-sepolia`, ... (contract 1.13). */
  readonly label: string
  /** Path under which the host mounts the gateway; empty or like `/ai`. */
  readonly basePath: string
  /** Names of the documents that explain a 402, where they are served. */
  readonly documents: { readonly docs: boolean; readonly llms: boolean }
  /** CAIP-2 networks on which it is paid. */
  readonly networks: readonly string[]
  /** Identifies this process in the calls that it works on. */
  readonly workerId: string
}

/** The operator's settings, each with its default filled in. */
export type Settings = {
  readonly timeouts: Timeouts
  /** Largest request body, without and with files, in bytes. */
  readonly maxBody: number
  readonly maxUpload: number
  /** Overrides every inline window, in milliseconds. */
  readonly inlineMs?: number | undefined
  /** HTTP status when the chain cannot be reached (contract 1.27). */
  readonly unverifiable: 402 | 503
  /** Rate limits of free models for each IP address. */
  readonly freeTier: readonly Window[]
  /** Whether web pages of this origin may use free models. Absent: all may. */
  readonly freeToOrigin?: ((origin: string) => boolean) | undefined
  /** Wallets in lower case, by allowlist name (contract 1.58). */
  readonly allowlists: Readonly<Record<string, readonly string[]>>
  /** Limits for wallets that have never paid, on calls that are served before settlement (contract 1.47). */
  readonly newWallet: NewWalletLimit
  /** Limits for all wallets that have not paid yet, together (contract 1.95). */
  readonly newWallets: NewWalletsLimit
}

/** Products that are sold. */
export type Products = {
  /** By endpoint name. */
  readonly sold: ReadonlyMap<string, Sold>
  readonly catalog: Catalog
  /** By endpoint. */
  readonly parsers: ReadonlyMap<Sold, InputParser>
  /** 402s that were written before. */
  readonly quotes: QuoteCache
  /** Facts that endpoints validate and price with. */
  readonly context: Context & {
    readonly prices: Prices
    readonly vendors: Vendors
    readonly countTokens: CountTokens
  }
}

/** Limits of the requests of this process. */
export type EngineLimits = {
  readonly windows: Limits
  readonly unpaidWork: UnpaidWork
  /** Memory shared by all request bodies. */
  readonly bodies: Budget
  readonly newWallets: KnownWallets
  /** The operator's limits, lists, margins and maintenance switch. Absent: none are in force. */
  readonly controls?: Controls | undefined
}
