/** What is drawn over a source: the sky that a prompt asks for where the source has one, then weather, subjects and the label. */
import { wordsOf, type Brief } from './brief.ts'
import type { Size, Spot } from './fit.ts'
import { box, dice, num, place } from './ink.ts'
import { lengthOf, lettering, legible } from './letters.ts'
import { tonesOf } from './palette.ts'
import { EDIT_LABEL } from './png.ts'
import { backdrop, cast } from './scene.ts'
import { backcloth, curtains, fogbanks, rainbow, rainfall, snowfall, stars, sunOrMoon } from './sky.ts'
import type { Stage } from './stage.ts'

/** The stage that lies over an area of the picture; its units are pixels times `1000 / shorter side`. */
export function stageOver(brief: Brief, area: Spot, scene: { seed: string; horizon: number }): Stage {
  const scale = 1000 / Math.min(area.width, area.height)
  const chance = dice(`${scene.seed}:stage`)
  const [width, height] = [Math.min(8000, area.width * scale), Math.min(8000, area.height * scale)]
  const tones = tonesOf(brief, chance)
  return {
    width,
    height,
    horizon: height * scene.horizon,
    floor: height * 0.87,
    focus: width * chance.between(0.4, 0.6),
    brief,
    tones,
    dice: chance,
  }
}

/**
 * Stars and lights that the prompt names, empty when it names none. A found sky takes the colours of the hour, an empty area its sun
 * or moon as well; in a whole picture that may be there already.
 */
export function skyArt(stage: Stage, { found, empty }: { found: boolean; empty: boolean }): string {
  const { extras, said, hour } = stage.brief
  const night = said.has('hour') && hour === 'night'
  const low = said.has('hour') && (hour === 'sunset' || hour === 'dawn')
  return [
    (found || empty) && (night || low || extras.has('neon'))
      ? `<g opacity="0.6">${backcloth(stage, stage.horizon * 1.1)}</g>`
      : '',
    extras.has('stars') || night ? stars(stage, stage.horizon) : '',
    extras.has('aurora') ? curtains(stage) : '',
    extras.has('moon') || (empty && (night || low)) ? sunOrMoon(stage) : '',
    extras.has('rainbow') ? rainbow(stage) : '',
  ].join('')
}

/** The place that the prompt names, without its subjects. */
export function scenery(stage: Stage): string {
  const { behind, before } = backdrop(stage)
  return behind + before
}

const ADDS = new Set(
  'add adding put place insert include with another draw paint give next beside behind holding riding replace'.split(
    ' ',
  ),
)

/** Subjects and weather. Into an empty area go all subjects that are named; into a whole picture those that are to be added, to one side. */
export function frontArt(stage: Stage, prompt: string, scene: { seed: string; empty: boolean }): string {
  const weather = fogbanks(stage) + snowfall(stage, 110) + rainfall(stage)
  if (!stage.brief.said.has('cast')) return weather
  if (scene.empty) return cast(stage, scene.seed) + weather
  if (!wordsOf(prompt).some((word) => ADDS.has(word))) return weather
  const { width, height } = stage
  const [share, aloft] = [0.58, stage.brief.actors.every(({ subject }) => subject.home === 'sky')]
  const left = dice(`${scene.seed}:side`).chance(0.5) ? 0 : width * (1 - share)
  const small = {
    ...stage,
    width: width * share,
    height: height * share,
    horizon: stage.horizon * share,
    floor: stage.floor * share,
    focus: (width * share) / 2,
  }
  return place(cast(small, scene.seed), left, aloft ? 0 : height * (1 - share) - height * 0.03, 1) + weather
}

/** An SVG of the picture's size with a drawing on the stage over an area, and what is drawn in pixels. */
export function layer({ width, height }: Size, area: Spot, art: { stage?: string; pixels?: string }): string {
  const scale = Math.min(area.width, area.height) / 1000
  const staged = art.stage
    ? `<g transform="translate(${num(area.x)} ${num(area.y)}) scale(${scale})">${art.stage}</g>`
    : ''
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${staged}${art.pixels ?? ''}</svg>`
}

/** Where a label may go: along the lower edge first, then along the upper one, then between; each as shares of the free height. */
const LEVELS = [
  [1, 0.94],
  [0, 0.06],
  [0.88, 0.8, 0.7, 0.12, 0.2, 0.3],
  [0.6, 0.5, 0.4],
] as const
const SIDES = [0.5, 0, 1, 0.25, 0.75]
const LEAST_LETTERS = 9

/** The label in one line or two, as large as it may be; `room` says whether a spot is free. Undefined where there is no room. */
export function labelIn(area: Spot, picture: Size, room: (spot: Spot) => boolean): string | undefined {
  const wanted = Math.max(LEAST_LETTERS, Math.min(picture.width, picture.height) * 0.017)
  const [first, second] = EDIT_LABEL.split(' - ') as [string, string]
  const texts = [[legible(EDIT_LABEL)], [legible(first), legible(`- ${second}`)]]
  const looks = [wanted, LEAST_LETTERS].flatMap((letters) =>
    texts.map((lines) => ({ lines, letters, ...sizeOf(lines, letters) })),
  )
  const fitting = looks.filter(({ width, height }) => width <= area.width && height <= area.height)
  const tries = LEVELS.flatMap((levels) =>
    fitting.flatMap((look) => levels.flatMap((level) => SIDES.map((side) => ({ look, level, side })))),
  )
  for (const { look, level, side } of tries) {
    const [x, y] = [area.x + (area.width - look.width) * side, area.y + (area.height - look.height) * level]
    const spot = { x: Math.floor(x), y: Math.floor(y), width: look.width, height: look.height }
    if (room(spot)) return tag(look.lines, spot, look.letters)
  }
  return undefined
}

/** The label of a whole picture: always there, and smaller where the picture is narrow. */
export function labelAcross(picture: Size): string {
  const text = legible(EDIT_LABEL)
  const wanted = Math.max(LEAST_LETTERS, Math.min(picture.width, picture.height) * 0.017)
  const height = Math.min(wanted, (wanted * picture.width * 0.94) / sizeOf([text], wanted).width)
  const size = sizeOf([text], height)
  return tag(
    [text],
    { ...size, x: (picture.width - size.width) / 2, y: picture.height - size.height - height * 0.6 },
    height,
  )
}

function sizeOf(texts: readonly string[], height: number): { width: number; height: number } {
  return {
    width: Math.max(...texts.map((text) => lengthOf(text, height))) + height * 3,
    height: height * (0.7 + 1.7 * texts.length),
  }
}

function tag(texts: readonly string[], spot: Spot, height: number): string {
  const lines = texts.map((text, at) =>
    lettering(text, spot.x + height * 1.5, spot.y + height * (0.7 + at * 1.7), {
      height,
      color: '#ffffff',
      weight: 0.85,
    }),
  )
  return `<g opacity="0.8">${box(spot.x, spot.y, spot.width, spot.height, '#171a33', height * 0.6)}</g>${lines.join('')}`
}
