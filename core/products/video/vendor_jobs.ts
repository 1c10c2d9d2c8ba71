/** Jobs at the vendors of videos. */
import type { VideoJob, VideoRow, VideoState, VideoVendor } from '../../ports/vendors/video.ts'
import type { Made, Offering, Order, UpstreamPollContext, UpstreamStatus } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { refused } from '../../http/request_body.ts'
import type { Json } from '../../lib/json.ts'
import { videoTokens } from './price.ts'
import { vendorAssetOf } from './owned_characters.ts'
import type { VideoRequest } from './request.ts'
import { orderedVideo, type OrderedVideo } from './quote.ts'
import type { StoredVideoRequest } from './stored_request.ts'

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

export type StoredVideoResult = {
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
