import type { Dollars } from '../money.ts'

/** One output size of an image model, and its catalog rate for one image, before margin and fee. */
export type ImageSize = { readonly size: string; readonly width: number; readonly height: number; readonly rate: Dollars }

/** One image model for sale. */
export type ImageRow = {
  /** Public id, as listed in the contract. */
  readonly id: string
  readonly aliases: readonly string[]
  readonly name: string
  /** The maker, as `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** The vendor's own id for it. */
  readonly upstream: string
  /** Name of the vendor that serves it, a key of the operator's configuration. */
  readonly vendor: string
  readonly sizes: readonly ImageSize[]
  /** Never answers inline: always a job (spec 1, "Slow models"). */
  readonly slow: boolean
}
