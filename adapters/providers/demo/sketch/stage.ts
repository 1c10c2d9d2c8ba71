import type { Brief } from './brief.ts'
import type { Draw, Paint } from './creatures.ts'
import { curve, darker, mix, num, path, place, type Dice, type Point } from './ink.ts'
import type { Tones } from './palette.ts'

/**
 * The picture inside its frame, in units whose shorter side is a little under 1000: `horizon` and `floor` are heights,
 * `focus` is where to look.
 */
export type Stage = {
  width: number
  height: number
  horizon: number
  floor: number
  focus: number
  brief: Brief
  tones: Tones
  dice: Dice
}

/** One range of rolling ground: its shape, its colour, and the height of its ridge anywhere. */
export type Ground = { drawing: string; color: string; top(x: number): number }

/** So many of something: `each` in a square picture, more in a larger one, and never more than three times that. */
export function several({ width, height }: Stage, each: number, draw: (at: number, of: number) => string): string {
  const count = Math.min(each * 3, Math.round((each * width * height) / 800_000))
  return Array.from({ length: count }, (_, at) => draw(at, count)).join('')
}

/** The colour of the ground from the misty distance (0) to the foreground (1). */
export function tone({ tones }: Stage, depth: number): string {
  return mix(tones.haze, tones.near, depth)
}

/** Three waves on top of each other make a ridge; `base` is its mean height, `rise` the swell, `length` the distance of hills. */
export function ground(
  { width, height, dice }: Stage,
  look: { base: number; rise: number; color: string; length?: number },
): Ground {
  const waves = [1, 0.45, 0.2].map((size, at) => {
    const length = ((look.length ?? 520) * dice.between(0.8, 1.25)) / (at * 1.3 + 1)
    return { size, length, phase: dice.between(0, 6.3) }
  })
  const swell = (x: number) =>
    waves.reduce((sum, wave) => sum + wave.size * Math.sin(x / (wave.length / 3.1) + wave.phase), 0.4)
  const top = (x: number) => look.base - look.rise * swell(x)
  const steps = Math.min(140, Math.ceil(width / 34))
  const ridge = Array.from({ length: steps + 1 }, (_, at): Point => [(width * at) / steps, top((width * at) / steps)])
  return { drawing: path(`${curve(ridge)}V${num(height)}H0Z`, look.color), color: look.color, top }
}

/** Trees along a ridge, none near the focus, so that the subject stands free. */
export function grove(
  stage: Stage,
  on: Pick<Ground, 'top'>,
  look: { each: number; size: number; depth: number; kinds: readonly Draw[]; clear?: number },
): string {
  const { width, focus, tones, dice } = stage
  return several(stage, look.each, (at, of) => {
    const x = (width * (at + dice.next() * 1.6 - 0.3)) / of
    if (Math.abs(x - focus) < (look.clear ?? 0)) return ''
    const drawing = dice.pick(look.kinds)(foliage(stage, look.depth, dice.pick(tones.leaf)))
    return place(drawing, x, on.top(x) + 8, (look.size / 100) * dice.between(0.7, 1.25))
  })
}

function foliage({ brief, tones, dice }: Stage, depth: number, leaf: string): Paint {
  const main = mix(tones.haze, leaf, 0.35 + 0.62 * depth)
  const look = { light: '#ffffff', accent: tones.tint('#e2574c'), ink: tones.ink, dice }
  return { ...look, main, shade: darker(main, 0.17), snow: brief.extras.has('snow'), lit: false }
}
