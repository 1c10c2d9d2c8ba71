/** Shared by image generation and editing: sizes, prices, jobs and responses (contract 5.1). */
import { Type } from '@sinclair/typebox'
import type { ImageRow, ImageSize, ImageVendor, MadeImage } from '../../ports/vendors/images.ts'
import {
  type Context,
  type JobDescription,
  type Made,
  type Offering,
  type Price,
  type Showing,
  STANDARD_PRICES,
  type Stored,
} from '../../endpoint/mod.ts'
import { ApiError, rateLimited } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Usdc } from '../../x402/money.ts'
import type { Json } from '../../lib/json.ts'
import { asNumber, flatPrice, mediaPrice } from '../../x402/pricing.ts'

export const DEFAULT_SIZE = '1024x1024'
const INLINE_WINDOW_MS = 30_000
const FULL_RETRY_SECONDS = 10
/** Poll path of generations and edits. */
export const POLL_PATH = '/api/v1/images/generations/{id}'

/** Fields that both requests have. */
export const size = Type.String({
  description: `One of the sizes of the model. Default: ${DEFAULT_SIZE}.`,
  default: DEFAULT_SIZE,
})
export const count = Type.Integer({ minimum: 1, maximum: 10, description: 'Number of images.', default: 1 })
export const prompt = (description: string) => Type.String({ minLength: 1, maxLength: 32_000, description })

const image = Type.Object({
  url: Type.String({ description: 'Hosted URL, or the upstream URL if the image was not mirrored.' }),
  source_url: Type.Optional(Type.String({ description: 'Upstream URL; only the type for inline data.' })),
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

type ImageOrder = { readonly model?: string; readonly size?: string; readonly n?: number }
export type OrderedImage = { readonly row: ImageRow; readonly size: ImageSize; readonly n: number }

/** The row and size of a validated request. Throws a plain error for one that was not validated. */
export function orderedImage(
  { model = '', size = DEFAULT_SIZE, n = 1 }: ImageOrder,
  { catalog }: Context,
): OrderedImage {
  const row = catalog.images.get(model)
  const sizeRow = row?.sizes.find((candidate) => candidate.size === size)
  if (!row || !sizeRow) throw new Error(`not on the catalog: ${model} at ${size}`)
  return { row, size: sizeRow, n }
}

/** Checks the fields that both requests have. Throws INVALID_SIZE or INVALID_BODY. */
export function checkOrder(row: ImageRow, { prompt, size }: { prompt: string; size: string }): void {
  if (prompt.trim() === '') throw refused('prompt', 'must not be blank')
  if (row.sizes.some((candidate) => candidate.size === size)) return
  const valid = row.sizes.map((candidate) => candidate.size)
  throw new ApiError('INVALID_SIZE', {
    message: `${row.id} does not support the size ${quoted(size)}. Valid sizes: ${valid.join(', ')}.`,
    fields: { valid_sizes: valid },
  })
}

/** 400 that lists the model ids that this gateway sells. */
export function invalidModel(problem: string, offering: Offering, requirement: Requirement): ApiError {
  const available = servedRows(offering, requirement).map(({ id }) => id)
  return new ApiError('INVALID_MODEL', {
    message: `${problem} Available models: ${available.join(', ') || 'none'}.`,
    fields: { available_models: available },
  })
}

/** The quote; the number of source images does not change it. */
export function imagePrice(order: ImageOrder, context: Context): Price {
  const { size, n } = orderedImage(order, context)
  const { prices = STANDARD_PRICES } = context
  return {
    amount: mediaPrice(size.rate, n, prices),
    maxTimeoutSeconds: 600,
    rates: { pricePerImage: size.rate, transactionFee: prices.fee },
    publicPrice: { totalImages: n, marginPercent: asNumber(prices.mediaPercent) },
  }
}

/** Requirements of a request on the row and on its vendor. */
export type Requirement = { matches(row: ImageRow): boolean; isServedBy(vendor: ImageVendor): boolean }

/** The listed rows that are available here; all matching rows where none is, so that the documentation has a price. */
export function availableRows(offering: Offering, requirement: Requirement): readonly ImageRow[] {
  const available = servedRows(offering, requirement)
  return available.length > 0 ? available : offering.catalog.images.all.filter(requirement.matches)
}

/** The listed rows that are available here. */
export function servedRows({ catalog, vendors }: Offering, { matches, isServedBy }: Requirement): readonly ImageRow[] {
  return catalog.images.all.filter((row) => {
    const vendor = row.hidden || !matches(row) ? undefined : vendors.images(row)
    return vendor !== undefined && isServedBy(vendor)
  })
}

/** The example, adapted to the first of these rows if its model is not among them. */
export function sampleOf<Order extends ImageOrder>(example: Order, rows: readonly ImageRow[]): Order | undefined {
  const row = rows.find(({ id }) => id === example.model) ?? rows[0]
  const sizeRow = row?.sizes.find(({ size }) => size === DEFAULT_SIZE) ?? row?.sizes[0]
  return row && sizeRow && { ...example, model: row.id, size: sizeRow.size }
}

/** Lowest and highest quote over the rows; the fee alone if there are none. */
export function imagePriceRange(rows: readonly ImageRow[], { prices }: Context): { min: Usdc; max: Usdc } {
  const amounts = rows.flatMap((row) =>
    row.sizes.flatMap(({ rate }) => [mediaPrice(rate, 1, prices), mediaPrice(rate, 10, prices)]),
  )
  const [first = flatPrice('0', prices)] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}

/** Throws RATE_LIMITED where the vendor has as many orders as it takes. */
export function admitImage(order: ImageOrder, { catalog, vendors }: Pick<Offering, 'catalog' | 'vendors'>): void {
  const row = catalog.images.get(order.model ?? '')
  if (row && vendors.images(row)?.isFull?.()) throw rateLimited(row.maker, FULL_RETRY_SECONDS)
}

/** Slow models never answer inline (contract 5.22). */
export function imageWindow(order: ImageOrder, context: Context): number {
  return orderedImage(order, context).row.slow ? 0 : INLINE_WINDOW_MS
}

/** Converts a vendor's images to a result with prompts, and media to mirror. */
export function madeOf(images: readonly MadeImage[]): Made {
  if (images.length === 0) throw new Error('the vendor returned no image')
  return {
    result: images.map(promptOf),
    media: { folder: 'images', urls: images.map(({ url }) => url), kinds: images.map(() => 'image' as const) },
  }
}

const promptOf = ({ revisedPrompt }: MadeImage) =>
  revisedPrompt === undefined ? {} : { revised_prompt: revisedPrompt }

/**
 * The `created` and `data` of a response. With `raw`, the vendor's URLs instead of mirrored ones, as a fast edit
 * returns them (contract 5.42).
 */
export function imageResponse(
  { made: available, media, created }: Stored,
  { href }: Showing,
  raw?: readonly string[],
): Record<string, Json> {
  const prompts = available as readonly ReturnType<typeof promptOf>[]
  if (raw) return { created, data: raw.map((url, index) => ({ url, ...prompts[index] })) }
  const hosted = ({ key, url, source }: Stored['media'][number]) => ({
    url: key === null ? (url ?? '') : href(key),
    source_url: source,
    backed_up: key !== null,
  })
  return { created, data: media.map((piece, index) => ({ ...hosted(piece), ...prompts[index] })) }
}
