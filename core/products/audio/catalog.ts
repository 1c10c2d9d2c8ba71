import { dollars } from '../../x402/money.ts'
import type { AudioBilling, AudioRow } from '../../ports/vendors/audio.ts'

const at = (mode: AudioBilling['mode'], rate: string): AudioBilling => ({ mode, rate: dollars(rate) })

/**
 * Models for speech, sound effects and music (contract 14.7, 14.8). The first of a kind is its default.
 *
 * @example
 * const ids = audioRows.map(({ id }) => id)
 */
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
