/** Draws pictures: a colour gradient derived from the prompt, with a printed demo label. */
import { pacer } from '../../../adapters/providers/lib/pacer.ts'
import { blank, fitted, maskAlpha, paste, type Size, type Source } from '../../../adapters/providers/lib/fitting.ts'
import { described, encodePng, type Raster } from '../../../adapters/providers/lib/png.ts'

export const labelOf = (what: string): string => `Demo ${what} by Farebox - not a model`

type PictureOrder = Size & { readonly prompt: string; readonly variant: number }
export type EditOrder = PictureOrder & { readonly images: readonly Source[]; readonly mask?: Source }

/** Two RGB colours derived from a text. */
function colorsOf(text: string): readonly [readonly number[], readonly number[]] {
  const hash = Bun.hash(text)
  const bytes = [0, 8, 16, 24, 32, 40].map((shift) => Number((BigInt(hash) >> BigInt(shift)) & 0xffn))
  return [bytes.slice(0, 3), bytes.slice(3)]
}

const mix = (a: number, b: number, share: number): number => Math.round(a * (1 - share) + b * share)

/** A vertical gradient between two colours derived from the text, with the label. */
export async function gradient(size: Size, text: string): Promise<Raster> {
  const [top, bottom] = colorsOf(text)
  const [raster, turn] = [blank(size), pacer()]
  for (let y = 0; y < size.height; y++) {
    await turn(size.width / 4)
    const color = [...top.map((value, i) => mix(value, bottom[i] as number, y / size.height)), 255]
    raster.data.set(Buffer.alloc(size.width * 4, Uint8Array.from(color)), y * size.width * 4)
  }
  return labelled(raster)
}

const LABEL = [
  '###..#..##..###.##..###.#.#...##..###.#...#.###',
  '#...#.#.#.#.#...#.#.#.#.#.#...#.#.#...##.##.#.#',
  '##..###.##..##..##..#.#..#....#.#.##..#.#.#.#.#',
  '#...#.#.#.#.#...#.#.#.#.#.#...#.#.#...#...#.#.#',
  '#...#.#.#.#.###.##..###.#.#...##..###.#...#.###',
]
const PAPER = [246, 237, 218, 255]
const INK = [59, 51, 80, 255]

/** Prints FAREBOX DEMO on a band at the foot, in place. Returns the same raster. */
export async function labelled(raster: Raster): Promise<Raster> {
  const [{ width, height, data }, turn] = [raster, pacer()]
  const dot = Math.max(1, Math.floor(Math.min(width, height) / 150))
  for (let y = Math.max(0, height - 9 * dot); y < height; y++) {
    const row = LABEL[Math.floor((y - height) / dot) + 7]
    await turn(width)
    for (let x = 0; x < width; x++) data.set(row?.[Math.floor(x / dot) - 2] === '#' ? INK : PAPER, (y * width + x) * 4)
  }
  return raster
}

async function pngOf(raster: Raster, what: string, prompt: string): Promise<Uint8Array> {
  return described(await encodePng(raster), { Software: 'Farebox demo', Description: labelOf(what), Title: prompt })
}

/** A PNG of exactly the size. Equal orders make equal files. */
export async function picture({ prompt, width, height, variant }: PictureOrder): Promise<Uint8Array> {
  return await pngOf(await gradient({ width, height }, `${prompt}\0${variant}`), 'picture', prompt)
}

/**
 * The sources side by side, tinted. What a mask preserves is the first source's byte for byte. Throws INVALID_IMAGE for
 * files that cannot be decoded.
 */
export async function editedPicture({ prompt, width, height, variant, images, mask }: EditOrder): Promise<Uint8Array> {
  const [first] = images as readonly [Source]
  const base = await fitted(first, { width, height })
  const [raster, turn] = [{ width, height, data: base.data.slice() }, pacer()]
  for (const [index, image] of images.length > 1 ? images.entries() : []) {
    const [x, end] = [index, index + 1].map((each) => Math.floor((width * each) / images.length)) as [number, number]
    await paste(await fitted(image, { width: end - x, height }), raster, { x, y: 0 })
  }
  const [tint] = colorsOf(`${prompt}\0${variant}`)
  for (let at = 0; at < raster.data.length; at += 4) {
    if (at % 4_096 === 0) await turn(1_024)
    const share = Math.max(0.3, 1 - (raster.data[at + 3] as number) / 255)
    for (let i = 0; i < 3; i++) raster.data[at + i] = mix(raster.data[at + i] as number, tint[i] as number, share)
    raster.data[at + 3] = 255
  }
  await labelled(raster)
  const preserved = mask && (await maskAlpha(mask, first, base))
  for (let at = 0; preserved && at < raster.data.length; at++) {
    if (at % 4_096 === 0) await turn(1_024)
    raster.data[at] = mix(raster.data[at] as number, base.data[at] as number, (preserved[at >> 2] as number) / 255)
  }
  return await pngOf(raster, 'edit', prompt)
}
