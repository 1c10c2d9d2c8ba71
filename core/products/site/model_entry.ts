/** A model as the list shows it: its properties and its prices (contract 8.2, 8.5). */
import { Type } from '@sinclair/typebox'
import { maxCharactersOf, productOf, RATE_NAMES } from '../audio/rows.ts'
import {
  type CatalogRow,
  type Prices,
  type Product,
  rateOf,
  type RowKind,
  STANDARD_PRICES,
} from '../../endpoint/mod.ts'
import type { AudioRow } from '../../ports/vendors/audio.ts'
import type { ChatRow } from '../../ports/vendors/chat.ts'
import type { ImageRow } from '../../ports/vendors/images.ts'
import type { Vendors } from '../../ports/vendors/mod.ts'
import type { VideoRow } from '../../ports/vendors/video.ts'
import { dollars } from '../../x402/money.ts'
import { asNumber, FLOOR, mediaRate } from '../../x402/pricing.ts'
import { MAX_SPEECH_SECONDS } from '../audio/price.ts'
import { EFFORT_FACTORS, OUTPUT_SHARE } from '../chat/price.ts'
import { inputModalities } from '../chat/request.ts'
import { videoGenerationFee, videoRate } from '../video/price.ts'

const rate = (description: string) => Type.Optional(Type.Number({ description }))

/** A model in the list. */
export const modelSchema = Type.Object({
  id: Type.String(),
  object: Type.Literal('model'),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  owned_by: Type.String({ description: 'The maker.' }),
  name: Type.String(),
  aliases: Type.Optional(
    Type.Array(Type.String(), { description: 'Other names that requests may use, such as the one of its maker.' }),
  ),
  description: Type.String(),
  context_window: Type.Optional(Type.Integer({ description: 'Tokens; chat models only.' })),
  max_output: Type.Optional(Type.Integer({ description: 'Tokens; chat models only.' })),
  categories: Type.Array(Type.String()),
  input_modalities: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Inputs that it accepts: text, image, file (such as PDF), audio, video. Chat models only.',
    }),
  ),
  billing_mode: Type.String({
    description:
      '`paid` is per token, `flat` per request, `free` needs no payment, `per_image` is per image; videos are `per_second`, or `per_token` of the clip; audio is `per_character`, `per_second`, `per_generation` or `per_track`.',
  }),
  pricing: Type.Object({
    input: rate('US dollars per million tokens.'),
    output: rate('US dollars per million tokens.'),
    cache_read: rate('US dollars per million tokens.'),
    cache_write: rate('US dollars per million tokens.'),
    output_share: rate('The share of `max_tokens` that is quoted at the output rate.'),
    minimum: rate('The minimum for the tokens of a request in US dollars, before surcharge and fee.'),
    long_context: Type.Optional(
      Type.Object(
        {
          from_prompt_tokens: Type.Integer(),
          input: Type.Number(),
          output: Type.Number(),
        },
        { description: 'The rates of the whole request when its prompt has at least this many tokens.' },
      ),
    ),
    effort_factors: Type.Optional(
      Type.Record(Type.String(), Type.Number(), {
        description:
          'Multipliers of `output_share` by the effort that is sent upstream; an effort that is not listed has 1. /api/v1/chat/estimate tells which one is sent.',
      }),
    ),
    search_surcharge: rate('US dollars for a request with live search, whatever its size.'),
    flat: rate('US dollars per request, fee included.'),
    per_image: rate('US dollars for one image of 1024x1024, or of the first size, margin included.'),
    per_second: rate(
      'US dollars per second of video at its default resolution, or at 720p when tokens are billed, margin included. For speech, per estimated second.',
    ),
    per_second_by_resolution: Type.Optional(Type.Record(Type.String(), Type.Number())),
    per_million_tokens: rate('US dollars per million tokens of video, margin included.'),
    per_1k_chars: rate('US dollars per 1,000 spoken characters, margin included.'),
    per_generation: rate('US dollars per sound effect, margin included.'),
    per_track: rate('US dollars per piece of music, margin included.'),
    per_call_surcharge: rate('US dollars per generation, in addition to the fee.'),
    transaction_fee: rate('US dollars per call.'),
    default_duration_seconds: Type.Optional(Type.Integer()),
    max_duration_seconds: Type.Optional(Type.Integer()),
    max_input_chars: Type.Optional(Type.Integer()),
    max_output_seconds: Type.Optional(Type.Integer()),
  }),
})

/** Computes the rates of a listing: the vendors and the markup of its gateway. */
type Listing = { readonly vendors: Vendors; readonly prices?: Prices }

/** The endpoints whose margins the list shows. */
const CHAT: Product = { name: 'chat.completions', tag: 'chat' }
const IMAGES: Product = { name: 'images.generations', tag: 'images' }
const VIDEO: Product = { name: 'videos.generations', tag: 'video' }

/** `aliases`, for rows that have any. */
const also = ({ aliases }: Pick<CatalogRow, 'aliases'>) => (aliases.length > 0 ? { aliases } : {})

export function chatEntry(row: ChatRow, listing: Listing) {
  const { id, created, maker, name, description, contextWindow, maxOutput, categories, billing } = row
  return {
    id,
    object: 'model',
    created,
    owned_by: maker,
    name,
    ...also(row),
    description,
    context_window: contextWindow,
    max_output: maxOutput,
    categories,
    input_modalities: inputModalities(row),
    billing_mode: billing.mode,
    pricing: chatPricing(row, listing),
  }
}

/** Everything that a quote is computed from (contract 8.13). */
function chatPricing({ billing, effort, liveSearch }: ChatRow, { prices = STANDARD_PRICES }: Listing) {
  const usd = rateOf({ prices }, CHAT)
  const surcharge = liveSearch && { search_surcharge: usd(liveSearch) }
  if (billing.mode === 'free') return { input: 0, output: 0 }
  if (billing.mode === 'flat') return { flat: usd(billing.price), ...surcharge }
  const { input, output, cacheRead, cacheWrite, long } = billing
  return {
    input: usd(input),
    output: usd(output),
    ...(cacheRead && { cache_read: usd(cacheRead) }),
    ...(cacheWrite && { cache_write: usd(cacheWrite) }),
    output_share: asNumber(OUTPUT_SHARE),
    minimum: usd(FLOOR),
    transaction_fee: usd(prices.fee),
    ...(long && {
      long_context: { from_prompt_tokens: long.from, input: usd(long.input), output: usd(long.output) },
    }),
    ...(effort?.scalesQuote && {
      effort_factors: Object.fromEntries(
        Object.entries(EFFORT_FACTORS).map(([sent, factor]) => [sent, asNumber(factor)]),
      ),
    }),
    ...surcharge,
  }
}

/** Media rows have no release date; they are listed from 2026-11-20 on, the first day of this catalog. */
const MEDIA_CREATED = 1_795_132_800

export function imageEntry(row: ImageRow, { prices = STANDARD_PRICES }: Listing) {
  const { id, maker, name, sizes, edits } = row
  const usd = rateOf({ prices }, IMAGES)
  const offered = sizes.find(({ size }) => size === '1024x1024') ?? sizes[0]
  return {
    id,
    object: 'model',
    created: MEDIA_CREATED,
    owned_by: maker,
    name,
    ...also(row),
    description: edits ? 'Generates and edits images.' : 'Generates images.',
    categories: ['image'],
    billing_mode: 'per_image',
    pricing: {
      ...(offered && { per_image: usd(mediaRate(offered.rate, prices)) }),
      transaction_fee: usd(prices.fee),
    },
  }
}

export function videoEntry(row: VideoRow, { prices = STANDARD_PRICES }: Listing) {
  const { id, maker, name, seconds, audio, billing } = row
  return {
    id,
    object: 'model',
    created: MEDIA_CREATED,
    owned_by: maker,
    name,
    ...also(row),
    description: `Makes videos of ${seconds.min} to ${seconds.max} seconds from a prompt or an image${audio ? ', with sound' : ''}.`,
    categories: ['video'],
    billing_mode: billing.mode === 'per_token' ? 'per_token' : 'per_second',
    pricing: {
      ...videoPricing(row, prices),
      transaction_fee: rateOf({ prices }, VIDEO)(prices.fee),
      default_duration_seconds: seconds.usual,
      max_duration_seconds: seconds.max,
    },
  }
}

/** The charged rate per second, with margin where there is one. */
function videoPricing({ billing, resolutions, usualResolution }: VideoRow, prices: Prices) {
  const usd = rateOf({ prices }, VIDEO)
  const usual = videoRate(billing, usualResolution)
  if (billing.mode === 'per_second_with_margin') return { per_second: usd(mediaRate(usual, prices)) }
  if (billing.mode === 'per_token')
    return {
      per_second: usd(mediaRate(usual, prices)),
      per_million_tokens: usd(mediaRate(billing.rate, prices)),
    }
  const byResolution = resolutions.map((resolution) => [resolution, usd(videoRate(billing, resolution))])
  return {
    per_second: usd(usual),
    per_second_by_resolution: Object.fromEntries(byResolution),
    per_call_surcharge: usd(videoGenerationFee(billing)),
  }
}

const AUDIO_CATEGORIES = {
  speech: ['speech', 'tts'],
  'sound-effects': ['sound-effects'],
  music: ['audio', 'music'],
} as const
const AUDIO_WORDS = {
  speech: 'Speaks a text.',
  'sound-effects': 'Makes a sound effect from a description.',
  music: 'Composes music from a prompt, vocal or instrumental.',
} as const

export function audioEntry(row: AudioRow, { vendors, prices = STANDARD_PRICES }: Listing) {
  const { id, maker, name, kind } = row
  const { mode, rate } = row.billing
  const usd = rateOf({ prices }, productOf(kind))
  const charged = usd(mode === 'per_second' ? rate : mediaRate(rate, prices))
  const sizes = {
    max_input_chars: maxCharactersOf(row, { vendors }),
    ...(mode === 'per_second' && { max_output_seconds: MAX_SPEECH_SECONDS }),
  }
  return {
    id,
    object: 'model',
    created: MEDIA_CREATED,
    owned_by: maker,
    name,
    ...also(row),
    description: AUDIO_WORDS[kind],
    categories: AUDIO_CATEGORIES[kind],
    billing_mode: mode,
    pricing: { [RATE_NAMES[mode]]: charged, transaction_fee: usd(prices.fee), ...(kind === 'speech' && sizes) },
  }
}

/** A model of a kind that its product declares, as the endpoint that sells it charges it. */
export function declaredEntry(
  row: CatalogRow,
  { kind, product, prices = STANDARD_PRICES }: Listing & { readonly kind: RowKind; readonly product: Product },
) {
  const { id, maker, name } = row
  const { pricing, ...entry } = kind.entry(row)
  const usd = rateOf({ prices }, product)
  const rates = Object.entries(pricing).map(([field, rate]) => [field, usd(dollars(decimalText(rate)))])
  return {
    id,
    object: 'model',
    created: MEDIA_CREATED,
    owned_by: maker,
    name,
    ...also(row),
    ...entry,
    pricing: { ...Object.fromEntries(rates), transaction_fee: usd(prices.fee) },
  }
}

/** A number without an exponent. */
const decimalText = (value: number): string => value.toFixed(12).replace(/\.?0+$/, '')
