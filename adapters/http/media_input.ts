/** Media sent to and received from vendors. The type is detected from the first bytes, never from a name or header. */
import { decodeDataUri } from '../../core/lib/mod.ts'
import { ApiError } from '../../core/mod.ts'

/** One source image. `base64` has no `data:` prefix. */
export type Picture = {
  readonly type: string
  readonly bytes: Uint8Array
  readonly base64: string
  readonly uri: string
}

/** Type, offset and signatures of each image format. */
const SIGNATURES: readonly [type: string, at: number, marks: readonly string[]][] = [
  ['image/png', 0, ['\x89PNG\r\n\x1a\n']],
  ['image/jpeg', 0, ['\xff\xd8\xff']],
  ['image/webp', 8, ['WEBP']],
  ['image/gif', 0, ['GIF87a', 'GIF89a']],
  ['image/bmp', 0, ['BM']],
  ['image/avif', 4, ['ftypavif', 'ftypavis']],
  ['image/heic', 4, ['heic', 'heix', 'hevc', 'hevx', 'heim', 'heis'].map((brand) => `ftyp${brand}`)],
  ['image/heif', 4, ['ftypmif1', 'ftypmsf1']],
]

/** Bytes needed to detect an image. */
const HEAD_BYTES = 32
/** Bytes needed to find the doctype of a Matroska file. */
const MEDIA_HEAD_BYTES = 64

/** Detects the MIME type of an image; undefined when it is none of the eight formats of contract 5.36. */
function typeOf(bytes: Uint8Array): string | undefined {
  const head = String.fromCharCode(...bytes.subarray(0, HEAD_BYTES))
  return SIGNATURES.find(([, at, marks]) => marks.some((mark) => head.startsWith(mark, at)))?.[0]
}

/** First brands of MP4 video as encoders write them; QuickTime, images and audio-only files have others. */
const MP4 = /^.{4}ftyp(?:iso[\dm-]|mp4[12]|avc1|hvc1|M4V[ HP]|dash|msdh|msix|MSNV|cmf[c2]|f4v |mmp4|XAVC)/s

/** Detects images as `typeOf`, and video/mp4, video/quicktime, video/webm, audio/mpeg and audio/wav. Needs 64 bytes. */
export function mediaTypeOf(bytes: Uint8Array): string | undefined {
  const head = String.fromCharCode(...bytes.subarray(0, MEDIA_HEAD_BYTES))
  if (MP4.test(head)) return 'video/mp4'
  if (head.startsWith('ftypqt  ', 4)) return 'video/quicktime'
  if (head.startsWith('\x1aE\xdf\xa3') && head.includes('webm')) return 'video/webm'
  if (head.startsWith('RIFF') && head.startsWith('WAVE', 8)) return 'audio/wav'
  // An ID3 tag, or the sync word of layer III.
  if (/^(?:ID3|\xff[\xf2\xf3\xfa\xfb])/.test(head)) return 'audio/mpeg'
  return typeOf(bytes)
}

/**
 * Converts a vendor's base64 image, with or without a `data:` prefix, to a data URI. Undefined when it is not an image.
 */
export function dataUri(base64: string): string | undefined {
  const payload = base64.startsWith('data:') ? base64.slice(base64.indexOf(',') + 1) : base64
  const type = typeOf(Buffer.from(payload.slice(0, 2 * HEAD_BYTES), 'base64'))
  return type && `data:${type};base64,${payload}`
}

/**
 * Decodes the source images of an edit for a vendor that reads only some types. Throws INVALID_IMAGE for the buyer
 * (contract 5.38: the model has the final say on formats).
 */
export function pictures(uris: readonly string[], accepted: readonly string[]): readonly Picture[] {
  return uris.map((uri, index) =>
    picture(uri, { accepted, label: uris.length === 1 ? 'The image' : `Image ${index + 1}` }),
  )
}

/** Decodes one image or mask. `label` starts the error's sentence. */
export function picture(uri: string, { accepted, label }: { accepted: readonly string[]; label: string }): Picture {
  const decoded = decodeDataUri(uri)
  const type = decoded && typeOf(decoded.bytes)
  if (!type) throw invalidImage(`${label} is not in a format that this model reads.`)
  if (!accepted.includes(type)) throw invalidImage(`${label} is ${type}; this model reads ${accepted.join(', ')}.`)
  const base64 = Buffer.from(decoded.bytes.buffer, decoded.bytes.byteOffset, decoded.bytes.byteLength).toString(
    'base64',
  )
  return { type, bytes: decoded.bytes, base64, uri: `data:${type};base64,${base64}` }
}

/** INVALID_IMAGE with a reason; also used for edits that a model does not support. */
export function invalidImage(reason: string): ApiError {
  return new ApiError('INVALID_IMAGE', { details: `${reason} Nothing was charged.` })
}
