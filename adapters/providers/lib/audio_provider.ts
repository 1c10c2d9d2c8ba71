/** Shared by the audio protocols: the operator's configuration, and audio as a verified data URI. */
import { type AudioFormat, type Clock, ApiError, type Json, type Log } from '../../../core/mod.ts'
import type { Fetch, VendorHttp } from '../../http/fetch.ts'
import { mediaTypeOf } from '../../http/media_input.ts'
import { readWav } from './wav.ts'

export type AudioVendorConfig = {
  /** Root of the API, before the protocol's own paths. */
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Named to the buyer as the source of a rate limit. */
  readonly maker: string
  /** Longest duration of one upstream call, in milliseconds. */
  readonly timeoutMs: number
  /** Merged into every request, below the order. */
  readonly parameters?: Readonly<Record<string, Json>> | undefined
  /** Merged into every request above everything else. A null removes a field. */
  readonly overrides?: Readonly<Record<string, Json>> | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/** Within the 120 s of a one-shot call. */
export const SOUND_TIMEOUT_MS = 100_000
/** A track takes up to minutes (decision 75). */
export const MUSIC_TIMEOUT_MS = 600_000
/** 45 minutes of speech at 128 kbit/s. */
export const MAX_SOUND_BYTES = 64 * 1024 * 1024

const TYPES: Readonly<Record<AudioFormat, string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  pcm: 'audio/pcm',
  wav: 'audio/wav',
}

/**
 * Encodes audio as a data URI. Throws when the bytes are not of that format, or silent; raw samples cannot be verified.
 */
export function soundUri(bytes: Uint8Array, format: AudioFormat, http: Pick<VendorHttp, 'failure'>): string {
  if (bytes.length === 0 || !isOf(bytes, format))
    throw http.failure('failed', `the vendor answered with something that is no ${format}`)
  if (isSilent(bytes, format)) throw http.failure('failed', `the vendor answered with a ${format} of silence`)
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  return `data:${TYPES[format]};base64,${base64}`
}

function isOf(bytes: Uint8Array, format: AudioFormat): boolean {
  if (format === 'opus') return Buffer.from(bytes.subarray(0, 4)).toString('latin1') === 'OggS'
  return format === 'pcm' || mediaTypeOf(bytes) === TYPES[format]
}

/** Streaming servers write no lengths, so a WAV that ends with its header has no samples, whatever the header says. */
function isSilent(bytes: Uint8Array, format: AudioFormat): boolean {
  if (format === 'pcm') return bytes.every((byte) => byte === 0)
  if (format !== 'wav') return false
  const samples = readWav(bytes)?.samples
  return (
    bytes.length <= WAV_HEAD_BYTES ||
    (samples !== undefined && samples.length > 0 && samples.every((byte) => byte === 0))
  )
}

const WAV_HEAD_BYTES = 44

/** The error for a field of the buyer's that a vendor rejected. */
export function badField(path: string, why: string): ApiError {
  return new ApiError('INVALID_BODY', {
    message: `${path}: ${why}. Nothing was charged.`,
    details: [{ path, message: why }],
  })
}
