/** A prompt as a film without sound: a scene whose sun crosses the sky, over a caption that says what it is. */
import { setImmediate } from 'node:timers/promises'
import { fitted, type Size, type Source, sourceOf } from '../lib/fitting.ts'
import { encodePng, type Raster } from '../lib/png.ts'
import { box, caption, disc, labelOf, scene } from './drawing.ts'
import { type Area, frame, mp4Of } from './mp4.ts'

/** Pictures are data URIs; `unseen` says what was given and is not shown. */
export type FilmOrder = {
  readonly kind: 'film'
  readonly prompt: string
  readonly seconds: number
  readonly resolution: string
  readonly aspectRatio?: string | undefined
  readonly seed?: number | undefined
  readonly image?: string | undefined
  readonly lastFrame?: string | undefined
  readonly unseen: readonly string[]
  readonly returnLastFrame: boolean
}

const SHORT_SIDES: Readonly<Record<string, number>> = { '480p': 480, '720p': 720, '1080p': 1080, '4K': 2160 }
const WIDEST = 21 / 9
/** More is beyond the last level of H.264 that players know, once it is this long on one side. */
const MAX_SIDE = 3840
export const RATE = 8

/**
 * The size that is billed, in even numbers: the shorter side is the resolution's, unless the longer one comes to its
 * end first. `adaptive`, or no ratio, follows the picture that is given, else 16:9. Throws for a resolution or a ratio
 * that nobody sells.
 */
export function frameSize(order: Pick<FilmOrder, 'resolution' | 'aspectRatio'>, picture?: Size): Size {
  const short = SHORT_SIDES[order.resolution]
  if (!short) throw new Error(`the demo films in ${Object.keys(SHORT_SIDES).join(', ')}, not ${order.resolution}`)
  const ratio = Math.min(WIDEST, Math.max(1 / WIDEST, ratioOf(order.aspectRatio, picture)))
  const slim = Math.max(ratio, 1 / ratio)
  const [long, other] = [Math.min(MAX_SIDE, even(short * slim)), Math.min(short, even(MAX_SIDE / slim))]
  return ratio < 1 ? { width: other, height: long } : { width: long, height: other }
}

const even = (value: number): number => 2 * Math.round(value / 2)

function ratioOf(ratio: string | undefined, picture: Size | undefined): number {
  if (ratio === undefined || ratio === 'adaptive') return picture ? picture.width / picture.height : 16 / 9
  const [, width, height] = /^([1-9]\d?):([1-9]\d?)$/.exec(ratio) ?? []
  if (!width || !height) throw new Error(`the demo films in a ratio such as 16:9, not ${ratio}`)
  return Number(width) / Number(height)
}

/** A picture that was given as a data URI; undefined where there is none, or where it cannot be read here. */
function pictureOf(uri: string | undefined): Source | undefined {
  try {
    return uri === undefined ? undefined : sourceOf(uri, 'The image')
  } catch {
    return undefined
  }
}

/**
 * The film, and its last frame as PNG where that is asked for. The same order is the same film. `progress` hears
 * percents.
 */
export async function film(order: FilmOrder, progress: (percent: number) => void) {
  const [first, last] = [pictureOf(order.image), pictureOf(order.lastFrame)]
  const size = frameSize(order, first ?? last)
  const { picture: drawn, sun, shine } = scene(size, `${order.prompt}\0${order.seed ?? 0}`)
  const hidden = [
    ...(order.image && !first ? ['first frame'] : []),
    ...(order.lastFrame && !last ? ['last frame'] : []),
    ...order.unseen,
  ]
  const texts = [
    labelOf('film'),
    order.prompt.trim() || 'untitled',
    ...(hidden.length > 0 ? [`not shown: ${hidden.join(', ')}`] : []),
  ]
  const ending = last && (await fitted(last, size))
  const ground = first ? await fitted(first, size) : drawn
  for (const each of [ground, ...(ending ? [ending] : [])]) caption(each, texts, { x: 0, y: 0, ...size })

  const count = order.seconds * RATE
  const cut = ending ? Math.floor(count * 0.75) : count
  const current: Raster = { ...size, data: ground.data.slice() }
  const frames: Uint8Array[] = []
  const bar = Math.max(2, Math.round(Math.min(size.width, size.height) / 160))
  let before: Area | undefined
  for (let at = 0; at < count; at++) {
    const changed: Area[] = []
    if (at === cut && ending) {
      current.data.set(ending.data)
      changed.push({ left: 0, top: 0, right: size.width, bottom: size.height })
    } else if (!first && at < cut) {
      if (before) changed.push(restored(current, ground, before))
      before = shine && sunAt(current, { size, radius: sun.radius / 2, share: at / count, shine })
      changed.push(before)
    }
    const right = Math.round((size.width * (at + 1)) / count)
    box(current, { x: 0, y: size.height - bar, width: right, height: bar }, [211, 64, 47])
    changed.push({
      left: Math.floor((size.width * at) / count) - 1,
      top: size.height - bar,
      right,
      bottom: size.height,
    })
    frames.push(frame(current, at, at === 0 ? undefined : changed))
    progress(Math.min(99, Math.floor((100 * (at + 1)) / count)))
    await setImmediate()
  }
  const comment = `${labelOf('film')}: ${order.prompt.slice(0, 300).replace(/\p{Cc}/gu, ' ')}`
  const mp4 = mp4Of(frames, { ...size, rate: RATE, comment })
  return { mp4, ...(order.returnLastFrame && { lastFrame: await encodePng(current) }) }
}

type Sun = {
  readonly size: Size
  readonly radius: number
  readonly share: number
  readonly shine: readonly [number, number, number]
}

/** Draws the sun where it stands on its way, above the hills; what it covers. */
function sunAt(to: Raster, { size, radius, share, shine }: Sun): Area {
  const x = radius + (size.width - 2 * radius) * share
  const y = size.height * (0.3 - 0.2 * Math.sin(Math.PI * share))
  disc(to, { x, y, radius }, shine)
  const reach = radius + 2
  return {
    left: Math.floor(x - reach),
    top: Math.floor(y - reach),
    right: Math.ceil(x + reach),
    bottom: Math.ceil(y + reach),
  }
}

function restored(to: Raster, ground: Raster, area: Area): Area {
  const [left, right] = [Math.max(0, area.left), Math.min(to.width, area.right)]
  for (let row = Math.max(0, area.top); row < Math.min(to.height, area.bottom); row++) {
    const from = (row * to.width + left) * 4
    to.data.set(ground.data.subarray(from, from + (right - left) * 4), from)
  }
  return area
}
