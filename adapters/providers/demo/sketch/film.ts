/** A prompt as a film: a few scenes of the illustrator, panned and faded into each other, over a band that says what it is. */
import { setImmediate } from 'node:timers/promises'
import type { H264MP4Encoder } from 'h264-mp4-encoder'
import { readPrompt } from './brief.ts'
import { even, momentOf, planOf, type FilmJob, type Plan } from './film_plan.ts'
import { fitted as fittedInto, type Size, type Source } from './fit.ts'
import { box, dice, mix } from './ink.ts'
import { fitted, legible, lengthOf, lettering } from './letters.ts'
import { finished } from './mp4.ts'
import { layer, stageOver } from './overlay.ts'
import { encodePng, type Raster } from './png.ts'
import { drawnPixels } from './render.ts'
import { backdrop, cast } from './scene.ts'
import { sourcesOf } from './sources.ts'

/** Said in every frame, and in the file's comment. */
export const FILM_LABEL = 'Procedural sketch, no model'

const PAPER = '#f6edda'
const INK = '#3b3350'
const BAR = [211, 64, 47, 255] as const
/** How much larger than its window a scene is drawn, to pan over it. */
const ROOM = 1.12
/** The encoder's scale from 10 (best) to 51. */
const QUANTIZER = 28

/** One scene, and where its window lies at the start and at the end of its pan. */
type Scene = {
  readonly picture: Raster
  readonly from: readonly [number, number]
  readonly to: readonly [number, number]
}

/**
 * The film as MP4, and its last frame as PNG where that is asked for. The same job is the same film. `progress` hears percents.
 * Gives way to other work between scenes and between frames.
 */
export async function filmOf(
  job: FilmJob,
  { encoder, progress }: { encoder: H264MP4Encoder; progress(percent: number): void },
): Promise<{ mp4: Uint8Array; lastFrame?: Uint8Array }> {
  const [first, last] = [pictureOf(job.image), pictureOf(job.lastFrame)]
  const plan = planOf(job, first ?? last)
  const hidden = [
    job.image && !first ? 'first frame not shown' : '',
    job.lastFrame && !last ? 'last frame not shown' : '',
    job.unseen ?? '',
  ]
  const band = await bandOf(job, plan, hidden.filter(Boolean).join(', '))
  const window = { width: plan.width, height: plan.height - band.height }
  const scenes: Scene[] = []
  for (let at = 0; at < plan.scenes; at++) {
    scenes.push((await given(first, last, { at, of: plan.scenes, window })) ?? (await drawn(job, at, window)))
    await setImmediate()
  }

  const every = plan.rate * 4
  const { width, height, rate: frameRate } = plan
  Object.assign(encoder, {
    width,
    height,
    frameRate,
    speed: 10,
    quantizationParameter: QUANTIZER,
    groupOfPictures: every,
  })
  encoder.initialize()
  const frame: Raster = { width, height, data: new Uint8Array(width * height * 4) }
  frame.data.set(band.data, window.width * window.height * 4)
  for (let at = 0; at < plan.frames; at++) {
    compose(frame, { plan, scenes, window, at })
    encoder.addFrameRgba(frame.data)
    progress(Math.floor((100 * (at + 1)) / plan.frames))
    await setImmediate()
  }
  encoder.finalize()
  const keys = Array.from({ length: Math.ceil(plan.frames / every) }, (_, at) => at * every + 1)
  const comment = `${FILM_LABEL}: ${job.prompt.slice(0, 300).replace(/\p{Cc}/gu, ' ')}`
  const mp4 = finished(encoder.FS.readFile(encoder.outputFilename), { keys, comment })
  return { mp4, ...(job.returnLastFrame && { lastFrame: await encodePng(frame) }) }
}

/** A picture that was given as a data URI; undefined where there is none, or where it cannot be read here. */
function pictureOf(uri: string | undefined): Source | undefined {
  if (!uri) return undefined
  try {
    return sourcesOf({ model: '', prompt: '', width: 0, height: 0, n: 1, images: [uri] }).images[0]
  } catch {
    return undefined
  }
}

/** The scene that a given picture makes, shown whole and at rest; undefined where the scene is to be drawn. */
async function given(
  first: Source | undefined,
  last: Source | undefined,
  { at, of, window }: { at: number; of: number; window: Size },
): Promise<Scene | undefined> {
  const ending = at === of - 1 ? last : undefined
  const source = at === 0 ? (first ?? ending) : ending
  if (!source) return undefined
  return { picture: await fittedInto(source, window), from: [0, 0], to: [0, 0] }
}

async function drawn({ prompt, seed = 0 }: FilmJob, at: number, window: Size): Promise<Scene> {
  const roll = String(dice(`film\u0000${prompt}\u0000${seed}\u0000${at}`).next())
  const chance = dice(`${roll}:pan`)
  const size = { width: even(window.width * ROOM), height: even(window.height * ROOM) }
  const whole = { x: 0, y: 0, ...size }
  const stage = stageOver(readPrompt(prompt, roll), whole, { seed: roll, horizon: 0.55 })
  const { behind, before } = backdrop(stage)
  const data = await drawnPixels(
    layer(whole, whole, { stage: box(0, 0, stage.width, stage.height, PAPER) + behind + cast(stage, roll) + before }),
  )
  const [right, down] = [size.width - window.width, size.height - window.height]
  const [west, north] = [chance.chance(0.5), chance.between(0, 1)]
  const side = (left: boolean, y: number) => [left ? 0 : right, Math.round(down * y)] as const
  return { picture: { ...size, data }, from: side(west, north), to: side(!west, 1 - north) }
}

/** Fills the window of the frame, and lengthens the bar below it; the rest of the band stays as it is. */
function compose(
  { data, width, height }: Raster,
  { plan, scenes, window, at }: { plan: Plan; scenes: readonly Scene[]; window: Size; at: number },
): void {
  const { scene, mixed, pan } = momentOf(plan, at)
  const view = (of: number) => {
    const { picture, from, to } = scenes[of] as Scene
    const [x, y] = [0, 1].map((axis) =>
      Math.round((from[axis] as number) + ((to[axis] as number) - (from[axis] as number)) * pan(of)),
    ) as [number, number]
    return (row: number) => {
      const start = ((y + row) * picture.width + x) * 4
      return picture.data.subarray(start, start + window.width * 4)
    }
  }
  const [now, next, share] = [view(scene), mixed > 0 ? view(scene + 1) : undefined, Math.round(mixed * 256)]
  for (let row = 0; row < window.height; row++) {
    const line = data.subarray(row * width * 4, (row + 1) * width * 4)
    const pixels = now(row)
    line.set(pixels)
    const others = next?.(row)
    if (!others) continue
    for (let i = 0; i < line.length; i++)
      line[i] = (pixels[i] as number) + ((((others[i] as number) - (pixels[i] as number)) * share) >> 8)
  }
  const done = Math.round((width * (at + 1)) / plan.frames)
  for (let row = height - Math.max(2, Math.round(Math.min(width, height) / 120)); row < height; row++) {
    for (let x = 0; x < done; x++) data.set(BAR, (row * width + x) * 4)
  }
}

/** The foot of every frame: the label, the prompt, and what was given and is not shown. */
async function bandOf({ prompt }: FilmJob, { width, height }: Size, hidden: string): Promise<Raster> {
  const unit = Math.min(width, height) / 100
  const lines = [
    { text: legible(FILM_LABEL), tall: unit * 3.4, color: INK },
    { text: legible(prompt.slice(0, 200)) || 'UNTITLED', tall: unit * 2.6, color: INK },
    ...(hidden ? [{ text: legible(hidden), tall: unit * 2, color: mix(INK, PAPER, 0.25) }] : []),
  ]
  const tall = even(unit * (4.5 + 2.4 * lines.length) + lines.reduce((sum, line) => sum + line.tall, 0))
  let y = unit * 2.4
  const text = lines.map(({ text, tall, color }) => {
    const shown = fitted(text, tall, width - unit * 6)
    const drawing = lettering(shown, (width - lengthOf(shown, tall)) / 2, y, { height: tall, color })
    y += tall + unit * 2.4
    return drawing
  })
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${tall}">${box(0, 0, width, tall, PAPER)}${text.join('')}</svg>`
  return { width, height: tall, data: await drawnPixels(svg) }
}
