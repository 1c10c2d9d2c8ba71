/** Validates video requests (contract 12.1) before the 402. Errors name the field, the value and what is allowed. */
import { type Static, Type } from '@sinclair/typebox'
import type { VideoRow } from '../../ports/vendors/video.ts'
import type { Context, Offering } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { clip, isWebUrl, quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { pictureOf } from '../../lib/image_bytes.ts'
import { asNumber } from '../../x402/pricing.ts'
import { RESOLUTION_NAMES } from './price.ts'

export const DEFAULT_MODEL = 'vendor-c/video-1'

export const MAX_PROMPT = 32_000
const MAX_URL = 2048
const MAX_IMAGES = 9
const MAX_CLIPS = 3

const INPUT_TYPES = ['text', 'image', 'first_last_frame', 'reference'] as const
type InputType = (typeof INPUT_TYPES)[number]

const picture = (description: string) =>
  Type.String({
    minLength: 1,
    description: `${description} An http(s) URL, or a data URI of a PNG, JPEG, GIF, BMP, WEBP, HEIC, HEIF or AVIF.`,
  })
const clips = (what: string) =>
  Type.Array(Type.Object({ url: Type.String(), role: Type.Optional(Type.Union([Type.String(), Type.Null()])) }), {
    description: `1 to ${MAX_CLIPS} ${what}, each {url, role?}: an http(s) URL of at most ${MAX_URL} characters; role, if sent, is "reference". vendor-e 2.0 models only.`,
  })

/** The flat fields of both endpoints. Counts are checked below, where the message can include the number. */
export const flatFields = {
  model: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      default: DEFAULT_MODEL,
      description: 'Id of a video model, as listed by /api/v1/video/models.',
    }),
  ),
  image_url: Type.Optional(picture('The first frame.')),
  real_face_asset_id: Type.Optional(
    Type.String({
      description:
        'Id of an enrolled character, ta_<id>. vendor-e 2.0 models only; cannot be combined with image_url or last_frame_url.',
    }),
  ),
  last_frame_url: Type.Optional(picture('The last frame; requires image_url.')),
  reference_image_urls: Type.Optional(
    Type.Array(picture('One image.'), {
      description: `1 to ${MAX_IMAGES} images that the prompt calls image 1, image 2, ... vendor-e 2.0 models only.`,
    }),
  ),
  reference_videos: Type.Optional(clips('videos to refer to')),
  reference_audios: Type.Optional(clips('sounds of up to 15.2 s to refer to')),
  video_url: Type.Optional(Type.Unknown({ description: 'Not supported: send reference_videos.' })),
  audio_url: Type.Optional(Type.Unknown({ description: 'Not supported: send reference_audios.' })),
  input_type: Type.Optional(
    Type.String({
      description: `What the request is made from: ${INPUT_TYPES.join(', ')}. Must match the fields that are sent.`,
    }),
  ),
  duration_seconds: Type.Optional(
    Type.Integer({ description: 'The billed length; allowed values and the default depend on the model.' }),
  ),
  resolution: Type.Optional(
    Type.String({ description: '480p, 720p, 1080p or 4K, if the model supports it. Ignored by vendor-f.' }),
  ),
  aspect_ratio: Type.Optional(
    Type.String({ description: 'For example 16:9; allowed values depend on the model. Ignored by vendor-f.' }),
  ),
  generate_audio: Type.Optional(
    Type.Boolean({
      description: 'vendor-e: whether the clip has sound. Default: true for text alone, else false.',
    }),
  ),
  seed: Type.Optional(Type.Integer({ description: 'vendor-e: for reproducible results.' })),
  watermark: Type.Optional(Type.Boolean({ description: 'vendor-e: whether to add a watermark. Default: false.' })),
  return_last_frame: Type.Optional(
    Type.Boolean({ description: 'vendor-e: whether to return the last frame as an image too.' }),
  ),
}
export const promptField = Type.String({ minLength: 1, maxLength: MAX_PROMPT, description: 'What the video shows.' })

const flat = Type.Object({ ...flatFields, prompt: Type.Optional(promptField) })
/** A request; once checked, with defaults filled in and without fields that its model ignores. */
export type VideoRequest = Static<typeof flat>
type Clips = NonNullable<VideoRequest['reference_videos']>

/** Feature flags of the operator; on by default. */
type FeatureFlags = { readonly referenceMedia?: boolean }
type VideoContext = Context & { readonly featureFlags?: FeatureFlags }

/**
 * Checks a request and fills in defaults. Throws INVALID_MODEL, INVALID_BODY, or NOT_CONFIGURED where references are
 * turned off.
 */
export function checkVideo(
  order: VideoRequest,
  offering: VideoContext & Partial<Pick<Offering, 'vendors'>>,
): VideoRequest & { model: string; prompt: string; duration_seconds: number; resolution: string } {
  const { featureFlags } = offering
  const listed = listedIn(offering)
  const row = rowOf(order.model ?? DEFAULT_MODEL, offering.catalog.video, listed)
  const prompt = order.prompt ?? ''
  if (prompt.trim() === '')
    throw refused(
      'prompt',
      order.prompt === undefined ? 'is required and must not be blank' : `must not be blank, got ${quoted(prompt)}`,
    )
  const duration_seconds = secondsOf(row, order.duration_seconds)
  const resolution = resolutionOf(row, order.resolution)
  checkRatio(row, order.aspect_ratio)
  checkCapabilities(row, order, listed)
  checkCombinations(order)
  checkMedia(order)
  checkInputType(order)
  const hasReferences = order.reference_videos !== undefined || order.reference_audios !== undefined
  if (hasReferences && featureFlags?.referenceMedia === false) throw featureDisabled()
  return { model: row.id, prompt, duration_seconds, resolution, ...mediaFields(order), ...familyFields(row, order) }
}

/** The input type, by the fields that are present. */
function inferredInputType(order: VideoRequest): InputType {
  if (order.reference_image_urls || order.reference_videos || order.reference_audios) return 'reference'
  if (order.last_frame_url !== undefined) return 'first_last_frame'
  return order.image_url !== undefined || order.real_face_asset_id !== undefined ? 'image' : 'text'
}

/** The listed rows that are available here; all listed rows where the vendors are not known. */
function listedIn({ catalog, vendors }: Context & Partial<Pick<Offering, 'vendors'>>): readonly VideoRow[] {
  return catalog.video.all.filter((row) => isListed(row) && (!vendors || vendors.video?.(row) !== undefined))
}

function rowOf(id: string, { get }: Context['catalog']['video'], listed: readonly VideoRow[]): VideoRow {
  const row = get(id)
  if (row && !row.retired) return row
  const available = listed.map((each) => each.id)
  const problem = row ? `${row.id} is no longer available.` : `Unknown model: ${clip(id)}.`
  throw new ApiError('INVALID_MODEL', {
    message: `${problem} Available models: ${available.join(', ') || 'none'}.`,
    fields: { available_models: available },
  })
}

function secondsOf({ id, seconds: { min, max, only, usual } }: VideoRow, given = usual): number {
  const isAllowed = only ? only.includes(given) : given >= min && given <= max
  if (isAllowed) return given
  const allowed = only ? `only ${only.join(', ')} seconds` : `${min} to ${max} seconds`
  throw refused('duration_seconds', `${id} makes ${allowed}, got ${given}`, {
    allowed_seconds: only ? [...only] : { min, max },
  })
}

/** The billed resolution. Family F has only one and ignores the field. */
function resolutionOf(
  { id, family, resolutions, usualResolution, capsResolution, billing }: VideoRow,
  given?: string,
): string {
  if (given === undefined || family === 'f') return usualResolution
  if (resolutions.includes(given)) return given
  const [highest = usualResolution] = resolutions.slice(-1)
  if (capsResolution && RESOLUTION_NAMES.indexOf(given) > RESOLUTION_NAMES.indexOf(highest)) return highest
  const rates =
    billing.mode === 'per_second_by_tier'
      ? Object.entries(billing.tiers).map(([tier, rate]) => [tier, asNumber(rate)] as const)
      : []
  const allowed = rates.length > 0 ? rates.map(([tier, rate]) => `${tier} at ${rate} USD per second`) : resolutions
  const fields = {
    valid_resolutions: [...resolutions],
    ...(rates.length > 0 && { pricePerSecondByResolution: Object.fromEntries(rates) }),
  }
  throw refused('resolution', `${id} makes ${allowed.join(', ')}, got ${quoted(given)}`, fields)
}

function checkRatio({ id, family, ratios }: VideoRow, given?: string): void {
  if (given === undefined || family === 'f' || ratios.includes(given)) return
  throw refused('aspect_ratio', `${id} makes ${ratios.join(', ')}, got ${quoted(given)}`, {
    valid_aspect_ratios: [...ratios],
  })
}

const REFERENCES = ['reference_image_urls', 'reference_videos', 'reference_audios'] as const

/**
 * Fields that only some models support are refused by the others; fields that have no effect are dropped (contract
 * 12.31).
 */
function checkCapabilities(row: VideoRow, order: VideoRequest, rows: readonly VideoRow[]): void {
  if (order.video_url !== undefined)
    throw refused(
      'video_url',
      `is not supported, got ${quoted(order.video_url)}; send reference_videos: [{"url": "https://..."}], 1 to ${MAX_CLIPS} of them`,
    )
  if (order.audio_url !== undefined)
    throw refused(
      'audio_url',
      `is not supported, got ${quoted(order.audio_url)}; send reference_audios: [{"url": "https://..."}], 1 to ${MAX_CLIPS} of them`,
    )
  const requirements = [
    ['real_face_asset_id', 'assets'],
    ['last_frame_url', 'lastFrame'],
    ...REFERENCES.map((field) => [field, 'references'] as const),
  ] as const
  for (const [field, capability] of requirements) {
    if (order[field] === undefined || row[capability]) continue
    const supporting = rows.filter((each) => each[capability]).map(({ id }) => id)
    throw refused(
      field,
      `${row.id} does not support it, got ${quoted(order[field])}; models that do: ${supporting.join(', ') || 'none'}`,
      { available_models: supporting },
    )
  }
}

/** Whether a row is listed: neither hidden nor retired. */
export const isListed = ({ hidden, retired }: VideoRow): boolean => !hidden && !retired

/**
 * Frames and references cannot be combined, since no vendor supports both. An enrolled character may be combined with
 * videos and sounds.
 */
function checkCombinations(order: VideoRequest): void {
  const { image_url, last_frame_url, real_face_asset_id, reference_image_urls } = order
  const conflict = (field: keyof VideoRequest, other: keyof VideoRequest) =>
    refused(field, `cannot be combined with ${other}, got both; send one of them`)
  if (real_face_asset_id !== undefined && image_url !== undefined) throw conflict('real_face_asset_id', 'image_url')
  if (real_face_asset_id !== undefined && last_frame_url !== undefined)
    throw conflict('real_face_asset_id', 'last_frame_url')
  if (real_face_asset_id !== undefined && reference_image_urls !== undefined)
    throw conflict('reference_image_urls', 'real_face_asset_id')
  for (const field of REFERENCES) {
    if (order[field] === undefined) continue
    if (image_url !== undefined) throw conflict(field, 'image_url')
    if (last_frame_url !== undefined) throw conflict(field, 'last_frame_url')
  }
  if (last_frame_url !== undefined && image_url === undefined)
    throw refused('last_frame_url', `requires image_url, the first frame; got ${quoted(last_frame_url)} alone`)
}

/** Checks counts and formats. Inline images are decoded last, since that takes longest. */
function checkMedia(order: VideoRequest): void {
  const { image_url, last_frame_url, real_face_asset_id, reference_image_urls: images } = order
  if (real_face_asset_id !== undefined && !/^ta_[\w-]{1,128}$/.test(real_face_asset_id)) {
    throw refused(
      'real_face_asset_id',
      `must be the id of an enrolled character, ta_<id>, got ${quoted(real_face_asset_id)}`,
    )
  }
  if (images && (images.length < 1 || images.length > MAX_IMAGES))
    throw refused('reference_image_urls', `must have 1 to ${MAX_IMAGES} images, got ${images.length}`)
  checkClips('reference_videos', order.reference_videos)
  checkClips('reference_audios', order.reference_audios)
  const pictures = [
    ['image_url', image_url],
    ['last_frame_url', last_frame_url],
    ...(images ?? []).map((url, index) => [`reference_image_urls.${index}`, url] as const),
  ] as const
  for (const [path, url] of pictures) if (url !== undefined) checkImage(path, url)
}

function checkClips(field: 'reference_videos' | 'reference_audios', given: Clips | undefined): void {
  if (!given) return
  if (given.length < 1 || given.length > MAX_CLIPS)
    throw refused(field, `must have 1 to ${MAX_CLIPS} entries, got ${given.length}`)
  for (const [index, { url, role }] of given.entries()) {
    if (role !== undefined && role !== null && role !== 'reference')
      throw refused(`${field}.${index}.role`, `must be "reference" or absent, got ${quoted(role)}`)
    if (url.length > MAX_URL)
      throw refused(`${field}.${index}.url`, `may have at most ${MAX_URL} characters, got ${url.length}`)
    if (!isWebUrl(url)) throw refused(`${field}.${index}.url`, `must be an http(s) URL, got ${quoted(url)}`)
  }
}

/** Remote images are fetched and checked by the vendor. */
function checkImage(path: string, url: string): void {
  if (!/^data:/i.test(url)) {
    if (!isWebUrl(url)) throw refused(path, `must be an http(s) URL or a data URI, got ${quoted(url)}`)
    return
  }
  const found = pictureOf(url)
  if (typeof found === 'string') throw refused(path, `${found}, got ${quoted(url)}`)
}

function checkInputType(order: VideoRequest): void {
  const { input_type: given } = order
  const inferred = inferredInputType(order)
  if (given === undefined || given === inferred) return
  const isKnown = (INPUT_TYPES as readonly string[]).includes(given)
  const why = isKnown
    ? `does not match the fields that were sent, which make it ${inferred}`
    : `must be one of ${INPUT_TYPES.join(', ')}`
  throw refused('input_type', `${why}, got ${quoted(given)}`, { inferred_input_type: inferred })
}

/** Jobs accepted earlier continue and can be polled. */
function featureDisabled(): ApiError {
  return new ApiError('NOT_CONFIGURED', {
    error: 'Reference media is disabled',
    message:
      'The operator has temporarily disabled reference_videos and reference_audios. Nothing was charged. Send the request without them, or retry later.',
    headers: { 'retry-after': '300' },
  })
}

/** The media fields of a request. */
function mediaFields(order: VideoRequest): VideoRequest {
  const { image_url, last_frame_url, real_face_asset_id, reference_image_urls, reference_videos, reference_audios } =
    order
  return {
    ...(image_url !== undefined && { image_url }),
    ...(last_frame_url !== undefined && { last_frame_url }),
    ...(real_face_asset_id !== undefined && { real_face_asset_id }),
    ...(reference_image_urls && { reference_image_urls }),
    ...(reference_videos && { reference_videos: reference_videos.map(({ url }) => ({ url })) }),
    ...(reference_audios && { reference_audios: reference_audios.map(({ url }) => ({ url })) }),
  }
}

/** The other fields that the family supports. Family E always gets `generate_audio`. */
function familyFields({ family }: VideoRow, order: VideoRequest): VideoRequest {
  if (family === 'f') return {}
  const { aspect_ratio, seed, watermark = false, return_last_frame = false } = order
  const ratio = aspect_ratio === undefined ? {} : { aspect_ratio }
  if (family === 'c') return ratio
  const generate_audio = order.generate_audio ?? inferredInputType(order) === 'text'
  return { ...ratio, generate_audio, watermark, return_last_frame, ...(seed !== undefined && { seed }) }
}
