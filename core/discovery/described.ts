/** What documents are written from. */
import type { StreamedContext } from '../endpoint/mod.ts'
import type { Terms } from '../x402/offer.ts'

/** One entry of the changelog. */
export type Change = { readonly date: string; readonly title: string; readonly detail: string }

/** Facts of one gateway that its documents speak of. */
export type GatewayDescription = {
  readonly label: string
  readonly version: string
  terms(): readonly Terms[]
  readonly offering: StreamedContext
  /** What has changed, newest first. */
  readonly changes: readonly Change[]
}
