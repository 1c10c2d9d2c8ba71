/** The vendor interface for speech, sound effects and music. */
import type { Dollars } from '../../x402/money.ts'

/**
 * The kinds of audio that are sold.
 *
 * @example
 * const isKind = AUDIO_KINDS.some((kind) => kind === 'music')
 */
export const AUDIO_KINDS = ['speech', 'sound-effects', 'music'] as const

export type AudioKind = (typeof AUDIO_KINDS)[number]

/** Rates in US dollars: per 1,000 characters, per second estimated from the text, or per call. */
export type AudioBilling = {
  readonly mode: 'per_character' | 'per_second' | 'per_generation' | 'per_track'
  readonly rate: Dollars
}

/** One audio model for sale. */
export type AudioRow = {
  /** Public id, as clients of the contract send it. */
  readonly id: string
  readonly aliases: readonly string[]
  readonly name: string
  readonly kind: AudioKind
  /** The maker, for `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** The operator's vendor that serves it, and the vendor's own id. */
  readonly vendor: string
  readonly upstream: string
  readonly billing: AudioBilling
  /** Longest text, in characters. */
  readonly maxCharacters: number
  /** Sold, but not listed. */
  readonly hidden?: boolean
}

export const AUDIO_FORMATS = ['mp3', 'opus', 'pcm', 'wav'] as const

export type AudioFormat = (typeof AUDIO_FORMATS)[number]

/** `model` and `voice` are the vendor's own ids. `speed` 1 is the normal speed of the voice. */
export type SpeechJob = {
  readonly model: string
  readonly text: string
  readonly voice: string
  readonly format: AudioFormat
  readonly speed: number
}

/** Without a length, the vendor chooses one. */
export type SoundJob = {
  readonly model: string
  readonly text: string
  readonly format: AudioFormat
  readonly seconds?: number
  readonly promptInfluence?: number
}

/** Vocal unless instrumental, with these lyrics or with some that the vendor writes. `seconds` is a hint. */
export type MusicJob = {
  readonly model: string
  readonly prompt: string
  readonly instrumental: boolean
  readonly lyrics?: string
  readonly seconds?: number
}

/**
 * `url` is http(s), often short-lived, or a data URI. `sampleRate` describes raw samples: 16 bits, little-endian, one
 * channel. `credits` is the vendor's usage count; `note` is for the buyer, when no model made this.
 */
export type MadeAudio = {
  readonly url: string
  readonly seconds?: number
  readonly sampleRate?: number
  readonly credits?: number
  readonly lyrics?: string
  readonly note?: string
}

export type Voice = {
  readonly id: string
  readonly name: string
  readonly category: string
  readonly labels: Readonly<Record<string, string>>
  readonly previewUrl: string | null
}

/**
 * Voice names for buyers: aliases in lower case with the vendor's ids, the default first, and a pattern for its other
 * ids.
 */
export type VoiceNames = { readonly aliases: Readonly<Record<string, string>>; readonly ids: RegExp }

/** Makes sounds. Throws an `ApiError` with a text for the caller; any other error fails the call. */
export interface AudioVendor {
  /** The kinds that it makes, each with its formats, the default first. */
  readonly makes: Readonly<Partial<Record<AudioKind, readonly AudioFormat[]>>>
  readonly voiceNames: VoiceNames
  /** Longest speech in characters, when that is less than its row allows. */
  readonly maxCharacters?: number
  speak?(job: SpeechJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  sound?(job: SoundJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  compose?(job: MusicJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  voices?(at: { signal: AbortSignal }): Promise<readonly Voice[]>
}
