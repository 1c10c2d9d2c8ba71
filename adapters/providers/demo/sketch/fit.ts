/** Sources as pixels of a given size: fitted into a box, and several of them fused into one picture. */
import { ApiError } from '../../../../core/http/errors.ts'
import type { Dice } from './ink.ts'
import { decodePng, encodePng, type Raster } from './png.ts'

/** An image to edit: its bytes, and its size as it is looked at. */
export type Source = { readonly bytes: Uint8Array; readonly width: number; readonly height: number }
export type Size = { readonly width: number; readonly height: number }
export type Spot = Size & { readonly x: number; readonly y: number }

/** A picture of the largest phones and cameras; decoding takes up to eight bytes of memory a pixel. */
export const MAX_PIXELS = 50_000_000
/** How much of a source may be cut off before it is shown whole, over a blurred copy of itself. */
const CROP = 0.35
const CROP_IN_PANEL = 0.6

export function refused(details: string): ApiError {
  return new ApiError('INVALID_IMAGE', { details })
}

/** The whole source in a box. A source of exactly that size keeps every byte of its pixels. */
export async function fitted(source: Source, box: Size, crop = CROP): Promise<Raster> {
  const spot = spotOf(source, box, crop)
  const picture = await resized(source, spot, 'lanczos3')
  if (spot.width === box.width && spot.height === box.height) return picture
  const ground = spot.x > 0 || spot.y > 0 ? await blurred(source, box) : blank(box)
  paste(picture, ground, spot)
  return ground
}

/** Where in the box the source shows itself, its blurred copy aside. */
export function shownIn(box: Size, source: Source): Spot {
  const { x, y, width, height } = spotOf(source, box, CROP)
  return {
    x: Math.max(0, x),
    y: Math.max(0, y),
    width: Math.min(width, box.width),
    height: Math.min(height, box.height),
  }
}

/** The alpha of a mask, laid over the box as `fitted` lays its source: 255 keeps a pixel, as does all that is not the source's. */
export async function keptOf(mask: Source, source: Source, box: Size): Promise<Uint8Array> {
  const spot = spotOf(source, box, CROP)
  const kept = blank(box)
  kept.data.fill(255)
  const shape = await resized(mask, spot, 'nearest')
  paste(shape, kept, spot)
  const alpha = Uint8Array.from({ length: box.width * box.height }, (_, at) => kept.data[at * 4 + 3] as number)
  const [colorType = 6] = mask.bytes.subarray(25, 26)
  if ((colorType & 4) === 0 && shape.data.every((value, at) => at % 4 !== 3 || value === 255)) {
    throw refused('The mask has no alpha channel; its transparent pixels are what may change.')
  }
  return alpha
}

/** Sources side by side, each in a panel that melts into its neighbours along slanted seams. */
export async function fused(sources: readonly Source[], box: Size, chance: Dice): Promise<Raster> {
  const rows = rowsOf(sources.length, box)
  const soft = Math.min(box.width, box.height) * 0.09
  const slant = (chance.chance(0.5) ? 1 : -1) * chance.between(0.1, 0.22)
  const sum = blank(box)
  const mixed = new Uint8ClampedArray(sum.data.buffer)
  let next = 0
  for (const [row, columns] of rows.entries()) {
    const down = {
      from: (row * box.height) / rows.length,
      to: ((row + 1) * box.height) / rows.length,
      soft,
      slant: slant / 2,
      of: box.height,
    }
    for (let column = 0; column < columns; column++) {
      const across = {
        from: (column * box.width) / columns,
        to: ((column + 1) * box.width) / columns,
        soft,
        slant,
        of: box.width,
      }
      const spot = panelSpot(across, down, box)
      const panel = await fitted(sources[next++] as Source, spot, CROP_IN_PANEL)
      for (let y = 0; y < spot.height; y++) {
        for (let x = 0; x < spot.width; x++) {
          const [px, py] = [spot.x + x, spot.y + y]
          const share = within(across, px, py - box.height / 2) * within(down, py, px - box.width / 2)
          if (share === 0) continue
          const [from, to] = [(y * spot.width + x) * 4, (py * box.width + px) * 4]
          for (let i = 0; i < 4; i++)
            mixed[to + i] = (mixed[to + i] as number) + (panel.data[from + i] as number) * share
        }
      }
    }
  }
  return sum
}

/** How many panels in each row: one row of two or three, or a column of them in a tall picture, else about square. */
function rowsOf(count: number, box: Size): readonly number[] {
  if (count <= 3) return box.height > box.width ? Array.from({ length: count }, () => 1) : [count]
  const rows = Math.round(Math.sqrt(count))
  return Array.from(
    { length: rows },
    (_, row) => Math.floor((count * (row + 1)) / rows) - Math.floor((count * row) / rows),
  )
}

/** One panel along one axis: its ends, half the width of a seam, and how far the seam leans per pixel across. */
type Band = { from: number; to: number; soft: number; slant: number; of: number }

/** 0 outside a band, 1 inside, and the shares of neighbours add up to 1 on the way. The outer ends are open. */
function within({ from, to, soft, slant, of }: Band, along: number, across: number): number {
  const at = along + slant * across
  const enters = from <= 0 ? 1 : smooth((at - from + soft) / (2 * soft))
  const leaves = to >= of ? 1 : 1 - smooth((at - to + soft) / (2 * soft))
  return Math.min(enters, leaves)
}

function smooth(share: number): number {
  const t = Math.min(1, Math.max(0, share))
  return t * t * (3 - 2 * t)
}

function panelSpot(across: Band, down: Band, box: Size): Spot {
  const reach = (band: Band, other: number) => band.soft + (Math.abs(band.slant) * other) / 2
  const ends = (band: Band, other: number) =>
    [
      Math.max(0, Math.floor(band.from - reach(band, other))),
      Math.min(band.of, Math.ceil(band.to + reach(band, other))),
    ] as const
  const [left, right] = ends(across, box.height)
  const [top, bottom] = ends(down, box.width)
  return { x: left, y: top, width: right - left, height: bottom - top }
}

/** Where the whole source lies relative to the box: beyond its edges where little would be cut off, else inside them. */
function spotOf(source: Size, box: Size, crop: number): Spot {
  const [sx, sy] = [box.width / source.width, box.height / source.height]
  const covers = 1 - Math.min(sx, sy) / Math.max(sx, sy) <= crop
  const scale = covers ? Math.max(sx, sy) : Math.min(sx, sy)
  const [width, height] = [
    Math.max(1, Math.round(source.width * scale)),
    Math.max(1, Math.round(source.height * scale)),
  ]
  return { width, height, x: Math.trunc((box.width - width) / 2), y: Math.trunc((box.height - height) / 2) }
}

function blank({ width, height }: Size): Raster {
  return { width, height, data: new Uint8Array(width * height * 4) }
}

/** Copies the part of a picture that falls into the ground. */
function paste(picture: Raster, ground: Raster, { x, y }: Spot): void {
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
 * Throws INVALID_IMAGE for what cannot be decoded. Needs Bun.
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
