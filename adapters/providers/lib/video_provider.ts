/** Shared by the video protocols: the operator's configuration, error replies, submitting a job and polling it. */
import { isWebUrl } from '../../../core/lib/mod.ts'
import { ApiError, type VideoState } from '../../../core/mod.ts'
import { type VendorHttp, vendorHttp } from '../../http/fetch.ts'
import { type FetchMedia } from '../../http/media_download.ts'
import { bearer, type ImageVendorConfig, under } from './image_provider.ts'
import { mediaTypeOf } from '../../http/media_input.ts'
import {
  type ErrorFor,
  errorFor,
  type ErrorClassifier,
  type ErrorReply,
  record,
  errorReplyIn,
} from '../../http/error_replies.ts'

/**
 * Resizes an image to exactly that size, in a format that every vendor reads. Throws INVALID_IMAGE if it cannot be
 * read.
 */
export type Resize = (
  dataUri: string,
  size: { readonly width: number; readonly height: number },
) => Promise<{ readonly bytes: Uint8Array; readonly type: string }>

/** `timeoutMs` is the longest that submitting a job may take. */
export type VideoVendorConfig = Omit<ImageVendorConfig, 'perCall' | 'maskMarks'> & {
  /** Longest duration of one poll, in milliseconds. Default 10 s. */
  readonly pollMs?: number | undefined
  /** For protocols whose seed image must have the size of the clip. Default: the image is sent unchanged. */
  readonly resize?: Resize | undefined
  /** Downloads a seed image given as a URL, for protocols that accept only bytes. Default: the guarded download. */
  readonly media?: FetchMedia | undefined
}

/** Contract 12.41: submitting may take 20 s upstream. */
export const SUBMIT_TIMEOUT_MS = 20_000
export const POLL_TIMEOUT_MS = 10_000
/** Pause before a job counts as lost, in milliseconds: a vendor may not know it yet right after submission. */
const LOST_PAUSE_MS = 1_000
const MAX_REPLY_BYTES = 16 * 1024 * 1024

// ── what the buyer reads ────────────────────────────────────────────────────────────────────────────────────────────

type Failed = Extract<VideoState, { kind: 'failed' }>

/** Failures of a job, in our words. */
export const FAILED = {
  policy: { kind: 'failed', reason: 'The safety system of the model refused this clip.', code: 'content_policy' },
  person: {
    kind: 'failed',
    reason: 'An input image contains a real person; enroll the face and use its asset id instead.',
    code: 'content_policy',
  },
  audio: {
    kind: 'failed',
    reason: 'The soundtrack that the model made may infringe a copyright; the same request without audio can succeed.',
    code: 'output_audio_moderation',
  },
  request: { kind: 'failed', reason: 'The model did not accept this request.' },
  image: { kind: 'failed', reason: 'The model could not read an input image.' },
  expired: { kind: 'failed', reason: 'The model did not finish this job in time.' },
  cancelled: { kind: 'failed', reason: 'This job was cancelled at the model.' },
  empty: { kind: 'failed', reason: 'The model finished without a clip.' },
  lost: { kind: 'failed', reason: 'The model lost this job.' },
  unknown: { kind: 'failed', reason: 'The model could not make this clip.' },
} as const satisfies Record<string, Failed>

/** Contract 12.50: an input that only the vendor could judge. */
export const realPerson = (): ApiError =>
  new ApiError('INPUT_IMAGE_REAL_PERSON', {
    details: 'Enroll the face and send its asset id as real_face_asset_id. Nothing was charged.',
  })

const invalidVideoRequest = (reason: string): ApiError =>
  new ApiError('INVALID_VIDEO_REQUEST', { details: `${reason} Nothing was charged.` })

const videoErrorFor: ErrorFor = (kind, about) =>
  kind === 'request'
    ? invalidVideoRequest('The model did not accept a parameter of this request.')
    : errorFor(kind, about)

// ── submit and look ─────────────────────────────────────────────────────────────────────────────────────────────────

type VideoHttp = {
  readonly submitHttp: VendorHttp
  readonly pollHttp: VendorHttp
  readonly headers: Readonly<Record<string, string>>
  /** Submits a job and reads its handle. Throws when the reply has none, because the job could never be found again. */
  submit(
    send: (http: VendorHttp) => Promise<unknown>,
    classify: ErrorClassifier,
    idOf: (reply: unknown) => unknown,
  ): Promise<{ handle: string }>
  /** Polls a job. It is lost when two polls do not find it; any other error is thrown, because the job continues. */
  poll(
    path: string,
    signal: AbortSignal,
    classify: ErrorClassifier,
    read: (answer: { status: number; body: unknown }) => VideoState | undefined,
  ): Promise<VideoState>
}

export function videoHttp(config: VideoVendorConfig, name: string): VideoHttp {
  const options = { maxBytes: MAX_REPLY_BYTES, ...config, name, errorFor: videoErrorFor }
  const submitHttp = vendorHttp(options)
  const pollHttp = vendorHttp({ ...options, timeoutMs: config.pollMs ?? POLL_TIMEOUT_MS })
  const headers = bearer(config.key)

  return {
    submitHttp,
    pollHttp,
    headers,
    async submit(send, classify, idOf) {
      const reply = await send(submitHttp)
      const id = idOf(reply)
      if (typeof id === 'string' && id !== '' && id.length <= 512) return { handle: id }
      const errorReply = errorReplyIn(reply)
      throw errorReply
        ? submitHttp.errorFrom(errorReply, classify)
        : submitHttp.failure('failed', `${name} accepted a job without returning its id`)
    },
    async poll(path, signal, classify, read) {
      const ask = () =>
        pollHttp.getJson(under(config.baseUrl, path), {
          headers,
          signal,
          classify: (errorReply) => classify(errorReply) ?? unknownJob(errorReply),
        })
      try {
        const answer = await ask().catch(async (error: unknown) => {
          if (!isLost(error)) throw error
          await config.clock.wait(LOST_PAUSE_MS, signal)
          return await ask()
        })
        const state = read(answer)
        if (!state) throw pollHttp.failure('failed', `${name} answered a poll in an unknown format`)
        return state
      } catch (error) {
        if (isLost(error)) return FAILED.lost
        if (error instanceof ApiError && error.code === 'CONTENT_POLICY') return FAILED.policy
        throw error
      }
    },
  }
}

/** A vendor reports an unknown job in JSON; a 404 page without JSON comes from a proxy. */
function unknownJob({ status, body }: ErrorReply): ApiError | undefined {
  const isJson = Object.keys(record(body)).length > 0
  return isJson && (status === 404 || status === 410) ? new ApiError('JOB_NOT_FOUND') : undefined
}

const isLost = (error: unknown): boolean => error instanceof ApiError && error.code === 'JOB_NOT_FOUND'

// ── what a reply says ───────────────────────────────────────────────────────────────────────────────────────────────

type Done = {
  readonly url: unknown
  readonly lastFrameUrl?: unknown
  readonly seconds?: unknown
  readonly tokens?: unknown
  readonly requestId?: string
}

/** A finished job. Without a clip's URL it has failed, because nothing can be sold. */
export function doneWith({ url, lastFrameUrl, seconds, tokens, requestId }: Done): VideoState {
  if (!isAddress(url)) return FAILED.empty
  return {
    kind: 'done',
    url,
    ...(isAddress(lastFrameUrl) && { lastFrameUrl }),
    ...numbers({ seconds, tokens }),
    ...(requestId && { requestId }),
  }
}

/** Seconds and tokens if positive, rounded; vendors may send them as strings. */
export function numbers({ seconds, tokens }: { seconds?: unknown; tokens?: unknown }): {
  seconds?: number
  tokens?: number
} {
  const [length, count] = [whole(seconds), whole(tokens)]
  return { ...(length && { seconds: length }), ...(count && { tokens: count }) }
}

/** A running job, with its percentage if known. */
export function running(status: 'queued' | 'in_progress', progress?: unknown): VideoState {
  const share =
    typeof progress === 'number' && Number.isFinite(progress)
      ? Math.min(Math.max(Math.round(progress), 0), 100)
      : undefined
  return { kind: 'running', status, ...(share !== undefined && { progress: share }) }
}

export const word = (value: unknown): string => (typeof value === 'string' ? value.toLowerCase() : '')

function whole(value: unknown): number | undefined {
  const number = Math.round(typeof value === 'string' && value.trim() !== '' ? Number(value) : (value as number))
  return typeof number === 'number' && Number.isSafeInteger(number) && number > 0 ? number : undefined
}

/** A data URI must start with media bytes; a web URL is checked when it is downloaded. */
function isAddress(url: unknown): url is string {
  if (typeof url !== 'string') return false
  const [, head] = /^data:(?:video|image)\/[^,]{1,100};base64,(.{1,100})/is.exec(url) ?? []
  return head === undefined ? isWebUrl(url) : mediaTypeOf(Buffer.from(head, 'base64')) !== undefined
}
