/** Pictures that buyers send: what is accepted, judged by the header, and how one is fitted into a box. Needs Bun. */
import { imageSize } from 'image-size'
import { ApiError } from '../../../core/http/errors.ts'
import { decodeDataUri } from '../../../core/lib/base64.ts'
import { decodePng, encodePng, type Raster } from './png.ts'

/** The bytes of a picture, and its size as it is looked at. */
export type Source = Size & { readonly bytes: Uint8Array }
export type Size = { readonly width: number; readonly height: number }
type Spot = Size & { readonly x: number; readonly y: number }

const LARGEST_SIDE = 8192
/** A picture of the largest phones and cameras; decoding takes up to eight bytes of memory a pixel. */
const MAX_PIXELS = 50_000_000
const MAX_BYTES = 32 * 1024 * 1024
/** How much of a source may be cut off before it is shown whole, over a blurred copy of itself. */
const CROP = 0.35

/** First bytes, as hexadecimal, of what can be decoded. */
const KINDS = { PNG: /^89504e470d0a1a0a/, JPEG: /^ffd8ff/, GIF: /^47494638/, WEBP: /^52494646.{8}57454250/ } as const
export type Kind = keyof typeof KINDS

const refused = (details: string): ApiError => new ApiError('INVALID_IMAGE', { details })

/** Reads a data URI. Throws INVALID_IMAGE with what is accepted; `name` begins the sentence, such as "The image". */
export function sourceOf(uri: string, name: string, kinds: readonly Kind[] = ['PNG', 'JPEG', 'GIF', 'WEBP']): Source {
  const bytes = decodeDataUri(uri)?.bytes
  const start = Buffer.from(bytes?.subarray(0, 12) ?? []).toString('hex')
  if (!bytes || !kinds.some((kind) => KINDS[kind].test(start))) {
    throw refused(`${name} is not a ${kinds.join(', ')} file. This model accepts no other.`)
  }
  if (bytes.length > MAX_BYTES) throw refused(`${name} has more than ${MAX_BYTES} bytes.`)
  const { width, height } = sizeOf(bytes, name)
  if (width < 1 || height < 1 || Math.max(width, height) > LARGEST_SIDE || width * height > MAX_PIXELS) {
    const limits = `1 to ${LARGEST_SIDE} pixels a side and ${MAX_PIXELS} pixels in all are accepted`
    throw refused(`${name} is ${width}x${height}; ${limits}.`)
  }
  return { bytes, width, height }
}

/** The size as the image is looked at: a photo may lie on its side in the file. */
function sizeOf(bytes: Uint8Array, name: string): Size {
  try {
    const { width, height, orientation } = imageSize(bytes)
    return (orientation ?? 1) > 4 ? { width: height, height: width } : { width, height }
  } catch {
    throw refused(`${name} does not say how large it is: its header is damaged.`)
  }
}

/** The whole source in a box, never stretched. A source of exactly that size keeps every byte of its pixels. */
export async function fitted(source: Source, box: Size): Promise<Raster> {
  const spot = spotOf(source, box)
  const picture = await resized(source, spot, 'lanczos3')
  if (spot.width === box.width && spot.height === box.height) return picture
  const ground = spot.x > 0 || spot.y > 0 ? await blurred(source, box) : blank(box)
  paste(picture, ground, spot)
  return ground
}

/** The alpha of a mask, laid over the box as `fitted` lays its source: 255 keeps a pixel, as does all that is not the source's. */
export async function keptOf(mask: Source, source: Size, box: Size): Promise<Uint8Array> {
  const kept = blank(box)
  kept.data.fill(255)
  const spot = spotOf(source, box)
  const shape = await resized(mask, spot, 'nearest')
  const [colorType = 6] = mask.bytes.subarray(25, 26)
  if ((colorType & 4) === 0 && shape.data.every((value, at) => at % 4 !== 3 || value === 255)) {
    throw refused('The mask has no alpha channel; its transparent pixels are what may change.')
  }
  paste(shape, kept, spot)
  return Uint8Array.from({ length: box.width * box.height }, (_, at) => kept.data[at * 4 + 3] as number)
}

/** Where the whole source lies relative to the box: beyond its edges where little would be cut off, else inside them. */
function spotOf(source: Size, box: Size): Spot {
  const [sx, sy] = [box.width / source.width, box.height / source.height]
  const covers = 1 - Math.min(sx, sy) / Math.max(sx, sy) <= CROP
  const scale = covers ? Math.max(sx, sy) : Math.min(sx, sy)
  const [width, height] = [
    Math.max(1, Math.round(source.width * scale)),
    Math.max(1, Math.round(source.height * scale)),
  ]
  return { width, height, x: Math.trunc((box.width - width) / 2), y: Math.trunc((box.height - height) / 2) }
}

export function blank({ width, height }: Size): Raster {
  return { width, height, data: new Uint8Array(width * height * 4) }
}

/** Copies the part of a picture that falls into the ground. */
export function paste(picture: Raster, ground: Raster, { x, y }: Pick<Spot, 'x' | 'y'>): void {
  const left = Math.max(0, x)
  const right = Math.min(ground.width, x + picture.width)
  for (let row = Math.max(0, y); row < Math.min(ground.height, y + picture.height); row++) {
    const from = ((row - y) * picture.width + left - x) * 4
    ground.data.set(picture.data.subarray(from, from + (right - left) * 4), (row * ground.width + left) * 4)
  }
}

async function blurred(source: Source, box: Size): Promise<Raster> {
  const small = await resized(source, { width: 12, height: 12 }, 'box')
  return await resized({ bytes: await encodePng(small), width: 12, height: 12 }, box, 'mitchell')
}

/**
 * Decodes to exactly that size, whatever the header promised: `maxPixels` holds for what the decoder itself reads, before it takes memory.
 * Throws INVALID_IMAGE for what cannot be decoded.
 */
async function resized(source: Source, { width, height }: Size, filter: Bun.Image.Filter): Promise<Raster> {
  const image = new Bun.Image(source.bytes, { maxPixels: MAX_PIXELS })
  const scaled = width === source.width && height === source.height ? image : image.resize(width, height, { filter })
  try {
    const raster = decodePng(await scaled.png({ compressionLevel: 0 }).bytes())
    if (raster.width === width && raster.height === height) return raster
    return await resized({ ...source, width: raster.width, height: raster.height }, { width, height }, filter)
  } catch (cause) {
    if (!String((cause as { code?: unknown }).code).startsWith('ERR_IMAGE_')) throw cause
    throw refused('An image could not be decoded: the file is damaged, or of a kind that this model does not read.')
  }
}
