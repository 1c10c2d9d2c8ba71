/** The vendor interface for videos. */
import type { Dollars } from '../../x402/money.ts'
import type { MediaStream } from './media.ts'

/** Price of a video (contract 12.33). */
export type VideoBilling =
  /** US dollars per second, times 1.05. */
  | { readonly mode: 'per_second_with_margin'; readonly rate: Dollars }
  /** US dollars per second by resolution without margin, plus a flat amount per generation. */
  | {
      readonly mode: 'per_second_by_tier'
      readonly tiers: Readonly<Record<string, Dollars>>
      readonly perGeneration: Dollars
    }
  /** US dollars per million tokens, which are computed from seconds and resolution. */
  | { readonly mode: 'per_token'; readonly rate: Dollars }

/** Allowed lengths in whole seconds: a range, or a list. */
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
  /** The maker, for `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** The operator's vendor that serves it, and the vendor's own id. */
  readonly vendor: string
  readonly upstream: string
  /** The model family, which decides what is honored, ignored or refused (contract 12.18). */
  readonly family: 'c' | 'e' | 'f'
  readonly seconds: VideoSeconds
  /** Lowest first. */
  readonly resolutions: readonly string[]
  readonly usualResolution: string
  /** A resolution above the highest is accepted, and rendered and billed as the highest (contract 12.16). */
  readonly capsResolution?: boolean
  /** Aspect ratios that it supports; family F ignores them. */
  readonly ratios: readonly string[]
  /** Whether it supports sound, a last frame, references, and enrolled characters. */
  readonly audio: boolean
  readonly lastFrame: boolean
  readonly references: boolean
  readonly assets: boolean
  readonly billing: VideoBilling
  /** Sold, but not listed. */
  readonly hidden?: boolean
  /** No longer sold: an order for it is treated like one for an unknown model. */
  readonly retired?: boolean
  /** The row that serves it instead, after an operator's redirect. */
  readonly servedBy?: string
}

/**
 * One video to make. Media are http(s) URLs, or data URIs where the vendor takes them; `asset` is the vendor's id of an
 * enrolled character.
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

/** State of a job at its vendor. `done` and `failed` are final. */
export type VideoState =
  | { readonly kind: 'running'; readonly status: 'queued' | 'in_progress'; readonly progress?: number }
  /** `url` is http(s), often short-lived, or a data URI; absent when the clip has to be fetched with `clip`. */
  | {
      readonly kind: 'done'
      readonly url?: string
      readonly lastFrameUrl?: string
      readonly seconds?: number
      readonly tokens?: number
      readonly requestId?: string
    }
  /** `reason` is our text for the buyer. */
  | { readonly kind: 'failed'; readonly reason: string; readonly code?: 'output_audio_moderation' | 'content_policy' }

/** Makes videos as jobs that run at the vendor for minutes. Throws an `ApiError` with a text for the caller. */
export interface VideoVendor {
  /** Resolves when the vendor has accepted the job; `handle` finds it from any process, for days. */
  submit(job: VideoJob, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** Whether it has as many jobs as it takes: no call is opened for another one. Always false without it. */
  isFull?(): boolean
  /** Throws when the vendor cannot be reached: the job continues. */
  pollUpstream(handle: string, at: { signal: AbortSignal }): Promise<VideoState>
  /** Reads a finished clip that has no public URL. */
  clip?(handle: string, at: { signal: AbortSignal }): Promise<MediaStream>
}
