/** The part of a video request that is stored with its call, and stands in its poll URL. */
import type { Json } from '../../lib/json.ts'
import { DEFAULT_MODEL, type VideoRequest } from './request.ts'

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
