import { readPrompt, type Actor, type Brief } from './brief.ts'
import type { Paint } from './creatures.ts'
import { darker, dice, lightness, mix, num, oval, path, place, type Dice } from './ink.ts'
import { dunes, fringe, hills, moonscape, mountains, streets, woods } from './land.ts'
import { fitted, legible, lengthOf, lettering } from './letters.ts'
import { tonesOf } from './palette.ts'
import { fogbanks, outerSpace, rainfall, sky, snowfall } from './sky.ts'
import type { Stage } from './stage.ts'
import { bubbles, sea, seabed, waterline } from './water.ts'

/** Said in every picture and in its metadata. */
export const LABEL = 'Procedural sketch by Farebox - not a model'

export type Sketch = { prompt: string; width: number; height: number; variant: number }

const PAPER = '#f6edda'
const INK = '#3b3350'
const MARGIN = 34
const FOOT = 104

/** Draws a prompt as an SVG poster of so many pixels; the same sketch is the same string forever. No prompt text enters the markup. */
export function sceneOf({ prompt, width, height, variant }: Sketch): string {
  const scale = 1000 / Math.min(width, height)
  const [wide, tall] = [width * scale, height * scale]
  const seed = String(dice(`${prompt}\u0000${variant}`).next())
  const stage = stageFor(readPrompt(prompt, seed), wide - 2 * MARGIN, tall - MARGIN - FOOT, seed)
  const { behind, before } = backdrop(stage)
  const art =
    place(behind + cast(stage, seed) + before, MARGIN, MARGIN, 1) + frame(wide, tall) + caption(prompt, wide, tall)
  const size = `width="${width}" height="${height}" viewBox="0 0 ${num(wide)} ${num(tall)}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${art}</svg>`
}

function stageFor(brief: Brief, width: number, height: number, seed: string): Stage {
  const chance = dice(`${seed}:stage`)
  const horizon = height * (brief.place === 'ocean' ? chance.between(0.46, 0.54) : chance.between(0.5, 0.58))
  const floor = height * (height > width * 1.3 ? 0.84 : 0.87)
  return {
    width,
    height,
    horizon,
    floor,
    focus: width * chance.between(0.42, 0.58),
    brief,
    tones: tonesOf(brief, chance),
    dice: chance,
  }
}

/** What lies behind the actors and what lies before them; most of the snow falls behind, to leave faces alone. */
export function backdrop(stage: Stage): { behind: string; before: string } {
  const { place: where, extras } = stage.brief
  if (where === 'deep') return { behind: seabed(stage), before: bubbles(stage) }
  if (where === 'space') return { behind: outerSpace(stage) + moonscape(stage), before: '' }
  const scenery = { meadow: hills, forest: woods, mountains: hills, desert: dunes, ocean: sea, city: streets }[where]
  const far = extras.has('peaks') ? mountains(stage) : ''
  return {
    behind: sky(stage) + far + scenery(stage) + fogbanks(stage) + snowfall(stage, 95),
    before: fringe(stage) + rainfall(stage) + snowfall(stage, 18),
  }
}

type Spot = { actor: Actor; x: number; y: number; scale: number }

/** The actors, furthest first, each with its shadow on the ground or its waterline. */
export function cast(stage: Stage, seed: string): string {
  const spots = spotsFor(stage, dice(`${seed}:cast`)).sort((a, b) => a.y - b.y)
  return spots
    .map(({ actor, x, y, scale }, at) => {
      const { draw, home } = actor.subject
      const chance = dice(`${seed}:${at}`)
      const facing = home !== 'back' && chance.chance(0.4) ? -1 : 1
      const drawing = place(draw(paintOf(stage, actor, chance)), x, y, scale * facing)
      if (home === 'sky' || home === 'deep') return drawing
      if (home === 'afloat') return drawing + waterline(stage, x, y + 3 * scale, scale)
      return oval(x, y, scale * 46, scale * 6, darker(stage.tones.near, 0.45), 0.28) + drawing
    })
    .join('')
}

/** One actor stands at the focus, as large as the picture allows; several share the width, and none leaves it. */
function spotsFor({ width, height, horizon, floor, focus, brief }: Stage, chance: Dice): Spot[] {
  const crowd = brief.actors.flatMap((actor) => Array.from({ length: actor.count }, () => actor)).slice(0, 6)
  const others = crowd.length - 1
  const unit = Math.min((height * 0.52) / (1 + 0.08 * others), (width * 0.62) / (1 + 0.34 * others)) / 100
  const reach = Math.min(width * 0.34, unit * 65 * others)
  return crowd.map((actor, at) => {
    const { home, reach: half, size } = actor.subject
    const scale = Math.min(unit * size * (others === 0 ? 1 : chance.between(0.88, 1.06)), (width * 0.43) / half)
    const wanted = others === 0 ? focus : width / 2 + ((at / others) * 2 - 1) * reach
    const x = Math.min(width - half * scale, Math.max(half * scale, wanted))
    const heights = {
      land: floor + chance.between(-14, 10),
      back: brief.place === 'ocean' ? floor - 20 : horizon + (floor - horizon) * 0.74,
      afloat: horizon + (floor - horizon) * chance.between(0.5, 0.68),
      deep: height * chance.between(0.5, 0.66),
      sky: Math.max(height * chance.between(0.46, 0.58), scale * 125),
    }
    return { actor, x, y: heights[home], scale }
  })
}

/** Puts a subject into the light of the hour, and keeps a pale one from dissolving into its own shade. */
function paintOf({ tones, brief }: Stage, { subject, color, accent }: Actor, chance: Dice): Paint {
  const lit = (tone: string) => tones.tint(tone, 0.28)
  const main = lit(color ?? subject.main)
  const pale = lightness(main) > 0.8
  return {
    main,
    shade: pale ? mix(main, tones.tint('#8fa3c0', 0.5), 0.3) : darker(main, 0.22),
    light: color && pale ? mix(main, '#ffffff', 0.6) : lit(subject.light),
    accent: lit(accent ?? subject.accent),
    ink: tones.ink,
    snow: brief.extras.has('snow'),
    lit: brief.hour === 'night' || brief.hour === 'sunset' || brief.extras.has('rain'),
    dice: chance,
  }
}

function frame(wide: number, tall: number): string {
  const window = `M${MARGIN} ${MARGIN}V${num(tall - FOOT)}H${num(wide - MARGIN)}V${MARGIN}Z`
  return (
    path(`M-2-2H${num(wide + 2)}V${num(tall + 2)}H-2Z${window}`, PAPER) +
    `<path d="${window}" fill="none" stroke="${INK}" stroke-width="3"/>`
  )
}

function caption(prompt: string, wide: number, tall: number): string {
  const words = legible(prompt.slice(0, 200))
  const title = fitted(words.length > 2 ? words : 'UNTITLED', 25, wide - 2 * MARGIN - 20)
  const label = legible(LABEL)
  const centred = (text: string, height: number) => (wide - lengthOf(text, height)) / 2
  return (
    lettering(title, centred(title, 25), tall - FOOT + 20, { height: 25, color: INK }) +
    lettering(label, centred(label, 17), tall - FOOT + 64, { height: 17, color: mix(INK, PAPER, 0.25), weight: 0.85 })
  )
}
