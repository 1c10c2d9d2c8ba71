/** Input of the discovery documents. */
import type { StreamedContext } from '../endpoint/mod.ts'
import type { ChargeMethod } from '../mpp/method.ts'
import type { Terms } from '../x402/offer.ts'

/** One entry of the changelog. */
export type Change = { readonly date: string; readonly title: string; readonly detail: string }

/** Placeholder for the origin in cached documents; reserved, so no host has this name (RFC 6761). */
export const PLACEHOLDER_ORIGIN = 'https://gateway.invalid'

/** Facts about a gateway that its documents include. */
export type GatewayDescription = {
  readonly label: string
  readonly version: string
  /** Path under which the host mounts the gateway; empty or like `/ai`. */
  readonly basePath: string
  /** Whether these documents are served, which a 402 links to. */
  readonly documents: { readonly docs: boolean; readonly llms: boolean }
  terms(): readonly Terms[]
  /** The methods of MPP that the gateway takes. */
  readonly charges: readonly ChargeMethod[]
  /** Where to reach the operator: an http(s) URL or an e-mail address. */
  readonly contact?: string
  readonly offering: StreamedContext
  /** Lets others be answered while a document is written. */
  pause(): Promise<void>
  /** Changelog entries, newest first. */
  readonly changes: readonly Change[]
}

export const DESCRIPTION =
  'Sells AI by the call. A request without payment is answered 402 with an exact quote; sign a USDC authorization (x402 version 2) and send the request again with a payment header. Money moves only when there is a result.'
