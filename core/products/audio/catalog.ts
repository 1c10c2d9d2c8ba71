import { type Dollars, dollars } from '../../x402/money.ts'

export const AUDIO_KINDS = ['speech', 'sound-effects', 'music'] as const
export type AudioKind = (typeof AUDIO_KINDS)[number]

/** Rates in US dollars: for 1,000 characters, for a second that is estimated from the text, or for what one call makes. */
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

const at = (mode: AudioBilling['mode'], rate: string): AudioBilling => ({ mode, rate: dollars(rate) })

/** The models of speech, sound effects and music (contract 14.7, 14.8): the first of a kind is its default. */
export const audioRows: readonly AudioRow[] = [
  {
    id: 'elevenlabs/flash-v2.5',
    aliases: ['elevenlabs/flash-v2-5', 'eleven_flash_v2_5'],
    name: 'Flash v2.5',
    kind: 'speech',
    maker: 'elevenlabs',
    vendor: 'elevenlabs',
    upstream: 'eleven_flash_v2_5',
    billing: at('per_character', '0.05'),
    maxCharacters: 40_000,
  },
  {
    id: 'elevenlabs/turbo-v2.5',
    aliases: ['elevenlabs/turbo-v2-5', 'eleven_turbo_v2_5'],
    name: 'Turbo v2.5',
    kind: 'speech',
    maker: 'elevenlabs',
    vendor: 'elevenlabs',
    upstream: 'eleven_turbo_v2_5',
    billing: at('per_character', '0.05'),
    maxCharacters: 40_000,
  },
  {
    id: 'elevenlabs/multilingual-v2',
    aliases: ['eleven_multilingual_v2'],
    name: 'Multilingual v2',
    kind: 'speech',
    maker: 'elevenlabs',
    vendor: 'elevenlabs',
    upstream: 'eleven_multilingual_v2',
    billing: at('per_character', '0.1'),
    maxCharacters: 10_000,
  },
  {
    id: 'elevenlabs/v3',
    aliases: ['eleven_v3'],
    name: 'v3',
    kind: 'speech',
    maker: 'elevenlabs',
    vendor: 'elevenlabs',
    upstream: 'eleven_v3',
    billing: at('per_character', '0.1'),
    maxCharacters: 5_000,
  },
  {
    id: 'bytedance/seed-audio-1.0',
    aliases: ['bytedance/seed-audio-1-0'],
    name: 'Seed Audio 1.0',
    kind: 'speech',
    maker: 'bytedance',
    vendor: 'bytedance',
    upstream: 'seed-audio-1.0',
    billing: at('per_second', '0.003'),
    maxCharacters: 3_000,
  },
  {
    id: 'elevenlabs/sound-effects',
    aliases: ['eleven_text_to_sound_v2'],
    name: 'Sound Effects',
    kind: 'sound-effects',
    maker: 'elevenlabs',
    vendor: 'elevenlabs',
    upstream: 'eleven_text_to_sound_v2',
    billing: at('per_generation', '0.05'),
    maxCharacters: 1_000,
  },
  {
    id: 'minimax/music-2.5+',
    aliases: ['minimax/music-2.5', 'minimax/music-2-5', 'minimax/music-2-5+'],
    name: 'Music 2.5+',
    kind: 'music',
    maker: 'minimax',
    vendor: 'minimax',
    upstream: 'music-2.5+',
    billing: at('per_track', '0.15'),
    maxCharacters: 2_000,
  },
]
