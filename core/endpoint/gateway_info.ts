/** The facts that a gateway publishes: to its free endpoints, in its documents, on its price list. */
import type { ChainFamily } from '../ports/chain_family.ts'
import type { Closed } from '../ports/mod.ts'
import type { Product } from './prices.ts'
import type { Terms } from '../x402/offer.ts'

/** Public facts of a gateway, derived from its endpoints and its chain. */
export type GatewayFacts = {
  readonly name: string
  /** `base`, `base-sepolia`, ... (contract 1.13). */
  readonly label: string
  readonly version: string
  /** Path under which the host mounts the gateway; empty or like `/ai`. */
  readonly basePath: string
  readonly startedAt: number
  /** Whether the process is shutting down and wants no new requests. */
  isDraining(): boolean
  /** Whether its storage answers. Asks it at most once a second. */
  isStorageReachable(): Promise<boolean>
  /** Whether paid routes have an offer. */
  isReady(): boolean
  /** Why a chain does not sell although it was checked; the reason is for the operator only. */
  closed(): Closed | undefined
  /** Families of the networks that it is paid on. */
  readonly families: readonly ChainFamily[]
  /** Accepted payment terms; empty until the chain has been checked. */
  terms(): readonly Terms[]
  /** Recent health of its chain and its models. */
  readonly healthStatus: HealthStatus
  /** The endpoint that sells the models of a kind, which its product declares. */
  sellerOf(kind: string): Product
  /** The available endpoints and what one call of each costs. */
  pricing(): readonly Priced[]
  /** The OpenAPI document. `all` adds endpoints that are not configured, marked `x-available: false`. */
  openapi(origin: string, options?: { readonly all?: boolean }): Promise<string>
  wellKnown(origin: string): string
  /** The document with the key that signs offers and receipts; undefined where they are not signed. */
  did(origin: string): string | undefined
  /** Markdown for language models: a page of links to what is sold, and everything in one text. */
  llms(origin: string): Promise<string>
  llmsFull(origin: string): Promise<string>
  /** The HTML reference page, and its Content-Security-Policy. */
  docs(origin: string): Promise<{ readonly html: string; readonly policy: string }>
}

/** An endpoint and its price: `free`, a fixed price, or the lowest and the highest in US dollars. */
export type Priced = {
  readonly name: string
  readonly methods: readonly string[]
  readonly path: string
  readonly tag: string
  readonly summary: string
  readonly price: PriceRange | 'free'
}
/** In the form of `x-payment-info` (decision 70). */
export type PriceRange =
  | { readonly mode: 'fixed'; readonly currency: 'USD'; readonly amount: string }
  | { readonly mode: 'dynamic'; readonly currency: 'USD'; readonly min: string; readonly max: string }

/** Times in milliseconds; null when there was none since the start. */
export type ProviderStatus = {
  readonly lastOkAt: number | null
  readonly lastFailureAt: number | null
  readonly failuresInARow: number
}

export type HealthStatus = {
  chain(): ProviderStatus
  model(id: string): ProviderStatus
  /** Whether payments could not be verified for a while, up to the last attempt. */
  isVerificationUnavailable(): boolean
}

/** After this many consecutive failures a model is degraded, until it answers again. */
export const DEGRADED_AFTER = 3

/** How a gateway that runs is stopped. */
export type StopOptions = {
  /** How long requests and work under way may take until they are cut off, in milliseconds. Default 30,000. */
  readonly drainMs?: number
}
