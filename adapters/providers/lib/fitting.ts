/** Checks buyers' images by their header, and fits them into a size. Needs Bun. */
import { imageSize } from 'image-size'
import { ApiError } from '../../../core/mod.ts'
import { decodeDataUri } from '../../../core/lib/mod.ts'
import { pacer } from './pacer.ts'
import { decodePng, encodePng, type Raster } from './png.ts'

/** The bytes of an image, and its size as displayed. */
export type Source = Size & { readonly bytes: Uint8Array }
export type Size = { readonly width: number; readonly height: number }
type Placement = Size & { readonly x: number; readonly y: number }

const LARGEST_SIDE = 8192
/** The image size of the largest phones and cameras; decoding takes up to eight bytes of memory per pixel. */
const MAX_PIXELS = 50_000_000
const MAX_BYTES = 32 * 1024 * 1024
/** Pixels that are walked in one turn of the event loop: a few milliseconds' worth. */
const PIXELS_PER_TURN = 1 << 20
/** The largest fraction of an image to crop; beyond it, the image is shown whole over a blurred copy of itself. */
const CROP = 0.35

/** Signatures of the formats that can be decoded, in hex. */
const KINDS = { PNG: /^89504e470d0a1a0a/, JPEG: /^ffd8ff/, GIF: /^47494638/, WEBP: /^52494646.{8}57454250/ } as const
type Kind = keyof typeof KINDS

const invalid = (details: string): ApiError => new ApiError('INVALID_IMAGE', { details })

/** Parses a data URI. Throws INVALID_IMAGE with what is accepted; `name` starts the sentence, such as "The image". */
export function sourceOf(uri: string, name: string, kinds: readonly Kind[] = ['PNG', 'JPEG', 'GIF', 'WEBP']): Source {
  const bytes = decodeDataUri(uri)?.bytes
  const start = Buffer.from(bytes?.subarray(0, 12) ?? []).toString('hex')
  if (!bytes || !kinds.some((kind) => KINDS[kind].test(start))) {
    throw invalid(`${name} is not a ${kinds.join(', ')} file. This model accepts no other format.`)
  }
  if (bytes.length > MAX_BYTES) throw invalid(`${name} has ${bytes.length} bytes; at most ${MAX_BYTES} are accepted.`)
  const { width, height } = sizeOf(bytes, name)
  if (width < 1 || height < 1 || Math.max(width, height) > LARGEST_SIDE || width * height > MAX_PIXELS) {
    const limits = `1 to ${LARGEST_SIDE} pixels a side and ${MAX_PIXELS} pixels in all are accepted`
    throw invalid(`${name} is ${width}x${height}; ${limits}.`)
  }
  return { bytes, width, height }
}

/** The displayed size: a photo may be stored rotated. */
function sizeOf(bytes: Uint8Array, name: string): Size {
  try {
    const { width, height, orientation } = imageSize(bytes)
    return (orientation ?? 1) > 4 ? { width: height, height: width } : { width, height }
  } catch {
    throw invalid(`${name} has a damaged header: its size cannot be read.`)
  }
}

/** Fits the whole source into a box, never stretched. A source of exactly that size keeps its pixels unchanged. */
export async function fitted(source: Source, box: Size): Promise<Raster> {
  const placement = placementOf(source, box)
  const picture = await resized(source, placement, 'lanczos3')
  if (placement.width === box.width && placement.height === box.height) return picture
  const ground = placement.x > 0 || placement.y > 0 ? await blurred(source, box) : blank(box)
  await paste(picture, ground, placement)
  return ground
}

/**
 * The alpha of a mask, placed in the box as `fitted` places its source. 255 preserves a pixel, as outside the source.
 */
export async function maskAlpha(mask: Source, source: Size, box: Size): Promise<Uint8Array> {
  const alpha = blank(box)
  alpha.data.fill(255)
  const placement = placementOf(source, box)
  const shape = await resized(mask, placement, 'nearest')
  const [colorType = 6] = mask.bytes.subarray(25, 26)
  if ((colorType & 4) === 0 && (await isOpaque(shape))) {
    throw invalid('The mask has no alpha channel; its transparent pixels mark the area to edit.')
  }
  await paste(shape, alpha, placement)
  const turn = pacer(PIXELS_PER_TURN)
  const values = new Uint8Array(box.width * box.height)
  for (let at = 0; at < values.length; at++) {
    values[at] = alpha.data[at * 4 + 3] as number
    if (at % box.width === 0) await turn(box.width)
  }
  return values
}

async function isOpaque({ data, width }: Raster): Promise<boolean> {
  const turn = pacer(PIXELS_PER_TURN)
  for (let at = 3; at < data.length; at += 4) {
    if (data[at] !== 255) return false
    if (at % (width * 4) === 3) await turn(width)
  }
  return true
}

/** Position of the source relative to the box: beyond its edges if little is cropped, else inside. */
function placementOf(source: Size, box: Size): Placement {
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

/** Copies the part of an image that overlaps the background. */
export async function paste(picture: Raster, ground: Raster, { x, y }: Pick<Placement, 'x' | 'y'>): Promise<void> {
  const turn = pacer(PIXELS_PER_TURN)
  const left = Math.max(0, x)
  const right = Math.min(ground.width, x + picture.width)
  for (let row = Math.max(0, y); row < Math.min(ground.height, y + picture.height); row++) {
    const from = ((row - y) * picture.width + left - x) * 4
    ground.data.set(picture.data.subarray(from, from + (right - left) * 4), (row * ground.width + left) * 4)
    await turn(ground.width)
  }
}

async function blurred(source: Source, box: Size): Promise<Raster> {
  const small = await resized(source, { width: 12, height: 12 }, 'box')
  return await resized({ bytes: await encodePng(small), width: 12, height: 12 }, box, 'mitchell')
}

/**
 * Decodes to exactly the given size. `maxPixels` limits what the decoder itself finds, before it allocates, whatever
 * the header claimed. Throws INVALID_IMAGE for files that cannot be decoded.
 */
async function resized(source: Source, { width, height }: Size, filter: Bun.Image.Filter): Promise<Raster> {
  const image = new Bun.Image(source.bytes, { maxPixels: MAX_PIXELS })
  const scaled = width === source.width && height === source.height ? image : image.resize(width, height, { filter })
  try {
    const raster = await decodePng(await scaled.png({ compressionLevel: 0 }).bytes())
    if (raster.width === width && raster.height === height) return raster
    return await resized({ ...source, width: raster.width, height: raster.height }, { width, height }, filter)
  } catch (cause) {
    if (!String((cause as { code?: unknown }).code).startsWith('ERR_IMAGE_')) throw cause
    throw invalid('An image could not be decoded: the file is damaged, or its format is not supported by this model.')
  }
}
