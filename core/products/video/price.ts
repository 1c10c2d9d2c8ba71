/** Prices of videos (contract 12.33). */
import type { VideoBilling } from '../../ports/vendors/video.ts'
import { dollars, type Usdc, roundUp, plus, times, type Dollars } from '../../x402/money.ts'
import { type Markup, mediaRate, perToken, NOTHING, STANDARD_MARKUP } from '../../x402/pricing.ts'

/** Inputs of a video quote; `videos` and `audios` count its reference clips and sounds. */
type VideoOrderSize = {
  readonly billing: VideoBilling
  readonly seconds: number
  readonly resolution: string
  readonly videos?: number
  readonly audios?: number
  /** The standard one by default. */
  readonly markup?: Markup | undefined
}

/** Tokens per second at 720p, and factors of the other resolutions (contract 12.36). */
const TOKENS_PER_SECOND = dollars('21690')

const RESOLUTION_FACTORS = new Map([
  ['480p', dollars('0.5')],
  ['720p', dollars('1')],
  ['1080p', dollars('2.25')],
  ['4K', dollars('9')],
])

/** Resolutions that are billed by token, lowest first. */
export const RESOLUTION_NAMES: readonly string[] = [...RESOLUTION_FACTORS.keys()]

/**
 * Price by second, by second and resolution, or by token, plus the fee, rounded once. Throws for a resolution without a
 * rate.
 */
export function videoPrice(order: VideoOrderSize): Usdc {
  const { billing, seconds, resolution, markup = STANDARD_MARKUP } = order
  if (billing.mode === 'per_second_with_margin')
    return roundUp(plus(mediaRate(times(billing.rate, BigInt(seconds)), markup), markup.fee))
  if (billing.mode === 'per_token')
    return roundUp(plus(mediaRate(times(perToken(billing.rate), exactTokens(order)), markup), markup.fee))
  return roundUp(plus(plus(times(tierOf(billing, resolution), BigInt(seconds)), billing.perGeneration), markup.fee))
}

/** Estimated tokens of a clip, for vendors that report none. */
export function videoTokens(order: Omit<VideoOrderSize, 'billing' | 'markup'>): number {
  const { num, den } = exactTokens(order)
  return Number((num + den - 1n) / den)
}

/**
 * The published rate per second, without margin and fee: that of the billed tier, else the flat rate of the model; for
 * tokens at 720p.
 */
export function videoRate(billing: VideoBilling, resolution: string): Dollars {
  if (billing.mode === 'per_second_by_tier') return tierOf(billing, resolution)
  return billing.mode === 'per_token' ? times(perToken(billing.rate), TOKENS_PER_SECOND) : billing.rate
}

/** Surcharge per generation, whatever its length. */
export const videoGenerationFee = (billing: VideoBilling): Dollars =>
  billing.mode === 'per_second_by_tier' ? billing.perGeneration : NOTHING

/** Each reference video adds the tokens of the clip once more, each reference audio 0.3 of them. */
function exactTokens({
  seconds,
  resolution,
  videos = 0,
  audios = 0,
}: Omit<VideoOrderSize, 'billing' | 'markup'>): Dollars {
  const factor = RESOLUTION_FACTORS.get(resolution)
  if (!factor) throw new RangeError(`no tokens are known for ${resolution}`)
  const tenths = BigInt(10 + 10 * videos + 3 * audios)
  return times(times(times(TOKENS_PER_SECOND, factor), BigInt(seconds)), { num: tenths, den: 10n })
}

function tierOf({ tiers }: Extract<VideoBilling, { mode: 'per_second_by_tier' }>, resolution: string): Dollars {
  const rate = Object.hasOwn(tiers, resolution) ? tiers[resolution] : undefined
  if (!rate) throw new RangeError(`no rate is known for ${resolution}`)
  return rate
}
