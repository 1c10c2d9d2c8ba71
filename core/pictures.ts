/** What an image really is, by its bytes and never by its name or declared type. */
import { imageSize } from 'image-size'
import { decodeDataUri } from './intake.ts'

export type Picture = { readonly type: string; readonly width: number; readonly height: number }

/** The formats of spec 1, "Accepted image input", by the library's name for them. */
const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  gif: 'image/gif',
  bmp: 'image/bmp',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
  avif: 'image/avif',
}

/** Recognizes PNG, JPEG, GIF, BMP, WEBP and the ISO-BMFF family; undefined for anything else, however it is called. */
export function recognize(bytes: Uint8Array): Picture | undefined {
  try {
    const { type = '', width, height } = imageSize(bytes)
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
  return recognize(decoded.bytes) ?? 'does not decode to a recognizable image (PNG, JPEG, GIF, BMP, WEBP, HEIC, HEIF or AVIF)'
}
