import { backdrop, waterAt, type Stage } from './backdrop.ts'
import { readPrompt, type Actor, type Brief } from './brief.ts'
import type { Paint } from './creatures.ts'
import { darker, dice, lighter, lightness, mix, num, oval, path, place, stroke, type Dice } from './ink.ts'
import { fitted, legible, lengthOf, lettering } from './letters.ts'
import { tonesOf } from './palette.ts'

/** Said in every picture and in its metadata. */
export const LABEL = 'Procedural sketch by Farebox - not a model'

const PAPER = '#f6edda'
const INK = '#3b3350'
const MARGIN = 34
const FOOT = 104

export type Sketch = { prompt: string; width: number; height: number; variant: number }

/** Draws a prompt as an SVG poster of that many pixels; the same sketch is always the same string. No prompt text enters the markup. */
export function sceneOf({ prompt, width, height, variant }: Sketch): string {
  const scale = 1000 / Math.min(width, height)
  const [wide, tall] = [width * scale, height * scale]
  const seed = String(dice(`${prompt}\u0000${variant}`).next())
  const brief = readPrompt(prompt, seed)
  const stage = stageFor(brief, wide - 2 * MARGIN, tall - MARGIN - FOOT, seed)
  const { behind, before } = backdrop(stage)
  const art = place(behind + cast(stage, seed) + before, MARGIN, MARGIN, 1)
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${num(wide)} ${num(tall)}">${art}${frame(wide, tall)}${caption(prompt, wide, tall)}</svg>`
}

function stageFor(brief: Brief, width: number, height: number, seed: string): Stage {
  const chance = dice(`${seed}:stage`)
  const horizon = height * (brief.place === 'ocean' ? chance.between(0.46, 0.54) : chance.between(0.5, 0.58))
  const floor = height * (height > width * 1.3 ? 0.84 : 0.87)
  return { width, height, horizon, floor, focus: width * chance.between(0.42, 0.58), brief, tones: tonesOf(brief, chance), dice: chance }
}

type Spot = { actor: Actor; x: number; y: number; scale: number }

/** The actors, furthest first, each with its shadow on the ground or its waterline. */
function cast(stage: Stage, seed: string): string {
  const spots = spotsFor(stage, dice(`${seed}:cast`)).sort((a, b) => a.y - b.y)
  return spots.map((spot, at) => {
    const { subject } = spot.actor
    const flip = subject.home !== 'back' && dice(`${seed}:${at}`).chance(0.4) ? -1 : 1
    const drawing = place(subject.draw(paintOf(stage, spot.actor, dice(`${seed}:${subject.name}${at}`))), spot.x, spot.y, spot.scale * flip)
    const size = Math.abs(spot.scale)
    if (subject.home === 'sky' || subject.home === 'deep') return drawing
    if (subject.home === 'afloat') return drawing + waterline(stage, spot.x, spot.y + 3 * size, size)
    return oval(spot.x, spot.y, size * 46, size * 6, darker(stage.tones.near, 0.45), 0.28) + drawing
  }).join('')
}

function spotsFor({ width, height, horizon, floor, focus, brief }: Stage, chance: Dice): Spot[] {
  const crowd = brief.actors.flatMap((actor) => Array.from({ length: actor.count }, () => actor)).slice(0, 6)
  const others = crowd.length - 1
  const unit = Math.min((height * 0.52) / (1 + 0.08 * others), (width * 0.62) / (1 + 0.34 * others)) / 100
  const reach = Math.min(width * 0.34, unit * 105 * others * 0.62)
  return crowd.map((actor, at) => {
    const offset = others === 0 ? 0 : (at / others) * 2 - 1
    const x = (others === 0 ? focus : width / 2) + offset * reach
    const scale = Math.min(unit * actor.subject.size * (others === 0 ? 1 : chance.between(0.88, 1.06)), (width * 0.43) / actor.subject.reach)
    const back = horizon + (floor - horizon) * 0.74
    const heights = { land: floor + chance.between(-14, 10), back: brief.place === 'ocean' ? floor - 20 : back, afloat: horizon + (floor - horizon) * chance.between(0.5, 0.68), deep: height * chance.between(0.5, 0.66), sky: Math.max(height * chance.between(0.46, 0.58), scale * 125) }
    return { actor, x, y: heights[actor.subject.home], scale }
  })
}

function paintOf(stage: Stage, { subject, color, accent }: Actor, chance: Dice): Paint {
  const { tones, brief } = stage
  const lit = (tone: string) => tones.tint(tone, 0.28)
  const main = lit(color ?? subject.main)
  const pale = lightness(main) > 0.8
  return {
    main, shade: pale ? mix(main, tones.tint('#8fa3c0', 0.5), 0.3) : darker(main, 0.22),
    light: lit(subject.light), accent: lit(accent ?? subject.accent), ink: tones.ink, snow: brief.extras.has('snow'), night: brief.hour === 'night' || brief.place === 'space', dice: chance,
  }
}

/** Water over the keel, in the colour of the sea at that height, so that what floats does not stand on the surface. */
function waterline(stage: Stage, x: number, y: number, size: number): string {
  const water = waterAt(stage, y)
  const foam = stroke('M-70 1Q-60-5-50 1T-30 1T-10 1T10 1T30 1T50 1T70 1', lighter(water, 0.55), 2.2) + stroke('M-44 11Q-34 6-24 11T-4 11T16 11T36 11', lighter(water, 0.4), 1.8)
  return place(path('M-72 1Q-60-5-50 1T-30 1T-10 1T10 1T30 1T50 1T72 1V9Q40 20 0 22Q-40 20-72 9Z', water) + foam, x, y, size)
}

function frame(wide: number, tall: number): string {
  const [right, low] = [num(wide - MARGIN), num(tall - FOOT)]
  const window = `M${MARGIN} ${MARGIN}V${low}H${right}V${MARGIN}Z`
  return path(`M-2-2H${num(wide + 2)}V${num(tall + 2)}H-2Z${window}`, PAPER) + `<path d="${window}" fill="none" stroke="${INK}" stroke-width="3"/>`
}

function caption(prompt: string, wide: number, tall: number): string {
  const room = wide - 2 * MARGIN - 20
  const words = legible(prompt.slice(0, 200))
  const title = fitted(words.length > 2 ? words : 'UNTITLED', 25, room)
  const label = legible(LABEL)
  const centred = (text: string, height: number) => (wide - lengthOf(text, height)) / 2
  return lettering(title, centred(title, 25), tall - FOOT + 20, { height: 25, color: INK })
    + lettering(label, centred(label, 17), tall - FOOT + 64, { height: 17, color: mix(INK, PAPER, 0.25), weight: 0.85 })
}
