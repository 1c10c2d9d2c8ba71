import { readPrompt } from './brief.ts'
import { fadingSky, firmamentOf } from './firmament.ts'
import { fitted, fused, keptOf, shownIn, type Size, type Spot } from './fit.ts'
import { grade, lookOf } from './grade.ts'
import { dice } from './ink.ts'
import { frontArt, labelAcross, labelIn, layer, scenery, skyArt, stageOver } from './overlay.ts'
import { EDIT_LABEL, encodePng, labelled, type Raster } from './png.ts'
import { drawnPixels } from './render.ts'
import type { Sketch } from './scene.ts'
import type { Sources } from './sources.ts'

export type Edit = Sketch & Sources

/**
 * Edits the sources as the words say, without knowing what they show: fuses, recolours, paints a sky, weather and subjects.
 * With a mask, what it keeps is the first source's, byte for byte. The same edit is the same PNG. Throws INVALID_IMAGE.
 */
export async function editOf({ prompt, width, height, variant, images, mask }: Edit): Promise<Uint8Array> {
  const size = { width, height }
  const [first] = images as [Sources['images'][number]]
  const seed = String(dice(`edit\u0000${prompt}\u0000${variant}`).next())
  const picture = images.length > 1 ? await fused(images, size, dice(`${seed}:panels`)) : await fitted(first, size)
  const shown = images.length > 1 ? { x: 0, y: 0, ...size } : shownIn(size, first)
  if (!mask) return await encoded(await painted(picture, { prompt, seed, shown, gentle: images.length > 1 }), prompt)
  const base = images.length > 1 ? await fitted(first, size) : { ...size, data: picture.data.slice() }
  const kept = await keptOf(mask, first, size)
  return await encoded(
    restored(await painted(picture, { prompt, seed, shown, gentle: false, kept }), base, kept),
    prompt,
  )
}

async function encoded(picture: Raster, prompt: string): Promise<Uint8Array> {
  return labelled(await encodePng(picture), EDIT_LABEL, prompt)
}

type Wish = { prompt: string; seed: string; shown: Spot; gentle: boolean; kept?: Uint8Array }

/** Paints over the picture in place; where something is kept, the stage is set over the area that is not. */
async function painted(picture: Raster, { prompt, seed, shown, gentle, kept }: Wish): Promise<Raster> {
  const whole = { x: 0, y: 0, width: picture.width, height: picture.height }
  const area = kept ? areaOf(kept, picture) : whole
  if (!area) return picture
  const brief = readPrompt(prompt, seed)
  const found = kept ? undefined : firmamentOf(picture, shown)
  const sky = found ?? (kept ? undefined : fadingSky(picture))
  const stage = () => stageOver(brief, area, { seed, horizon: sky?.horizon ?? 0.6 })
  const paint = (art: string) => drawnPixels(layer(whole, area, { stage: art }))

  grade(
    picture,
    lookOf(prompt, { brief, tones: stage().tones, gentle, chance: dice(`${seed}:look`) }),
    (pixel) => kept?.[pixel] !== 255,
  )
  const solid = solidOf(picture)
  if (solid) under(picture, await paint(scenery(stage())))
  if (kept && brief.said.has('place')) over(picture, await paint(`<g opacity="0.62">${scenery(stage())}</g>`))
  const above = skyArt(stage(), { found: found !== undefined, empty: kept !== undefined })
  const open =
    solid && sky ? solid.map((share, at) => (share * (sky.weights[at] as number)) / 255) : (sky?.weights ?? solid)
  if (above) over(picture, await paint(above), open)
  const label = kept ? labelIn(area, whole, (spot) => isFree(kept, picture, spot)) : labelAcross(whole)
  const front = {
    stage: frontArt(stage(), prompt, { seed, empty: kept !== undefined }),
    ...(label && { pixels: label }),
  }
  if (front.stage || label) over(picture, await drawnPixels(layer(whole, area, front)))
  return picture
}

/** The smallest area that holds everything which is not wholly kept; undefined where all is. */
function areaOf(kept: Uint8Array, { width, height }: Size): Spot | undefined {
  let [left, top, right, bottom] = [width, height, -1, -1]
  for (let at = 0; at < kept.length; at++) {
    if (kept[at] === 255) continue
    const x = at % width
    const y = (at - x) / width
    left = Math.min(left, x)
    right = Math.max(right, x)
    top = Math.min(top, y)
    bottom = y
  }
  return right < 0 ? undefined : { x: left, y: top, width: right - left + 1, height: bottom - top + 1 }
}

/** Whether everything in the spot may change. */
function isFree(kept: Uint8Array, { width }: Size, spot: Spot): boolean {
  const [right, bottom] = [Math.ceil(spot.x + spot.width), Math.ceil(spot.y + spot.height)]
  for (let y = spot.y; y < bottom; y++) {
    for (let x = spot.x; x < right; x++) if (kept[y * width + x] !== 0) return false
  }
  return true
}

/** The base where the mask keeps it, the picture where it does not, and their mixture between. */
function restored(picture: Raster, base: Raster, kept: Uint8Array): Raster {
  const { data } = picture
  for (let pixel = 0; pixel < kept.length; pixel++) {
    const share = (kept[pixel] as number) / 255
    if (share === 0) continue
    for (let at = pixel * 4; at < pixel * 4 + 4; at++)
      data[at] = Math.round((data[at] as number) * (1 - share) + (base.data[at] as number) * share)
  }
  return picture
}

/** The alpha of each pixel; undefined for an opaque picture. */
function solidOf({ data }: Raster): Uint8Array | undefined {
  const alpha = Uint8Array.from({ length: data.length / 4 }, (_, pixel) => data[pixel * 4 + 3] as number)
  return alpha.every((share) => share === 255) ? undefined : alpha
}

/** Lays premultiplied paint over an opaque picture, thinned by the weights. */
function over({ data }: Raster, paint: Uint8Array, weights?: Uint8Array): void {
  for (let at = 0; at < data.length; at += 4) {
    const alpha = paint[at + 3] as number
    if (alpha === 0) continue
    const share = weights ? (weights[at >> 2] as number) / 255 : 1
    const rest = 1 - (alpha / 255) * share
    for (let i = at; i < at + 3; i++)
      data[i] = Math.min(255, Math.round((data[i] as number) * rest + (paint[i] as number) * share))
  }
}

/** Lays the picture over opaque paint. */
function under({ data }: Raster, paint: Uint8Array): void {
  for (let at = 0; at < data.length; at += 4) {
    const share = (data[at + 3] as number) / 255
    if (share === 1) continue
    for (let i = at; i < at + 3; i++)
      data[i] = Math.round((data[i] as number) * share + (paint[i] as number) * (1 - share))
    data[at + 3] = 255
  }
}
