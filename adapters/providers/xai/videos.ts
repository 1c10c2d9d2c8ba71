/**
 * xAI's videos. Sources: @ai-sdk/xai@5.0.12 `dist/index.js` (paths, body, states, `respect_moderation`); refusals as
 * quoted in the sources of decision 75.
 */
import type { Json, VideoJob, VideoState, VideoVendor } from '../../../core/mod.ts'
import { under, writeOrder } from '../lib/image_provider.ts'
import { type Envelope, envelope, type ErrorClassifier, record } from '../../http/error_replies.ts'
import { doneWith, FAILED, running, type VideoVendorConfig, videoHttp, word } from '../lib/video_provider.ts'

/**
 * Sound, seed, characters and references are never sent: the contract does not sell them here, and unknown fields are
 * refused. A running job is answered with 202, with or without a body.
 *
 * @example
 * const videos = xaiVideos({ baseUrl: 'https://api.x.ai/v1', key, maker: 'xAI', timeoutMs: 20_000, clock, log })
 */
export function xaiVideos(config: VideoVendorConfig): VideoVendor {
  const http = videoHttp(config, 'xai-videos')

  return {
    submit(job, { signal }) {
      const body = writeOrder(config, { order: orderOf(job) })
      const classify = classifierFor(job.image !== undefined)
      const send = () =>
        http.submitHttp.postJson(under(config.baseUrl, '/videos/generations'), body, {
          headers: http.headers,
          signal,
          classify,
        })
      return http.submit(send, classify, (reply) => record(reply).request_id)
    },
    pollUpstream: (handle, { signal }) =>
      http.poll(`/videos/${encodeURIComponent(handle)}`, signal, classifyPollError, (answer) => read(handle, answer)),
  }
}

function orderOf({ model, prompt, seconds, resolution, aspectRatio, image }: VideoJob): Readonly<Record<string, Json>> {
  return {
    model,
    prompt,
    duration: seconds,
    resolution,
    ...(aspectRatio !== undefined && { aspect_ratio: aspectRatio }),
    ...(image !== undefined && { image: { url: image } }),
  }
}

/**
 * Moderation arrives with `done`, as `respect_moderation: false`. A reply with a clip and no status is a finished job,
 * as in the SDK.
 */
function read(handle: string, { status: httpStatus, body }: { status: number; body: unknown }): VideoState | undefined {
  const { status, video, progress } = record(body)
  const { url, duration, respect_moderation } = record(video)
  const state = word(status)
  if (respect_moderation === false) return FAILED.policy
  if (state === 'done' || (state === '' && typeof url === 'string'))
    return doneWith({ url, seconds: duration, requestId: handle })
  if (state === 'expired') return FAILED.expired
  if (state === 'failed') return isModeration(envelope(body)) ? FAILED.policy : FAILED.unknown
  if (httpStatus === 202 || state !== '') return running(state === 'queued' ? 'queued' : 'in_progress', progress)
  return undefined
}

const isModeration = ({ code, message }: Envelope): boolean =>
  [code, message].some((text) => /violates usage guidelines|SAFETY_CHECK_TYPE|moderation|content.policy/i.test(text))

/** Three error shapes, all parsed by `envelope`. A 403 is moderation when its text says so, otherwise our key. */
const classifyPollError: ErrorClassifier = ({ status, body }) => {
  const error = envelope(body)
  if (isModeration(error)) return 'policy'
  return status === 429 && /credits|spending limit/i.test(error.message) ? 'operator' : undefined
}

const classifierFor =
  (hasImage: boolean): ErrorClassifier =>
  (error) => {
    const { message } = envelope(error.body)
    const verdict = classifyPollError(error)
    if (verdict || (error.status !== 400 && error.status !== 422)) return verdict
    if (/api key|deserialize|unknown field|\bmodel\b.*(not found|does not exist)/i.test(message)) return 'operator'
    return hasImage && /\bimages?\b/i.test(message) ? 'image' : 'request'
  }
