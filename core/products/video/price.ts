/** What a video costs (contract 12.33). */
import type { VideoBilling } from '../../ports/vendors/video.ts'
import { dollars, type Usdc, roundUp, plus, times, type Dollars } from '../../x402/money.ts'
import { withMargin, FEE, perToken, NOTHING } from '../../x402/pricing.ts'

/** What a video quote is made from; `videos` and `audios` count the clips and sounds that it refers to. */
export type VideoOrderSize = {
  readonly billing: VideoBilling
  readonly seconds: number
  readonly resolution: string
  readonly videos?: number
  readonly audios?: number
}

/** Tokens for a second at 720p, and what other resolutions take of them (contract 12.36). */
const TOKENS_PER_SECOND = dollars('21690')

const RESOLUTION_FACTORS = new Map([
  ['480p', dollars('0.5')],
  ['720p', dollars('1')],
  ['1080p', dollars('2.25')],
  ['4K', dollars('9')],
])

/** What a resolution may be called where tokens are billed, lowest first. */
export const RESOLUTION_NAMES: readonly string[] = [...RESOLUTION_FACTORS.keys()]

/**
 * Videos: by the second, by the second and resolution, or by the token; the fee once, rounded once. Throws for a
 * resolution without a rate.
 */
export function videoPrice(order: VideoOrderSize): Usdc {
  const { billing, seconds, resolution } = order
  if (billing.mode === 'per_second_with_margin')
    return roundUp(plus(withMargin(times(billing.rate, BigInt(seconds))), FEE))
  if (billing.mode === 'per_token')
    return roundUp(plus(withMargin(times(perToken(billing.rate), exactTokens(order))), FEE))
  return roundUp(plus(plus(times(tierOf(billing, resolution), BigInt(seconds)), billing.perGeneration), FEE))
}

/** How many tokens a clip is billed as, where its maker does not say. */
export function videoTokens(order: Omit<VideoOrderSize, 'billing'>): number {
  const { num, den } = exactTokens(order)
  return Number((num + den - 1n) / den)
}

/**
 * What a second is shown to cost, without margin and fee: of the tier that is billed, else the flat rate of the model,
 * which for tokens is that at 720p.
 */
export function videoRate(billing: VideoBilling, resolution: string): Dollars {
  if (billing.mode === 'per_second_by_tier') return tierOf(billing, resolution)
  return billing.mode === 'per_token' ? times(perToken(billing.rate), TOKENS_PER_SECOND) : billing.rate
}

/** What each generation costs on top, however long it is. */
export const videoGenerationFee = (billing: VideoBilling): Dollars =>
  billing.mode === 'per_second_by_tier' ? billing.perGeneration : NOTHING

/** Each video that is referred to adds the tokens of the clip once more, each audio 0.3 of them. */
function exactTokens({ seconds, resolution, videos = 0, audios = 0 }: Omit<VideoOrderSize, 'billing'>): Dollars {
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
