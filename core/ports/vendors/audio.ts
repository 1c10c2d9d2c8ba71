/** Who makes speech, sound effects and music. */
import type { Dollars } from '../../x402/money.ts'

export const AUDIO_KINDS = ['speech', 'sound-effects', 'music'] as const

export type AudioKind = (typeof AUDIO_KINDS)[number]

/**
 * Rates in US dollars: for 1,000 characters, for a second that is estimated from the text, or for what one call makes.
 */
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
  /** The maker, as `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** Which of the operator's vendors serves it, and what that vendor calls it. */
  readonly vendor: string
  readonly upstream: string
  readonly billing: AudioBilling
  /** Longest text. */
  readonly maxCharacters: number
  /** Sold, but not listed. */
  readonly hidden?: boolean
}

export const AUDIO_FORMATS = ['mp3', 'opus', 'pcm', 'wav'] as const

export type AudioFormat = (typeof AUDIO_FORMATS)[number]

/** `model` is the vendor's own id, and so is `voice`. `speed` 1 is that of the voice itself. */
export type SpeechJob = {
  readonly model: string
  readonly text: string
  readonly voice: string
  readonly format: AudioFormat
  readonly speed: number
}

/** The vendor chooses a length where none is said. */
export type SoundJob = {
  readonly model: string
  readonly text: string
  readonly format: AudioFormat
  readonly seconds?: number
  readonly promptInfluence?: number
}

/** Sung where it is not instrumental: these lyrics, or some that the vendor writes. `seconds` is a hint. */
export type MusicJob = {
  readonly model: string
  readonly prompt: string
  readonly instrumental: boolean
  readonly lyrics?: string
  readonly seconds?: number
}

/**
 * `url` is http(s), often short-lived, or a data URI. `sampleRate` is that of bare samples, which do not say it: 16
 * bits, little-endian, one channel. `credits` is what the vendor counted; `note` is for the buyer, where no model made
 * this.
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
 * What buyers may call the voices: aliases in lower case with the vendor's own ids, the usual one first, and how its
 * other ids look.
 */
export type VoiceNames = { readonly aliases: Readonly<Record<string, string>>; readonly ids: RegExp }

/** Makes sounds. Throws an `ApiError` for what the caller should hear of; anything else reads as a failed call. */
export interface AudioVendor {
  /** What it makes, and in which formats, the usual one first; a kind that is not there it does not make. */
  readonly makes: Readonly<Partial<Record<AudioKind, readonly AudioFormat[]>>>
  readonly voiceNames: VoiceNames
  /** Most characters of a speech, where that is less than its row says. */
  readonly maxCharacters?: number
  speak?(job: SpeechJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  sound?(job: SoundJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  compose?(job: MusicJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  voices?(at: { signal: AbortSignal }): Promise<readonly Voice[]>
}
