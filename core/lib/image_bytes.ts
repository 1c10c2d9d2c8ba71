/** Recognizes images by their bytes, never by name or declared type (decision 35). */
import { imageSize } from 'image-size'
import { decodeDataUri } from './base64.ts'

type Picture = { readonly type: string; readonly width: number; readonly height: number }

/** The formats of contract 5.36, by the library's name for them. */
const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  gif: 'image/gif',
  bmp: 'image/bmp',
  webp: 'image/webp',
}

/** ISO-BMFF brands that name a codec, and those that name only the container. */
const CODEC_BRANDS: Readonly<Record<string, string>> = {
  heic: 'image/heic',
  heix: 'image/heic',
  heim: 'image/heic',
  heis: 'image/heic',
  hevc: 'image/heic',
  hevx: 'image/heic',
  hevm: 'image/heic',
  hevs: 'image/heic',
  avif: 'image/avif',
  avis: 'image/avif',
}
const CONTAINER_BRANDS = new Set(['mif1', 'mif2', 'msf1'])
/** The brand under which the library reads every ISO-BMFF file. */
const READ_AS = 'mif1'
/** More brands than any encoder lists. */
const MAX_BRANDS = 64

/** The type of an ISO-BMFF picture, from its major brand and then its compatible brands (contract 5.50). */
function typeByBrand(bytes: Uint8Array): string | undefined {
  if (latin1.decode(bytes.subarray(4, 8)) !== 'ftyp') return undefined
  const size = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(0)
  const end = Math.min(size, bytes.length, 16 + 4 * MAX_BRANDS)
  const brands = [latin1.decode(bytes.subarray(8, 12))]
  for (let at = 16; at + 4 <= end; at += 4) brands.push(latin1.decode(bytes.subarray(at, at + 4)))
  const named = brands.flatMap((brand) => CODEC_BRANDS[brand] ?? [])
  return named[0] ?? (brands.some((brand) => CONTAINER_BRANDS.has(brand)) ? 'image/heif' : undefined)
}

/**
 * Signature of each format, and the number of bytes that contain its size. The library gets only these bytes and
 * formats: it would read 64 MiB of crafted JPEG for seconds and of HEIC for hours, before anybody has paid.
 */
const HEADS: readonly (readonly [RegExp, number])[] = [
  [/^(?:\x89PNG|GIF8|BM|RIFF....WEBP)/s, 64],
  [/^....ftyp/s, 32 << 10],
  [/^\xff\xd8\xff/, 1 << 20],
]

/** More segments than any camera or editor writes; the library is slow for each. */
const MAX_SEGMENTS = 1_000

/** Whether a JPEG has more segments than that before its frame. */
function isSplintered(head: Uint8Array): boolean {
  if (head[0] !== 0xff || head[1] !== 0xd8) return false
  let at = 2
  for (let count = 0; count <= MAX_SEGMENTS; count++) {
    if (head[at] !== 0xff) return false
    at += 2 + (((head[at + 2] ?? 0) << 8) | (head[at + 3] ?? 0))
  }
  return true
}

/** More size boxes than any HEIC or AVIF has for itself and its tiles; the library scans all of them for each. */
const MAX_SIZES = 64

/** Whether an ISO-BMFF picture has more size boxes than that. */
const isCrowded = (head: Uint8Array): boolean => latin1.decode(head).split('ispe').length - 1 > MAX_SIZES
const latin1 = new TextDecoder('latin1')

/** The type that the first bytes suggest. Cheap, and no proof that the file is a picture. */
export function typeByMagic(bytes: Uint8Array): string | undefined {
  const start = String.fromCharCode(...bytes.subarray(0, 12))
  if (start.startsWith('\x89PNG')) return 'image/png'
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (start.startsWith('GIF8')) return 'image/gif'
  if (start.startsWith('BM')) return 'image/bmp'
  if (/^RIFF....WEBP/s.test(start)) return 'image/webp'
  return typeByBrand(bytes)
}

/** Recognizes PNG, JPEG, GIF, BMP, WEBP and the ISO-BMFF family; undefined for anything else. */
export function recognize(bytes: Uint8Array): Picture | undefined {
  const start = String.fromCharCode(...bytes.subarray(0, 12))
  const [, length] = HEADS.find(([begins]) => begins.test(start)) ?? []
  const head = bytes.subarray(0, length)
  if (length === undefined || isSplintered(head)) return undefined
  const branded = typeByBrand(head)
  if (start.startsWith('ftyp', 4) && (!branded || isCrowded(head))) return undefined
  try {
    const { type = '', width, height } = imageSize(branded ? readable(head) : head)
    const known = branded ?? TYPES[type]
    return known && width > 0 && height > 0 ? { type: known, width, height } : undefined
  } catch {
    return undefined
  }
}

/**
 * The same file with the one brand that stands for all of them, because the library knows few and reads only the major
 * one.
 */
function readable(head: Uint8Array): Uint8Array {
  const copy = head.slice()
  copy.set(new TextEncoder().encode(READ_AS), 8)
  return copy
}

/** The picture in a `data:image/…` URI, or the reason why there is none, for the caller. */
export function pictureOf(uri: string): Picture | string {
  if (!/^data:image\//i.test(uri)) return 'must be a data URI that starts with data:image/'
  const decoded = decodeDataUri(uri)
  if (!decoded) return 'is not a well-formed base64 data URI'
  return (
    recognize(decoded.bytes) ??
    'does not decode to a recognizable image (PNG, JPEG, GIF, BMP, WEBP, HEIC, HEIF or AVIF)'
  )
}
