/** The vendor interface for images. */
import type { Dollars } from '../../x402/money.ts'

/** One image model for sale. */
export type ImageRow = {
  /** Public id, as listed in the contract. */
  readonly id: string
  readonly aliases: readonly string[]
  readonly name: string
  /** The maker, for `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** The operator's vendor that serves it, and the vendor's own id. */
  readonly vendor: string
  readonly upstream: string
  readonly sizes: readonly ImageSize[]
  /** How many source images it takes, and whether it takes a mask; absent for models that only generate. */
  readonly edits?: { readonly maxImages: number; readonly mask: boolean }
  /** The row that serves it instead, after an operator's redirect. */
  readonly servedBy?: string
  /** Sold, but not listed. */
  readonly hidden?: boolean
  /** Never answers inline: always a job (contract 5.22). */
  readonly slow: boolean
}

/** One output size in pixels, and its catalog rate for one image, before margin and fee. */
export type ImageSize = {
  readonly size: string
  readonly width: number
  readonly height: number
  readonly rate: Dollars
}

/** `model` is the vendor's id; sizes are in pixels. */
export type ImageJob = {
  readonly model: string
  readonly prompt: string
  readonly width: number
  readonly height: number
  readonly n: number
}

/** `url` is an http(s) URL, often short-lived, or a data URI. */
export type MadeImage = { readonly url: string; readonly revisedPrompt?: string }

/**
 * `images` and `mask` are data URIs of recognized image bytes; the mask is a PNG with the dimensions of the first
 * image.
 */
export type ImageEdit = ImageJob & { readonly images: readonly string[]; readonly mask?: string }

/** Makes images. Throws an `ApiError` with a text for the caller; any other error fails the call. */
export interface ImageVendor {
  generate(job: ImageJob, at: { signal: AbortSignal }): Promise<readonly MadeImage[]>
  /** Whether it has as many orders as it takes: no call is opened for another one. Always false without it. */
  isFull?(): boolean
  /** Absent when the vendor cannot edit. */
  edit?(job: ImageEdit, at: { signal: AbortSignal }): Promise<readonly MadeImage[]>
}
