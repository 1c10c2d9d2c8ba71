/** Orders of image generation and editing: their fields, checks and price (contract 5.1). */
import { Type } from '@sinclair/typebox'
import type { ImageRow, ImageSize } from '../../ports/vendors/images.ts'
import { type Context, type Price, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { type Fields, fieldsOf, type Json } from '../../lib/json.ts'
import { asNumber, mediaPrice } from '../../x402/pricing.ts'

export const DEFAULT_SIZE = '1024x1024'

const INLINE_WINDOW_MS = 30_000

/** Fields that both requests have. */
export const size = Type.String({
  description: `One of the sizes of the model. Default: ${DEFAULT_SIZE}.`,
  default: DEFAULT_SIZE,
})

export const count = Type.Integer({ minimum: 1, maximum: 10, description: 'Number of images.', default: 1 })

export const prompt = (description: string) => Type.String({ minLength: 1, maxLength: 32_000, description })

export const responseFormat = Type.Union([Type.Literal('url'), Type.Literal('b64_json')], {
  description: 'b64_json adds the image itself, as `b64_json` beside `url`.',
  default: 'url',
})

export type ImageOrder = {
  readonly model?: string
  readonly size?: string
  readonly n?: number
  readonly response_format?: 'url' | 'b64_json'
}

/** The stored request of a call. */
export const requestOf = ({ model = '', size = DEFAULT_SIZE, n = 1, response_format: format }: ImageOrder): Fields => ({
  model,
  size,
  n,
  ...(format === 'b64_json' && { response_format: format }),
})

export const wantsBytes = (request: Json): boolean => fieldsOf(request).response_format === 'b64_json'

type OrderedImage = { readonly row: ImageRow; readonly size: ImageSize; readonly n: number }

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

/** Slow models never answer inline (contract 5.22). */
export function imageWindow(order: ImageOrder, context: Context): number {
  return orderedImage(order, context).row.slow ? 0 : INLINE_WINDOW_MS
}
