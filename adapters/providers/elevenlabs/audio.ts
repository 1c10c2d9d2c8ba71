/**
 * ElevenLabs: speech, sound effects and voices. Sources: @elevenlabs/elevenlabs-js@2.73.0 (request types,
 * `TextToSpeechConvertRequestOutputFormat`, `AllowedOutputFormats`, `Voice`); errors as quoted in the sources of
 * decision 75.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { AudioFormat, AudioVendor, Json, SoundJob, SpeechJob, Voice } from '../../../core/mod.ts'
import { type AudioVendorConfig, badField, MAX_SOUND_BYTES, soundUri } from '../lib/audio_provider.ts'
import { vendorHttp } from '../../http/fetch.ts'
import { under, writeOrder } from '../lib/image_provider.ts'
import { type ErrorClassifier, record, type FailureKind } from '../../http/error_replies.ts'
import { secondsOf, wavOf } from '../lib/wav.ts'

/**
 * The public API of ElevenLabs.
 *
 * @example
 * const audio = elevenlabs({ ...ELEVENLABS, key, maker: 'ElevenLabs', timeoutMs: 100_000, clock, log })
 */
export const ELEVENLABS = { baseUrl: 'https://api.elevenlabs.io' } as const

/** The maker's premade voices, by their first names. */
const ALIASES = {
  sarah: 'EXAVITQu4vr4xnSDxMaL',
  aria: '9BWtsMINqrJLrRacOk9x',
  roger: 'CwhRBWXzGAHq8TQ4Fs17',
  laura: 'FGY2WhTYpPnrIDTdsKH5',
  charlie: 'IKne3meq5aSn9XLyUdCD',
  george: 'JBFqnCBsd6RMkjVDRZzb',
  callum: 'N2lVS1w4EtoT3dr4eOWO',
  river: 'SAz9YHcvj6GT2YYXdXww',
  liam: 'TX3LPaxmHKxFdv7VOQHJ',
  charlotte: 'XB0fDUnXU5powFXDhCwa',
  alice: 'Xb7hH8MSUJpSbSDYk0k2',
  matilda: 'XrExE9yKIg1WjnnlVkGX',
  will: 'bIHbv24MWmeRgasZH58o',
  jessica: 'cgSgspJ2msm6clMCkdW9',
  eric: 'cjVigY5qzO86Huf0OWal',
  chris: 'iP95p4xoKVk53GoZ742B',
  brian: 'nPczCjzI2devNBz1zQrb',
  daniel: 'onwK4e9ZLuTAKqWW03F9',
  lily: 'pFZP5JQG7iQjIZuC4Bku',
  bill: 'pqHfZKP75CVOlQylNhV4',
} as const

/** Rates that every plan has: 44.1 kHz without compression needs a dear one (types, `outputFormat`). */
const RATE = 24_000
const OUTPUTS: Readonly<Record<AudioFormat, string>> = {
  mp3: 'mp3_44100_128',
  opus: 'opus_48000_128',
  pcm: `pcm_${RATE}`,
  wav: `wav_${RATE}`,
}

const optional = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const isVoices = TypeCompiler.Compile(
  Type.Object({
    voices: Type.Array(
      Type.Object({
        voice_id: Type.String(),
        name: optional,
        category: optional,
        labels: Type.Optional(Type.Unknown()),
        preview_url: optional,
      }),
    ),
  }),
)

/**
 * Sound effects know no WAV: their samples are put into one here.
 *
 * @example
 * const audio = elevenlabs({ ...ELEVENLABS, key, maker: 'ElevenLabs', timeoutMs: 100_000, clock, log })
 */
export function elevenlabs(config: AudioVendorConfig): AudioVendor {
  const http = vendorHttp({ ...config, name: 'elevenlabs' })
  const headers: Readonly<Record<string, string>> = config.key ? { 'xi-api-key': config.key } : {}
  const post = (
    path: string,
    order: Readonly<Record<string, Json>>,
    { signal, classify }: { signal: AbortSignal; classify: ErrorClassifier },
  ) =>
    http.postMedia(under(config.baseUrl, path), writeOrder(config, { order }), {
      headers,
      signal,
      classify,
      maxBytes: MAX_SOUND_BYTES,
    })

  return {
    makes: { speech: ['mp3', 'opus', 'pcm', 'wav'], 'sound-effects': ['mp3', 'opus', 'pcm', 'wav'] },
    voiceNames: { aliases: ALIASES, ids: /^[A-Za-z0-9]{16,40}$/ },

    async speak({ model, text, voice, format, speed }: SpeechJob, { signal }) {
      const path = `/v1/text-to-speech/${encodeURIComponent(voice)}?output_format=${OUTPUTS[format]}`
      const order = { text, model_id: model, ...(speed !== 1 && { voice_settings: { speed } }) }
      const { bytes, headers: replyHeaders } = await post(path, order, { signal, classify: classifierFor('input') })
      const credits = Number(replyHeaders.get('character-cost') ?? Number.NaN)
      return {
        url: soundUri(bytes, format, http),
        ...measured(bytes, format),
        ...(Number.isFinite(credits) && { credits }),
      }
    },

    async sound({ model, text, format, seconds, promptInfluence }: SoundJob, { signal }) {
      const isWrapped = format === 'wav'
      const order = {
        text,
        model_id: model,
        ...(seconds !== undefined && { duration_seconds: seconds }),
        ...(promptInfluence !== undefined && { prompt_influence: promptInfluence }),
      }
      const { bytes } = await post(`/v1/sound-generation?output_format=${OUTPUTS[isWrapped ? 'pcm' : format]}`, order, {
        signal,
        classify: classifierFor('text'),
      })
      const made = isWrapped && bytes.length > 0 ? wavOf({ samples: bytes, rate: RATE, channels: 1 }) : bytes
      return { url: soundUri(made, format, http), ...measured(bytes, isWrapped ? 'pcm' : format) }
    },

    async voices({ signal }) {
      const { body } = await http.getJson(under(config.baseUrl, '/v1/voices'), {
        headers,
        signal,
        classify: classifierFor('voice'),
      })
      if (!isVoices.Check(body)) throw http.failure('failed', 'elevenlabs listed its voices in another shape')
      return body.voices.map(({ voice_id: id, name, category, labels, preview_url }): Voice => ({
        id,
        name: name ?? id,
        category: category ?? 'premade',
        labels: Object.fromEntries(
          Object.entries(record(labels)).filter((label): label is [string, string] => typeof label[1] === 'string'),
        ),
        previewUrl: preview_url ?? null,
      }))
    },
  }
}

/** Bare samples tell how long they are. */
function measured(bytes: Uint8Array, format: AudioFormat): { seconds?: number; sampleRate?: number } {
  return format === 'pcm' ? { seconds: secondsOf({ samples: bytes, rate: RATE, channels: 1 }), sampleRate: RATE } : {}
}

const STATUSES: Readonly<Record<string, FailureKind>> = {
  invalid_api_key: 'operator',
  missing_permissions: 'operator',
  quota_exceeded: 'operator',
  needs_authorization: 'operator',
  too_many_concurrent_requests: 'rate_limited',
  system_busy: 'rate_limited',
  content_against_policy: 'policy',
  detected_unusual_activity: 'operator',
}

/** `{detail: {status, message}}`, or a list of fields at 422 (FastAPI). `field` is what the buyer calls the text. */
function classifierFor(field: string): ErrorClassifier {
  return ({ status, body }) => {
    const { detail } = record(body)
    const named = String(record(detail).status ?? '')
    if (STATUSES[named]) return STATUSES[named]
    if (named === 'max_character_limit_exceeded' || named === 'text_too_long')
      return badField(field, 'is longer than the model takes')
    if (named === 'voice_not_found' || named === 'voice_does_not_exist')
      return badField('voice', 'is not known to the vendor of this model')
    if (status === 422 && Array.isArray(detail) && detail.some((each) => [record(each).loc].flat().includes('text')))
      return badField(field, 'was not accepted by the model')
    return undefined
  }
}
