/** What a film will be, before anything is drawn: its size, its frames, and which picture is seen when. */
import type { Size } from './fit.ts'

/** What the drawing process is told of a job; pictures are data URIs. */
export type FilmJob = {
  readonly prompt: string
  readonly seconds: number
  readonly resolution: string
  readonly aspectRatio?: string
  readonly seed?: number
  readonly image?: string
  readonly lastFrame?: string
  /** What was given and is not shown, for the label. */
  readonly unseen?: string
  readonly returnLastFrame?: boolean
}

const SHORT_SIDES: Readonly<Record<string, number>> = { '480p': 480, '720p': 720, '1080p': 1080, '4K': 2160 }
/** The widest and the tallest that is drawn, as width to height. */
const WIDEST = 21 / 9
/** More is beyond the last level of H.264 that players know, once it is this long on one side. */
const MAX_SIDE = 3840
/** Frames a second; one where a frame has more pixels than 1080p has in any ratio, for those take a third of a second each. */
const FRAMES = 4
const LARGE = 2520 * 1080

/**
 * The size that is billed, in even numbers: the shorter side is the resolution's, unless the longer one comes to its end first. `adaptive`,
 * or no ratio, follows the picture that is given, else 16:9. Throws for a resolution or a ratio that nobody sells.
 */
export function frameSize(
  { resolution, aspectRatio }: Pick<FilmJob, 'resolution' | 'aspectRatio'>,
  picture?: Size,
): Size {
  const short = SHORT_SIDES[resolution]
  if (!short) throw new Error(`sketch films in ${Object.keys(SHORT_SIDES).join(', ')}, not ${resolution}`)
  const ratio = Math.min(WIDEST, Math.max(1 / WIDEST, ratioOf(aspectRatio, picture)))
  const slim = Math.max(ratio, 1 / ratio)
  const long = Math.min(MAX_SIDE, even(short * slim))
  const other = Math.min(short, even(MAX_SIDE / slim))
  return ratio < 1 ? { width: other, height: long } : { width: long, height: other }
}

/** To the nearest even number: colour is stored for squares of four pixels. */
export function even(value: number): number {
  return 2 * Math.round(value / 2)
}

function ratioOf(said: string | undefined, picture: Size | undefined): number {
  if (said === undefined || said === 'adaptive') return picture ? picture.width / picture.height : 16 / 9
  const [, width, height] = /^([1-9]\d?):([1-9]\d?)$/.exec(said) ?? []
  if (!width || !height) throw new Error(`sketch films in a ratio such as 16:9, not ${said}`)
  return Number(width) / Number(height)
}

export type Plan = Size & { readonly frames: number; readonly rate: number; readonly scenes: number }

/** A film of whole seconds: a scene for about every four, and never fewer than two. */
export function planOf(job: FilmJob, picture?: Size): Plan {
  const size = frameSize(job, picture)
  const rate = size.width * size.height > LARGE ? 1 : FRAMES
  const frames = job.seconds * rate
  return { ...size, rate, frames, scenes: Math.min(frames, Math.max(2, Math.min(4, Math.round(job.seconds / 4)))) }
}

/** Which scene a frame shows, how far its pan has come, and how much of the next one is mixed in; shares from 0 to 1. */
export function momentOf(
  { frames, rate, scenes }: Plan,
  frame: number,
): { scene: number; mixed: number; pan(scene: number): number } {
  const span = frames / scenes
  const fade = Math.min(rate, span / 2)
  const scene = Math.min(scenes - 1, Math.floor(frame / span))
  const left = (scene + 1) * span - frame
  const mixed = scene === scenes - 1 || left > fade ? 0 : 1 - left / (fade + 1)
  return { scene, mixed, pan: (of) => Math.min(1, Math.max(0, (frame - of * span + fade) / (span + fade))) }
}
