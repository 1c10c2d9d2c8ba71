/**
 * MiniMax music: one call that takes up to minutes, with status 200 even when it fails. Sources:
 * platform.minimax.io/docs/api-reference/errorcode (fields, codes). cluely/unmodel reports, unverified, that new
 * customers are not accepted since 2026-08-20; `baseUrl` may be another server of this protocol.
 */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { AudioVendor, MadeAudio, MusicJob } from '../../../core/mod.ts'
import { type AudioVendorConfig, badField, MAX_SOUND_BYTES, soundUri } from '../lib/audio_provider.ts'
import { vendorHttp } from '../../http/fetch.ts'
import { bearer, under, writeOrder } from '../lib/image_provider.ts'
import { envelope, type ErrorClassifier, record, type ErrorReply, type FailureKind } from '../../http/error_replies.ts'

/**
 * The public API of MiniMax.
 *
 * @example
 * const music = minimaxMusic({ ...MINIMAX, key, maker: 'MiniMax', timeoutMs: 600_000, clock, log })
 */
export const MINIMAX = { baseUrl: 'https://api.minimax.io' } as const

const Reply = Type.Object({
  data: Type.Object({ audio: Type.String({ minLength: 1 }) }),
  extra_info: Type.Optional(
    Type.Union([Type.Object({ music_duration: Type.Optional(Type.Union([Type.Number(), Type.Null()])) }), Type.Null()]),
  ),
})
const isReply = TypeCompiler.Compile(Reply)

const MP3 = { sample_rate: 44_100, bitrate: 256_000, format: 'mp3' }

/**
 * For a song without lyrics, the vendor writes some. There is no length field: the hint is added to the prompt.
 *
 * @example
 * const music = minimaxMusic({ ...MINIMAX, key, maker: 'MiniMax', timeoutMs: 600_000, clock, log })
 */
export function minimaxMusic(config: AudioVendorConfig): AudioVendor {
  const http = vendorHttp({ ...config, name: 'minimax', maxBytes: MAX_SOUND_BYTES })

  return {
    makes: { music: ['mp3'] },
    voiceNames: { aliases: {}, ids: /(?!)/ },

    async compose({ model, prompt, instrumental, lyrics, seconds }: MusicJob, { signal }) {
      const words =
        seconds === undefined
          ? prompt
          : `${[...prompt].slice(0, MAX_PROMPT).join('')}\nAbout ${Math.round(seconds)} seconds long.`
      const sung = lyrics === undefined ? { lyrics_optimizer: true } : { lyrics }
      const order = {
        model,
        prompt: words,
        output_format: 'url',
        audio_setting: MP3,
        ...(instrumental ? { is_instrumental: true } : sung),
      }
      const body = await http.postJson(under(config.baseUrl, '/v1/music_generation'), writeOrder(config, { order }), {
        headers: bearer(config.key),
        signal,
        classify,
      })
      const refusal = refusalOf(body)
      if (refusal) throw http.errorFrom(refusal, classify)
      if (!isReply.Check(body)) throw http.failure('failed', 'minimax answered in another shape')
      return read(body)
    },
  }

  /** A URL that expires after half a day, or hex from servers without URLs. */
  function read({ data: { audio }, extra_info }: Static<typeof Reply>): MadeAudio {
    const ms = extra_info?.music_duration
    const long = typeof ms === 'number' && ms > 0 ? { seconds: ms / 1000 } : {}
    if (/^https?:\/\//i.test(audio) && URL.canParse(audio)) return { url: audio, ...long }
    return { url: soundUri(Buffer.from(audio, 'hex'), 'mp3', http), ...long }
  }
}

/** The limit of 2,000 characters, less the hint. */
const MAX_PROMPT = 1_960

/** The error inside a reply, with the status that matches its code. */
function refusalOf(body: unknown): ErrorReply | undefined {
  const { status_code: code = 0 } = record(record(body).base_resp)
  return code === 0 ? undefined : { status: 200, headers: new Headers(), body: { error: { code: String(code) } } }
}

const CODES: Readonly<Record<string, FailureKind>> = {
  '1000': 'failed',
  '1001': 'timeout',
  '1002': 'rate_limited',
  '1004': 'operator',
  '1008': 'operator',
  '1024': 'failed',
  '1026': 'policy',
  '1027': 'policy',
  '1033': 'failed',
  '1039': 'rate_limited',
  '1041': 'rate_limited',
}

const classify: ErrorClassifier = ({ status, body }) => {
  const { code } = envelope(body)
  if (code === '1042' || code === '2013')
    return badField('prompt', 'was not accepted by the model, or the lyrics were not')
  const known = CODES[code]
  return known ?? (status === 200 ? 'failed' : undefined)
}
