/** Who makes videos. */
import type { Dollars } from '../../x402/money.ts'
import type { MediaStream } from './media.ts'

/** What a video costs (contract 12.33). */
export type VideoBilling =
  /** US dollars per second, times 1.05. */
  | { readonly mode: 'per_second_with_margin'; readonly rate: Dollars }
  /** US dollars per second by resolution, without margin, and a flat amount for each generation. */
  | {
      readonly mode: 'per_second_by_tier'
      readonly tiers: Readonly<Record<string, Dollars>>
      readonly perGeneration: Dollars
    }
  /** US dollars for a million tokens; tokens follow from seconds and resolution. */
  | { readonly mode: 'per_token'; readonly rate: Dollars }

/** How long a clip may be, in whole seconds: a range, or the only lengths there are. */
export type VideoSeconds = {
  readonly min: number
  readonly max: number
  readonly only?: readonly number[]
  readonly usual: number
}

/** One video model for sale. */
export type VideoRow = {
  /** Public id, as listed in the contract. */
  readonly id: string
  readonly aliases: readonly string[]
  readonly name: string
  /** The maker, as `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** Which of the operator's vendors serves it, and what that vendor calls it. */
  readonly vendor: string
  readonly upstream: string
  /** Whose rules it follows: what is honored, ignored or refused (contract 12.18). */
  readonly family: 'c' | 'e' | 'f'
  readonly seconds: VideoSeconds
  /** Lowest first. */
  readonly resolutions: readonly string[]
  readonly usualResolution: string
  /** A resolution above its highest is accepted, and rendered and billed as its highest (contract 12.16). */
  readonly capsResolution?: boolean
  /** Aspect ratios that it honors; family F ignores them. */
  readonly ratios: readonly string[]
  /** Whether a clip may have sound, a last frame may be given, references and enrolled characters may be used. */
  readonly audio: boolean
  readonly lastFrame: boolean
  readonly references: boolean
  readonly assets: boolean
  readonly billing: VideoBilling
  /** Sold, but not listed. */
  readonly hidden?: boolean
  /** No longer sold: an order for it reads like one for an unknown model. */
  readonly retired?: boolean
  /** The row that does the work instead, where an operator has redirected this one. */
  readonly servedBy?: string
}

/**
 * One video to make. Media are http(s) URLs, or data URIs where their vendor takes them; `asset` is the vendor's own id
 * of an enrolled character.
 */
export type VideoJob = {
  readonly model: string
  readonly prompt: string
  readonly seconds: number
  /** `480p`, `720p`, `1080p` or `4K`. */
  readonly resolution: string
  readonly aspectRatio?: string
  readonly image?: string
  readonly lastFrame?: string
  readonly asset?: string
  readonly referenceImages?: readonly string[]
  readonly referenceVideos?: readonly string[]
  readonly referenceAudios?: readonly string[]
  readonly generateAudio?: boolean
  readonly seed?: number
  readonly watermark?: boolean
  readonly returnLastFrame?: boolean
}

/** Where a job stands at its vendor. `done` and `failed` are final, whatever the vendor says afterwards. */
export type VideoState =
  | { readonly kind: 'running'; readonly status: 'queued' | 'in_progress'; readonly progress?: number }
  /** `url` is http(s), often short-lived, or a data URI; absent where the clip has to be asked for with `clip`. */
  | {
      readonly kind: 'done'
      readonly url?: string
      readonly lastFrameUrl?: string
      readonly seconds?: number
      readonly tokens?: number
      readonly requestId?: string
    }
  /** `reason` is for the buyer, in our words. */
  | { readonly kind: 'failed'; readonly reason: string; readonly code?: 'output_audio_moderation' | 'content_policy' }

/** Makes videos, over minutes and at the vendor's place. Throws an `ApiError` for what the caller should hear of. */
export interface VideoVendor {
  /** Resolves when the vendor has taken the job; `handle` finds it from any process, for days. */
  submit(job: VideoJob, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** Throws where the vendor cannot be asked just now: the job goes on. */
  pollUpstream(handle: string, at: { signal: AbortSignal }): Promise<VideoState>
  /** The bytes of a finished clip that has no public URL. */
  clip?(handle: string, at: { signal: AbortSignal }): Promise<MediaStream>
}
