/** What an endpoint may use before anything is ordered. */
import type { Vendors } from '../ports/vendors/mod.ts'
import type { Usdc } from '../x402/money.ts'
import type { Json } from '../lib/json.ts'
import type { ImageRow } from '../ports/vendors/images.ts'
import type { ChatRow } from '../ports/vendors/chat.ts'
import type { VideoRow } from '../ports/vendors/video.ts'
import type { AudioRow } from '../ports/vendors/audio.ts'

/** What pure functions of an endpoint may use beside the input. */
export type Context = {
  readonly catalog: Catalog
  /** Features that the operator has switched off for a while; everything is on by default. */
  readonly featureFlags?: { readonly referenceMedia?: boolean }
  /** Networks on which this gateway is paid, as CAIP-2 ids. */
  readonly networks?: readonly string[]
  /** The operator's wallet allowlists, by name. */
  readonly allowlists?: Readonly<Record<string, readonly string[]>>
}

/** The catalogs, and the configured vendors that can serve them. */
export type Offering = Context & { readonly vendors: Vendors }

export type Price = {
  readonly amount: Usdc
  /** Lifetime of the signed authorization; work and settlement must fit into it. */
  readonly maxTimeoutSeconds: number
  /** Added to `amount` and `currency` in the body's `price`. */
  readonly publicPrice: Readonly<Record<string, Json>>
  /** Added to the body of the 402, for example `generation_info`. */
  readonly also?: Readonly<Record<string, Json>>
}

/** Catalog rows of one kind, found by public id or by alias. */
export type Rows<Row> = { readonly all: readonly Row[]; get(id: string): Row | undefined }

export type Catalog = {
  readonly images: Rows<ImageRow>
  readonly chat: Rows<ChatRow>
  readonly video: Rows<VideoRow>
  readonly audio: Rows<AudioRow>
}
