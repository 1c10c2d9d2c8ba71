import type { Draw } from './creatures.ts'
import { box, darker, disc, lighter, mix, num, oval, path, place, polygon, stroke, turned, type Point } from './ink.ts'
import { ground, grove, several, tone, type Ground, type Stage } from './stage.ts'
import { cactus, pine } from './things.ts'

const roundTree: Draw = ({ main, shade, ink, snow }) =>
  [
    box(-3, -40, 6, 40, mix('#6e4a35', ink, 0.25)),
    oval(0, -66, 30, 36, shade) + oval(-5, -70, 25, 31, snow ? mix(main, '#ffffff', 0.55) : main),
  ].join('')

/** Ranges from the horizon down to the floor; `at` says how far down, 0 to 1, and how near. */
function ranges(stage: Stage, look: { at: readonly number[]; rise: number; length: number }): Ground[] {
  const { horizon, floor } = stage
  return look.at.map((at, order) =>
    ground(stage, {
      base: horizon + (floor - horizon) * at,
      rise: look.rise * (1 - order * 0.24),
      color: tone(stage, 0.22 + (0.78 * order) / (look.at.length - 1)),
      length: look.length + order * 130,
    }),
  )
}

export function hills(stage: Stage): string {
  const { brief } = stage
  const wild = brief.extras.has('snow') || brief.place === 'mountains'
  const kinds = wild ? [pine] : [roundTree, roundTree, pine]
  const [far, middle, near, front] = ranges(stage, { at: [0.1, 0.36, 0.66, 0.92], rise: 46, length: 640 }) as [
    Ground,
    Ground,
    Ground,
    Ground,
  ]
  return [
    far.drawing + grove(stage, far, { each: 12, size: 46, depth: 0.2, kinds }),
    middle.drawing + grove(stage, middle, { each: 9, size: 90, depth: 0.5, kinds, clear: 120 }),
    near.drawing + grove(stage, near, { each: 6, size: 170, depth: 0.8, kinds, clear: 250 }),
    front.drawing,
  ].join('')
}

export function woods(stage: Stage): string {
  const kinds = stage.brief.extras.has('autumn') ? [roundTree] : [pine]
  const [far, middle, near, front] = ranges(stage, { at: [0.12, 0.4, 0.7, 0.94], rise: 30, length: 560 }) as [
    Ground,
    Ground,
    Ground,
    Ground,
  ]
  return [
    grove(stage, far, { each: 26, size: 200, depth: 0.12, kinds }) + far.drawing,
    grove(stage, middle, { each: 18, size: 270, depth: 0.4, kinds, clear: 70 }) + middle.drawing,
    grove(stage, near, { each: 11, size: 400, depth: 0.75, kinds, clear: 320 }) + near.drawing,
    front.drawing,
  ].join('')
}

export function dunes(stage: Stage): string {
  const [first, second, third, front] = ranges(stage, { at: [0.16, 0.42, 0.7, 0.94], rise: 40, length: 900 }) as [
    Ground,
    Ground,
    Ground,
    Ground,
  ]
  return [
    several(stage, 3, () => mesa(stage)) + first.drawing,
    second.drawing + grove(stage, second, { each: 4, size: 110, depth: 0.5, kinds: [cactus], clear: 200 }),
    third.drawing + grove(stage, third, { each: 4, size: 170, depth: 0.8, kinds: [cactus], clear: 260 }),
    front.drawing,
  ].join('')
}

function mesa({ width, horizon, tones, dice }: Stage): string {
  const [x, half, tall] = [dice.between(0, width), dice.between(90, 220), dice.between(70, 190)]
  const rock = mix(tones.haze, tones.tint('#a8543c'), 0.45)
  const at = (dx: number, dy: number): Point => [x + dx * half, horizon + 50 - dy * tall]
  return (
    polygon([at(-1, 0), at(-0.72, 0.8), at(-0.6, 1), at(0.5, 1), at(0.62, 0.7), at(1, 0)], rock) +
    polygon([at(0.14, 1), at(0.5, 1), at(0.62, 0.7), at(1, 0), at(0.3, 0)], darker(rock, 0.13))
  )
}

/** Two rows of snow-capped peaks behind whatever else there is. */
export function mountains(stage: Stage): string {
  const { width, horizon, dice } = stage
  const many = Math.min(14, Math.max(3, Math.round(width / 300)))
  const row = (count: number, low: number, high: number, depth: number) =>
    Array.from({ length: count }, (_, at) => {
      return peak(stage, (width * (at + dice.between(0.2, 0.8))) / count, horizon * dice.between(low, high), depth)
    }).join('')
  return row(many, 0.3, 0.5, 0.28) + row(Math.ceil(many * 0.7), 0.42, 0.68, 0.55)
}

function peak({ horizon, tones, dice }: Stage, x: number, tall: number, depth: number): string {
  const half = tall * dice.between(0.75, 1.05)
  const rock = mix(tones.haze, tones.tint('#5b6b8c'), depth)
  const at = (dx: number, down: number): Point => [x + dx * half, horizon + 60 - tall * (1 - down)]
  const sunny = [
    at(0, 0),
    at(0.3, 0.3),
    at(0.17, 0.26),
    at(0.08, 0.37),
    at(-0.05, 0.27),
    at(-0.15, 0.36),
    at(-0.3, 0.3),
  ]
  return [
    polygon([at(-1, 1), at(0, 0), at(1, 1)], rock),
    polygon([at(0, 0), at(1, 1), at(0.1, 1), at(-0.06, 0.5), at(0.08, 0.3)], darker(rock, 0.16)),
    polygon(sunny, tones.tint('#ffffff', 0.45)),
    polygon([...sunny.slice(0, 4), at(-0.02, 0.2)], mix(tones.tint('#c9d8ea', 0.6), rock, 0.15)),
  ].join('')
}

export function streets(stage: Stage): string {
  const { width, height, horizon, floor } = stage
  const curb = horizon + (floor - horizon) * 0.55
  return [
    blocks(stage, { foot: curb, low: 0.45, high: 0.85, wide: 110, depth: 0 }),
    blocks(stage, { foot: curb, low: 0.3, high: 0.62, wide: 140, depth: 1 }),
    blocks(stage, { foot: curb, low: 0.16, high: 0.4, wide: 170, depth: 2 }),
    box(0, curb, width, height - curb, tone(stage, 0.7)) + box(0, curb + 34, width, height - curb, tone(stage, 1)),
    grove(stage, { top: () => curb + 30 }, { each: 7, size: 150, depth: 0.9, kinds: [roundTree], clear: 200 }),
  ].join('')
}

function blocks(stage: Stage, row: { foot: number; low: number; high: number; wide: number; depth: number }): string {
  const { width, horizon, tones, dice } = stage
  const count = Math.min(26, Math.ceil(width / (row.wide * 0.86)))
  const stone = mix(tones.haze, tones.tint('#3f4c72'), 0.28 + row.depth * 0.3)
  return Array.from({ length: count }, (_, at) => {
    const color = mix(stone, dice.pick(['#b5607a', '#4a86b0', '#c98a5a']), 0.12)
    const [wide, tall] = [row.wide * dice.between(0.8, 1.05), dice.between(row.low, row.high) * horizon]
    return place(
      building(stage, { wide, tall, color, windows: row.depth > 0 }),
      (width * at) / count - row.wide * 0.1,
      row.foot,
      1,
    )
  }).join('')
}

function building(
  { brief, dice }: Stage,
  { wide, tall, color, windows }: { wide: number; tall: number; color: string; windows: boolean },
): string {
  const neon = brief.extras.has('neon')
  const lit = neon || brief.hour === 'night' || brief.hour === 'sunset'
  const lamps = neon ? ['#ff5fae', '#57e4ff', '#b98bff', '#ffd772'] : ['#ffd772', '#ffe9a8', '#f7b85a']
  const rows = windows ? Math.min(10, Math.floor((tall - 20) / 34)) : 0
  const panes = Array.from({ length: Math.max(0, rows * 4) }, (_, at) => {
    if (!dice.chance(lit ? 0.6 : 0.85)) return ''
    const [x, y] = [wide * (0.14 + (at % 4) * 0.2), 18 + Math.floor(at / 4) * 34 - tall]
    return box(x, y, wide * 0.12, 16, lit ? dice.pick(lamps) : lighter(color, 0.35), 1)
  })
  const roof = dice.pick([
    '',
    box(wide / 2 - 2, -tall - 60, 4, 61, color),
    box(wide * 0.2, -tall - 26, wide * 0.6, 27, color),
    polygon(
      [
        [0, -tall + 1],
        [wide / 2, -tall - wide * 0.8],
        [wide, -tall + 1],
      ],
      color,
    ),
  ])
  const sign =
    neon && windows && dice.chance(0.5)
      ? box(wide * 0.78, -tall + 24, 9, Math.min(120, tall * 0.5), dice.pick(lamps), 4)
      : ''
  return (
    roof +
    box(0, -tall, wide, tall + 40, color) +
    box(wide * 0.7, -tall, wide * 0.3, tall + 40, darker(color, 0.1)) +
    panes.join('') +
    sign
  )
}

export function moonscape(stage: Stage): string {
  const { width, height, horizon, floor, dice } = stage
  const far = ground(stage, { base: horizon + (floor - horizon) * 0.4, rise: 30, color: tone(stage, 0.45) })
  const near = ground(stage, {
    base: horizon + (floor - horizon) * 0.72,
    rise: 16,
    color: tone(stage, 1),
    length: 1000,
  })
  const crater = () => {
    const [x, y, r] = [dice.between(0, width), dice.between(near.top(0) + 50, height), dice.between(18, 60)]
    return (
      oval(x, y, r, r * 0.3, darker(near.color, 0.22)) +
      oval(x, y + r * 0.08, r * 0.88, r * 0.22, darker(near.color, 0.12))
    )
  }
  return far.drawing + near.drawing + several(stage, 9, crater)
}

/** What grows or lies along the lower edge, dark and near, which gives the picture its depth. */
export function fringe(stage: Stage): string {
  const { width, height, brief, tones, dice } = stage
  const { place: where, extras } = brief
  if (where === 'city' || where === 'deep' || where === 'space') return ''
  if (extras.has('snow'))
    return ground(stage, { base: height - 26, rise: 16, color: lighter(tones.near, 0.55), length: 600 }).drawing
  if (where === 'ocean') return ''
  const stone = () =>
    oval(
      dice.between(0, width),
      height - dice.between(-6, 10),
      dice.between(24, 70),
      dice.between(14, 34),
      darker(tones.near, 0.3),
    )
  if (where === 'desert') return several(stage, 5, stone)
  const blooming = extras.has('flowers') || (where === 'meadow' && brief.hour !== 'night')
  return several(stage, 14, () => tuft(stage)) + (blooming ? several(stage, 12, () => bloom(stage)) : '')
}

function tuft({ width, height, tones, dice }: Stage): string {
  const x = dice.between(0, width)
  return [-22, -9, 4, 17, 28]
    .map((lean) => {
      const [left, tip, right] = [num(x + lean * 0.4 - 6), num(x + lean * 1.4), num(x + lean * 0.4 + 7)]
      const blade = `M${left} ${num(height)}Q${num(x + lean * 0.5)} ${num(height - 40)} ${tip} ${num(height - dice.between(40, 96))}`
      const color = mix(darker(tones.near, 0.28), dice.pick(tones.leaf), 0.25)
      return path(`${blade}Q${num(x + lean * 0.9 + 5)} ${num(height - 36)} ${right} ${num(height)}Z`, color)
    })
    .join('')
}

function bloom({ width, height, tones, dice }: Stage): string {
  const [x, y] = [dice.between(0, width), height - dice.between(20, 100)]
  const color = tones.tint(dice.pick(['#f4c84a', '#f08aa8', '#f6f1e6', '#e2574c', '#a98be0']), 0.5)
  const petals = [0, 72, 144, 216, 288].map((turn) => turned(oval(x, y - 8, 5.5, 8, color), turn, x, y))
  return (
    stroke(`M${num(x)} ${num(height)}V${num(y)}`, darker(tones.near, 0.28), 3) +
    petals.join('') +
    disc(x, y, 4.5, '#fff3c8')
  )
}
