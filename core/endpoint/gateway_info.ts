/** What a gateway says of itself: to its free endpoints, in its documents, on its price list. */
import type { Closed } from '../ports/mod.ts'
import type { Terms } from '../x402/offer.ts'

/** Facts that anybody may know of a gateway, derived from the menu and its chain. */
export type GatewayFacts = {
  readonly name: string
  /** `base`, `base-sepolia`, ... (contract 1.13). */
  readonly label: string
  readonly version: string
  readonly startedAt: number
  /** Whether the process is about to stop, and wants no new requests. */
  isDraining(): boolean
  /** Whether paid routes have an offer. */
  isReady(): boolean
  /** Why a chain of it does not sell although it was checked; its reason is for the operator only. */
  closed(): Closed | undefined
  /** What it is paid in; empty until its chain has been checked. */
  terms(): readonly Terms[]
  /** What it has seen of its chain and its models lately. */
  readonly healthStatus: HealthStatus
  /** What this gateway serves as it is configured, and what one call of it costs. */
  pricing(): readonly Priced[]
  /** `all` adds what is not configured, marked `x-available: false`. */
  openapi(origin: string, options?: { readonly all?: boolean }): Promise<string>
  wellKnown(origin: string): string
  /** The reference page as HTML, and the Content-Security-Policy that it is served under. */
  docs(origin: string): Promise<{ readonly html: string; readonly policy: string }>
}

/** An endpoint and its price: `free`, one, or the least and the most in US dollars. */
export type Priced = {
  readonly name: string
  readonly methods: readonly string[]
  readonly path: string
  readonly tag: string
  readonly summary: string
  readonly price: PriceRange | 'free'
}
/** As `x-payment-info` has it (decision 70). */
export type PriceRange =
  | { readonly mode: 'fixed'; readonly currency: 'USD'; readonly amount: string }
  | { readonly mode: 'dynamic'; readonly currency: 'USD'; readonly min: string; readonly max: string }

/** Times in milliseconds; null where there was none since the start. */
export type ProviderStatus = {
  readonly lastOkAt: number | null
  readonly lastFailureAt: number | null
  readonly failuresInARow: number
}

export type HealthStatus = {
  chain(): ProviderStatus
  model(id: string): ProviderStatus
  /** Whether payments could not be verified for a while, up to the last try. */
  isVerificationUnavailable(): boolean
}

/** One that has failed so often in a row is called degraded, until it answers again. */
export const DEGRADED_AFTER = 3
