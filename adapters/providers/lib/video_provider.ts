/** What the video protocols have in common: how the operator configures one, how it refuses, and how a job is submitted and looked at. */
import { isWebUrl } from '../../../core/lib/text.ts'
import { ApiError, type VideoState } from '../../../core/mod.ts'
import { type FetchMedia, type VendorHttp, vendorHttp } from '../../http/fetch.ts'
import { bearer, type ImageVendorConfig, under } from './image_provider.ts'
import { mediaTypeOf } from '../../http/media_input.ts'
import { type ErrorFor, errorFor, type Judge, type Refusal, record, refusalIn } from '../../http/refusals.ts'

/** A picture brought to exactly that size, in a format that every vendor reads. Throws INVALID_IMAGE for what it cannot read. */
export type Resize = (
  dataUri: string,
  size: { readonly width: number; readonly height: number },
) => Promise<{ readonly bytes: Uint8Array; readonly type: string }>

/** `timeoutMs` is the longest that a job may take to be accepted. */
export type VideoVendorConfig = Omit<ImageVendorConfig, 'perCall' | 'maskMarks'> & {
  /** Longest that one look may take, in milliseconds; 10 s unless told. */
  readonly lookMs?: number | undefined
  /** For a protocol whose seed picture must have the size of the clip; without it the picture goes as it is. */
  readonly resize?: Resize | undefined
  /** Brings a seed picture that is an URL, for a protocol that takes only bytes. Guarded, unless told. */
  readonly media?: FetchMedia | undefined
}

/** Contract 12.41: a submit may take 20 s upstream. */
export const SUBMIT_TIMEOUT_MS = 20_000
export const LOOK_TIMEOUT_MS = 10_000
/** Before a job counts as lost, in milliseconds: a vendor may not know yet what it took a moment ago. */
const LOST_PAUSE_MS = 1_000
const MAX_REPLY_BYTES = 16 * 1024 * 1024

// ── what the buyer reads ────────────────────────────────────────────────────────────────────────────────────────────

type Failed = Extract<VideoState, { kind: 'failed' }>

/** Ends of a job without a clip, in our words. */
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

/** Contract 12.50: what the buyer sent and only the vendor could judge. */
export const realPerson = (): ApiError =>
  new ApiError('INPUT_IMAGE_REAL_PERSON', {
    details: 'Enroll the face and send its asset id as real_face_asset_id. Nothing was charged.',
  })

export const invalidVideoRequest = (reason: string): ApiError =>
  new ApiError('INVALID_VIDEO_REQUEST', { details: `${reason} Nothing was charged.` })

const videoErrorFor: ErrorFor = (trouble, about) =>
  trouble === 'request'
    ? invalidVideoRequest('The model did not accept a parameter of this request.')
    : errorFor(trouble, about)

// ── submit and look ─────────────────────────────────────────────────────────────────────────────────────────────────

export type VideoHttp = {
  readonly submitting: VendorHttp
  readonly looking: VendorHttp
  readonly headers: Readonly<Record<string, string>>
  /** Sends a job and reads its handle. Throws where the reply holds none, for such a job could never be found again. */
  submit(
    send: (http: VendorHttp) => Promise<unknown>,
    judge: Judge,
    idOf: (reply: unknown) => unknown,
  ): Promise<{ handle: string }>
  /** Reads where a job stands. Lost is what is lost at two looks; any other refusal is thrown, for the job goes on. */
  look(
    path: string,
    signal: AbortSignal,
    judge: Judge,
    read: (answer: { status: number; body: unknown }) => VideoState | undefined,
  ): Promise<VideoState>
}

export function videoHttp(config: VideoVendorConfig, name: string): VideoHttp {
  const made = { maxBytes: MAX_REPLY_BYTES, ...config, name, errorFor: videoErrorFor }
  const submitting = vendorHttp(made)
  const looking = vendorHttp({ ...made, timeoutMs: config.lookMs ?? LOOK_TIMEOUT_MS })
  const headers = bearer(config.key)

  return {
    submitting,
    looking,
    headers,
    async submit(send, judge, idOf) {
      const reply = await send(submitting)
      const id = idOf(reply)
      if (typeof id === 'string' && id !== '' && id.length <= 512) return { handle: id }
      const said = refusalIn(reply)
      throw said
        ? submitting.refused(said, judge)
        : submitting.refusal('failed', `${name} took a job and did not say under which id`)
    },
    async look(path, signal, judge, read) {
      const ask = () =>
        looking.getJson(under(config.baseUrl, path), { headers, signal, judge: (said) => judge(said) ?? gone(said) })
      try {
        const answer = await ask().catch(async (error: unknown) => {
          if (!isLost(error)) throw error
          await config.clock.wait(LOST_PAUSE_MS, signal)
          return await ask()
        })
        const state = read(answer)
        if (!state) throw looking.refusal('failed', `${name} answered a look in another shape`)
        return state
      } catch (error) {
        if (isLost(error)) return FAILED.lost
        if (error instanceof ApiError && error.code === 'CONTENT_POLICY') return FAILED.policy
        throw error
      }
    },
  }
}

/** A vendor that no longer knows a job says so in JSON; a page that says 404 is a proxy's. */
function gone({ status, body }: Refusal): ApiError | undefined {
  const isSaid = Object.keys(record(body)).length > 0
  return isSaid && (status === 404 || status === 410) ? new ApiError('JOB_NOT_FOUND') : undefined
}

const isLost = (error: unknown): boolean => error instanceof ApiError && error.code === 'JOB_NOT_FOUND'

// ── what a reply says ───────────────────────────────────────────────────────────────────────────────────────────────

export type Done = {
  readonly url: unknown
  readonly lastFrameUrl?: unknown
  readonly seconds?: unknown
  readonly tokens?: unknown
  readonly requestId?: string
}

/** A finished job; without a clip's URL it has failed, for nothing can be sold. */
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

/** Seconds and tokens where they are positive, rounded; a vendor may write them as text. */
export function numbers({ seconds, tokens }: { seconds?: unknown; tokens?: unknown }): {
  seconds?: number
  tokens?: number
} {
  const [length, count] = [whole(seconds), whole(tokens)]
  return { ...(length && { seconds: length }), ...(count && { tokens: count }) }
}

/** A running job, with its percentage where there is one. */
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

/** Of what comes in the reply itself the first bytes have to be media: an address is judged where it is fetched. */
function isAddress(url: unknown): url is string {
  if (typeof url !== 'string') return false
  const [, head] = /^data:(?:video|image)\/[^,]{1,100};base64,(.{1,100})/is.exec(url) ?? []
  return head === undefined ? isWebUrl(url) : mediaTypeOf(Buffer.from(head, 'base64')) !== undefined
}
