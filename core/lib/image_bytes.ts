/** What an image really is, by its bytes and never by its name or declared type. */
import { imageSize } from 'image-size'
import { decodeDataUri } from './base64.ts'

export type Picture = { readonly type: string; readonly width: number; readonly height: number }

/** The formats of contract 5.36, by the library's name for them: of the ISO-BMFF family that is the file's own brand. */
const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  gif: 'image/gif',
  bmp: 'image/bmp',
  webp: 'image/webp',
  heic: 'image/heic',
  heix: 'image/heic',
  hevc: 'image/heic',
  hevx: 'image/heic',
  mif1: 'image/heif',
  msf1: 'image/heif',
  avif: 'image/avif',
}

/**
 * How each format begins, and how many of its bytes tell its size. The library sees no more and no other formats: it would read 64 MiB
 * of crafted JPEG for seconds and of HEIC for hours, before anybody has paid.
 */
const HEADS: readonly (readonly [RegExp, number])[] = [
  [/^(?:\x89PNG|GIF8|BM|RIFF....WEBP)/s, 64],
  [/^....ftyp/s, 32 << 10],
  [/^\xff\xd8\xff/, 1 << 20],
]

/** More segments than any camera or editor writes; the library takes its time over each. */
const MAX_SEGMENTS = 1_000

/** Whether a JPEG has more than that many segments before its frame. */
function isSplintered(head: Uint8Array): boolean {
  if (head[0] !== 0xff || head[1] !== 0xd8) return false
  let at = 2
  for (let count = 0; count <= MAX_SEGMENTS; count++) {
    if (head[at] !== 0xff) return false
    at += 2 + (((head[at + 2] ?? 0) << 8) | (head[at + 3] ?? 0))
  }
  return true
}

/** More sizes than any HEIC or AVIF tells of itself and its tiles; the library looks through all of them for each. */
const MAX_SIZES = 64

/** Whether a picture of the ISO-BMFF family tells more sizes than that. */
const isCrowded = (head: Uint8Array): boolean => latin1.decode(head).split('ispe').length - 1 > MAX_SIZES
const latin1 = new TextDecoder('latin1')

/** What a file begins like; cheap, and no proof that it is a picture. */
export function typeByMagic(bytes: Uint8Array): string | undefined {
  const start = String.fromCharCode(...bytes.subarray(0, 12))
  if (start.startsWith('\x89PNG')) return 'image/png'
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (start.startsWith('GIF8')) return 'image/gif'
  if (start.startsWith('BM')) return 'image/bmp'
  if (/^RIFF....WEBP/s.test(start)) return 'image/webp'
  return start.slice(4, 8) === 'ftyp' ? TYPES[start.slice(8, 12)] : undefined
}

/** Recognizes PNG, JPEG, GIF, BMP, WEBP and the ISO-BMFF family; undefined for anything else, however it is called. */
export function recognize(bytes: Uint8Array): Picture | undefined {
  const start = String.fromCharCode(...bytes.subarray(0, 12))
  const [, length] = HEADS.find(([begins]) => begins.test(start)) ?? []
  const head = bytes.subarray(0, length)
  if (length === undefined || isSplintered(head) || (start.startsWith('ftyp', 4) && isCrowded(head))) return undefined
  try {
    const { type = '', width, height } = imageSize(head)
    const known = TYPES[type]
    return known && width > 0 && height > 0 ? { type: known, width, height } : undefined
  } catch {
    return undefined
  }
}

/** The picture in a `data:image/…` URI, or why there is none, in words for the caller. */
export function pictureOf(uri: string): Picture | string {
  if (!/^data:image\//i.test(uri)) return 'must be a data URI that starts with data:image/'
  const decoded = decodeDataUri(uri)
  if (!decoded) return 'is not a well-formed base64 data URI'
  return (
    recognize(decoded.bytes) ??
    'does not decode to a recognizable image (PNG, JPEG, GIF, BMP, WEBP, HEIC, HEIF or AVIF)'
  )
}
