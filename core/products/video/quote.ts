/** The price of a video, and whether it can be made here. */
import type { VideoRow } from '../../ports/vendors/video.ts'
import { type Context, type Offering, type Price, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { rateLimited } from '../../http/errors.ts'
import type { Usdc } from '../../x402/money.ts'
import { asNumber } from '../../x402/pricing.ts'
import { priceRangeOf } from '../lib/price_range.ts'
import { videoGenerationFee, videoPrice, videoRate } from './price.ts'
import { DEFAULT_MODEL, isListed, type VideoRequest } from './request.ts'

/** Lifetime of the signed authorization (contract 12.39). */
const AUTHORIZATION_SECONDS = 600

export type OrderedVideo = {
  readonly row: VideoRow
  readonly seconds: number
  readonly resolution: string
  readonly videos: number
  readonly audios: number
}

/** The row and size of a validated request. Throws a plain error for one that was not validated. */
export function orderedVideo(order: VideoRequest, { catalog }: Context): OrderedVideo {
  const { model = DEFAULT_MODEL, duration_seconds, resolution, reference_videos = [], reference_audios = [] } = order
  const row = catalog.video.get(model)
  if (!row || duration_seconds === undefined || resolution === undefined)
    throw new Error(`not a checked order: ${model}`)
  return {
    row,
    seconds: duration_seconds,
    resolution,
    videos: reference_videos.length,
    audios: reference_audios.length,
  }
}

/** The quote; images do not change it. */
export function quoteOf(order: VideoRequest, context: Context): Price {
  const { row, ...size } = orderedVideo(order, context)
  const { billing } = row
  const { prices = STANDARD_PRICES } = context
  const hasMargin = billing.mode !== 'per_second_by_tier'
  return {
    amount: videoPrice({ billing, ...size, markup: prices }),
    maxTimeoutSeconds: AUTHORIZATION_SECONDS,
    rates: {
      pricePerSecond: videoRate(billing, size.resolution),
      perGenerationFee: videoGenerationFee(billing),
      transactionFee: prices.fee,
    },
    publicPrice: {
      resolution: size.resolution,
      durationSeconds: size.seconds,
      marginPercent: hasMargin ? asNumber(prices.mediaPercent) : 0,
    },
    also: {
      generation_info: {
        output_duration: size.seconds,
        generation_time: 'about 60 to 180 seconds',
        flow: 'async',
        note: 'The paid POST verifies the payment, submits the job and answers 202 with a poll_url. Nothing is charged until a poll finds the video ready; a job that fails costs nothing.',
      },
    },
  }
}

/** The listed rows that are available here; all listed rows where none is, so that the documentation has a price. */
export function availableRows({ catalog, vendors }: Offering): readonly VideoRow[] {
  const listed = catalog.video.all.filter(isListed)
  const made = listed.filter((row) => vendors.video?.(row) !== undefined)
  return made.length > 0 ? made : listed
}

/** Lowest and highest quote, with all references; the fee alone if there are no rows. */
export function videoPriceRange(rows: readonly VideoRow[], { prices: markup }: Context): { min: Usdc; max: Usdc } {
  const amounts = rows.flatMap(({ billing, seconds, resolutions, references }) => {
    const maxReferences = references ? { videos: 3, audios: 3 } : {}
    return resolutions.flatMap((resolution) => [
      videoPrice({ billing, resolution, markup, seconds: seconds.min }),
      videoPrice({ billing, resolution, markup, seconds: seconds.max, ...maxReferences }),
    ])
  })
  return priceRangeOf(amounts, { prices: markup })
}

export function isAvailable({ model = DEFAULT_MODEL }: VideoRequest, { catalog, vendors }: Offering): boolean {
  const row = catalog.video.get(model)
  return row !== undefined && vendors.video?.(row) !== undefined
}

/** Until a full vendor is asked again, in seconds. */
const FULL_RETRY_SECONDS = 10

/** Throws RATE_LIMITED where the vendor has as many jobs as it takes. */
export function admitVideo(
  { model = DEFAULT_MODEL }: VideoRequest,
  { catalog, vendors }: Pick<Offering, 'catalog' | 'vendors'>,
): void {
  const row = catalog.video.get(model)
  if (row && vendors.video?.(row)?.isFull?.()) throw rateLimited(row.maker, FULL_RETRY_SECONDS)
}
