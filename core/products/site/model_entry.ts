/** A model as the list shows it: what it is, and all that it costs (contract 8.2, 8.5). */
import { Type } from '@sinclair/typebox'
import { maxCharactersOf, RATE_NAMES } from '../audio/shared.ts'
import type { CatalogRow, RowKind } from '../../endpoint/mod.ts'
import type { AudioRow } from '../../ports/vendors/audio.ts'
import type { ChatRow } from '../../ports/vendors/chat.ts'
import type { ImageRow } from '../../ports/vendors/images.ts'
import type { Vendors } from '../../ports/vendors/mod.ts'
import type { VideoBilling, VideoRow } from '../../ports/vendors/video.ts'
import { asNumber, FEE, FLOOR, withMargin } from '../../x402/pricing.ts'
import { MAX_SPEECH_SECONDS } from '../audio/price.ts'
import { EFFORT_FACTORS, OUTPUT_SHARE } from '../chat/price.ts'
import { inputModalities } from '../chat/request.ts'
import { videoGenerationFee, videoRate } from '../video/price.ts'

const rate = (description: string) => Type.Optional(Type.Number({ description }))

/** A model as it is listed. */
export const modelSchema = Type.Object({
  id: Type.String(),
  object: Type.Literal('model'),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  owned_by: Type.String({ description: 'The maker.' }),
  name: Type.String(),
  description: Type.String(),
  context_window: Type.Optional(Type.Integer({ description: 'Tokens; chat models only.' })),
  max_output: Type.Optional(Type.Integer({ description: 'Tokens; chat models only.' })),
  categories: Type.Array(Type.String()),
  input_modalities: Type.Optional(
    Type.Array(Type.String(), {
      description: 'What it reads: text, image, file (such as PDF), audio, video. Chat models only.',
    }),
  ),
  billing_mode: Type.String({
    description:
      '`paid` is per token, `flat` per request, `free` needs no payment, `per_image` is for each image; videos are `per_second`, or `per_token` of the clip; sounds `per_character`, `per_second`, `per_generation` or `per_track`.',
  }),
  pricing: Type.Object({
    input: rate('US dollars for a million tokens.'),
    output: rate('US dollars for a million tokens.'),
    cache_read: rate('US dollars for a million tokens.'),
    cache_write: rate('US dollars for a million tokens.'),
    output_share: rate('How much of `max_tokens` is quoted at the output rate.'),
    minimum: rate('US dollars that the tokens of a request cost at least, before surcharge and fee.'),
    long_context: Type.Optional(
      Type.Object(
        {
          from_prompt_tokens: Type.Integer(),
          input: Type.Number(),
          output: Type.Number(),
        },
        { description: 'The rates of the whole request where its prompt has so many tokens or more.' },
      ),
    ),
    effort_factors: Type.Optional(
      Type.Record(Type.String(), Type.Number(), {
        description:
          'By what `output_share` is multiplied, by the effort that is sent upstream; an effort that is not here counts once. /api/v1/chat/estimate tells which one is sent.',
      }),
    ),
    search_surcharge: rate('US dollars for a request with live search, whatever its size.'),
    flat: rate('US dollars for a request, fee included.'),
    per_image: rate('US dollars for one image of 1024x1024, or of the first size, margin included.'),
    per_second: rate(
      'US dollars for a second of video at its usual resolution, margin included; at 720p where tokens are billed. Of speech, for a second that is estimated.',
    ),
    per_second_by_resolution: Type.Optional(Type.Record(Type.String(), Type.Number())),
    per_million_tokens: rate('US dollars for a million tokens of video, margin included.'),
    per_1k_chars: rate('US dollars for 1,000 characters that are spoken, margin included.'),
    per_generation: rate('US dollars for a sound effect, margin included.'),
    per_track: rate('US dollars for a piece of music, margin included.'),
    per_call_surcharge: rate('US dollars for a generation, beside the fee.'),
    transaction_fee: rate('US dollars for a call, once.'),
    default_duration_seconds: Type.Optional(Type.Integer()),
    max_duration_seconds: Type.Optional(Type.Integer()),
    max_input_chars: Type.Optional(Type.Integer()),
    max_output_seconds: Type.Optional(Type.Integer()),
  }),
})

export function chatEntry(row: ChatRow) {
  const { id, created, maker, name, description, contextWindow, maxOutput, categories, billing } = row
  return {
    id,
    object: 'model',
    created,
    owned_by: maker,
    name,
    description,
    context_window: contextWindow,
    max_output: maxOutput,
    categories,
    input_modalities: inputModalities(row),
    billing_mode: billing.mode,
    pricing: chatPricing(row),
  }
}

/** All that a quote is made from (contract 8.13). */
function chatPricing({ billing, effort, liveSearch }: ChatRow) {
  const surcharge = liveSearch && { search_surcharge: asNumber(liveSearch) }
  if (billing.mode === 'free') return { input: 0, output: 0 }
  if (billing.mode === 'flat') return { flat: asNumber(billing.price), ...surcharge }
  const { input, output, cacheRead, cacheWrite, long } = billing
  return {
    input: asNumber(input),
    output: asNumber(output),
    ...(cacheRead && { cache_read: asNumber(cacheRead) }),
    ...(cacheWrite && { cache_write: asNumber(cacheWrite) }),
    output_share: asNumber(OUTPUT_SHARE),
    minimum: asNumber(FLOOR),
    transaction_fee: asNumber(FEE),
    ...(long && {
      long_context: { from_prompt_tokens: long.from, input: asNumber(long.input), output: asNumber(long.output) },
    }),
    ...(effort?.scalesQuote && {
      effort_factors: Object.fromEntries(
        Object.entries(EFFORT_FACTORS).map(([sent, factor]) => [sent, asNumber(factor)]),
      ),
    }),
    ...surcharge,
  }
}

/** Rows of media carry no date of release; they are listed from the day on which this catalog began, 2026-11-20. */
const MEDIA_CREATED = 1_795_132_800

export function imageEntry({ id, maker, name, sizes, edits }: ImageRow) {
  const offered = sizes.find(({ size }) => size === '1024x1024') ?? sizes[0]
  return {
    id,
    object: 'model',
    created: MEDIA_CREATED,
    owned_by: maker,
    name,
    description: edits ? 'Generates and edits images.' : 'Generates images.',
    categories: ['image'],
    billing_mode: 'per_image',
    pricing: { ...(offered && { per_image: asNumber(withMargin(offered.rate)) }), transaction_fee: asNumber(FEE) },
  }
}

export function videoEntry({ id, maker, name, seconds, resolutions, usualResolution, audio, billing }: VideoRow) {
  return {
    id,
    object: 'model',
    created: MEDIA_CREATED,
    owned_by: maker,
    name,
    description: `Makes videos of ${seconds.min} to ${seconds.max} seconds from a prompt or an image${audio ? ', with sound' : ''}.`,
    categories: ['video'],
    billing_mode: billing.mode === 'per_token' ? 'per_token' : 'per_second',
    pricing: {
      ...videoPricing(billing, { resolutions, usualResolution }),
      transaction_fee: asNumber(FEE),
      default_duration_seconds: seconds.usual,
      max_duration_seconds: seconds.max,
    },
  }
}

/** With margin, where there is one: what a second is charged at. */
function videoPricing(
  billing: VideoBilling,
  { resolutions, usualResolution }: Pick<VideoRow, 'resolutions' | 'usualResolution'>,
) {
  const usual = videoRate(billing, usualResolution)
  if (billing.mode === 'per_second_with_margin') return { per_second: asNumber(withMargin(usual)) }
  if (billing.mode === 'per_token')
    return { per_second: asNumber(withMargin(usual)), per_million_tokens: asNumber(withMargin(billing.rate)) }
  const byResolution = resolutions.map((resolution) => [resolution, asNumber(videoRate(billing, resolution))])
  return {
    per_second: asNumber(usual),
    per_second_by_resolution: Object.fromEntries(byResolution),
    per_call_surcharge: asNumber(videoGenerationFee(billing)),
  }
}

const AUDIO_CATEGORIES = {
  speech: ['speech', 'tts'],
  'sound-effects': ['sound-effects'],
  music: ['audio', 'music'],
} as const
const AUDIO_WORDS = {
  speech: 'Speaks a text.',
  'sound-effects': 'Makes a sound effect from words.',
  music: 'Composes music from words, sung or instrumental.',
} as const

export function audioEntry(row: AudioRow, offering: { readonly vendors: Vendors }) {
  const { id, maker, name, kind } = row
  const { mode, rate } = row.billing
  const charged = asNumber(mode === 'per_second' ? rate : withMargin(rate))
  const sizes = {
    max_input_chars: maxCharactersOf(row, offering),
    ...(mode === 'per_second' && { max_output_seconds: MAX_SPEECH_SECONDS }),
  }
  return {
    id,
    object: 'model',
    created: MEDIA_CREATED,
    owned_by: maker,
    name,
    description: AUDIO_WORDS[kind],
    categories: AUDIO_CATEGORIES[kind],
    billing_mode: mode,
    pricing: { [RATE_NAMES[mode]]: charged, transaction_fee: asNumber(FEE), ...(kind === 'speech' && sizes) },
  }
}

/** A model of a kind that its product declares. */
export function declaredEntry(row: CatalogRow, kind: RowKind) {
  const { id, maker, name } = row
  const { pricing, ...entry } = kind.entry(row)
  return {
    id,
    object: 'model',
    created: MEDIA_CREATED,
    owned_by: maker,
    name,
    ...entry,
    pricing: { ...pricing, transaction_fee: asNumber(FEE) },
  }
}
