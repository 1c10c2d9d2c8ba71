/**
 * How a video is sold: what it costs, what is remembered of its order, what its vendor is asked, and how it reads on
 * the wire (contract 12.1).
 */
import { Type } from '@sinclair/typebox'
import type { VideoRow, VideoJob, VideoState, VideoVendor } from '../../ports/vendors/video.ts'
import type {
  Context,
  JobDescription,
  UpstreamStatus,
  UpstreamPollContext,
  Made,
  Offering,
  Order,
  Price,
  Showing,
  Stored,
} from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { refused } from '../../http/request_body.ts'
import type { Usdc } from '../../x402/money.ts'
import type { Json } from '../../lib/json.ts'
import { asNumber, flatPrice } from '../../x402/pricing.ts'
import { videoGenerationFee, videoPrice, videoRate, videoTokens } from './price.ts'
import { enrolledAs } from './owned_characters.ts'
import { DEFAULT_MODEL, isListed, type VideoRequest } from './request.ts'

/** How long the signed authorization lives (contract 12.39). */
const AUTHORIZATION_SECONDS = 600

const clip = Type.Object({
  url: Type.String({ description: 'Hosted URL; that of the maker where the clip was not mirrored.' }),
  source_url: Type.Optional(Type.String({ description: 'URL of the maker; of inline data only the type.' })),
  duration_seconds: Type.Integer({ description: 'As made; the billed length where the maker does not say.' }),
  request_id: Type.Optional(Type.String({ description: 'What the maker calls the job.' })),
  backed_up: Type.Boolean({ description: 'Whether the clip was mirrored to durable storage.' }),
  last_frame_url: Type.Optional(Type.String({ description: 'The last frame as a still, where it was asked for.' })),
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

/** Both endpoints share one store of jobs; each has a poll path of its own. */
export const videoJob = (poll: string): JobDescription => ({
  object: 'video.generation.job',
  poll,
  instructions:
    'GET poll_url, as it is, every 5 to 10 seconds with a payment header of the same wallet; its key is for you alone. Wait up to 60 seconds for an answer. You are charged once, by the first poll that finds the video ready.',
  running:
    'Still working; a video takes about 1 to 3 minutes. Nothing has been charged. Poll again in 5 to 10 seconds.',
  query: pollQuery,
})

// ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────────────

type Offered = {
  readonly row: VideoRow
  readonly seconds: number
  readonly resolution: string
  readonly videos: number
  readonly audios: number
}

/** The row of a checked order, and its size. Throws a plain error for one that was not checked. */
function offered(order: VideoRequest, { catalog }: Context): Offered {
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

/** The quote; pictures do not change it. */
export function quoteOf(order: VideoRequest, context: Context): Price {
  const { row, ...size } = offered(order, context)
  const { billing } = row
  return {
    amount: videoPrice({ billing, ...size }),
    maxTimeoutSeconds: AUTHORIZATION_SECONDS,
    publicPrice: {
      pricePerSecond: asNumber(videoRate(billing, size.resolution)),
      resolution: size.resolution,
      perGenerationFee: asNumber(videoGenerationFee(billing)),
      durationSeconds: size.seconds,
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

/**
 * The rows on show that the operator's vendors make; all that are on show where they make none, so that documents have
 * a price.
 */
export function configured({ catalog, vendors }: Offering): readonly VideoRow[] {
  const listed = catalog.video.all.filter(isListed)
  const made = listed.filter((row) => vendors.video?.(row) !== undefined)
  return made.length > 0 ? made : listed
}

/** Lowest and highest quote, every reference counted; the fee alone where there are no rows. */
export function videoSpan(rows: readonly VideoRow[]): { min: Usdc; max: Usdc } {
  const amounts = rows.flatMap(({ billing, seconds, resolutions, references }) => {
    const most = references ? { videos: 3, audios: 3 } : {}
    return resolutions.flatMap((resolution) => [
      videoPrice({ billing, resolution, seconds: seconds.min }),
      videoPrice({ billing, resolution, seconds: seconds.max, ...most }),
    ])
  })
  const [first = flatPrice('0')] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}

export function isAvailable({ model = DEFAULT_MODEL }: VideoRequest, { catalog, vendors }: Offering): boolean {
  const row = catalog.video.get(model)
  return row !== undefined && vendors.video?.(row) !== undefined
}

// ── what is remembered ──────────────────────────────────────────────────────────────────────────────────────────────

/**
 * What the stored call keeps of an order: what its replies show, and, under `_`, what looking at it, showing it and its
 * poll URL need.
 */
export type Remembered = {
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

export function remember(order: VideoRequest): { model: string; request: Remembered } {
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

/** The words of a poll URL, to be signed (contract 12.42). */
export function pollQuery(request: Json): Record<string, string> {
  const { model, duration_seconds, _: kept } = request as unknown as Remembered
  return {
    model,
    duration: String(duration_seconds),
    i2v: kept.i2v ? '1' : '0',
    resolution: kept.resolution,
    ...(kept.rv > 0 && { rv: String(kept.rv) }),
    ...(kept.ra > 0 && { ra: String(kept.ra) }),
  }
}

// ── what its vendor is asked ────────────────────────────────────────────────────────────────────────────────────────

/**
 * Hands a checked order to the vendor of its row; the handle names it, for the job stays there whatever an operator
 * changes meanwhile.
 */
export async function submit(order: Order<VideoRequest>): Promise<{ handle: string }> {
  const { input, catalog, vendors, records, payer, signal } = order
  const { row, seconds, resolution } = offered(input, { catalog })
  const vendor = vendorOf(row, vendors)
  const id = input.real_face_asset_id
  const asset = id === undefined ? undefined : await enrolledAs(records, id, { payer, now: order.now })
  if (id !== undefined && asset === undefined)
    throw refused('real_face_asset_id', `this wallet has enrolled no character ${id}. Nothing was charged`)
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
  { row, seconds, resolution, asset }: Pick<Offered, 'row' | 'seconds' | 'resolution'> & { asset: string | undefined },
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

/** Asks the vendor what has become of a job. Throws where it cannot be asked just now. */
export async function look(
  handle: string,
  { request, catalog, vendors, signal }: UpstreamPollContext,
): Promise<UpstreamStatus> {
  const remembered = request as unknown as Remembered
  const row = catalog.video.get(remembered.model)
  if (!row) throw new Error(`the catalog has no ${remembered.model} any more`)
  const [name, theirs] = JSON.parse(handle) as [string, string]
  const vendor = vendorOf(row.vendor === name ? row : { ...row, vendor: name }, vendors)
  const state = await vendor.look(theirs, { signal })
  if (state.kind === 'running')
    return { kind: 'running', ...(state.progress !== undefined && { progress: state.progress }) }
  if (state.kind === 'done') return { kind: 'done', made: madeOf(state, { row, remembered, vendor, handle: theirs }) }
  // Only the sound was refused: the same clip without it may pass (contract 12.48).
  const isSound = state.code === 'output_audio_moderation' && row.family === 'e'
  return {
    kind: 'failed',
    error: state.reason,
    ...(isSound && { fields: { error_code: 'output_audio_moderation', retry_with: { generate_audio: false } } }),
  }
}

type Kept = {
  readonly seconds?: number
  readonly requestId?: string
  readonly hasLastFrame: boolean
  readonly usage?: { readonly total_tokens: number; readonly token_source: 'upstream' | 'estimated' }
}
type Finished = {
  readonly row: VideoRow
  readonly remembered: Remembered
  readonly vendor: VideoVendor
  readonly handle: string
}

/** What a finished job becomes: the clip, and its last frame behind it, on their way to the mirror. */
function madeOf(state: Extract<VideoState, { kind: 'done' }>, { row, remembered, vendor, handle }: Finished): Made {
  const { url, lastFrameUrl, seconds, tokens, requestId } = state
  if (url === undefined && !vendor.clip) throw new Error('the vendor finished a clip that nobody can fetch')
  const kept: Kept = {
    hasLastFrame: lastFrameUrl !== undefined,
    ...(seconds !== undefined && { seconds }),
    ...(requestId !== undefined && { requestId }),
    ...(row.family === 'e' && { usage: usageOf(remembered, tokens) }),
  }
  const urls = [url ?? '', ...(lastFrameUrl === undefined ? [] : [lastFrameUrl])]
  const { clip } = vendor
  const streams = url === undefined && clip ? { streams: [(at: { signal: AbortSignal }) => clip(handle, at)] } : {}
  return { result: kept as unknown as Json, media: { folder: 'videos', urls, kinds: ['video'], ...streams } }
}

function usageOf(
  { duration_seconds, _: { resolution, rv, ra } }: Remembered,
  tokens: number | undefined,
): NonNullable<Kept['usage']> {
  if (tokens !== undefined && tokens > 0) return { total_tokens: tokens, token_source: 'upstream' }
  return {
    total_tokens: videoTokens({ seconds: duration_seconds, resolution, videos: rv, audios: ra }),
    token_source: 'estimated',
  }
}

/** The members of the 200 body, beside id, price and payment. */
export function shown({ made, media, created }: Stored, { request, href }: Showing): Record<string, Json> {
  const { model, duration_seconds } = request as unknown as Remembered
  const { seconds, requestId, hasLastFrame, usage } = made as unknown as Kept
  const [video, still] = media
  const urlOf = (piece: Stored['media'][number]) => (piece.key === null ? (piece.url ?? '') : href(piece.key))
  const data = {
    url: video ? urlOf(video) : '',
    ...(video?.source && { source_url: video.source }),
    duration_seconds: seconds === undefined ? duration_seconds : Math.round(seconds),
    ...(requestId !== undefined && { request_id: requestId }),
    backed_up: video?.key !== null && video !== undefined,
    ...(hasLastFrame && still && { last_frame_url: urlOf(still) }),
  }
  return { object: 'video.generation.job', status: 'completed', model, created, data: [data], ...(usage && { usage }) }
}
