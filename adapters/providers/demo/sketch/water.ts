import type { Extra } from './brief.ts'
import { box, darker, disc, lighter, mix, num, path, place, polygon, stroke } from './ink.ts'
import { backcloth } from './sky.ts'
import { ground, grove, several, tone, type Stage } from './stage.ts'
import { palm, pine } from './things.ts'

/** The open sea with far hills, the sun's path on it, and a beach where somebody needs ground to stand on. */
export function sea(stage: Stage): string {
  const { width, height, horizon, focus, brief, tones, dice } = stage
  const stops = [horizon, height].map((y, at) => `<stop offset="${at}" stop-color="${waterAt(stage, y)}"/>`).join('')
  const shade = `<defs><linearGradient id="sea" x1="0" y1="0" x2="0" y2="1">${stops}</linearGradient></defs>`
  const nearness = (y: number) => (y - horizon) / (height - horizon)
  const glint = (at: number, of: number) => {
    const y = horizon + 12 + (height - horizon) * (at / of) ** 1.4
    const long = dice.between(30, 130) * (0.5 + nearness(y))
    const x = focus + dice.between(-150, 150) - long / 2
    return stroke(`M${num(x)} ${num(y)}h${num(long)}`, tones.orb, 5, 0.5)
  }
  const wave = () => {
    const y = dice.between(horizon + 20, height)
    return place(
      stroke('M-60 0Q-40-12-20 0T20 0T60 0', lighter(tones.water, 0.45), 5, 0.5),
      dice.between(0, width),
      y,
      0.4 + 1.1 * nearness(y),
    )
  }
  return [
    ground(stage, { base: horizon + 22, rise: 48, color: tone(stage, 0.3), length: 760 }).drawing,
    shade + box(0, horizon, width, height - horizon, 'url(#sea)'),
    several(stage, 26, glint) + several(stage, 24, wave),
    brief.actors.some(({ subject }) => subject.home === 'land' || subject.home === 'back') ? beach(stage) : '',
  ].join('')
}

/** The colour of the sea at a height. */
export function waterAt({ height, horizon, tones }: Stage, y: number): string {
  return mix(
    mix(tones.water, tones.sky.at(-1) as string, 0.55),
    darker(tones.water, 0.28),
    (y - horizon) / (height - horizon),
  )
}

/** Water over the keel, in the colour of the sea there, so that what floats does not stand on the surface. */
export function waterline(stage: Stage, x: number, y: number, size: number): string {
  const water = waterAt(stage, y)
  const foam =
    stroke('M-70 1Q-60-5-50 1T-30 1T-10 1T10 1T30 1T50 1T70 1', lighter(water, 0.55), 2.2) +
    stroke('M-44 11Q-34 6-24 11T-4 11T16 11T36 11', lighter(water, 0.4), 1.8)
  return place(
    path('M-72 1Q-60-5-50 1T-30 1T-10 1T10 1T30 1T50 1T72 1V9Q40 20 0 22Q-40 20-72 9Z', water) + foam,
    x,
    y,
    size,
  )
}

function beach(stage: Stage): string {
  const { horizon, floor, brief, tones } = stage
  const tree = ['lake', 'peaks', 'snow'].some((cold) => brief.extras.has(cold as Extra)) ? pine : palm
  const sand = ground(stage, { base: horizon + (floor - horizon) * 0.72, rise: 16, color: tones.near, length: 1300 })
  const foam = sand.drawing.replace(tones.near, lighter(tones.tint('#eef8f4', 0.6), 0.3))
  return (
    foam +
    place(sand.drawing, 0, 14, 1) +
    grove(stage, sand, { each: 3, size: 320, depth: 1, kinds: [tree], clear: 300 })
  )
}

/** Under water: rays from above, a shoal, rocks, weed and coral on the sand. */
export function seabed(stage: Stage): string {
  const { width, height, floor, tones, dice } = stage
  const [, middle, low] = tones.sky as readonly [string, string, string]
  const ray = () => {
    const [x, wide] = [dice.between(-0.1, 1) * width, dice.between(30, 110)]
    return polygon(
      [
        [x, -10],
        [x + wide, -10],
        [x + wide * 2.6 + 200, height],
        [x + 140, height],
      ],
      '#eafff2',
      0.1,
    )
  }
  const sand = ground(stage, { base: floor + 34, rise: 14, color: tones.near, length: 900 })
  const along = (each: number, plant: (x: number, y: number) => string) =>
    several(stage, each, () => {
      const x = dice.between(0, width)
      return plant(x, sand.top(x) + 10)
    })
  return [
    backcloth(stage, height) + several(stage, 5, ray),
    ground(stage, { base: floor - 130, rise: 80, color: mix(low, '#0d3f63', 0.4), length: 420 }).drawing,
    several(stage, 2, () => shoal(stage)),
    ground(stage, { base: floor - 30, rise: 50, color: mix(low, '#1d6f86', 0.6), length: 500 }).drawing,
    along(8, (x, y) => weed(stage, x, y)),
    along(6, (x, y) => place(coral(mix(dice.pick(tones.leaf.slice(1)), middle, 0.12)), x, y, dice.between(0.7, 1.5))),
    sand.drawing,
  ].join('')
}

function coral(color: string): string {
  return stroke(
    'M0 6V-50M0-18Q-26-24-26-58M0-30Q24-34 26-74M-26-40Q-40-44-40-62M26-54Q40-56 42-78M0-50Q-2-70 4-88',
    color,
    12,
  )
}

function weed({ tones, dice }: Stage, x: number, y: number): string {
  return [-1, 0, 1]
    .map((lean) => {
      const tall = dice.between(90, 250) * (lean === 0 ? 1.2 : 0.8)
      const bend = dice.between(24, 46) * (dice.chance(0.5) ? 1 : -1)
      const up = (share: number) => num(y - tall * share)
      const rise = `C${num(x - bend)} ${up(0.35)} ${num(x + bend + lean * 30)} ${up(0.6)} ${num(x + lean * 50)} ${up(1)}`
      const fall = `C${num(x + bend + lean * 30 + 18)} ${up(0.5)} ${num(x - bend + 20)} ${up(0.3)} ${num(x + 9)} ${up(0)}`
      return path(
        `M${num(x - 7)} ${up(0)}${rise}${fall}Z`,
        mix(tones.leaf[0] as string, tones.sky[2] as string, 0.25 + 0.15 * lean),
      )
    })
    .join('')
}

function shoal({ width, height, tones, dice }: Stage): string {
  const [x, y] = [dice.between(0.05, 0.95) * width, dice.between(0.12, 0.5) * height]
  const minnow = path('M-16 0Q-4-10 8 0L17-7V7L8 0Q-4 10-16 0Z', lighter(tones.sky[0] as string, 0.25), 0.5)
  return Array.from({ length: 8 }, () =>
    place(minnow, x + dice.between(-110, 110), y + dice.between(-50, 50), dice.between(0.8, 1.3)),
  ).join('')
}

export function bubbles(stage: Stage): string {
  const { width, height, dice } = stage
  return several(stage, 26, () => {
    const [x, y, r] = [dice.between(0, width), dice.between(0, height * 0.9), dice.between(4, 15)]
    return disc(x, y, r, '#ffffff', 0.22) + disc(x - r * 0.3, y - r * 0.3, r * 0.25, '#ffffff', 0.7)
  })
}
