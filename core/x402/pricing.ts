/** The formulas of the contract. Each is exact until its last step; the fee is added once per paid call. */
import type { AudioBilling } from '../products/audio/catalog.ts'
import type { ChatBilling, Effort } from '../products/chat/row.ts'
import { type SandboxRate, SHORT_SECONDS } from '../products/sandbox/catalog.ts'
import type { VideoBilling } from '../products/video/catalog.ts'
import { type Dollars, dollars, plus, print, roundUp, times, type Usdc } from './money.ts'

/** Flat transaction fee per paid call (contract 1.14). */
export const FEE = dollars('0.001')

const MEDIA_MARGIN = dollars('1.05')

/** Images: `rate * n * 1.05 + 0.001` (contract 5.4). `rate` is the catalog rate for one image. */
export function mediaPrice(rate: Dollars, n: number): Usdc {
  return roundUp(plus(withMargin(times(rate, BigInt(n))), FEE))
}

/** What one image costs with margin and without fee, as the model listing shows it. */
export const withMargin = (rate: Dollars): Dollars => times(rate, MEDIA_MARGIN)

/** A flat price per call: what it says plus the fee, for example `0.01` is 0.011. */
export function flatPrice(usd: string): Usdc {
  return roundUp(plus(dollars(usd), FEE))
}

/** A price by the piece: `usd` for each, and the fee once, for example `0.002` for 3 is 0.007. */
export function piecePrice(usd: string, pieces: number): Usdc {
  return roundUp(plus(times(dollars(usd), BigInt(pieces)), FEE))
}

/** A sandbox: a flat price up to five minutes, above that its hours as exactly as they are; the fee once (contract 16.2). */
export function sandboxPrice({ flat, hourly }: SandboxRate, seconds: number): Usdc {
  if (seconds <= SHORT_SECONDS) return flatPrice(flat)
  return roundUp(plus(times(dollars(hourly), { num: BigInt(seconds), den: 3600n }), FEE))
}

/** One output size of an image model, in pixels, and its catalog rate for one image, before margin and fee. */
export type ImageSize = {
  readonly size: string
  readonly width: number
  readonly height: number
  readonly rate: Dollars
}

/** Reads `{ '1024x1024': '0.02' }`: catalog rates in US dollars for one image. Throws on a malformed size or rate. */
export function imageSizes(rates: Readonly<Record<string, string>>): readonly ImageSize[] {
  return Object.entries(rates).map(([size, rate]) => {
    const [, width, height] = /^(\d{2,5})x(\d{2,5})$/.exec(size) ?? []
    if (!width || !height) throw new RangeError(`not an image size such as 1024x1024: ${size}`)
    return { size, width: Number(width), height: Number(height), rate: dollars(rate) }
  })
}

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

/** Videos: by the second, by the second and resolution, or by the token; the fee once, rounded once. Throws for a resolution without a rate. */
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

/** What a second is shown to cost, without margin and fee: of the tier that is billed, else the flat rate of the model, which for tokens is that at 720p. */
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

/** Characters as people count them, code points: one that takes two code units is one. */
export const charactersIn = (text: string): number =>
  text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0)

const WIDE = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu
/** Letters that are spoken in a second; a syllable of a script that writes them whole takes the time of three. */
const SPOKEN_PER_SECOND = 15
/** What is billed at most, however long the text. */
export const MAX_SPEECH_SECONDS = 120

/** How long a text is thought to take when it is spoken: from 1 to 120 seconds (contract 14.3). */
export function spokenSeconds(text: string): number {
  const beats = charactersIn(text) + 2 * (text.match(WIDE)?.length ?? 0)
  return Math.min(MAX_SPEECH_SECONDS, Math.max(1, Math.ceil(beats / SPOKEN_PER_SECOND)))
}

const THOUSANDTH = dollars('0.001')

/**
 * Speech by the character: `characters / 1000 * rate * 1.05`, at least 0.001, + 0.001; by the second: `seconds * rate + 0.001`, without margin.
 * Whatever else makes a sound costs its rate once, with margin and fee (contract 14.1).
 */
export function audioPrice(
  { mode, rate }: AudioBilling,
  { characters = 0, seconds = 0 }: { readonly characters?: number; readonly seconds?: number } = {},
): Usdc {
  if (mode === 'per_second') return roundUp(plus(times(rate, BigInt(seconds)), FEE))
  if (mode !== 'per_character') return mediaPrice(rate, 1)
  const text = withMargin(times(times(rate, BigInt(characters)), THOUSANDTH))
  return roundUp(plus(isBelow(text, FLOOR) ? FLOOR : text, FEE))
}

/** What a chat quote is made from. `effort` is the one that is sent upstream (contract 6.38); `surcharge` is that of live search. */
export type ChatOrderSize = {
  readonly billing: ChatBilling
  readonly promptTokens: number
  readonly maxTokens: number
  readonly effort?: Effort | undefined
  readonly scalesQuote?: boolean | undefined
  readonly surcharge?: Dollars | undefined
}

/** Exact US dollars as decimals, unrounded; `total` is what is charged. For a flat model the price is all in `total`, fee included. */
export type ChatPriceParts = {
  readonly input: string
  readonly output: string
  readonly floorApplied: boolean
  readonly surcharge: string
  readonly fee: string
  readonly total: string
}

const NOTHING = dollars('0')
const FLOOR = dollars('0.001')
const ONE_TOKEN = dollars('0.000001')

/** The part of `max_tokens` that is quoted: 10%, times 2.5, 3 or 4.5 where effort scales it; so it never exceeds `max_tokens`. */
const OUTPUT_SHARE = dollars('0.1')
const SCALED_SHARE: Readonly<Partial<Record<Effort, Dollars>>> = {
  high: dollars('0.25'),
  xhigh: dollars('0.3'),
  max: dollars('0.45'),
}

/** Chat: input + share of output, at least 0.001, + surcharge + fee (contract 6.37, 6.17). Throws for a free model. */
export function chatPrice(order: ChatOrderSize): Usdc {
  const { tokens, surcharge, fee } = chatCost(order)
  return roundUp(plus(plus(tokens, surcharge), fee))
}

/** The same, taken apart, for those who want to know before they pay. Throws for a free model. */
export function chatPriceParts(order: ChatOrderSize): ChatPriceParts {
  const { input, output, floorApplied, surcharge, fee } = chatCost(order)
  return {
    input: decimal(input),
    output: decimal(output),
    floorApplied,
    surcharge: decimal(surcharge),
    fee: decimal(fee),
    total: print(chatPrice(order)),
  }
}

function chatCost({
  billing,
  promptTokens,
  maxTokens,
  effort,
  scalesQuote = false,
  surcharge = NOTHING,
}: ChatOrderSize) {
  if (billing.mode === 'free') throw new RangeError('a free model has no price')
  if (billing.mode === 'flat')
    return { input: NOTHING, output: NOTHING, tokens: billing.price, floorApplied: false, surcharge, fee: NOTHING }
  const { long } = billing
  const rates = long && promptTokens >= long.from ? long : billing
  const share = (scalesQuote && effort && SCALED_SHARE[effort]) || OUTPUT_SHARE
  const input = times(perToken(rates.input), BigInt(promptTokens))
  const output = times(times(perToken(rates.output), BigInt(maxTokens)), share)
  const tokens = plus(input, output)
  const floorApplied = isBelow(tokens, FLOOR)
  return { input, output, tokens: floorApplied ? FLOOR : tokens, floorApplied, surcharge, fee: FEE }
}

const perToken = (perMillion: Dollars): Dollars => times(perMillion, ONE_TOKEN)

/** Whether `a` is less than `b`, exactly. */
export const isBelow = (a: Dollars, b: Dollars): boolean => a.num * b.den < b.num * a.den

/** As a JSON number, for listings. */
export const asNumber = ({ num, den }: Dollars): number => Number(num) / Number(den)

/** Every amount here is a decimal, so its denominator is a power of ten: it is printed exactly, with six decimals or more. */
function decimal({ num, den }: Dollars): string {
  const places = den.toString().length - 1
  const digits = num.toString().padStart(places + 1, '0')
  const fraction = digits
    .slice(digits.length - places)
    .replace(/0+$/, '')
    .padEnd(6, '0')
  return `${digits.slice(0, digits.length - places)}.${fraction}`
}
