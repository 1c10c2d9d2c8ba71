/** What may be edited, judged by its header before a pixel is decoded. */
import { imageSize } from 'image-size'
import { decodeDataUri } from '../../../../core/http/request_body.ts'
import type { ImageEdit } from '../../../../core/mod.ts'
import { MAX_PIXELS, refused, type Source } from './fit.ts'

export type Sources = { readonly images: readonly Source[]; readonly mask?: Source }

const LARGEST_SIDE = 8192
const MAX_BYTES = 32 * 1024 * 1024
const MAX_IMAGES = 16

/** First bytes, as hexadecimal, of what can be decoded. */
const KINDS = { PNG: /^89504e470d0a1a0a/, JPEG: /^ffd8ff/, GIF: /^47494638/, WEBP: /^52494646.{8}57454250/ } as const

/** Decodes the data URIs of a job. Throws INVALID_IMAGE with what is accepted, naming the image that is not. */
export function sourcesOf({ images, mask }: ImageEdit): Sources {
  if (images.length < 1 || images.length > MAX_IMAGES)
    throw refused(`1 to ${MAX_IMAGES} images can be edited at a time, not ${images.length}.`)
  const named = (at: number) => (images.length > 1 ? `Image ${at + 1}` : 'The image')
  const sources = images.map((uri, at) => sourceOf(uri, named(at), ['PNG', 'JPEG', 'GIF', 'WEBP']))
  return { images: sources, ...(mask !== undefined && { mask: sourceOf(mask, 'The mask', ['PNG']) }) }
}

function sourceOf(uri: string, name: string, kinds: readonly (keyof typeof KINDS)[]): Source {
  const bytes = decodeDataUri(uri)?.bytes
  const start = Buffer.from(bytes?.subarray(0, 12) ?? []).toString('hex')
  if (!bytes || !kinds.some((kind) => KINDS[kind].test(start)))
    throw refused(`${name} is not a ${kinds.join(', ')} file. This model accepts no other.`)
  if (bytes.length > MAX_BYTES) throw refused(`${name} has more than ${MAX_BYTES} bytes.`)
  const { width, height } = sizeOf(bytes, name)
  const fits = width >= 1 && height >= 1 && Math.max(width, height) <= LARGEST_SIDE && width * height <= MAX_PIXELS
  if (!fits)
    throw refused(
      `${name} is ${width}x${height}; 1 to ${LARGEST_SIDE} pixels a side and ${MAX_PIXELS} pixels in all are accepted.`,
    )
  return { bytes, width, height }
}

/** The size as the image is looked at: a photo may lie on its side in the file. */
function sizeOf(bytes: Uint8Array, name: string): { width: number; height: number } {
  try {
    const { width, height, orientation } = imageSize(bytes)
    return (orientation ?? 1) > 4 ? { width: height, height: width } : { width, height }
  } catch {
    throw refused(`${name} does not say how large it is: its header is damaged.`)
  }
}
