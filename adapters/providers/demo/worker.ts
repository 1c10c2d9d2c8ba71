/** Makes one order after another on a thread of its own: pictures, edits, films, sounds, music and speech. */
import { parentPort } from 'node:worker_threads'
import { ApiError, type ApiErrorCode, type ApiErrorParts } from '../../../core/http/errors.ts'
import { secondsOf, wavOf } from '../lib/wav.ts'
import { edited, type EditOrder, picture, type PictureOrder } from './drawing.ts'
import { film, type FilmOrder } from './film.ts'
import { sound, type SoundOrder } from './tune.ts'

export type SpeechOrder = {
  readonly kind: 'speech'
  readonly text: string
  readonly voice: string
  readonly speed: number
  readonly format: string
}
export type AnyOrder = PictureOrder | EditOrder | FilmOrder | SoundOrder | SpeechOrder
/**
 * A data URI, or the bytes of a film with the data URI of its last frame. Sounds have `seconds`, bare samples their
 * rate.
 */
export type Made = {
  readonly url?: string
  readonly bytes?: Uint8Array<ArrayBuffer>
  readonly seconds?: number
  readonly sampleRate?: number
}

/** What is said of an order: `progress` in percents may come first, one of the others ends it. */
export type Answer =
  | { readonly progress: number }
  | { readonly made: Made }
  | { readonly error: string }
  | { readonly apiError: { readonly code: ApiErrorCode; readonly parts: ApiErrorParts } }

const uriOf = (bytes: Uint8Array, type: string): string => {
  return `data:${type};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}`
}

const say = (answer: Answer, moved: ArrayBuffer[] = []) => parentPort?.postMessage(answer, moved)

async function make(order: AnyOrder): Promise<Made> {
  if (order.kind === 'picture') return { url: uriOf(await picture(order), 'image/png') }
  if (order.kind === 'edit') return { url: uriOf(await edited(order), 'image/png') }
  if (order.kind === 'film') {
    const { mp4, lastFrame } = await film(order, (progress) => say({ progress }))
    return { bytes: mp4, ...(lastFrame && { url: uriOf(lastFrame, 'image/png') }) }
  }
  const wav = order.kind === 'speech' ? await (await import('./flite.ts')).speech(order) : sound(order)
  const bare = order.kind === 'speech' && order.format === 'pcm'
  if (bare) return { url: uriOf(wav.samples, 'audio/pcm'), seconds: secondsOf(wav), sampleRate: wav.rate }
  return { url: uriOf(wavOf(wav), 'audio/wav'), seconds: secondsOf(wav) }
}

parentPort?.on('message', (order: AnyOrder) => {
  make(order).then(
    (made) => say({ made }, made.bytes ? [made.bytes.buffer] : []),
    (cause: unknown) => {
      if (cause instanceof ApiError) return say({ apiError: { code: cause.code, parts: cause.parts } })
      return say({ error: cause instanceof Error ? cause.message : String(cause) })
    },
  )
})
