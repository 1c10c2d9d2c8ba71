import type { Brief } from './brief.ts'
import type { Draw, Paint } from './creatures.ts'
import { box, curve, darker, disc, lighter, mix, num, oval, path, place, polygon, stroke, turned, type Dice, type Point } from './ink.ts'
import type { Tones } from './palette.ts'
import { cactus, palm, pine } from './things.ts'

/** The picture inside its frame, in units whose shorter side is a little under 1000: `horizon` and `floor` are heights, `focus` is where to look. */
export type Stage = { width: number; height: number; horizon: number; floor: number; focus: number; brief: Brief; tones: Tones; dice: Dice }

type Ground = { drawing: string; top(x: number): number; color: string }

/** What lies behind the actors, and what lies before them; most of the snow falls behind, to leave faces alone. */
export function backdrop(stage: Stage): { behind: string; before: string } {
  const { place } = stage.brief
  if (place === 'deep') return { behind: light(stage) + seabed(stage), before: bubbles(stage) + fringe(stage) }
  if (place === 'space') return { behind: sky(stage) + planets(stage) + moonscape(stage), before: '' }
  const far = stage.brief.extras.has('peaks') || place === 'mountains' ? mountains(stage) : ''
  const scenes = { meadow: hills, forest: woods, mountains: hills, desert: dunes, ocean: sea, city: streets }
  return { behind: sky(stage) + far + scenes[place](stage) + snowfall(stage, 95), before: fringe(stage) + weather(stage) + snowfall(stage, 18) }
}

/** How many of something a picture of this size carries: `each` for a square, and a hard limit for the long ones. */
function amount({ width, height }: Stage, each: number): number {
  return Math.min(each * 3, Math.round((each * width * height) / 800_000))
}

function sky(stage: Stage): string {
  const { width, height, horizon, tones, brief, dice } = stage
  const dark = brief.hour === 'night' || brief.place === 'space'
  const clear = !brief.extras.has('rain') && !brief.extras.has('fog')
  const stops = tones.sky.map((tone, at) => `<stop offset="${num(at / (tones.sky.length - 1))}" stop-color="${tone}"/>`).join('')
  const low = brief.place === 'space' ? height : horizon * 1.08
  const gradient = `<linearGradient id="sky" gradientUnits="userSpaceOnUse" x1="0" y1="0" x2="0" y2="${num(low)}">${stops}</linearGradient>`
  const night = dark && (clear || brief.extras.has('stars')) ? stars(stage) : ''
  const aurora = brief.extras.has('aurora') ? curtains(stage) : ''
  const orb = clear && brief.place !== 'space' ? sunOrMoon(stage) : ''
  const bow = brief.extras.has('rainbow') ? rainbow(stage) : ''
  const cloudy = dark ? 2 : brief.extras.has('rain') ? 9 : dice.whole(3, 5)
  const clouds = brief.place === 'space' ? '' : Array.from({ length: amount(stage, cloudy) }, () => cloud(stage)).join('')
  return `<defs>${gradient}</defs>${box(0, 0, width, height, 'url(#sky)')}${night}${aurora}${orb}${bow}${clouds}`
}

function stars(stage: Stage): string {
  const { width, height, horizon, brief, dice } = stage
  const low = brief.place === 'space' ? height : horizon
  const dots = Array.from({ length: amount(stage, 90) }, () => disc(dice.between(0, width), dice.between(0, low) * dice.between(0.3, 1), dice.between(0.8, 2.6), '#fff8e2', dice.between(0.4, 1)))
  const sparks = Array.from({ length: amount(stage, 7) }, () => place(path('M0-9Q1-1 9 0Q1 1 0 9Q-1 1-9 0Q-1-1 0-9Z', '#fffbe8'), dice.between(0, width), dice.between(0, low * 0.7), dice.between(0.7, 1.5)))
  return dots.join('') + sparks.join('')
}

function sunOrMoon({ width, horizon, focus, brief, tones, dice }: Stage): string {
  const moon = brief.hour === 'night'
  const behind = brief.hour === 'sunset' || brief.hour === 'dawn' || dice.chance(0.35)
  const radius = moon ? dice.between(58, 90) : behind ? dice.between(140, 190) : dice.between(60, 85)
  const side = focus > width / 2 ? -1 : 1
  const x = behind && !moon ? focus + dice.between(-60, 60) : width / 2 + side * width * dice.between(0.2, 0.32)
  const y = behind && !moon ? horizon - radius * dice.between(0.35, 0.9) : Math.max(radius * 1.6, horizon * dice.between(0.24, 0.36))
  const halos = [2.5, 1.9, 1.4].map((ring, at) => disc(x, y, radius * ring, tones.orb, 0.08 + at * 0.05)).join('')
  const face = moon ? [[-0.3, -0.25, 0.2], [0.3, 0.15, 0.26], [-0.2, 0.4, 0.13], [0.25, -0.45, 0.1]].map(([dx, dy, r]) => disc(x + (dx as number) * radius, y + (dy as number) * radius, (r as number) * radius, mix(tones.orb, '#8f92b0', 0.25), 0.7)).join('') : ''
  return halos + disc(x, y, radius, tones.orb) + face
}

function cloud({ width, horizon, brief, tones, dice }: Stage): string {
  const x = dice.between(-60, width + 60)
  const y = dice.between(horizon * 0.06, horizon * 0.62)
  const size = dice.between(0.6, 1.5)
  const color = brief.extras.has('rain') ? mix(tones.sky[0] as string, '#4a5566', 0.35) : mix(tones.sky.at(-1) as string, '#ffffff', brief.hour === 'night' ? 0.05 : 0.55)
  const puffs = Array.from({ length: 4 }, (_, at) => disc(-66 + at * 44 + dice.between(-9, 9), -dice.between(4, 16), dice.between(22, 40) * (at === 0 || at === 3 ? 0.7 : 1), color)).join('')
  return `<g opacity="${brief.hour === 'night' ? 0.35 : 0.78}">${place(puffs + box(-112, -14, 224, 34, color, 17), x, y, size)}</g>`
}

function rainbow({ width, horizon, dice }: Stage): string {
  const x = width * dice.between(0.35, 0.65)
  const bands = ['#e2574c', '#f0943f', '#f6cf57', '#67b26a', '#4a8fd0', '#8a63b8']
  return bands.map((band, at) => `<circle cx="${num(x)}" cy="${num(horizon + 40)}" r="${num(Math.min(width * 0.44, horizon * 0.86) - at * 17)}" fill="none" stroke="${band}" stroke-width="17" opacity="0.62"/>`).join('')
}

function curtains({ width, horizon, dice }: Stage): string {
  const veil = (color: string, y: number, at: number) => {
    const phase = dice.between(0, 6)
    const edge = Array.from({ length: 20 }, (_, i): Point => [(width * i) / 19, y + 46 * Math.sin(phase + i * 0.8) + 22 * Math.sin(phase * 2 + i * 1.9)])
    const fade = `<linearGradient id="veil${at}" x1="0" y1="0" x2="0" y2="1"><stop offset="0.1" stop-color="${color}" stop-opacity="0"/><stop offset="1" stop-color="${color}" stop-opacity="0.6"/></linearGradient>`
    return `<defs>${fade}</defs>${path(`${curve(edge)}V${num(y - 330)}H0Z`, `url(#veil${at})`)}`
  }
  return ['#8a7bf0', '#4fd6c8', '#5ff0b0'].map((color, at) => veil(color, horizon * (0.5 + at * 0.14), at)).join('')
}

/** One range of rolling ground: a filled shape that fades into mist at its foot, and the height of its ridge anywhere. */
function ground(stage: Stage, look: { base: number; rise: number; color: string; length?: number }): Ground {
  const { width, height, dice } = stage
  const waves = [1, 0.45, 0.2].map((size, at) => ({ size, length: ((look.length ?? 520) * dice.between(0.8, 1.25)) / (at * 1.3 + 1), phase: dice.between(0, 6.3) }))
  const top = (x: number) => look.base - look.rise * waves.reduce((sum, wave) => sum + wave.size * Math.sin(x / (wave.length / 3.1) + wave.phase), 0.4)
  const steps = Math.min(140, Math.ceil(width / 34))
  const ridge = Array.from({ length: steps + 1 }, (_, at): Point => [(width * at) / steps, top((width * at) / steps)])
  return { drawing: path(`${curve(ridge)}V${num(height)}H0Z`, look.color), top, color: look.color }
}

function tone({ tones }: Stage, depth: number): string {
  return mix(tones.haze, tones.near, depth)
}

function paintFor(stage: Stage, depth: number, leaf: string): Paint {
  const main = mix(mix(stage.tones.haze, leaf, 0.35 + depth * 0.6), leaf, depth * 0.4)
  const snow = stage.brief.extras.has('snow')
  return { main, shade: darker(main, 0.17), light: '#ffffff', accent: stage.tones.tint('#e2574c'), ink: stage.tones.ink, snow, night: stage.brief.hour === 'night', dice: stage.dice }
}

const roundTree: Draw = ({ main, shade, ink, snow }) => box(-3, -40, 6, 40, mix('#6e4a35', ink, 0.25)) + oval(0, -66, 30, 36, shade) + oval(-5, -70, 25, 31, snow ? mix(main, '#ffffff', 0.55) : main)

/** Trees along a ridge, thinner around the focus so that the subject stands free. */
function grove(stage: Stage, on: Ground, look: { count: number; size: number; depth: number; kinds: readonly Draw[]; clear?: number }): string {
  const { width, focus, tones, dice } = stage
  const spots = Array.from({ length: amount(stage, look.count) }, () => dice.between(-20, width + 20)).filter((x) => Math.abs(x - focus) > (look.clear ?? 0)).sort((a, b) => a - b)
  return spots.map((x) => {
    const paint = paintFor(stage, look.depth, dice.pick(tones.leaf))
    return place(dice.pick(look.kinds)(paint), x, on.top(x) + 8, (look.size / 100) * dice.between(0.7, 1.25))
  }).join('')
}

function mountains(stage: Stage): string {
  const { width, horizon, tones, dice } = stage
  const row = (count: number, low: number, high: number, depth: number) => Array.from({ length: count }, (_, at) => {
    const x = (width * (at + dice.between(0.2, 0.8))) / count
    const tall = dice.between(low, high)
    const half = tall * dice.between(0.75, 1.05)
    const rock = mix(tones.haze, tones.tint('#5b6b8c'), depth)
    const foot = horizon + 60
    const peak = foot - tall
    const snowLine = [[0, 0], [0.3, 0.3], [0.17, 0.26], [0.08, 0.37], [-0.05, 0.27], [-0.15, 0.36], [-0.3, 0.3]].map(([dx, dy]): Point => [x + (dx as number) * half, peak + (dy as number) * tall])
    const shaded = snowLine.slice(0, 4).concat([[x - 0.02 * half, peak + 0.2 * tall]])
    return [
      polygon([[x - half, foot], [x, peak], [x + half, foot]], rock),
      polygon([[x, peak], [x + half, foot], [x + half * 0.1, foot], [x - half * 0.06, peak + tall * 0.5], [x + half * 0.08, peak + tall * 0.3]], darker(rock, 0.16)),
      polygon(snowLine, mix('#ffffff', tones.tint('#ffffff', 0.5), 0.9)) + polygon(shaded, mix(tones.tint('#c9d8ea', 0.6), rock, 0.15)),
    ].join('')
  }).join('')
  const many = Math.min(14, Math.max(3, Math.round(width / 300)))
  return row(many, horizon * 0.3, horizon * 0.5, 0.28) + row(Math.ceil(many * 0.7), horizon * 0.42, horizon * 0.68, 0.55)
}

function hills(stage: Stage): string {
  const { horizon, floor, brief } = stage
  const span = floor - horizon
  const wild = brief.extras.has('snow') || brief.place === 'mountains'
  const kinds: readonly Draw[] = wild ? [pine] : [roundTree, roundTree, pine]
  const far = ground(stage, { base: horizon + span * 0.1, rise: 46, color: tone(stage, 0.22), length: 700 })
  const middle = ground(stage, { base: horizon + span * 0.36, rise: 34, color: tone(stage, 0.48) })
  const near = ground(stage, { base: horizon + span * 0.66, rise: 24, color: tone(stage, 0.76), length: 800 })
  const front = ground(stage, { base: horizon + span * 0.92, rise: 12, color: tone(stage, 1), length: 1100 })
  return [
    far.drawing, grove(stage, far, { count: 12, size: 46, depth: 0.2, kinds }),
    middle.drawing, grove(stage, middle, { count: 9, size: 90, depth: 0.5, kinds, clear: 120 }),
    near.drawing, grove(stage, near, { count: 6, size: 170, depth: 0.8, kinds, clear: 250 }),
    front.drawing,
  ].join('')
}

function woods(stage: Stage): string {
  const { horizon, floor, brief } = stage
  const span = floor - horizon
  const kinds: readonly Draw[] = brief.extras.has('autumn') ? [roundTree, roundTree, pine] : [pine]
  const far = ground(stage, { base: horizon + span * 0.12, rise: 30, color: tone(stage, 0.25) })
  const middle = ground(stage, { base: horizon + span * 0.4, rise: 26, color: tone(stage, 0.5) })
  const near = ground(stage, { base: horizon + span * 0.7, rise: 20, color: tone(stage, 0.78) })
  const front = ground(stage, { base: horizon + span * 0.94, rise: 12, color: tone(stage, 1), length: 1100 })
  return [
    grove(stage, far, { count: 26, size: 200, depth: 0.12, kinds }), far.drawing,
    grove(stage, middle, { count: 18, size: 270, depth: 0.4, kinds, clear: 70 }), middle.drawing,
    grove(stage, near, { count: 10, size: 400, depth: 0.75, kinds, clear: 340 }), near.drawing, front.drawing,
  ].join('')
}

function dunes(stage: Stage): string {
  const { width, horizon, floor, tones, dice } = stage
  const span = floor - horizon
  const mesa = () => {
    const [x, w, h] = [dice.between(0, width), dice.between(90, 220), dice.between(70, 190)]
    const rock = mix(tones.haze, tones.tint('#a8543c'), 0.45)
    const foot = horizon + 50
    return polygon([[x - w, foot], [x - w * 0.72, foot - h * 0.8], [x - w * 0.6, foot - h], [x + w * 0.5, foot - h], [x + w * 0.62, foot - h * 0.7], [x + w, foot]], rock)
      + polygon([[x + w * 0.14, foot - h], [x + w * 0.5, foot - h], [x + w * 0.62, foot - h * 0.7], [x + w, foot], [x + w * 0.3, foot]], darker(rock, 0.13))
  }
  const layers = [0.16, 0.42, 0.7, 0.94].map((at, depth) => ground(stage, { base: horizon + span * at, rise: 40 - depth * 8, color: tone(stage, 0.25 + depth * 0.25), length: 900 }))
  const shadows = layers.map((layer, at) => layer.drawing + (at === 1 || at === 2 ? grove(stage, layer, { count: 4, size: 70 + at * 50, depth: 0.3 + at * 0.25, kinds: [cactus], clear: 200 }) : ''))
  return Array.from({ length: amount(stage, 3) }, mesa).join('') + shadows.join('')
}

function sea(stage: Stage): string {
  const { width, height, horizon, floor, focus, brief, tones, dice } = stage
  const stops = `<stop offset="0" stop-color="${waterAt(stage, horizon)}"/><stop offset="1" stop-color="${waterAt(stage, height)}"/>`
  const defs = `<defs><linearGradient id="sea" x1="0" y1="0" x2="0" y2="1">${stops}</linearGradient></defs>`
  const isle = ground(stage, { base: horizon + 22, rise: 48, color: tone(stage, 0.3), length: 760 })
  const glints = Array.from({ length: amount(stage, 26) }, (_, at) => {
    const y = horizon + 12 + (height - horizon) * (at / amount(stage, 26)) ** 1.4
    const long = dice.between(30, 130) * (0.5 + (y - horizon) / (height - horizon))
    return box(focus + dice.between(-150, 150) - long / 2, y, long, 5, tones.orb, 2.5).replace('/>', ' opacity="0.5"/>')
  })
  const waves = Array.from({ length: amount(stage, 24) }, () => {
    const y = dice.between(horizon + 20, height)
    const size = 0.4 + (1.1 * (y - horizon)) / (height - horizon)
    return place(stroke('M-60 0Q-40-12-20 0T20 0T60 0', lighter(tones.water, 0.45), 5, 0.5), dice.between(0, width), y, size)
  })
  const shore = brief.actors.some(({ subject }) => subject.home === 'land' || subject.home === 'back') ? beach(stage) : ''
  return defs + isle.drawing + box(0, horizon, width, height - horizon, 'url(#sea)') + glints.join('') + waves.join('') + (floor > 0 ? shore : '')
}

/** The colour of the sea at a height, for whatever floats there. */
export function waterAt({ height, horizon, tones }: Stage, y: number): string {
  return mix(mix(tones.water, tones.sky.at(-1) as string, 0.55), darker(tones.water, 0.28), (y - horizon) / (height - horizon))
}

function beach(stage: Stage): string {
  const { horizon, floor } = stage
  const wet = { base: horizon + (floor - horizon) * 0.72, rise: 16, length: 1300 }
  const foam = ground({ ...stage }, { ...wet, color: '#f6fbf6' })
  const sand = { ...foam, drawing: foam.drawing.replace('#f6fbf6', stage.tones.near).replace('<path', '<path transform="translate(0 14)"') }
  return foam.drawing + sand.drawing + grove(stage, sand, { count: 3, size: 320, depth: 1, kinds: [palm], clear: 300 })
}

function streets(stage: Stage): string {
  const { width, height, horizon, floor, brief, tones, dice } = stage
  const foot = horizon + (floor - horizon) * 0.55
  const lit = brief.hour === 'night' || brief.hour === 'sunset'
  const block = (x: number, w: number, tall: number, color: string, depth: number) => {
    const crown = dice.pick(['', 'mast', 'step', 'spire'])
    const roof = crown === 'spire' ? polygon([[x, foot - tall], [x + w / 2, foot - tall - w * 0.8], [x + w, foot - tall]], color) : crown === 'step' ? box(x + w * 0.2, foot - tall - 26, w * 0.6, 27, color) : crown === 'mast' ? box(x + w / 2 - 2, foot - tall - 60, 4, 60, color) : ''
    const panes = depth === 0 ? [] : Array.from({ length: 40 }, (_, at) => [at % 4, Math.floor(at / 4)] as const).filter(([, row]) => row * 34 + 30 < tall).filter(() => dice.chance(lit ? 0.6 : 0.85))
    const glass = panes.map(([column, row]) => box(x + w * 0.14 + (column * w * 0.72) / 3.6, foot - tall + 18 + row * 34, w * 0.12, 16, lit ? dice.pick(['#ffd772', '#ffe9a8', '#f7b85a']) : mix(color, '#ffffff', 0.35), 1))
    return roof + box(x, foot - tall, w, tall + height, color) + box(x + w * 0.7, foot - tall, w * 0.3, tall + height, darker(color, 0.1)) + glass.join('')
  }
  const row = (low: number, high: number, wide: number, depth: number) => {
    const count = Math.min(26, Math.ceil(width / (wide * 0.86)))
    const color = mix(tones.haze, tones.tint('#3f4c72'), 0.28 + depth * 0.3)
    return Array.from({ length: count }, (_, at) => block((width * at) / count - wide * 0.1, wide * dice.between(0.8, 1.05), dice.between(low, high) * horizon, mix(color, dice.pick(['#b5607a', '#4a86b0', '#c98a5a']), 0.12), depth)).join('')
  }
  const street = box(0, foot, width, height - foot, tone(stage, 0.7)) + box(0, foot + 34, width, height - foot, tone(stage, 1))
  const park = { drawing: '', top: () => foot + 30, color: '' }
  return row(0.45, 0.85, 110, 0) + row(0.3, 0.62, 140, 1) + row(0.16, 0.4, 170, 2) + street + grove(stage, park, { count: 7, size: 150, depth: 0.9, kinds: [roundTree], clear: 200 })
}

function planets({ width, horizon, focus, tones, dice }: Stage): string {
  const globe = (x: number, y: number, r: number, color: string, ringed: boolean) => [
    disc(x, y, r * 1.25, color, 0.12) + disc(x, y, r, color),
    path(`M${num(x + r * 0.2)} ${num(y - r * 0.98)}A${num(r)} ${num(r)} 0 0 1 ${num(x + r * 0.2)} ${num(y + r * 0.98)}Q${num(x + r * 0.95)} ${num(y)} ${num(x + r * 0.2)} ${num(y - r * 0.98)}Z`, darker(color, 0.3)),
    oval(x - r * 0.3, y - r * 0.35, r * 0.35, r * 0.14, lighter(color, 0.3), 0.6) + oval(x - r * 0.1, y + r * 0.3, r * 0.5, r * 0.11, darker(color, 0.2), 0.5),
    ringed ? turned(`<path d="M${num(x - r * 0.98)} ${num(y - r * 0.1)}A${num(r * 1.7)} ${num(r * 0.42)} 0 1 0 ${num(x + r * 0.98)} ${num(y - r * 0.1)}" fill="none" stroke="${lighter(color, 0.45)}" stroke-width="${num(r * 0.13)}"/>`, -16, x, y) : '',
  ].join('')
  const side = focus > width / 2 ? -1 : 1
  const warm = dice.pick(['#e88a5f', '#e8c06a', '#d977a0'])
  const cool = dice.pick(['#5fa8c8', '#7fc0a0', '#8f86d8'])
  return disc(width / 2 - side * width * 0.3, horizon * 0.5, 260, mix(tones.sky[2] as string, '#d977a0', 0.3), 0.22)
    + globe(width / 2 + side * width * dice.between(0.24, 0.33), horizon * dice.between(0.26, 0.36), dice.between(90, 140), warm, true)
    + globe(width / 2 - side * width * dice.between(0.28, 0.38), horizon * dice.between(0.5, 0.75), dice.between(34, 58), cool, false)
}

function moonscape(stage: Stage): string {
  const { width, height, horizon, floor, dice } = stage
  const far = ground(stage, { base: horizon + (floor - horizon) * 0.4, rise: 30, color: tone(stage, 0.45) })
  const near = ground(stage, { base: horizon + (floor - horizon) * 0.72, rise: 16, color: tone(stage, 1), length: 1000 })
  const craters = Array.from({ length: amount(stage, 9) }, () => {
    const y = dice.between(near.top(0) + 50, height)
    const [x, r] = [dice.between(0, width), dice.between(18, 60)]
    return oval(x, y, r, r * 0.3, darker(near.color, 0.22)) + oval(x, y + r * 0.08, r * 0.88, r * 0.22, darker(near.color, 0.12))
  })
  return far.drawing + near.drawing + craters.join('')
}

function light(stage: Stage): string {
  const { width, height, tones, dice } = stage
  const stops = tones.sky.map((color, at) => `<stop offset="${num(at / 2)}" stop-color="${color}"/>`).join('')
  const rays = Array.from({ length: amount(stage, 5) }, () => {
    const x = dice.between(-0.1, 1) * width
    const w = dice.between(30, 110)
    return polygon([[x, -10], [x + w, -10], [x + w * 2.6 + 200, height], [x + 140, height]], '#eafff2', 0.1)
  })
  return `<defs><linearGradient id="sky" x1="0" y1="0" x2="0" y2="1">${stops}</linearGradient></defs>${box(0, 0, width, height, 'url(#sky)')}${rays.join('')}`
}

function seabed(stage: Stage): string {
  const { width, height, floor, tones, dice } = stage
  const rock = ground(stage, { base: floor - 130, rise: 80, color: mix(tones.sky[2] as string, '#0d3f63', 0.4), length: 420 })
  const ridge = ground(stage, { base: floor - 30, rise: 50, color: mix(tones.sky[2] as string, '#1d6f86', 0.6), length: 500 })
  const sand = ground(stage, { base: floor + 34, rise: 14, color: tones.near, length: 900 })
  const weed = (x: number) => [-1, 0, 1].map((lean) => {
    const tall = dice.between(90, 250) * (lean === 0 ? 1.2 : 0.8)
    const [foot, bend] = [sand.top(x) + 12, dice.between(24, 46) * (dice.chance(0.5) ? 1 : -1)]
    return path(`M${num(x - 7)} ${num(foot)}C${num(x - bend)} ${num(foot - tall * 0.35)} ${num(x + bend + lean * 30)} ${num(foot - tall * 0.6)} ${num(x + lean * 50)} ${num(foot - tall)}C${num(x + bend + lean * 30 + 18)} ${num(foot - tall * 0.5)} ${num(x - bend + 20)} ${num(foot - tall * 0.3)} ${num(x + 9)} ${num(foot)}Z`, mix(tones.leaf[0] as string, tones.sky[2] as string, 0.25 + 0.15 * lean))
  }).join('')
  const coral = (x: number) => {
    const color = mix(dice.pick(tones.leaf.slice(1)), tones.sky[1] as string, 0.12)
    return place(stroke('M0 6V-50M0-18Q-26-24-26-58M0-30Q24-34 26-74M-26-40Q-40-44-40-62M26-54Q40-56 42-78M0-50Q-2-70 4-88', color, 12), x, sand.top(x) + 8, dice.between(0.7, 1.5))
  }
  const minnow = (x: number, y: number) => place(path('M-16 0Q-4-10 8 0L17-7V7L8 0Q-4 10-16 0Z', mix(tones.sky[0] as string, '#ffffff', 0.25), 0.5), x, y, dice.between(0.8, 1.3))
  const shoal = Array.from({ length: amount(stage, 2) }, () => [dice.between(0.05, 0.95) * width, dice.between(0.12, 0.5) * height] as const)
  const minnows = shoal.flatMap(([x, y]) => Array.from({ length: 8 }, () => minnow(x + dice.between(-110, 110), y + dice.between(-50, 50))))
  const along = (count: number, plant: (x: number) => string) => Array.from({ length: amount(stage, count) }, () => plant(dice.between(0, width))).join('')
  return rock.drawing + minnows.join('') + ridge.drawing + along(8, weed) + along(6, coral) + sand.drawing
}

function bubbles(stage: Stage): string {
  const { width, height, dice } = stage
  return Array.from({ length: amount(stage, 26) }, () => {
    const [x, y, r] = [dice.between(0, width), dice.between(0, height * 0.9), dice.between(4, 15)]
    return `<circle cx="${num(x)}" cy="${num(y)}" r="${num(r)}" fill="#ffffff" fill-opacity="0.14" stroke="#ffffff" stroke-width="2" opacity="0.6"/>`
  }).join('')
}

/** Plants or drifts along the lower edge, dark and near, which give the picture its depth. */
function fringe(stage: Stage): string {
  const { width, height, brief, tones, dice } = stage
  const kind = brief.place
  if (kind === 'city' || kind === 'deep' || (kind === 'ocean' && !brief.extras.has('snow'))) return ''
  if (brief.extras.has('snow')) return ground(stage, { base: height - 26, rise: 16, color: lighter(tones.near, 0.55), length: 600 }).drawing
  if (kind === 'desert') return Array.from({ length: amount(stage, 5) }, () => oval(dice.between(0, width), height - dice.between(-6, 10), dice.between(24, 70), dice.between(14, 34), darker(tones.near, 0.3))).join('')
  const blade = darker(tones.near, 0.28)
  const tuft = (x: number) => [-22, -9, 4, 17, 28].map((lean) => path(`M${num(x + lean * 0.4 - 6)} ${num(height)}Q${num(x + lean * 0.5)} ${num(height - 40)} ${num(x + lean * 1.4)} ${num(height - dice.between(40, 96))}Q${num(x + lean * 0.9 + 5)} ${num(height - 36)} ${num(x + lean * 0.4 + 7)} ${num(height)}Z`, mix(blade, dice.pick(tones.leaf), 0.25))).join('')
  const bloom = () => {
    const [x, y, color] = [dice.between(0, width), height - dice.between(20, 100), tones.tint(dice.pick(['#f4c84a', '#f08aa8', '#f6f1e6', '#e2574c', '#a98be0']), 0.5)]
    return stroke(`M${num(x)} ${num(height)}V${num(y)}`, blade, 3) + [0, 72, 144, 216, 288].map((turn) => turned(oval(x, y - 8, 5.5, 8, color), turn, x, y)).join('') + disc(x, y, 4.5, '#fff3c8')
  }
  const flowers = brief.extras.has('flowers') || (kind === 'meadow' && brief.hour !== 'night') ? Array.from({ length: amount(stage, 12) }, bloom).join('') : ''
  return Array.from({ length: amount(stage, 14) }, () => tuft(dice.between(0, width))).join('') + flowers
}

function weather(stage: Stage): string {
  const { width, height, brief, tones, dice } = stage
  const drops = () => {
    const [x, y, long] = [dice.between(0, width + 80), dice.between(-40, height), dice.between(26, 70)]
    return stroke(`M${num(x)} ${num(y)}l${num(-long * 0.28)} ${num(long)}`, '#dcebf5', 2.6, dice.between(0.3, 0.6))
  }
  const bands = () => box(dice.between(-200, width * 0.6), dice.between(height * 0.35, height * 0.92), dice.between(400, 900), dice.between(26, 60), mix(tones.haze, '#ffffff', 0.5), 30).replace('/>', ' opacity="0.28"/>')
  return [
    brief.extras.has('fog') ? Array.from({ length: amount(stage, 11) }, bands).join('') : '',
    brief.extras.has('rain') ? Array.from({ length: amount(stage, 130) }, drops).join('') : '',
  ].join('')
}

function snowfall(stage: Stage, each: number): string {
  const { width, height, brief, dice } = stage
  if (!brief.extras.has('snow')) return ''
  return Array.from({ length: amount(stage, each) }, () => disc(dice.between(0, width), dice.between(0, height), dice.next() ** 2 * 7 + 2.2, '#ffffff', dice.between(0.55, 0.95))).join('')
}
