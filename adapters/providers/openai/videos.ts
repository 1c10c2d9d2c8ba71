/**
 * The OpenAI Videos protocol: shut down at OpenAI with Sora, still served by vLLM-Omni. Sources: openai@7.55.0
 * `resources/videos.d.ts`; refusals as quoted in the sources of decision 75; vLLM-Omni's in
 * docs.vllm.ai/projects/vllm-omni, Videos API.
 */
import { imageSize } from 'image-size'
import { decodeDataUri, recognize } from '../../../core/lib/mod.ts'
import type { VideoJob, VideoState, VideoVendor } from '../../../core/mod.ts'
import { mediaFetcher } from '../../http/media_download.ts'
import { under, writeOrder } from '../lib/image_provider.ts'
import { invalidImage } from '../../http/media_input.ts'
import { envelope, type ErrorClassifier, record, type FailureKind } from '../../http/error_replies.ts'
import { FAILED, numbers, running, type VideoVendorConfig, videoHttp, word } from '../lib/video_provider.ts'

const WIDE = { width: 1280, height: 720 }
const TALL = { width: 720, height: 1280 }
const MAX_SEED_BYTES = 32 * 1024 * 1024
/** Clips are streamed, so this limit only catches mistakes. */
const MAX_CLIP_BYTES = 2 * 1024 ** 3

/**
 * Always sent as a form, because vLLM-Omni accepts nothing else; `seconds` is text. A job has no public URL: its clip
 * needs our key. The seed image must have the size of the clip ("Inpaint image must match the requested width and
 * height"), so it decides between portrait and landscape.
 *
 * @example
 * const videos = openaiVideos({ baseUrl, key, maker: 'OpenAI', timeoutMs: 20_000, clock, log })
 */
export function openaiVideos(config: VideoVendorConfig): VideoVendor {
  const { resize, media = mediaFetcher() } = config
  const http = videoHttp(config, 'openai-videos')
  const pathOf = (handle: string) => `/videos/${encodeURIComponent(handle)}`

  return {
    async submit(job, { signal }) {
      signal.throwIfAborted()
      const seed = job.image === undefined ? undefined : await seedOf(job.image, signal)
      const size = sizeOf(job, seed)
      const fields = writeOrder(config, {
        order: {
          model: job.model,
          prompt: job.prompt,
          seconds: String(job.seconds),
          size: `${size.width}x${size.height}`,
        },
      })
      const file = seed && resize ? await resize(seed.uri, size) : seed
      signal.throwIfAborted()
      const send = () =>
        http.submitHttp.postForm(under(config.baseUrl, '/videos'), form(fields, file), {
          headers: http.headers,
          signal,
          classify: classifySubmitError,
        })
      return await http.submit(send, classifySubmitError, (reply) => record(reply).id)
    },
    pollUpstream: (handle, { signal }) =>
      http.poll(pathOf(handle), signal, classifyPollError, ({ body }) => read(handle, body)),
    clip: (handle, { signal }) =>
      http.submitHttp.getMedia(under(config.baseUrl, `${pathOf(handle)}/content`), {
        headers: http.headers,
        signal,
        classify: classifyPollError,
        maxBytes: MAX_CLIP_BYTES,
      }),
  }

  async function seedOf(image: string, signal: AbortSignal): Promise<Seed> {
    if (/^data:/i.test(image)) return pictureIn(decodeDataUri(image)?.bytes, image)
    const fetched = await media(image, { signal, maxBytes: MAX_SEED_BYTES, foreign: true }).catch((error: unknown) => {
      if (signal.aborted) throw error
      throw invalidImage('The seed image could not be fetched.')
    })
    return pictureIn(fetched.bytes)
  }
}

type Seed = { readonly bytes: Uint8Array; readonly type: string; readonly uri: string; readonly isTall: boolean }

function pictureIn(bytes: Uint8Array | undefined, uri?: string): Seed {
  const picture = bytes && recognize(bytes)
  if (!picture) throw invalidImage('The seed image is not in a format that this model reads.')
  const { type, width, height } = picture
  const isTall = type === 'image/jpeg' && isRotated(bytes) ? width > height : height > width
  return {
    bytes,
    type,
    isTall,
    uri:
      uri ?? `data:${type};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}`,
  }
}

/** Whether EXIF rotates a recognized photo for display. Reads no further than `recognize` did. */
function isRotated(jpeg: Uint8Array): boolean {
  return (imageSize(jpeg.subarray(0, 1 << 20)).orientation ?? 1) > 4
}

/** Portrait for an image that is displayed as portrait; without an image by the aspect ratio; otherwise landscape. */
function sizeOf({ aspectRatio = '16:9' }: VideoJob, seed: Seed | undefined): typeof WIDE | typeof TALL {
  if (seed) return seed.isTall ? TALL : WIDE
  const [wide = 1, high = 1] = aspectRatio.split(':').map(Number)
  return high > wide ? TALL : WIDE
}

/** A part without a MIME type is refused (openai-node 1468). */
function form(
  fields: Readonly<Record<string, unknown>>,
  file: { bytes: Uint8Array; type: string } | undefined,
): FormData {
  const body = new FormData()
  for (const [name, value] of Object.entries(fields))
    body.append(name, typeof value === 'string' ? value : JSON.stringify(value))
  if (file)
    body.append(
      'input_reference',
      new Blob([file.bytes as BlobPart], { type: file.type }),
      `seed.${file.type.slice('image/'.length)}`,
    )
  return body
}

function read(handle: string, body: unknown): VideoState | undefined {
  const { status, progress, seconds } = record(body)
  switch (word(status)) {
    case '':
      return undefined
    case 'completed':
      return { kind: 'done', ...numbers({ seconds }), requestId: handle }
    case 'failed': {
      const { code, message } = envelope(body)
      return POLICY.test(code) || POLICY.test(message) ? FAILED.policy : FAILED.unknown
    }
    case 'expired':
      return FAILED.expired
    case 'cancelled':
      return FAILED.cancelled
    default:
      return running(word(status) === 'queued' ? 'queued' : 'in_progress', progress)
  }
}

// ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────

const POLICY = /moderation_blocked|content_policy|safety system|moderation system|content policy|sentinel_block/i
const OURS = /^(insufficient_quota|billing_hard_limit_reached|invalid_api_key|model_not_found)$/
const ABOUT_IMAGE = /inpaint image|input_reference|invalid image|unsupported mimetype|image file/i

const classifyPollError: ErrorClassifier = ({ body }) => kindOf(envelope(body))

const classifySubmitError: ErrorClassifier = ({ status, body }) => {
  const error = envelope(body)
  const trouble = kindOf(error)
  if (trouble || (status !== 400 && status !== 422)) return trouble
  if (ABOUT_IMAGE.test(error.message) || error.param === 'input_reference') return 'image'
  return error.param === 'model' ? 'operator' : 'request'
}

function kindOf({ code, type, message }: ReturnType<typeof envelope>): FailureKind | undefined {
  if (POLICY.test(code) || POLICY.test(message)) return 'policy'
  if (OURS.test(code) || OURS.test(type)) return 'operator'
  return code === 'rate_limit_exceeded' ? 'rate_limited' : undefined
}
