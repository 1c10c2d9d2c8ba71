import {
  box,
  curve,
  darker,
  disc,
  hoop,
  lighter,
  mix,
  num,
  oval,
  path,
  place,
  stroke,
  turned,
  type Point,
} from './ink.ts'
import { several, type Stage } from './stage.ts'

/** The sky with what stands in it, down to the horizon. */
export function sky(stage: Stage): string {
  const { horizon, brief, dice } = stage
  const dark = brief.hour === 'night'
  const clear = !brief.extras.has('rain') && !brief.extras.has('fog')
  const calm = dark ? 2 : dice.whole(3, 5)
  return [
    backcloth(stage, horizon * 1.08),
    dark && (clear || brief.extras.has('stars')) ? stars(stage, horizon) : '',
    brief.extras.has('aurora') ? curtains(stage) : '',
    clear ? sunOrMoon(stage) : '',
    brief.extras.has('rainbow') ? rainbow(stage) : '',
    several(stage, brief.extras.has('rain') ? 9 : calm, () => cloud(stage)),
  ].join('')
}

/** The sky where there is no horizon: stars all the way down, a ringed planet and a small one. */
export function outerSpace(stage: Stage): string {
  const { width, height, horizon, focus, tones, dice } = stage
  const side = focus > width / 2 ? -1 : 1
  const warm = dice.pick(['#e88a5f', '#e8c06a', '#d977a0'])
  const cool = dice.pick(['#5fa8c8', '#7fc0a0', '#8f86d8'])
  return [
    backcloth(stage, height),
    stars(stage, height),
    disc(width / 2 - side * width * 0.3, horizon * 0.5, 260, mix(tones.sky[2] as string, '#d977a0', 0.3), 0.22),
    planet(
      width / 2 + side * width * dice.between(0.24, 0.33),
      horizon * dice.between(0.26, 0.36),
      dice.between(90, 140),
      warm,
      true,
    ),
    planet(
      width / 2 - side * width * dice.between(0.28, 0.38),
      horizon * dice.between(0.5, 0.75),
      dice.between(34, 58),
      cool,
      false,
    ),
  ].join('')
}

/** The three or four colours of the sky, from the top to `low`. */
export function backcloth({ width, height, tones }: Stage, low: number): string {
  const stops = tones.sky.map(
    (color, at) => `<stop offset="${(at / (tones.sky.length - 1)).toFixed(2)}" stop-color="${color}"/>`,
  )
  const gradient = `<linearGradient id="sky" gradientUnits="userSpaceOnUse" x1="0" y1="0" x2="0" y2="${num(low)}">${stops.join('')}</linearGradient>`
  return `<defs>${gradient}</defs>${box(0, 0, width, height, 'url(#sky)')}`
}

export function stars(stage: Stage, low: number): string {
  const { width, dice } = stage
  const spark = path('M0-9Q1-1 9 0Q1 1 0 9Q-1 1-9 0Q-1-1 0-9Z', '#fffbe8')
  const dots = several(stage, 90, () => {
    return disc(
      dice.between(0, width),
      low * dice.next() * dice.between(0.3, 1),
      dice.between(0.8, 2.6),
      '#fff8e2',
      dice.between(0.4, 1),
    )
  })
  return (
    dots +
    several(stage, 7, () => place(spark, dice.between(0, width), dice.between(0, low * 0.7), dice.between(0.7, 1.5)))
  )
}

/** A low sun stands large behind the subject; a high one, and the moon, keep to the other side. */
export function sunOrMoon({ width, horizon, focus, brief, tones, dice }: Stage): string {
  const moon = brief.hour === 'night'
  const low = !moon && (brief.hour !== 'day' || dice.chance(0.35))
  const radius = low ? dice.between(140, 190) : dice.between(62, 86)
  const side = focus > width / 2 ? -1 : 1
  const x = low ? focus + dice.between(-60, 60) : width / 2 + side * width * dice.between(0.2, 0.32)
  const y = low
    ? horizon - radius * dice.between(0.35, 0.9)
    : Math.max(radius * 1.6, horizon * dice.between(0.24, 0.36))
  const halos = [2.5, 1.9, 1.4].map((ring, at) => disc(x, y, radius * ring, tones.orb, 0.08 + at * 0.05))
  const spots = [
    [-0.3, -0.25, 0.2],
    [0.3, 0.15, 0.26],
    [-0.2, 0.4, 0.13],
    [0.25, -0.45, 0.1],
  ] as const
  const face = spots.map(([dx, dy, r]) =>
    disc(x + dx * radius, y + dy * radius, r * radius, mix(tones.orb, '#8f92b0', 0.25), 0.7),
  )
  return halos.join('') + disc(x, y, radius, tones.orb) + (moon ? face.join('') : '')
}

function cloud({ width, horizon, brief, tones, dice }: Stage): string {
  const night = brief.hour === 'night'
  const bright = mix(tones.sky.at(-1) as string, '#ffffff', night ? 0.05 : 0.55)
  const color = brief.extras.has('rain') ? mix(tones.sky[0] as string, '#4a5566', 0.35) : bright
  const puffs = [0.7, 1, 1, 0.7].map((size, at) => {
    return disc(-66 + at * 44 + dice.between(-9, 9), -dice.between(4, 16), dice.between(22, 40) * size, color)
  })
  const drawing = puffs.join('') + box(-112, -14, 224, 34, color, 17)
  const at = place(
    drawing,
    dice.between(-60, width + 60),
    dice.between(horizon * 0.06, horizon * 0.62),
    dice.between(0.6, 1.5),
  )
  return `<g opacity="${night ? 0.35 : 0.78}">${at}</g>`
}

export function rainbow({ width, horizon, dice }: Stage): string {
  const x = width * dice.between(0.35, 0.65)
  const outer = Math.min(width * 0.44, horizon * 0.86)
  return ['#e2574c', '#f0943f', '#f6cf57', '#67b26a', '#4a8fd0', '#8a63b8']
    .map((band, at) => {
      return hoop(x, horizon + 40, outer - at * 17, band, 17, 0.62)
    })
    .join('')
}

/** Northern lights: three veils that glow along their lower edge. */
export function curtains({ width, horizon, dice }: Stage): string {
  return ['#8a7bf0', '#4fd6c8', '#5ff0b0']
    .map((color, at) => {
      const [y, phase] = [horizon * (0.5 + at * 0.14), dice.between(0, 6)]
      const wave = (i: number) => y + 46 * Math.sin(phase + i * 0.8) + 22 * Math.sin(phase * 2 + i * 1.9)
      const edge = Array.from({ length: 20 }, (_, i): Point => [(width * i) / 19, wave(i)])
      const stops = `<stop offset="0.1" stop-color="${color}" stop-opacity="0"/><stop offset="1" stop-color="${color}" stop-opacity="0.6"/>`
      const fade = `<defs><linearGradient id="veil${at}" x1="0" y1="0" x2="0" y2="1">${stops}</linearGradient></defs>`
      return fade + path(`${curve(edge)}V${num(y - 330)}H0Z`, `url(#veil${at})`)
    })
    .join('')
}

function planet(x: number, y: number, r: number, color: string, ringed: boolean): string {
  const [edge, top, low] = [num(x + r * 0.2), num(y - r * 0.98), num(y + r * 0.98)]
  const night = path(
    `M${edge} ${top}A${num(r)} ${num(r)} 0 0 1 ${edge} ${low}Q${num(x + r * 0.95)} ${num(y)} ${edge} ${top}Z`,
    darker(color, 0.3),
  )
  const [from, to, level] = [num(x - r * 0.98), num(x + r * 0.98), num(y - r * 0.1)]
  const ring = stroke(
    `M${from} ${level}A${num(r * 1.7)} ${num(r * 0.42)} 0 1 0 ${to} ${level}`,
    lighter(color, 0.45),
    r * 0.13,
  )
  return [
    disc(x, y, r * 1.25, color, 0.12) + disc(x, y, r, color) + night,
    oval(x - r * 0.3, y - r * 0.35, r * 0.35, r * 0.14, lighter(color, 0.3), 0.6),
    oval(x - r * 0.1, y + r * 0.3, r * 0.5, r * 0.11, darker(color, 0.2), 0.5),
    ringed ? turned(ring, -16, x, y) : '',
  ].join('')
}

/** Flakes over everything drawn so far; `each` as in `several`. */
export function snowfall(stage: Stage, each: number): string {
  const { width, height, brief, dice } = stage
  if (!brief.extras.has('snow')) return ''
  const flake = () =>
    disc(
      dice.between(0, width),
      dice.between(0, height),
      dice.next() ** 2 * 7 + 2.2,
      '#ffffff',
      dice.between(0.55, 0.95),
    )
  return several(stage, each, flake)
}

export function rainfall(stage: Stage): string {
  const { width, height, brief, dice } = stage
  if (!brief.extras.has('rain')) return ''
  return several(stage, 130, () => {
    const long = dice.between(26, 70)
    const from = `M${num(dice.between(0, width + 80))} ${num(dice.between(-40, height))}`
    return stroke(`${from}l${num(-long * 0.28)} ${num(long)}`, '#dcebf5', 2.6, dice.between(0.3, 0.6))
  })
}

/** Banks of fog that are thickest in the middle of their height. */
export function fogbanks({ width, height, horizon, brief, tones }: Stage): string {
  if (!brief.extras.has('fog')) return ''
  const color = mix(tones.haze, '#ffffff', brief.hour === 'night' ? 0.15 : 0.5)
  const stops = [0, 0.75, 0]
    .map((thick, at) => `<stop offset="${at / 2}" stop-color="${color}" stop-opacity="${thick}"/>`)
    .join('')
  const bank = (y: number, tall: number) => box(0, y, width, tall, 'url(#fog)')
  const fade = `<defs><linearGradient id="fog" x1="0" y1="0" x2="0" y2="1">${stops}</linearGradient></defs>`
  const low = brief.place === 'ocean' ? '' : bank(horizon + (height - horizon) * 0.22, (height - horizon) * 0.55)
  return fade + bank(horizon - 190, 260) + low
}
