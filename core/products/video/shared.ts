/** Shared by the video endpoints: prices, stored requests, vendor jobs and responses (contract 12.1). */
import { Type } from '@sinclair/typebox'
import type { VideoRow, VideoJob, VideoState, VideoVendor } from '../../ports/vendors/video.ts'
import {
  type Context,
  type JobDescription,
  type Made,
  type Offering,
  type Order,
  type Price,
  type Showing,
  STANDARD_PRICES,
  type Stored,
  type UpstreamPollContext,
  type UpstreamStatus,
} from '../../endpoint/mod.ts'
import { ApiError, rateLimited } from '../../http/errors.ts'
import { refused } from '../../http/request_body.ts'
import type { Usdc } from '../../x402/money.ts'
import type { Json } from '../../lib/json.ts'
import { asNumber, flatPrice } from '../../x402/pricing.ts'
import { videoGenerationFee, videoPrice, videoRate, videoTokens } from './price.ts'
import { vendorAssetOf } from './owned_characters.ts'
import { DEFAULT_MODEL, isListed, type VideoRequest } from './request.ts'

/** Lifetime of the signed authorization (contract 12.39). */
const AUTHORIZATION_SECONDS = 600

const clip = Type.Object({
  url: Type.String({ description: 'Hosted URL, or the vendor URL if the clip was not mirrored.' }),
  source_url: Type.Optional(Type.String({ description: 'Vendor URL; only the type for inline data.' })),
  duration_seconds: Type.Integer({ description: 'Actual length; the billed length if the vendor reports none.' }),
  request_id: Type.Optional(Type.String({ description: 'Id of the job at the vendor.' })),
  backed_up: Type.Boolean({ description: 'Whether the clip was mirrored to durable storage.' }),
  last_frame_url: Type.Optional(Type.String({ description: 'The last frame as an image, if requested.' })),
})

export const videoResult = Type.Object({
  id: Type.String(),
  object: Type.Literal('video.generation.job'),
  status: Type.Literal('completed'),
  model: Type.String(),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  data: Type.Array(clip),
  usage: Type.Optional(
    Type.Object({
      total_tokens: Type.Integer({ description: 'vendor-e models only.' }),
      token_source: Type.Union([Type.Literal('upstream'), Type.Literal('estimated')]),
    }),
  ),
  price: Type.Object({ amount: Type.String(), currency: Type.Literal('USD') }),
  payment: Type.Object({
    status: Type.Union([Type.Literal('settled'), Type.Literal('already_settled')]),
    tx_hash: Type.String(),
    network: Type.String(),
  }),
})

/** The job description; each endpoint has its own poll path. */
export const videoJob = (poll: string): JobDescription => ({
  object: 'video.generation.job',
  poll,
  instructions:
    'GET poll_url, as it is, every 5 to 10 seconds with a payment header of the same wallet; its key is for you alone. Wait up to 60 seconds for an answer. You are charged once, by the first poll that finds the video ready.',
  running:
    'Still working; a video takes about 1 to 3 minutes. Nothing has been charged. Poll again in 5 to 10 seconds.',
  query: pollQuery,
})

// ── price ───────────────────────────────────────────────────────────────────────────────────────────────────────────

type OrderedVideo = {
  readonly row: VideoRow
  readonly seconds: number
  readonly resolution: string
  readonly videos: number
  readonly audios: number
}

/** The row and size of a validated request. Throws a plain error for one that was not validated. */
function orderedVideo(order: VideoRequest, { catalog }: Context): OrderedVideo {
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
  const [first = flatPrice('0', markup)] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
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

// ── stored requests ─────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * The part of a request that is stored with its call: members of its replies, and under `_` those needed to poll it.
 */
export type StoredVideoRequest = {
  readonly model: string
  readonly duration_seconds: number
  readonly _: {
    readonly i2v: boolean
    readonly resolution: string
    readonly rv: number
    readonly ra: number
    readonly generate_audio: boolean | null
  }
}

export function requestRecord(order: VideoRequest): { model: string; request: StoredVideoRequest } {
  const {
    model = DEFAULT_MODEL,
    duration_seconds = 0,
    resolution = '',
    reference_videos = [],
    reference_audios = [],
    generate_audio = null,
  } = order
  const i2v = order.image_url !== undefined || order.real_face_asset_id !== undefined
  return {
    model,
    request: {
      model,
      duration_seconds,
      _: { i2v, resolution, rv: reference_videos.length, ra: reference_audios.length, generate_audio },
    },
  }
}

/** The signed query parameters of a poll URL (contract 12.42). */
export function pollQuery(request: Json): Record<string, string> {
  const { model, duration_seconds, _: stored } = request as unknown as StoredVideoRequest
  return {
    model,
    duration: String(duration_seconds),
    i2v: stored.i2v ? '1' : '0',
    resolution: stored.resolution,
    ...(stored.rv > 0 && { rv: String(stored.rv) }),
    ...(stored.ra > 0 && { ra: String(stored.ra) }),
  }
}

// ── vendor jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Submits a validated request to the vendor of its row. The handle names the vendor, since the job stays there even if
 * the configuration changes.
 */
export async function submit(order: Order<VideoRequest>): Promise<{ handle: string }> {
  const { input, catalog, vendors, records, payer, signal } = order
  const { row, seconds, resolution } = orderedVideo(input, { catalog })
  const vendor = vendorOf(row, vendors)
  const id = input.real_face_asset_id
  const asset = id === undefined ? undefined : await vendorAssetOf(records, id, { payer, now: order.now })
  if (id !== undefined && asset === undefined)
    throw refused('real_face_asset_id', `no character ${id} is enrolled by this wallet. Nothing was charged`)
  const { handle } = await vendor.submit(jobOf(input, { row, seconds, resolution, asset }), { signal })
  return { handle: JSON.stringify([row.vendor, handle]) }
}

function vendorOf(row: VideoRow, vendors: Offering['vendors']): VideoVendor {
  const vendor = vendors.video?.(row)
  if (!vendor) throw new ApiError('NOT_CONFIGURED')
  return vendor
}

function jobOf(
  input: VideoRequest,
  {
    row,
    seconds,
    resolution,
    asset,
  }: Pick<OrderedVideo, 'row' | 'seconds' | 'resolution'> & { asset: string | undefined },
): VideoJob {
  const {
    prompt = '',
    aspect_ratio,
    image_url,
    last_frame_url,
    reference_image_urls,
    reference_videos,
    reference_audios,
    generate_audio,
    seed,
    watermark,
    return_last_frame,
  } = input
  return {
    model: row.upstream,
    prompt,
    seconds,
    resolution,
    ...(aspect_ratio !== undefined && { aspectRatio: aspect_ratio }),
    ...(image_url !== undefined && { image: image_url }),
    ...(last_frame_url !== undefined && { lastFrame: last_frame_url }),
    ...(asset !== undefined && { asset }),
    ...(reference_image_urls && { referenceImages: reference_image_urls }),
    ...(reference_videos && { referenceVideos: reference_videos.map(({ url }) => url) }),
    ...(reference_audios && { referenceAudios: reference_audios.map(({ url }) => url) }),
    ...(generate_audio !== undefined && { generateAudio: generate_audio }),
    ...(seed !== undefined && { seed }),
    ...(watermark !== undefined && { watermark }),
    ...(return_last_frame !== undefined && { returnLastFrame: return_last_frame }),
  }
}

/** Polls the vendor's job. Throws where the vendor is unavailable. */
export async function pollUpstream(
  handle: string,
  { request, catalog, vendors, signal }: UpstreamPollContext,
): Promise<UpstreamStatus> {
  const stored = request as unknown as StoredVideoRequest
  const row = catalog.video.get(stored.model)
  if (!row) throw new Error(`the catalog has no ${stored.model} any more`)
  const [name, upstreamId] = JSON.parse(handle) as [string, string]
  const vendor = vendorOf(row.vendor === name ? row : { ...row, vendor: name }, vendors)
  const upstreamStatus = await vendor.pollUpstream(upstreamId, { signal })
  if (upstreamStatus.kind === 'running')
    return { kind: 'running', ...(upstreamStatus.progress !== undefined && { progress: upstreamStatus.progress }) }
  if (upstreamStatus.kind === 'done')
    return { kind: 'done', made: madeOf(upstreamStatus, { row, stored: stored, vendor, handle: upstreamId }) }
  // Only the audio was refused: the same clip without it may succeed (contract 12.48).
  const isSound = upstreamStatus.code === 'output_audio_moderation' && row.family === 'e'
  return {
    kind: 'failed',
    error: upstreamStatus.reason,
    ...(isSound && { fields: { error_code: 'output_audio_moderation', retry_with: { generate_audio: false } } }),
  }
}

type StoredVideoResult = {
  readonly seconds?: number
  readonly requestId?: string
  readonly hasLastFrame: boolean
  readonly usage?: { readonly total_tokens: number; readonly token_source: 'upstream' | 'estimated' }
}
type FinishedVideo = {
  readonly row: VideoRow
  readonly stored: StoredVideoRequest
  readonly vendor: VideoVendor
  readonly handle: string
}

/** Converts a finished job to a result, with the clip and its last frame to mirror. */
function madeOf(
  upstreamStatus: Extract<VideoState, { kind: 'done' }>,
  { row, stored, vendor, handle }: FinishedVideo,
): Made {
  const { url, lastFrameUrl, seconds, tokens, requestId } = upstreamStatus
  if (url === undefined && !vendor.clip) throw new Error('the vendor returned a clip without a URL or a stream')
  const result: StoredVideoResult = {
    hasLastFrame: lastFrameUrl !== undefined,
    ...(seconds !== undefined && { seconds }),
    ...(requestId !== undefined && { requestId }),
    ...(row.family === 'e' && { usage: usageOf(stored, tokens) }),
  }
  const urls = [url ?? '', ...(lastFrameUrl === undefined ? [] : [lastFrameUrl])]
  const { clip } = vendor
  const streams = url === undefined && clip ? { streams: [(at: { signal: AbortSignal }) => clip(handle, at)] } : {}
  return { result: result as unknown as Json, media: { folder: 'videos', urls, kinds: ['video'], ...streams } }
}

function usageOf(
  { duration_seconds, _: { resolution, rv, ra } }: StoredVideoRequest,
  tokens: number | undefined,
): NonNullable<StoredVideoResult['usage']> {
  if (tokens !== undefined && tokens > 0) return { total_tokens: tokens, token_source: 'upstream' }
  return {
    total_tokens: videoTokens({ seconds: duration_seconds, resolution, videos: rv, audios: ra }),
    token_source: 'estimated',
  }
}

/** The source of a clip that its vendor hands out without a URL (contract 12.53). */
const INLINE = 'data:video/mp4'

/** The members of the 200 body, except id, price and payment. */
export function videoResponse({ made, media, created }: Stored, { request, href }: Showing): Record<string, Json> {
  const { model, duration_seconds } = request as unknown as StoredVideoRequest
  const { seconds, requestId, hasLastFrame, usage } = made as unknown as StoredVideoResult
  const [video, still] = media
  const urlOf = (piece: Stored['media'][number]) => (piece.key === null ? (piece.url ?? '') : href(piece.key))
  const data = {
    url: video ? urlOf(video) : '',
    ...(video && { source_url: video.source || INLINE }),
    duration_seconds: seconds === undefined ? duration_seconds : Math.round(seconds),
    ...(requestId !== undefined && { request_id: requestId }),
    backed_up: video?.key !== null && video !== undefined,
    ...(hasLastFrame && still && { last_frame_url: urlOf(still) }),
  }
  return { object: 'video.generation.job', status: 'completed', model, created, data: [data], ...(usage && { usage }) }
}
