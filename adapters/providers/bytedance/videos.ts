/**
 * Seedance by ByteDance, at BytePlus ModelArk or Volcano Engine. Sources: @ai-sdk/bytedance@1.0.29 `dist/index.js`
 * (path, parts, roles, options); states, options by model and error codes in the sources of decision 75.
 */
import type { Json, VideoJob, VideoState, VideoVendor } from '../../../core/mod.ts'
import { under, writeOrder } from '../lib/image_provider.ts'
import { envelope, type ErrorClassifier, record, type FailureKind } from '../../http/error_replies.ts'
import {
  doneWith,
  FAILED,
  realPerson,
  running,
  type VideoVendorConfig,
  videoHttp,
  word,
} from '../lib/video_provider.ts'

const TASKS = '/contents/generations/tasks'

/**
 * The vendor adds sound and a watermark by default, so both switches are always sent. Only the 1.x models accept a
 * seed.
 *
 * @example
 * const videos = seedance({ baseUrl, key, maker: 'ByteDance', timeoutMs: 20_000, clock, log })
 */
export function seedance(config: VideoVendorConfig): VideoVendor {
  const http = videoHttp(config, 'seedance')

  return {
    submit(job, { signal }) {
      const body = writeOrder(config, { order: orderOf(job) })
      const send = () =>
        http.submitHttp.postJson(under(config.baseUrl, TASKS), body, {
          headers: http.headers,
          signal,
          classify: classifyArkError,
        })
      return http.submit(send, classifyArkError, (reply) => record(reply).id)
    },
    pollUpstream: (handle, { signal }) =>
      http.poll(`${TASKS}/${encodeURIComponent(handle)}`, signal, classifyPollError, ({ body }) => read(handle, body)),
  }
}

type Part = Readonly<Record<string, Json>>

function orderOf(job: VideoJob): Readonly<Record<string, Json>> {
  const { aspectRatio, generateAudio = false, watermark = false } = job
  return {
    model: job.model,
    content: contentOf(job),
    resolution: job.resolution.toLowerCase(),
    duration: job.seconds,
    ...(aspectRatio !== undefined && { ratio: aspectRatio }),
    generate_audio: generateAudio,
    watermark,
    ...(job.returnLastFrame && { return_last_frame: true }),
    ...(job.seed !== undefined && takesSeed(job.model) && { seed: job.seed }),
  }
}

/** The text, then the pictures in the order in which prompts number them (image 1, 2 and so on). */
function contentOf({
  prompt,
  image,
  lastFrame,
  asset,
  referenceImages = [],
  referenceVideos = [],
  referenceAudios = [],
}: VideoJob): readonly Part[] {
  const picture = (url: string, role: string): Part => ({ type: 'image_url', image_url: { url }, role })
  return [
    { type: 'text', text: plainWords(prompt) },
    ...(image === undefined ? [] : [picture(image, 'first_frame')]),
    ...(lastFrame === undefined ? [] : [picture(lastFrame, 'last_frame')]),
    ...(asset === undefined ? [] : [picture(assetUrl(asset), 'reference_image')]),
    ...referenceImages.map((url) => picture(url, 'reference_image')),
    ...referenceVideos.map((url) => ({ type: 'video_url', video_url: { url }, role: 'reference_video' })),
    ...referenceAudios.map((url) => ({ type: 'audio_url', audio_url: { url }, role: 'reference_audio' })),
  ]
}

/**
 * The 1.x models read settings from the prompt, such as `--duration 12` and `--resolution 1080p`. A buyer must not
 * change what was paid for, so the dashes are replaced.
 */
export const plainWords = (prompt: string): string => prompt.replace(/-{2,}(?=\s*[a-z_])/gi, '\u2014')

export const assetUrl = (asset: string): string => (asset.startsWith('asset://') ? asset : `asset://${asset}`)

export const takesSeed = (model: string): boolean => /seedance-v?1[-.]/.test(model)

function read(handle: string, body: unknown): VideoState | undefined {
  const { status, content, usage, duration } = record(body)
  const { video_url, last_frame_url } = record(content)
  const { total_tokens, completion_tokens } = record(usage)
  switch (word(status)) {
    case '':
      return undefined
    case 'succeeded':
      return doneWith({
        url: video_url,
        lastFrameUrl: last_frame_url,
        seconds: duration,
        tokens: total_tokens ?? completion_tokens,
        requestId: handle,
      })
    case 'failed':
      return arkFailure(body)
    case 'expired':
      return FAILED.expired
    case 'cancelled':
    case 'canceled':
      return FAILED.cancelled
    default:
      return running(word(status) === 'queued' ? 'queued' : 'in_progress')
  }
}

// ── Ark's codes, as resellers pass them on ──────────────────────────────────────────────────────────────────────────

const RATE =
  /^(RateLimitExceeded|ModelAccount\w*RateLimitExceeded|APIAccount\w*RateLimitExceeded|ServerOverloaded|RequestBurstTooFast|InflightBatchsizeExceeded)/
const OURS =
  /^(AuthenticationError|AccessDenied|AccountOverdueError|OperationDenied|ModelNotOpen|InvalidEndpointOrModel)/
const QUOTA = /^(SetLimitExceeded|QuotaExceeded)/
const REQUEST = /^(InvalidParameter|MissingParameter)|TaskType(Mismatch|Constraint)/
/** A picture that could not be fetched or decoded, as opposed to an invalid parameter. */
const UNREADABLE =
  /(download|fetch|decode|parse|load|access|read|unsupported|corrupt)\w*\b[^.]*\b(image|picture)|\b(image|picture)[^.]*\b(download|fetch|decod|pars|load|access|read|unsupported|corrupt)/i

/** A code may have a suffix after a dot: `InputImageSensitiveContentDetected.PrivacyInformation` is a real face. */
const isPerson = (code: string, message: string): boolean =>
  code.startsWith('InputImageSensitiveContentDetected') &&
  (/\.PrivacyInformation/.test(code) || /real (person|human)/i.test(message))

export const classifyArkError: ErrorClassifier = ({ body }) => {
  const { code, message } = envelope(body)
  return isPerson(code, message) ? realPerson() : kindOf(code, message)
}

function kindOf(code: string, message: string): FailureKind | undefined {
  if (/SensitiveContentDetected/.test(code)) return 'policy'
  if (RATE.test(code)) return 'rate_limited'
  if (OURS.test(code)) return 'operator'
  if (QUOTA.test(code)) return /queue|concurren/i.test(message) ? 'rate_limited' : 'operator'
  if (!REQUEST.test(code)) return undefined
  return UNREADABLE.test(message.slice(0, 500)) ? 'image' : 'request'
}

/** A poll contains nothing of the buyer's: an error in it is for the operator. */
export const classifyPollError: ErrorClassifier = ({ body }) => {
  const { code, message } = envelope(body)
  const trouble = kindOf(code, message)
  return trouble === 'request' || trouble === 'image' ? 'operator' : trouble
}

/** The reason why a job failed, from the code in its `error`. */
export function arkFailure(body: unknown): VideoState {
  const { code, message } = envelope(body)
  if (code.startsWith('OutputAudioSensitiveContentDetected')) return FAILED.audio
  if (isPerson(code, message)) return FAILED.person
  const trouble = kindOf(code, message)
  return trouble === 'policy' || trouble === 'request' || trouble === 'image' ? FAILED[trouble] : FAILED.unknown
}
