/**
 * Seedance through a reseller of the token360 kind. Source: a public client's `_build_payload` and
 * `_extract_video_url`, described in the sources of decision 75; no documentation of the vendor's was readable, so
 * replies are read in every shape that the client tries.
 */
import type { Json, VideoJob, VideoState, VideoVendor } from '../../../core/mod.ts'
import { under, writeOrder } from '../lib/image_provider.ts'
import { record } from '../../http/error_replies.ts'
import {
  arkFailure,
  classifyArkError,
  assetUrl,
  classifyPollError,
  plainWords,
  takesSeed,
} from '../bytedance/videos.ts'
import { doneWith, FAILED, running, type VideoVendorConfig, videoHttp, word } from '../lib/video_provider.ts'

/**
 * Frames and references are apart; an enrolled character is a reference. `generate_audio` and `watermark` are sent
 * under the maker's names, for the maker's default is sound: leave one out with a null in `overrides` where a reseller
 * refuses it.
 *
 * @example
 * const videos = resellerVideos({ baseUrl, key, maker: 'ByteDance', timeoutMs: 20_000, clock, log })
 */
export function resellerVideos(config: VideoVendorConfig): VideoVendor {
  const http = videoHttp(config, 'reseller-videos')

  return {
    submit(job, { signal }) {
      const body = writeOrder(config, { order: orderOf(job) })
      const send = () =>
        http.submitHttp.postJson(under(config.baseUrl, '/videos'), body, {
          headers: http.headers,
          signal,
          classify: classifyArkError,
        })
      return http.submit(
        send,
        classifyArkError,
        (reply) => record(reply).id ?? record(reply).task_id ?? record(record(reply).data).id,
      )
    },
    pollUpstream: (handle, { signal }) =>
      http.poll(`/videos/${encodeURIComponent(handle)}`, signal, classifyPollError, ({ body }) => read(handle, body)),
  }
}

function orderOf(job: VideoJob): Readonly<Record<string, Json>> {
  const { model, prompt, aspectRatio, image, lastFrame, asset, generateAudio = false, watermark = false } = job
  const frame = (url: string, frame_type: string) => ({ type: 'image_url', frame_type, image_url: { url } })
  const frames = [
    ...(image === undefined ? [] : [frame(image, 'first_frame')]),
    ...(lastFrame === undefined ? [] : [frame(lastFrame, 'last_frame')]),
  ]
  const pictures = [...(asset === undefined ? [] : [assetUrl(asset)]), ...(job.referenceImages ?? [])]
  const references = [
    ...pictures.map((url) => ({ type: 'image_url', image_url: { url } })),
    ...(job.referenceVideos ?? []).map((url) => ({ type: 'video_url', video_url: { url } })),
    ...(job.referenceAudios ?? []).map((url) => ({ type: 'audio_url', audio_url: { url } })),
  ]
  return {
    model,
    prompt: plainWords(prompt),
    duration: job.seconds,
    resolution: job.resolution.toLowerCase(),
    ...(aspectRatio !== undefined && { aspect_ratio: aspectRatio }),
    ...(frames.length > 0 && { frame_images: frames }),
    ...(references.length > 0 && { input_references: references }),
    generate_audio: generateAudio,
    watermark,
    ...(job.returnLastFrame && { return_last_frame: true }),
    ...(job.seed !== undefined && takesSeed(model) && { seed: job.seed }),
  }
}

/**
 * The job may stand at the top or in `data`; its clip there, or one level below in `content` or `video`. A bare `url`
 * may be the job's own.
 */
function read(handle: string, body: unknown): VideoState | undefined {
  const outer = record(body)
  const job = word(outer.status) === '' ? record(outer.data) : outer
  switch (word(job.status)) {
    case '':
      return undefined
    case 'completed':
    case 'succeeded':
      return finished(handle, job)
    case 'failed':
    case 'error':
    case 'rejected':
      return arkFailure(job)
    case 'expired':
      return FAILED.expired
    case 'cancelled':
    case 'canceled':
      return FAILED.cancelled
    default:
      return running(/^(queued|pending|submitted)$/.test(word(job.status)) ? 'queued' : 'in_progress', job.progress)
  }
}

function finished(handle: string, job: Readonly<Record<string, unknown>>): VideoState {
  const objects = [job, job.content, job.video, job.data].map(record)
  const find = (...names: readonly string[]) =>
    names
      .flatMap((name) => objects.map((object) => object[name]))
      .find((value) => typeof value === 'string' && value !== '')
  const { total_tokens, completion_tokens } = record(job.usage)
  return doneWith({
    url: find('video_url', 'url'),
    lastFrameUrl: find('last_frame_url'),
    seconds: job.duration ?? job.seconds,
    tokens: total_tokens ?? completion_tokens,
    requestId: handle,
  })
}
