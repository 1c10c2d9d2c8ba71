/** Lists the models that this gateway can serve and their prices (contract 8.2). */
import { Type } from '@sinclair/typebox'
import { maxCharactersOf, vendorOf, RATE_NAMES } from '../audio/shared.ts'
import type { AudioRow } from '../../ports/vendors/audio.ts'
import type { ChatBilling, ChatRow } from '../../ports/vendors/chat.ts'
import type { ImageRow } from '../../ports/vendors/images.ts'
import type { VideoBilling, VideoRow } from '../../ports/vendors/video.ts'
import type { Catalog } from '../../endpoint/offering.ts'
import { free } from '../../endpoint/mod.ts'
import type { Reply } from '../../http/reply.ts'
import type { Vendors } from '../../ports/vendors/mod.ts'
import { asNumber, FEE, withMargin } from '../../x402/pricing.ts'
import { MAX_SPEECH_SECONDS } from '../audio/price.ts'
import { videoGenerationFee, videoRate } from '../video/price.ts'
import { isListed } from '../video/request.ts'

const rate = (description: string) => Type.Optional(Type.Number({ description }))

const model = Type.Object({
  id: Type.String(),
  object: Type.Literal('model'),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  owned_by: Type.String({ description: 'The maker.' }),
  name: Type.String(),
  description: Type.String(),
  context_window: Type.Optional(Type.Integer({ description: 'Tokens; chat models only.' })),
  max_output: Type.Optional(Type.Integer({ description: 'Tokens; chat models only.' })),
  categories: Type.Array(Type.String()),
  billing_mode: Type.String({
    description:
      '`paid` is per token, `flat` per request, `free` needs no payment, `per_image` is for each image; videos are `per_second`, or `per_token` of the clip; sounds `per_character`, `per_second`, `per_generation` or `per_track`.',
  }),
  pricing: Type.Object({
    input: rate('US dollars for a million tokens.'),
    output: rate('US dollars for a million tokens.'),
    cache_read: rate('US dollars for a million tokens.'),
    cache_write: rate('US dollars for a million tokens.'),
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

const list = free({
  name: 'models',
  path: '/api/v1/models',
  summary: 'List the models and what they cost',
  tag: 'models',
  output: Type.Object({ object: Type.Literal('list'), data: Type.Array(model) }),
  answer: (_request, { catalog, vendors }) => listed(catalog, vendors),
})

export const models = [list]

/** Cached, since rows and vendors do not change while a gateway runs. */
const replies = new WeakMap<Catalog, WeakMap<Vendors, Reply>>()

function listed(catalog: Catalog, vendors: Vendors): Reply {
  const known = replies.get(catalog) ?? new WeakMap<Vendors, Reply>()
  replies.set(catalog, known)
  const reply = known.get(vendors) ?? written(catalog, vendors)
  known.set(vendors, reply)
  return reply
}

function written(catalog: Catalog, vendors: Vendors): Reply {
  const chat = catalog.chat.all.filter((row) => !row.hidden && vendors.chat(row) !== undefined).map(chatEntry)
  const images = catalog.images.all.filter((row) => !row.hidden && vendors.images(row) !== undefined).map(imageEntry)
  const videos = catalog.video.all.filter((row) => isListed(row) && vendors.video?.(row) !== undefined).map(videoEntry)
  const sounds = catalog.audio.all
    .filter((row) => !row.hidden && vendorOf(row, { vendors }) !== undefined)
    .map((row) => audioEntry(row, { vendors }))
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ object: 'list', data: [...chat, ...images, ...videos, ...sounds] }),
  }
}

function chatEntry({ id, created, maker, name, description, contextWindow, maxOutput, categories, billing }: ChatRow) {
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
    billing_mode: billing.mode,
    pricing: chatPricing(billing),
  }
}

function chatPricing(billing: ChatBilling) {
  if (billing.mode === 'free') return { input: 0, output: 0 }
  if (billing.mode === 'flat') return { flat: asNumber(billing.price) }
  const { input, output, cacheRead, cacheWrite } = billing
  return {
    input: asNumber(input),
    output: asNumber(output),
    ...(cacheRead && { cache_read: asNumber(cacheRead) }),
    ...(cacheWrite && { cache_write: asNumber(cacheWrite) }),
  }
}

/** Rows of media carry no date of release; they are listed from the day on which this catalog began, 2026-11-20. */
const MEDIA_CREATED = 1_795_132_800

function imageEntry({ id, maker, name, sizes, edits }: ImageRow) {
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

function videoEntry({ id, maker, name, seconds, resolutions, usualResolution, audio, billing }: VideoRow) {
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

function audioEntry(row: AudioRow, offering: { readonly vendors: Vendors }) {
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
