/** What generation and editing of images share: sizes, prices, jobs, and how images read on the wire (contract 5.1). */
import { Type } from '@sinclair/typebox'
import type { ImageRow, ImageSize, ImageVendor, MadeImage } from '../../ports/vendors/images.ts'
import {
  type Context,
  type JobDescription,
  type Made,
  type Offering,
  type Price,
  type Showing,
  type Stored,
} from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Usdc } from '../../x402/money.ts'
import type { Json } from '../../lib/json.ts'
import { asNumber, flatPrice, mediaPrice } from '../../x402/pricing.ts'

export const DEFAULT_SIZE = '1024x1024'
const INLINE_WINDOW_MS = 30_000
/** Generations and edits share one store of jobs, and this path. */
export const POLL_PATH = '/api/v1/images/generations/{id}'

/** Fields that both requests have. */
export const size = Type.String({
  description: `One of the sizes of the model; ${DEFAULT_SIZE} unless told.`,
  default: DEFAULT_SIZE,
})
export const count = Type.Integer({ minimum: 1, maximum: 10, description: 'How many images.', default: 1 })
export const prompt = (description: string) => Type.String({ minLength: 1, maxLength: 32_000, description })

const image = Type.Object({
  url: Type.String({ description: 'Hosted URL; the raw upstream value where it was not mirrored.' }),
  source_url: Type.Optional(Type.String({ description: 'Upstream URL; of inline data only the type.' })),
  backed_up: Type.Optional(Type.Boolean({ description: 'Whether the image was mirrored to durable storage.' })),
  revised_prompt: Type.Optional(Type.String()),
})

export const imageResult = Type.Object({
  id: Type.String(),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  data: Type.Array(image),
  price: Type.Object({ amount: Type.String(), currency: Type.Literal('USD') }),
  payment: Type.Object({
    status: Type.Union([Type.Literal('settled'), Type.Literal('already_settled')]),
    tx_hash: Type.String(),
    network: Type.String(),
  }),
})

export const imageJob = (object: string): JobDescription => ({
  object,
  poll: POLL_PATH,
  instructions:
    'GET poll_url, as it is, every 2 to 5 seconds with a payment header of the same wallet; its key is for you alone. You are charged once, by the first poll that finds the images ready.',
  running: 'Still working. Nothing has been charged. Poll again in 2 to 5 seconds.',
})

type Sized = { readonly model?: string; readonly size?: string; readonly n?: number }
export type Offered = { readonly row: ImageRow; readonly size: ImageSize; readonly n: number }

/** The row and size of a checked order. Throws a plain error for one that was not checked. */
export function offered({ model = '', size = DEFAULT_SIZE, n = 1 }: Sized, { catalog }: Context): Offered {
  const row = catalog.images.get(model)
  const found = row?.sizes.find((candidate) => candidate.size === size)
  if (!row || !found) throw new Error(`not on the catalog: ${model} at ${size}`)
  return { row, size: found, n }
}

/** Checks what both requests have in common. Throws INVALID_SIZE or INVALID_BODY. */
export function checkOrder(row: ImageRow, { prompt, size }: { prompt: string; size: string }): void {
  if (prompt.trim() === '') throw refused('prompt', 'must not be blank')
  if (row.sizes.some((candidate) => candidate.size === size)) return
  const valid = row.sizes.map((candidate) => candidate.size)
  throw new ApiError('INVALID_SIZE', {
    message: `${row.id} does not make ${quoted(size)}. Valid sizes: ${valid.join(', ')}.`,
    fields: { valid_sizes: valid },
  })
}

/** 400 whose message lists every id that would do, except hidden ones. */
export function invalidModel(problem: string, rows: readonly ImageRow[]): ApiError {
  const available = rows.filter(({ hidden }) => !hidden).map(({ id }) => id)
  return new ApiError('INVALID_MODEL', {
    message: `${problem} Available models: ${available.join(', ')}.`,
    fields: { available_models: available },
  })
}

/** The quote; the number of source images does not change it. */
export function imagePrice(order: Sized, context: Context): Price {
  const { size, n } = offered(order, context)
  return {
    amount: mediaPrice(size.rate, n),
    maxTimeoutSeconds: 600,
    publicPrice: { pricePerImage: asNumber(size.rate), totalImages: n },
  }
}

/** What a request needs: a row that `fits`, served by a vendor that `makes` such things. */
export type Need = { fits(row: ImageRow): boolean; makes(vendor: ImageVendor): boolean }

/**
 * The rows on show that the operator's vendors can make; every row that fits where they can make none, so that
 * documents have a price.
 */
export function configured({ catalog, vendors }: Offering, { fits, makes }: Need): readonly ImageRow[] {
  const rows = catalog.images.all.filter(fits)
  const made = rows.filter((row) => {
    const vendor = vendors.images(row)
    return !row.hidden && vendor !== undefined && makes(vendor)
  })
  return made.length > 0 ? made : rows
}

/** The example, or its like for the first of these rows where its own model is not among them. */
export function sampleOf<Order extends Sized>(example: Order, rows: readonly ImageRow[]): Order | undefined {
  const row = rows.find(({ id }) => id === example.model) ?? rows[0]
  const found = row?.sizes.find(({ size }) => size === DEFAULT_SIZE) ?? row?.sizes[0]
  return row && found && { ...example, model: row.id, size: found.size }
}

/** Lowest and highest quote over the given rows; the fee alone where there are none. */
export function imageSpan(rows: readonly ImageRow[]): { min: Usdc; max: Usdc } {
  const amounts = rows.flatMap((row) => row.sizes.flatMap(({ rate }) => [mediaPrice(rate, 1), mediaPrice(rate, 10)]))
  const [first = flatPrice('0')] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}

/** A slow row never answers inline (contract 5.22). */
export function imageWindow(order: Sized, context: Context): number {
  return offered(order, context).row.slow ? 0 : INLINE_WINDOW_MS
}

/** What a vendor's images become: prompts in the result, bytes on their way to the mirror. */
export function madeOf(images: readonly MadeImage[]): Made {
  if (images.length === 0) throw new Error('the vendor answered without an image')
  return {
    result: images.map(promptOf),
    media: { folder: 'images', urls: images.map(({ url }) => url), kinds: images.map(() => 'image' as const) },
  }
}

const promptOf = ({ revisedPrompt }: MadeImage) =>
  revisedPrompt === undefined ? {} : { revised_prompt: revisedPrompt }

/**
 * The `created` and `data` of a result. With `raw`, the images as the vendor gave them, not mirrored: what a fast edit
 * shows (contract 5.42).
 */
export function shownImages(
  { made, media, created }: Stored,
  { href }: Showing,
  raw?: readonly string[],
): Record<string, Json> {
  const prompts = made as readonly ReturnType<typeof promptOf>[]
  if (raw) return { created, data: raw.map((url, index) => ({ url, ...prompts[index] })) }
  const hosted = ({ key, url, source }: Stored['media'][number]) => ({
    url: key === null ? (url ?? '') : href(key),
    source_url: source,
    backed_up: key !== null,
  })
  return { created, data: media.map((piece, index) => ({ ...hosted(piece), ...prompts[index] })) }
}
