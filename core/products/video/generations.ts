/** Videos: the flat request, the request with content parts, the poll of both, and the model list (contract 12.1). */
import { type Static, Type } from '@sinclair/typebox'
import type { Catalog } from '../../endpoint/offering.ts'
import type { VideoRow } from '../../ports/vendors/video.ts'
import { free, type Offering, paid, polled, type Prices, rateOf, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { type Json, isFields } from '../../lib/json.ts'
import { videoGenerationFee, videoRate } from './price.ts'
import { READS } from '../../endpoint/replies.ts'
import {
  checkVideo,
  DEFAULT_MODEL,
  flatFields,
  isListed,
  MAX_PROMPT,
  promptField,
  type VideoRequest,
} from './request.ts'
import { admitVideo, availableRows, isAvailable, quoteOf, videoPriceRange } from './quote.ts'
import { videoJob, videoResponse, videoResult } from './replies.ts'
import { requestRecord } from './stored_request.ts'
import { pollUpstream, submit } from './vendor_jobs.ts'

const HOUR_MS = 3_600_000

const EXAMPLE = { model: DEFAULT_MODEL, prompt: 'a red fox runs through the snow' }

/** Shared by both requests. */
const videoEndpoint = {
  tag: 'video',
  output: videoResult,
  failure: 'Video generation failed',
  uploads: true,
  errors: ['INPUT_IMAGE_REAL_PERSON', 'INVALID_VIDEO_REQUEST', 'UPSTREAM_TIMEOUT'],
  price: quoteOf,
  priceRange: (offering: Offering) => videoPriceRange(availableRows(offering), offering),
  isAvailable: isAvailable,
  admit: admitVideo,
  remember: requestRecord,
  delivery: 'upstream_job',
  submit: submit,
  pollUpstream: pollUpstream,
  show: videoResponse,
} as const

const generations = {
  ...paid({
    ...videoEndpoint,
    name: 'videos.generations',
    path: '/api/v1/videos/generations',
    summary: 'Generate a video from a prompt, an image or references',
    description:
      'Answers 202 with a job to poll; a video takes about 1 to 3 minutes. Charged by the first poll that finds it ready. GET without payment shows the catalog.',
    input: Type.Object({ ...flatFields, prompt: promptField }),
    example: EXAMPLE,
    job: videoJob('/api/v1/videos/generations/{id}'),
    check: checkVideo,
    sample: (offering) => ({ ...EXAMPLE, model: modelOf(offering) }),
  }),
  /** Adds the model list to the discovery 402 (contract 12.7). */
  discovery: (offering: Offering): Readonly<Record<string, Json>> => ({ catalog: catalogOf(offering) }),
}

/** The default model if it is available, else the first available one. */
function modelOf(offering: Offering): string {
  const rows = availableRows(offering)
  const row = rows.find(({ id }) => id === DEFAULT_MODEL) ?? rows[0]
  return row?.id ?? DEFAULT_MODEL
}

// ── content parts ───────────────────────────────────────────────────────────────────────────────────────────────────

const part = Type.Object(
  {
    type: Type.String({ description: 'text or image_url.' }),
    text: Type.Optional(Type.Unknown()),
    image_url: Type.Optional(Type.Unknown()),
    role: Type.Optional(Type.Unknown()),
  },
  {
    description:
      '{"type": "text", "text": "..."}, or {"type": "image_url", "image_url": {"url": "..."}}: one image at most, without a role.',
  },
)
const partsInput = Type.Object({
  ...flatFields,
  prompt: Type.Optional(promptField),
  content: Type.Array(part, {
    description: 'Texts form the prompt, the image is the first frame. Everything else goes into the flat fields.',
  }),
  ratio: Type.Optional(Type.String({ description: 'Alias of aspect_ratio.' })),
  duration: Type.Optional(Type.Integer({ description: 'Alias of duration_seconds.' })),
})
type PartsInput = Static<typeof partsInput>

const PARTS_EXAMPLE = { model: DEFAULT_MODEL, content: [{ type: 'text', text: EXAMPLE.prompt }], duration: 8 }

const parts = paid({
  ...videoEndpoint,
  name: 'videos',
  variantOf: 'videos.generations',
  path: '/api/v1/videos',
  summary: 'Generate a video from content parts',
  description:
    'The same as /api/v1/videos/generations, with content parts; also accepts the flat fields, and bare vendor-e ids such as video-2.0.',
  input: partsInput,
  example: PARTS_EXAMPLE,
  job: videoJob('/api/v1/videos/{id}'),
  check: (order, context) => ({ content: order.content, ...checkVideo(flattened(order, context.catalog), context) }),
  sample(offering) {
    const model = modelOf(offering)
    const seconds = offering.catalog.video.get(model)?.seconds.usual ?? PARTS_EXAMPLE.duration
    return { ...PARTS_EXAMPLE, model, duration: seconds }
  },
})

/**
 * Converts content parts to the flat fields. Throws for parts that only flat fields support, and for conflicting
 * values.
 */
function flattened({ content, ratio, duration, ...order }: PartsInput, { video }: Catalog): VideoRequest {
  const texts: string[] = []
  const images: string[] = []
  for (const [index, each] of content.entries()) {
    const at = `content.${index}`
    if (each.type === 'text') texts.push(textIn(each, at))
    else if (each.type === 'image_url') images.push(imageIn(each, at))
    else throw refused(`${at}.type`, `must be text or image_url, got ${quoted(each.type)}; ${fieldHint(each.type)}`)
  }
  if (content.length === 0) throw refused('content', 'must have a text part, got no parts')
  if (images.length > 1)
    throw refused(
      'content',
      `accepts at most one image_url part, got ${images.length}; send the others in last_frame_url or reference_image_urls`,
    )
  const prompt = texts.length > 0 ? texts.join('\n') : undefined
  if (prompt !== undefined && prompt.length > MAX_PROMPT)
    throw refused('content', `its texts may have at most ${MAX_PROMPT} characters, got ${prompt.length}`)
  const [image] = images
  return {
    ...order,
    ...fieldOnce('model', order.model && withPrefix(order.model, video.all)),
    ...fieldOnce('prompt', order.prompt, ['a text part', prompt]),
    ...fieldOnce('image_url', order.image_url, ['an image_url part', image]),
    ...fieldOnce('aspect_ratio', order.aspect_ratio, ['ratio', ratio]),
    ...fieldOnce('duration_seconds', order.duration_seconds, ['duration', duration]),
  }
}

/** A field by its own name or its alias. Both may be set only to the same value. */
function fieldOnce(
  field: keyof VideoRequest,
  own: unknown,
  [name, other]: readonly [string, unknown] = ['', undefined],
): VideoRequest {
  if (own !== undefined && other !== undefined && own !== other)
    throw refused(field, `is said twice: here ${quoted(own)}, by ${name} ${quoted(other)}; send one of them`)
  const value = own ?? other
  return value === undefined ? {} : ({ [field]: value } as VideoRequest)
}

function textIn({ text, role }: PartsInput['content'][number], at: string): string {
  if (typeof text !== 'string')
    throw refused(
      `${at}.text`,
      text === undefined ? 'is required: the text of this part' : `must be a string, got ${quoted(text)}`,
    )
  if (role !== undefined && role !== null)
    throw refused(`${at}.role`, `is not allowed on a text part, got ${quoted(role)}`)
  return text
}

function imageIn({ image_url: image, role }: PartsInput['content'][number], at: string): string {
  if (role !== undefined && role !== null) {
    throw refused(
      `${at}.role`,
      `is not supported, got ${quoted(role)}; the image part is the first frame, send others in the flat fields last_frame_url and reference_image_urls`,
    )
  }
  const url = isFields(image) ? image.url : image
  if (typeof url === 'string' && url !== '') return url
  throw refused(
    `${at}.image_url`,
    `must be {"url": "https://..."}, got ${quoted(isFields(image) && url !== undefined ? url : image)}`,
  )
}

function fieldHint(type: string): string {
  if (type === 'video_url') return 'send videos in the flat field reference_videos'
  return type === 'audio_url'
    ? 'send sounds in the flat field reference_audios'
    : 'send everything else in the flat fields'
}

/** Adds the prefix to a bare vendor-e id. Other ids are unchanged. */
function withPrefix(id: string, rows: readonly VideoRow[]): string {
  const named = rows.find(
    (row) => row.family === 'e' && [row.id, ...row.aliases].some((name) => name.slice(name.indexOf('/') + 1) === id),
  )
  return named && !id.includes('/') ? named.id : id
}

// ── polls and models ────────────────────────────────────────────────────────────────────────────────────────────────

const jobPoll = polled({
  name: 'videos.poll',
  path: '/api/v1/videos/generations/{id}',
  aliases: ['/api/v1/videos/{id}'],
  summary: 'Collect a video job',
  description: `Use poll_url as it was given. ${READS} The first poll that finds the job completed settles it, once.`,
  tag: 'video',
  of: ['videos.generations', 'videos'],
  signedQuery: true,
  errors: ['INVALID_JOB_ID', 'RATE_LIMITED', 'UPSTREAM_TIMEOUT'],
})

const range = { minimum: 1 }
const model = Type.Object({
  id: Type.String(),
  object: Type.Literal('model'),
  name: Type.String(),
  owned_by: Type.String(),
  min_duration_seconds: Type.Integer(range),
  max_duration_seconds: Type.Integer(range),
  default_duration_seconds: Type.Integer(range),
  durations: Type.Optional(
    Type.Array(Type.Integer(), { description: 'The supported lengths, if not every length in the range is.' }),
  ),
  resolutions: Type.Array(Type.String()),
  defaultResolution: Type.String(),
  aspect_ratios: Type.Array(Type.String()),
  image_to_video: Type.Boolean(),
  synced_audio: Type.Boolean(),
  last_frame: Type.Boolean(),
  reference_media: Type.Boolean(),
  asset_id: Type.Boolean({ description: 'Whether real_face_asset_id is supported.' }),
  pricePerSecond: Type.Number({
    description:
      'US dollars at the default resolution, before the margin on media and the fee; at 720p where tokens are billed.',
  }),
  pricePerSecondByResolution: Type.Optional(Type.Record(Type.String(), Type.Number())),
  perGenerationFee: Type.Number({ description: 'US dollars per generation, whatever its length.' }),
  transaction_fee: Type.Number({ description: 'US dollars per call.' }),
  price_per_million_tokens: Type.Optional(
    Type.Number({ description: 'US dollars before the margin on media, where tokens are billed.' }),
  ),
})

const models = free({
  name: 'video.models',
  path: '/api/v1/video/models',
  summary: 'List the video models, their rates and capabilities',
  tag: 'video',
  isOffered: (offering) => availableRows(offering).some((row) => offering.vendors.video?.(row) !== undefined),
  limit: { requests: 100, windowMs: HOUR_MS },
  output: Type.Object({ object: Type.Literal('list'), data: Type.Array(model) }),
  answer: (_request, offering) => json(200, catalogOf(offering)),
})

export const video = [generations, parts, jobPoll, models]

/** The listed rows that are available here. */
function catalogOf({ catalog, vendors, prices = STANDARD_PRICES }: Offering): { readonly [key: string]: Json } {
  return {
    object: 'list',
    data: catalog.video.all
      .filter((row) => isListed(row) && vendors.video?.(row) !== undefined)
      .map((row) => listing(row, prices)),
  }
}

function listing(row: VideoRow, prices: Prices): { readonly [key: string]: Json } {
  const {
    id,
    name,
    maker,
    seconds,
    resolutions,
    usualResolution,
    ratios,
    audio,
    lastFrame,
    references,
    assets,
    billing,
  } = row
  const rate = rateOf({ prices }, generations)
  return {
    id,
    object: 'model',
    name,
    owned_by: maker,
    min_duration_seconds: seconds.min,
    max_duration_seconds: seconds.max,
    default_duration_seconds: seconds.usual,
    ...(seconds.only && { durations: [...seconds.only] }),
    resolutions: [...resolutions],
    defaultResolution: usualResolution,
    aspect_ratios: [...ratios],
    image_to_video: true,
    synced_audio: audio,
    last_frame: lastFrame,
    reference_media: references,
    asset_id: assets,
    pricePerSecond: rate(videoRate(billing, usualResolution)),
    ...(billing.mode === 'per_second_by_tier' && {
      pricePerSecondByResolution: Object.fromEntries(resolutions.map((tier) => [tier, rate(videoRate(billing, tier))])),
    }),
    perGenerationFee: rate(videoGenerationFee(billing)),
    transaction_fee: rate(prices.fee),
    ...(billing.mode === 'per_token' && { price_per_million_tokens: rate(billing.rate) }),
  }
}
