/** Makes a silent film: a still picture for the ordered time, as MP4. */
import type { VideoJob } from '../../../core/mod.ts'
import { fitted, type Size, type Source, sourceOf } from '../../../adapters/providers/lib/fitting.ts'
import { encodePng } from '../../../adapters/providers/lib/png.ts'
import { gradient, labelled } from './drawing.ts'
import { FRAMES_PER_SECOND, mp4Of } from './mp4.ts'

const SHORT_SIDES: Readonly<Record<string, number>> = { '480p': 480, '720p': 720, '1080p': 1080, '4K': 2160 }
const WIDEST = 21 / 9
/** A longer side is beyond the last level of H.264 that players support. */
const MAX_SIDE = 3840

/**
 * The billed size, in even numbers: the shorter side is the resolution's, unless the longer side reaches its limit
 * first. Without a ratio, or with `adaptive`, it follows the given picture, else 16:9. Throws for anything not sold.
 */
export function frameSize(order: Pick<VideoJob, 'resolution' | 'aspectRatio'>, picture?: Size): Size {
  const short = SHORT_SIDES[order.resolution]
  if (!short) throw new Error(`the demo films in ${Object.keys(SHORT_SIDES).join(', ')}, not ${order.resolution}`)
  const ratio = Math.min(WIDEST, Math.max(1 / WIDEST, ratioOf(order.aspectRatio, picture)))
  const slim = Math.max(ratio, 1 / ratio)
  const [long, other] = [Math.min(MAX_SIDE, even(short * slim)), Math.min(short, even(MAX_SIDE / slim))]
  return ratio < 1 ? { width: other, height: long } : { width: long, height: other }
}

const even = (value: number): number => 2 * Math.round(value / 2)

function ratioOf(ordered: string | undefined, picture: Size | undefined): number {
  if (ordered === undefined || ordered === 'adaptive') return picture ? picture.width / picture.height : 16 / 9
  const [, width, height] = /^([1-9]\d?):([1-9]\d?)$/.exec(ordered) ?? []
  if (!width || !height) throw new Error(`the demo films in a ratio such as 16:9, not ${ordered}`)
  return Number(width) / Number(height)
}

/** Undefined when there is no picture, or when it cannot be decoded here. */
function pictureOf(uri: string | undefined): Source | undefined {
  try {
    return uri === undefined ? undefined : sourceOf(uri, 'The image')
  } catch {
    return undefined
  }
}

/** Shows pictures that are data URIs, without following links. The last quarter shows the given last frame. */
export async function film(order: VideoJob) {
  const [first, last] = [pictureOf(order.image), pictureOf(order.lastFrame)]
  const size = frameSize(order, first ?? last)
  const drawn = first ? labelled(await fitted(first, size)) : gradient(size, `${order.prompt}\0${order.seed ?? 0}`)
  const opening = await drawn
  const ending = last && (await labelled(await fitted(last, size)))
  const count = order.seconds * FRAMES_PER_SECOND
  const openingCount = ending ? Math.floor(count * 0.75) : count
  const scenes = [
    { picture: opening, frames: openingCount },
    ...(ending ? [{ picture: ending, frames: count - openingCount }] : []),
  ]
  return {
    mp4: await mp4Of(scenes),
    ...(order.returnLastFrame && { lastFrame: await encodePng(ending ?? opening) }),
  }
}
