/** What an endpoint may look at before anything is ordered. */
import type { Vendors } from '../ports/vendors/mod.ts'
import type { Usdc } from '../x402/money.ts'
import type { Json } from '../lib/json.ts'
import type { ImageRow } from '../ports/vendors/images.ts'
import type { ChatRow } from '../ports/vendors/chat.ts'
import type { VideoRow } from '../ports/vendors/video.ts'
import type { AudioRow } from '../ports/vendors/audio.ts'

/** What pure functions of an endpoint may look at beside the input. */
export type Context = {
  readonly catalog: Catalog
  /** What the operator has switched off for a while; everything is on unless told. */
  readonly featureFlags?: { readonly referenceMedia?: boolean }
  /** Those that this gateway is paid on, CAIP-2. */
  readonly networks?: readonly string[]
  /** The operator's lists of wallets, by name. */
  readonly allowlists?: Readonly<Record<string, readonly string[]>>
}

/** What is on the shelf, and who of the operator's vendors can make it. */
export type Offering = Context & { readonly vendors: Vendors }

export type Price = {
  readonly amount: Usdc
  /** How long the signed authorization lives; work and settlement must fit into it. */
  readonly maxTimeoutSeconds: number
  /** Joins `amount` and `currency` in the body's `price`. */
  readonly publicPrice: Readonly<Record<string, Json>>
  /** Joins the body of the 402, for example `generation_info`. */
  readonly also?: Readonly<Record<string, Json>>
}

/** Rows of one kind, found by public id or by any alias. */
export type Rows<Row> = { readonly all: readonly Row[]; get(id: string): Row | undefined }

export type Catalog = {
  readonly images: Rows<ImageRow>
  readonly chat: Rows<ChatRow>
  readonly video: Rows<VideoRow>
  readonly audio: Rows<AudioRow>
}
