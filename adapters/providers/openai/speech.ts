/**
 * The OpenAI speech protocol, as LocalAI, Ollama, vLLM-Omni, Kokoro-FastAPI and others serve it. Sources: openai@7.55.0
 * `resources/audio/speech.d.ts`; decision 75. OpenAI's own models of it retire on 2027-01-06.
 */
import type { AudioFormat, AudioVendor, SpeechJob, Voice } from '../../../core/mod.ts'
import { type AudioVendorConfig, badField, MAX_SOUND_BYTES, soundUri } from '../lib/audio_provider.ts'
import { vendorHttp } from '../../http/fetch.ts'
import { bearer, under, writeOrder } from '../lib/image_provider.ts'
import { envelope, type ErrorClassifier } from '../../http/error_replies.ts'
import { secondsOf } from '../lib/wav.ts'

/** `voices` are the server's, the default first; without them, those of the protocol. */
export type OpenaiSpeechConfig = AudioVendorConfig & { readonly voices?: readonly string[] | undefined }

/** The protocol's own (speech.d.ts, `voice`). */
const VOICES = [
  'alloy',
  'ash',
  'ballad',
  'coral',
  'echo',
  'fable',
  'nova',
  'onyx',
  'sage',
  'shimmer',
  'verse',
  'marin',
  'cedar',
]
/** The sample rate of raw samples: 24 kHz (platform documentation of `pcm`). */
const RATE = 24_000

/**
 * The protocol cannot list voices: the configured ones are listed, and any other name is left to the server.
 *
 * @example
 * const audio = openaiSpeech({ baseUrl, key, maker: 'OpenAI', timeoutMs: 100_000, clock, log })
 */
export function openaiSpeech(config: OpenaiSpeechConfig): AudioVendor {
  const http = vendorHttp({ ...config, name: 'openai-speech' })
  const headers = bearer(config.key)
  const voices = config.voices?.length ? config.voices : VOICES

  return {
    makes: { speech: ['mp3', 'opus', 'pcm', 'wav'] },
    voiceNames: {
      aliases: Object.fromEntries(voices.map((voice) => [voice.toLowerCase(), voice])),
      ids: /^[\w.+:-]{1,100}$/,
    },

    async speak({ model, text, voice, format, speed }: SpeechJob, { signal }) {
      const order = { model, input: text, voice, response_format: format, ...(speed !== 1 && { speed }) }
      const { bytes } = await http.postMedia(under(config.baseUrl, '/audio/speech'), writeOrder(config, { order }), {
        headers,
        signal,
        classify,
        maxBytes: MAX_SOUND_BYTES,
      })
      return { url: soundUri(bytes, format, http), ...measured(bytes, format) }
    },

    async voices({ signal }) {
      signal.throwIfAborted()
      return voices.map((voice): Voice => ({
        id: voice,
        name: voice,
        category: 'premade',
        labels: {},
        previewUrl: null,
      }))
    },
  }
}

function measured(bytes: Uint8Array, format: AudioFormat): { seconds?: number; sampleRate?: number } {
  return format === 'pcm' ? { seconds: secondsOf({ samples: bytes, rate: RATE, channels: 1 }), sampleRate: RATE } : {}
}

/** A 400 that names a field of the buyer is the buyer's error; any other is ours. */
const classify: ErrorClassifier = ({ status, body }) => {
  const { code, param, message } = envelope(body)
  if (code === 'insufficient_quota') return 'operator'
  if (status !== 400 && status !== 422) return undefined
  if (param === 'voice' || /\bvoice\b/i.test(message))
    return badField('voice', 'is not known to the vendor of this model')
  return param === 'input' || code === 'string_above_max_length'
    ? badField('input', 'was not accepted by the model')
    : undefined
}
