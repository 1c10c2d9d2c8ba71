/**
 * What a video request may say (contract 12.1). Every gate is here, before the 402, and names the field, the value and
 * what is allowed.
 */
import { type Static, Type } from '@sinclair/typebox'
import type { VideoRow } from '../../ports/vendors/video.ts'
import type { Context } from '../../endpoint/mod.ts'
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
export type InputType = (typeof INPUT_TYPES)[number]

const picture = (description: string) =>
  Type.String({
    minLength: 1,
    description: `${description} An http(s) URL, or a data URI of a PNG, JPEG, GIF, BMP, WEBP, HEIC, HEIF or AVIF.`,
  })
const clips = (what: string) =>
  Type.Array(Type.Object({ url: Type.String(), role: Type.Optional(Type.Union([Type.String(), Type.Null()])) }), {
    description: `1 to ${MAX_CLIPS} ${what}, each {url, role?}: an http(s) URL of at most ${MAX_URL} characters; role, if sent, is "reference". vendor-e 2.0 models only.`,
  })

/** The flat fields, which both endpoints take. Counts are checked below, where the text can say how many there were. */
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
        'Id of an enrolled character, ta_<id>. vendor-e 2.0 models only; goes with neither image_url nor last_frame_url.',
    }),
  ),
  last_frame_url: Type.Optional(picture('The last frame; goes with image_url.')),
  reference_image_urls: Type.Optional(
    Type.Array(picture('One image.'), {
      description: `1 to ${MAX_IMAGES} images that the prompt calls image 1, image 2, ... vendor-e 2.0 models only.`,
    }),
  ),
  reference_videos: Type.Optional(clips('videos to refer to')),
  reference_audios: Type.Optional(clips('sounds of up to 15.2 s to refer to')),
  video_url: Type.Optional(Type.Unknown({ description: 'Not taken: send reference_videos.' })),
  audio_url: Type.Optional(Type.Unknown({ description: 'Not taken: send reference_audios.' })),
  input_type: Type.Optional(
    Type.String({
      description: `What the request is made from: ${INPUT_TYPES.join(', ')}. Must match the fields that are sent.`,
    }),
  ),
  duration_seconds: Type.Optional(
    Type.Integer({ description: 'The billed length; what is allowed, and usual, depends on the model.' }),
  ),
  resolution: Type.Optional(
    Type.String({ description: '480p, 720p, 1080p or 4K, as far as the model makes it. Ignored by vendor-f.' }),
  ),
  aspect_ratio: Type.Optional(
    Type.String({ description: 'For example 16:9; what is allowed depends on the model. Ignored by vendor-f.' }),
  ),
  generate_audio: Type.Optional(
    Type.Boolean({
      description: 'vendor-e: whether the clip has sound; true for text alone, else false, unless told.',
    }),
  ),
  seed: Type.Optional(Type.Integer({ description: 'vendor-e: for results that can be had again.' })),
  watermark: Type.Optional(
    Type.Boolean({ description: 'vendor-e: whether the maker marks the clip; false unless told.' }),
  ),
  return_last_frame: Type.Optional(
    Type.Boolean({ description: 'vendor-e: answers with the last frame as a still as well.' }),
  ),
}
export const promptField = Type.String({ minLength: 1, maxLength: MAX_PROMPT, description: 'What the video shows.' })

const flat = Type.Object({ ...flatFields, prompt: Type.Optional(promptField) })
/**
 * An order as it is asked, or, once it has been checked, with everything filled in and nothing that its model ignores.
 */
export type VideoRequest = Static<typeof flat>
type Clips = NonNullable<VideoRequest['reference_videos']>

/** What the operator has switched; on unless told. */
export type FeatureFlags = { readonly referenceMedia?: boolean }
export type VideoContext = Context & { readonly featureFlags?: FeatureFlags }

/**
 * Checks an order and fills it in. Throws INVALID_MODEL, INVALID_BODY, or NOT_CONFIGURED where references are switched
 * off.
 */
export function checkVideo(
  order: VideoRequest,
  { catalog, featureFlags }: VideoContext,
): VideoRequest & { model: string; prompt: string; duration_seconds: number; resolution: string } {
  const row = rowOf(order.model ?? DEFAULT_MODEL, catalog.video)
  const prompt = order.prompt ?? ''
  if (prompt.trim() === '')
    throw refused(
      'prompt',
      order.prompt === undefined ? 'is needed: a text that is not blank' : `must not be blank, got ${quoted(prompt)}`,
    )
  const duration_seconds = secondsOf(row, order.duration_seconds)
  const resolution = resolutionOf(row, order.resolution)
  checkRatio(row, order.aspect_ratio)
  checkCapabilities(row, order, catalog.video.all)
  checkCombinations(order)
  checkMedia(order)
  checkInputType(order)
  const isReferring = order.reference_videos !== undefined || order.reference_audios !== undefined
  if (isReferring && featureFlags?.referenceMedia === false) throw switchedOff()
  return { model: row.id, prompt, duration_seconds, resolution, ...seedsOf(order), ...wordsOf(row, order) }
}

/** What a request is made from, by the fields that it has. */
export function inferredInputType(order: VideoRequest): InputType {
  if (order.reference_image_urls || order.reference_videos || order.reference_audios) return 'reference'
  if (order.last_frame_url !== undefined) return 'first_last_frame'
  return order.image_url !== undefined || order.real_face_asset_id !== undefined ? 'image' : 'text'
}

function rowOf(id: string, { all, get }: Context['catalog']['video']): VideoRow {
  const row = get(id)
  if (row && !row.retired) return row
  const available = all.filter(isListed).map((each) => each.id)
  const problem = row ? `${row.id} is not available any more.` : `Unknown model: ${clip(id)}.`
  throw new ApiError('INVALID_MODEL', {
    message: `${problem} Available models: ${available.join(', ')}.`,
    fields: { available_models: available },
  })
}

function secondsOf({ id, seconds: { min, max, only, usual } }: VideoRow, given = usual): number {
  const isMade = only ? only.includes(given) : given >= min && given <= max
  if (isMade) return given
  const allowed = only ? `only ${only.join(', ')} seconds` : `${min} to ${max} seconds`
  throw refused('duration_seconds', `${id} makes ${allowed}, got ${given}`, {
    allowed_seconds: only ? [...only] : { min, max },
  })
}

/** The resolution that is made and billed. Family F has one, and ignores what is asked. */
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
 * What the contract gives to some models is refused by the others; what they merely have no use for is dropped
 * (contract 12.31).
 */
function checkCapabilities(row: VideoRow, order: VideoRequest, rows: readonly VideoRow[]): void {
  if (order.video_url !== undefined)
    throw refused(
      'video_url',
      `is not taken, got ${quoted(order.video_url)}; send reference_videos: [{"url": "https://..."}], 1 to ${MAX_CLIPS} of them`,
    )
  if (order.audio_url !== undefined)
    throw refused(
      'audio_url',
      `is not taken, got ${quoted(order.audio_url)}; send reference_audios: [{"url": "https://..."}], 1 to ${MAX_CLIPS} of them`,
    )
  const needs = [
    ['real_face_asset_id', 'assets'],
    ['last_frame_url', 'lastFrame'],
    ...REFERENCES.map((field) => [field, 'references'] as const),
  ] as const
  for (const [field, capability] of needs) {
    if (order[field] === undefined || row[capability]) continue
    const able = rows.filter((each) => each[capability] && isListed(each)).map(({ id }) => id)
    throw refused(
      field,
      `${row.id} does not take it, got ${quoted(order[field])}; models that do: ${able.join(', ') || 'none'}`,
      { available_models: able },
    )
  }
}

/** Whether it is on show: neither hidden nor retired. */
export const isListed = ({ hidden, retired }: VideoRow): boolean => !hidden && !retired

/**
 * A request is made from frames or from references, never from both: no maker can mix them. An enrolled character may
 * go with videos and sounds.
 */
function checkCombinations(order: VideoRequest): void {
  const { image_url, last_frame_url, real_face_asset_id, reference_image_urls } = order
  const apart = (field: keyof VideoRequest, other: keyof VideoRequest) =>
    refused(field, `cannot be combined with ${other}, got both; send one of them`)
  if (real_face_asset_id !== undefined && image_url !== undefined) throw apart('real_face_asset_id', 'image_url')
  if (real_face_asset_id !== undefined && last_frame_url !== undefined)
    throw apart('real_face_asset_id', 'last_frame_url')
  if (real_face_asset_id !== undefined && reference_image_urls !== undefined)
    throw apart('reference_image_urls', 'real_face_asset_id')
  for (const field of REFERENCES) {
    if (order[field] === undefined) continue
    if (image_url !== undefined) throw apart(field, 'image_url')
    if (last_frame_url !== undefined) throw apart(field, 'last_frame_url')
  }
  if (last_frame_url !== undefined && image_url === undefined)
    throw refused('last_frame_url', `goes with image_url, the first frame, got ${quoted(last_frame_url)} alone`)
}

/** Counts and forms; pictures in the request itself are looked at, last of all, for that takes longest. */
function checkMedia(order: VideoRequest): void {
  const { image_url, last_frame_url, real_face_asset_id, reference_image_urls: images } = order
  if (real_face_asset_id !== undefined && !/^ta_[\w-]{1,128}$/.test(real_face_asset_id)) {
    throw refused(
      'real_face_asset_id',
      `must be the id of an enrolled character, ta_<id>, got ${quoted(real_face_asset_id)}`,
    )
  }
  if (images && (images.length < 1 || images.length > MAX_IMAGES))
    throw refused('reference_image_urls', `takes 1 to ${MAX_IMAGES} images, got ${images.length}`)
  checkClips('reference_videos', order.reference_videos)
  checkClips('reference_audios', order.reference_audios)
  const pictures = [
    ['image_url', image_url],
    ['last_frame_url', last_frame_url],
    ...(images ?? []).map((url, index) => [`reference_image_urls.${index}`, url] as const),
  ] as const
  for (const [path, url] of pictures) if (url !== undefined) checkPicture(path, url)
}

function checkClips(field: 'reference_videos' | 'reference_audios', given: Clips | undefined): void {
  if (!given) return
  if (given.length < 1 || given.length > MAX_CLIPS)
    throw refused(field, `takes 1 to ${MAX_CLIPS} entries, got ${given.length}`)
  for (const [index, { url, role }] of given.entries()) {
    if (role !== undefined && role !== null && role !== 'reference')
      throw refused(`${field}.${index}.role`, `must be "reference" or left out, got ${quoted(role)}`)
    if (url.length > MAX_URL)
      throw refused(`${field}.${index}.url`, `may have at most ${MAX_URL} characters, got ${url.length}`)
    if (!isWebUrl(url)) throw refused(`${field}.${index}.url`, `must be an http(s) URL, got ${quoted(url)}`)
  }
}

/** Remote pictures are the vendor's to fetch and to judge. */
function checkPicture(path: string, url: string): void {
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
  const why = isKnown ? `the fields that were sent make it ${inferred}` : `must be one of ${INPUT_TYPES.join(', ')}`
  throw refused('input_type', `${why}, got ${quoted(given)}`, { inferred_input_type: inferred })
}

/** Jobs that were taken before go on, and can be polled. */
function switchedOff(): ApiError {
  return new ApiError('NOT_CONFIGURED', {
    error: 'Reference media is switched off',
    message:
      'The operator has switched reference_videos and reference_audios off for now. Nothing was charged; try again later, or send the request without them.',
    headers: { 'retry-after': '300' },
  })
}

/** The fields that a clip is made from, as they were sent; clips without what they do not say. */
function seedsOf(order: VideoRequest): VideoRequest {
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

/** What the family honors of the rest. Family E is always told whether there is to be sound. */
function wordsOf({ family }: VideoRow, order: VideoRequest): VideoRequest {
  if (family === 'f') return {}
  const { aspect_ratio, seed, watermark = false, return_last_frame = false } = order
  const ratio = aspect_ratio === undefined ? {} : { aspect_ratio }
  if (family === 'c') return ratio
  const generate_audio = order.generate_audio ?? inferredInputType(order) === 'text'
  return { ...ratio, generate_audio, watermark, return_last_frame, ...(seed !== undefined && { seed }) }
}
