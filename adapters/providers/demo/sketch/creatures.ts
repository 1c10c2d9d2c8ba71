import { both, box, darker, disc, lighter, mix, oval, path, place, stroke, turned, wreath, type Dice } from './ink.ts'

/** Colours already tinted by the hour, and what a drawing may show of it: snow on roofs, lamps that are lit. */
export type Paint = {
  main: string
  shade: string
  light: string
  accent: string
  ink: string
  snow: boolean
  lit: boolean
  dice: Dice
}

/** A subject stands with its feet at (0, 0) and its head near y = -100. */
export type Draw = (paint: Paint) => string

const eye = (x: number, y: number, r: number, ink: string) =>
  disc(x, y, r, ink) + disc(x + r * 0.3, y - r * 0.35, r * 0.35, '#ffffff')
const eyes = (x: number, y: number, r: number, ink: string) => eye(-x, y, r, ink) + eye(x, y, r, ink)

export const fox: Draw = ({ main, shade, light, ink }) =>
  [
    path('M12-3C40 2 66-16 60-46C57-60 44-66 37-58C45-44 36-24 12-22Z', shade),
    path('M60-46C57-60 44-66 37-58C40-53 41-48 40-42L46-46L50-39L55-45L59-39Q61-42 60-46Z', light),
    path('M-21 0C-27-24-17-44 0-52C17-44 27-24 21 0Z', main),
    path('M0-52C17-44 27-24 21 0H4Z', shade),
    path('M0-50C-15-42-13-20 0-8C13-20 15-42 0-50Z', light),
    both(path('M3 0C1-10 2-22 6-24C13-22 14-8 13 0Z', main) + path('M2.6 0C2-4 2-8 2.4-10H13.4Q13.6-5 13 0Z', ink)),
    both(path('M5-78L22-104Q29-86 25-66Z', shade) + path('M12-80L21-95Q24-84 22-74Z', ink)),
    path('M0-40L-31-62Q-22-86 0-87Q22-86 31-62Z', main),
    path('M0-40L31-62Q22-86 0-87Z', mix(main, shade, 0.4)),
    both(path('M0-40L31-62Q15-64 7-56Q3-54 0-52Z', light)),
    path('M-6-57Q0-90 0-87Q0-90 6-57L0-48Z', main),
    both(stroke('M9-63Q13.5-67 18-63', ink, 2.4)),
    oval(0, -43.5, 4.2, 3.4, ink),
  ].join('')

const feline = ({ main, shade, light, accent, ink }: Paint, fur: { stripes?: boolean; mane?: string }): string => {
  const ears = path('M4-74L21-96Q27-80 24-62Z', main) + path('M11-76L20-88Q22-80 21-71Z', accent)
  const stripes =
    both(stroke('M20-30L11-28M21-19L12-18M24-60L16-59M24-66L17-64', ink, 2.6)) +
    stroke('M0-80V-72M-6-79V-73M6-79V-73', ink, 2.4)
  return [
    stroke('M14-5C44 0 54-20 44-40', fur.mane ? main : shade, 8),
    fur.mane ? disc(44, -43, 7, fur.mane) : '',
    path('M-22 0C-28-24-15-46 0-50C15-46 28-24 22 0Z', main),
    path('M0-50C15-46 28-24 22 0H4Z', shade),
    path('M0-44C-9-36-9-18 0-10C9-18 9-36 0-44Z', light),
    both(oval(8.5, -3.5, 7.5, 4.5, light)),
    fur.mane ? wreath(path('M-11-24L0-40L11-24Z', fur.mane), 12, 0, -60) + disc(0, -60, 30, fur.mane) : '',
    both(fur.mane ? disc(19, -78, 7, shade) + disc(19, -78, 3.5, light) : ears),
    oval(0, -62, 25, 19.5, main),
    path('M0-42.5C18-43 25-52 25-62C25-72 15-81 0-81.5Q10-62 0-42.5Z', mix(main, shade, 0.5)),
    fur.stripes ? stripes : '',
    both(oval(5.5, -52.5, 8, 6.5, light)),
    both(oval(10.5, -64, 4.6, 5.4, mix('#f3d76a', light, 0.2)) + oval(10.5, -64, 1.9, 4.6, ink)),
    path('M-3.5-57H3.5L0-53Z', mix('#e58a8a', ink, 0.1)),
    both(stroke('M0-53Q3-49 6-51', ink, 1.4) + stroke('M14-53L30-56M14-50L29-48', ink, 0.8, 0.7)),
  ].join('')
}
export const cat: Draw = (paint) => feline(paint, {})
export const tiger: Draw = (paint) => feline(paint, { stripes: true })
export const lion: Draw = (paint) => feline(paint, { mane: darker(mix(paint.main, '#a04a1c', 0.6), 0.05) })

export const dog: Draw = ({ main, shade, light, accent, ink }) =>
  [
    stroke('M16-8C32-8 40-20 38-36', main, 8),
    path('M-22 0C-27-24-16-46 0-50C16-46 27-24 22 0Z', main),
    path('M0-50C16-46 27-24 22 0H4Z', shade),
    path('M0-46C-11-38-10-16 0-8C10-16 11-38 0-46Z', light),
    both(path('M3 0C2-12 3-22 8-23C14-22 14-8 14 0Z', main) + oval(8.5, -3, 7, 4.2, light)),
    path('M-21-62C-22-82-12-92 0-92C12-92 22-82 21-62C20-46 10-42 0-42C-10-42-20-46-21-62Z', main),
    path('M4-92C16-91 22-80 21-62C20-50 14-44 5-42Q14-66 4-92Z', mix(main, shade, 0.5)),
    path('M-5-91Q0-93 5-91Q3-74 6-66H-6Q-3-74-5-91Z', light),
    both(path('M14-89C26-96 36-84 34-66C33-54 25-52 22-60C20-70 20-80 14-89Z', shade)),
    oval(0, -55, 13, 11.5, light),
    path('M-4-50H4V-43A4 4 0 0 1-4-43Z', '#e5787a'),
    stroke('M0-58V-52M-7-51Q-3-47 0-51Q3-47 7-51', ink, 1.6),
    oval(0, -61, 5.4, 3.8, ink),
    eyes(10.5, -71, 3.4, ink),
    stroke('M-14-44Q0-36 14-44', accent, 4.5),
    disc(0, -37, 3.4, mix('#f2c14e', ink, 0.05)),
  ].join('')

export const rabbit: Draw = ({ main, shade, light, ink }) =>
  [
    disc(21, -12, 8, light),
    oval(0, -20, 22, 21, main),
    path('M2-41C16-40 22-30 22-20C22-8 14 0 4 1Q16-20 2-41Z', shade),
    oval(0, -16, 11, 14, light),
    both(turned(oval(8, -82, 6.4, 23, main) + oval(8, -81, 3.2, 17, mix('#efa7a7', main, 0.2)), 8, 8, -64)),
    oval(0, -53, 19, 17, main),
    path('M3-70C14-69 19-61 19-53C19-44 12-37 4-36Q13-54 3-70Z', mix(main, shade, 0.6)),
    both(oval(9, -2, 10, 5, light) + disc(12.5, -47, 3.6, '#f0a3a3', 0.6)),
    eyes(8.5, -55, 2.9, ink),
    path('M-2.8-49H2.8L0-46Z', '#d97b82'),
    stroke('M0-46V-44M-4-44.5Q-2-42 0-44Q2-42 4-44.5', ink, 1.2),
  ].join('')

const bearlike = ({ main, shade, light, ink }: Paint, limbs: string, patches: boolean): string =>
  [
    both(disc(18, -86, 9, limbs) + disc(18, -86, 4.5, darker(limbs, 0.25))),
    path('M-30 0C-36-30-24-52 0-54C24-52 36-30 30 0Z', main),
    path('M0-54C24-52 36-30 30 0H6Q22-30 0-54Z', shade),
    oval(0, -22, 17, 19, light),
    both(
      path('M20-48C34-44 40-26 34-14C30-8 22-12 23-20Z', limbs) +
        oval(19, -5, 13, 8, limbs) +
        oval(19, -4, 6.5, 4, lighter(limbs, 0.25)),
    ),
    oval(0, -69, 26, 22, main),
    path('M4-91C18-90 26-81 26-69C26-57 18-48 6-47Q20-69 4-91Z', mix(main, shade, 0.5)),
    patches ? both(turned(oval(11, -71, 6.5, 8.5, limbs), 24, 11, -71)) + both(disc(11, -72, 2.2, '#fff')) : '',
    oval(0, -60, 12, 9.5, light),
    oval(0, -64, 4.8, 3.5, ink),
    stroke('M0-61V-57M-5-56Q-2-53 0-56.5Q2-53 5-56', ink, 1.5),
    patches ? '' : eyes(10.5, -71, 2.8, ink),
  ].join('')
export const bear: Draw = (paint) => bearlike(paint, paint.shade, false)
export const panda: Draw = (paint) =>
  bearlike({ ...paint, main: paint.light, shade: mix(paint.light, paint.ink, 0.14) }, paint.ink, true)

type Hair = { antlers?: boolean; mane?: boolean; horn?: boolean; spots?: string; low?: number }

/** Deer, horse, unicorn and cow are one standing body with different hair; `low` is how far the head hangs below a deer's. */
const hoofed = ({ main, shade, light, accent, ink }: Paint, has: Hair): string => {
  const low = has.low ?? 0
  const leg = (x: number, color: string) =>
    path(`M${x - 5}-42H${x + 6}L${x + 3} 0H${x - 3}Z`, color) + box(x - 3.2, -4.5, 6.4, 4.5, ink)
  const spot = ([x, y, r]: readonly number[]) =>
    oval(x as number, y as number, r as number, (r as number) * 0.75, has.spots as string)
  const hair = has.mane ? path('M4-62C10-78 15-94 29-97L28-86C22-78 20-66 18-56Z', accent) : ''
  const antlers = has.antlers
    ? both(stroke('M4-1C12-8 10-18 18-26M10-8L20-12M13-17L5-24', mix('#b98f62', ink, 0.15), 2.6))
    : ''
  const horns = has.spots && !has.antlers ? stroke('M29-93Q26-99 30-102', '#e9dfc8', 3.2) : ''
  const head = [
    place(antlers, 31, -93, 1),
    path('M26-92L15-98Q17-89 27-87Z', shade),
    path('M24-91C31-99 41-94 51-83C54-78 51-74 46-74L33-76C26-79 22-86 24-91Z', main),
    path('M44-89L51-83C54-78 51-74 46-74L40-75Q45-81 44-89Z', light),
    has.horn ? path('M31-95L40-119L37-93Z', '#f7d774') : '',
    horns + eye(34, -86, 2.5, ink) + disc(49, -79, 1.3, ink),
  ].join('')
  return [
    leg(-17, shade) + leg(21, shade),
    has.mane ? path('M-26-60C-48-60-48-32-42-18C-34-26-34-46-24-50Z', accent) : path('M-25-60L-37-52L-26-46Z', light),
    path(`M2-60L25-${90 - low}L39-${80 - low}L32-44Z`, main),
    leg(-24, main) + leg(14, main),
    path('M-28-56C-20-68 8-66 22-62C34-56 33-42 26-35Q0-28-24-34C-32-40-33-48-28-56Z', main),
    path('M-30-44Q2-36 31-44Q29-38 26-35Q0-28-24-34Q-29-38-30-44Z', mix(main, shade, 0.6)),
    has.spots
      ? [
          [-16, -56, 5],
          [-4, -60, 4],
          [3, -51, 5.5],
          [-21, -47, 3.5],
          [14, -56, 4],
        ]
          .map(spot)
          .join('')
      : '',
    hair,
    place(head, 0, low, 1),
  ].join('')
}
export const deer: Draw = (paint) => hoofed(paint, { antlers: true, spots: paint.light })
export const horse: Draw = (paint) => hoofed(paint, { mane: true })
export const unicorn: Draw = (paint) => hoofed(paint, { mane: true, horn: true })
export const cow: Draw = (paint) => hoofed(paint, { spots: paint.ink, low: 20 })

export const sheep: Draw = ({ main, light, ink }) => {
  const puff = (i: number) =>
    disc(
      -4 + 25 * Math.cos(i * 0.524),
      -40 + 17 * Math.sin(i * 0.524),
      11,
      i > 0 && i < 6 ? mix(light, main, 0.16) : light,
    )
  return [
    [-18, -8, 8, 16].map((x) => box(x - 3, -22, 6, 22, main, 2)).join(''),
    Array.from({ length: 12 }, (_, i) => puff(i)).join('') + oval(-4, -42, 26, 17, light),
    path('M20-62C30-66 38-60 40-50C42-40 36-32 30-34C22-38 18-50 20-62Z', main),
    path('M20-58L8-54Q12-48 21-50Z', main),
    disc(20, -64, 7, light) + disc(28, -66, 6, light),
    eye(30, -52, 2.6, '#fff') + disc(30.6, -52, 1.5, ink),
  ].join('')
}

export const elephant: Draw = ({ main, shade, light, accent, ink }) =>
  [
    stroke('M-38-54Q-50-44-46-28', shade, 3.5),
    box(-26, -28, 13, 28, shade, 3) + box(10, -28, 13, 28, shade, 3),
    path('M-40-38C-42-70-10-80 14-72C32-66 34-40 28-26Q-4-12-36-24C-40-28-40-32-40-38Z', main),
    box(-36, -34, 14, 34, main, 4) + box(16, -34, 14, 34, main, 4),
    path('M-22-74Q-4-80 10-74L6-46Q-6-42-18-46Z', accent),
    path('M18-76C36-86 54-74 52-54C52-40 58-26 64-18C66-12 58-8 54-14C44-24 40-36 36-44C24-46 14-60 18-76Z', main),
    path('M40-44Q48-36 52-38Q48-30 41-34Z', light),
    path('M8-78C26-88 34-66 28-50C24-40 14-44 10-52C4-62 0-74 8-78Z', shade),
    eye(40, -64, 2.6, ink),
  ].join('')

const stump = (ink: string) =>
  [
    path('M-18 0L-14-20H14L18 0Z', mix('#8a6043', ink, 0.15)),
    oval(0, -20, 14, 4, mix('#d3a878', ink, 0.1)) + oval(0, -20, 7, 2, mix('#8a6043', ink, 0.1)),
  ].join('')

export const bird: Draw = ({ main, shade, light, accent, ink }) =>
  stump(ink) +
  place(
    [
      path('M-30-40L-58-26L-54-20L-40-22L-46-14L-20-24Z', shade),
      stroke('M-2-16V-4M7-15V-4', accent, 2.4),
      path('M-36-38C-22-66 4-92 24-82C42-74 40-40 24-24C6-8-22-18-36-38Z', main),
      path('M36-58C40-42 34-30 24-24C8-10-14-16-24-26C4-26 24-38 36-58Z', light),
      path('M-40-36C-26-62-6-62 8-54C10-34-8-22-40-36Z', shade),
      stroke('M-22-37Q-8-36 2-46M-14-43Q-6-43 2-52', main, 2),
      path('M34-74L52-67L34-62Z', accent),
      eye(24, -70, 3.2, ink),
    ].join(''),
    0,
    -16,
    0.8,
  )

export const owl: Draw = ({ main, shade, light, accent, ink }) =>
  stump(ink) +
  place(
    [
      path('M0-92C30-92 32-62 30-40C28-16 14-6 0-6C-14-6-28-16-30-40C-32-62-30-92 0-92Z', main),
      both(path('M22-72C36-56 36-26 20-12C22-34 20-54 14-64Z', shade) + path('M4-88L26-100Q28-84 24-76Z', main)),
      path('M0-58C16-54 20-30 12-14Q0-6-12-14C-20-30-16-54 0-58Z', light),
      stroke('M-10-44L-6-40L-2-44M2-44L6-40L10-44M-4-36L0-32L4-36M-11-28L-7-24L-3-28M3-28L7-24L11-28', shade, 2),
      both(
        disc(11, -72, 12, light) + disc(11, -72, 8, '#f4c84a') + disc(11, -72, 4.4, ink) + disc(12.5, -74, 1.5, '#fff'),
      ),
      path('M-4-66L0-56L4-66Q0-70-4-66Z', accent),
      both(oval(8, -5, 6, 3, accent)),
    ].join(''),
    0,
    -16,
    0.8,
  )

export const penguin: Draw = ({ main, shade, light, accent, ink }) =>
  [
    both(oval(11, -3, 12, 5, accent)),
    path('M0-100C22-100 26-76 28-52C32-18 20-3 0-3C-20-3-32-18-28-52C-26-76-22-100 0-100Z', main),
    both(path('M24-60C38-48 42-30 34-18C28-26 26-42 24-60Z', shade)),
    path('M0-66C18-66 21-40 20-28C18-12 10-6 0-6C-10-6-18-12-20-28C-21-40-18-66 0-66Z', light),
    both(oval(8.5, -76, 10, 12, light)),
    eyes(9, -79, 3.2, ink),
    path('M-7-72Q0-76 7-72L0-63Z', accent),
    both(disc(14, -69, 3.4, '#f2a0a0', 0.6)),
  ].join('')

export const duck: Draw = ({ main, shade, light, accent, ink }) =>
  [
    path(
      'M-58-34C-50-30-44-38-30-40C-6-44 12-30 14-48C12-60 14-74 28-76C44-76 48-60 40-48C44-34 42-6 18 2H-30C-48-2-58-18-58-34Z',
      main,
    ),
    path('M-58-34C-52-14-40-4 30-4Q24 0 18 2H-30C-48-2-58-18-58-34Z', shade),
    path('M-34-30C-18-40 6-32 10-18C-4-8-26-10-34-30Z', mix(main, light, 0.35)),
    path('M42-66C52-66 58-62 62-58C56-54 48-54 41-56Z', accent),
    eye(33, -65, 2.8, ink),
  ].join('')

export const swan: Draw = ({ main, shade, light, accent, ink }) =>
  [
    path('M-58-40C-44-36-30-52-6-50C20-48 36-34 34-16C32-2 18 4-2 4H-22C-46 2-60-18-58-40Z', main),
    path('M-58-40C-54-16-30-4 33-12C30-2 18 4-2 4H-22C-46 2-60-18-58-40Z', shade),
    stroke('M22-26C46-40 10-66 22-86C26-92 34-94 40-91', main, 11),
    path('M-34-34C-14-48 12-36 14-22C-4-12-26-16-34-34Z', light),
    disc(37, -89, 9, main) + path('M42-94L62-86L44-82Z', accent) + path('M40-96L47-92L45-84L38-90Z', ink),
    eye(37, -91, 1.8, ink),
  ].join('')

export const eagle: Draw = ({ main, shade, light, accent, ink }) =>
  [
    path('M-4-40C-30-78-66-88-104-80L-92-70L-100-62L-82-58L-86-50L-62-48L-62-40C-40-34-20-30-4-26Z', main),
    path('M4-40C30-80 66-92 104-86L92-75L101-68L84-62L88-54L66-50L66-42C44-34 22-30 4-26Z', shade),
    path('M0-56C14-54 18-36 12-22L16 0L0-6L-16 0L-12-22C-18-36-14-54 0-56Z', main),
    path('M-16 0L-10-16Q0-10 10-16L16 0L0-6Z', light),
    disc(0, -58, 11, light),
    path('M-4-54Q0-58 4-54Q4-46 0-43Q-4-46-4-54Z', accent),
    eyes(5, -61, 1.9, ink),
  ].join('')

export const butterfly: Draw = ({ main, shade, light, accent, ink }) =>
  [
    both(
      [
        path('M3-52C18-104 72-104 70-70C68-50 36-44 3-46Z', main),
        path('M3-44C30-46 58-36 52-14C46 6 14-4 3-36Z', shade),
        path('M10-56C24-88 56-88 54-70C50-58 30-54 10-56Z', accent),
        disc(34, -22, 8, accent) + disc(58, -78, 4, light) + disc(46, -88, 2.6, light) + disc(64, -66, 2.6, light),
        stroke('M2-68C6-84 12-90 20-92', ink, 1.8) + disc(20, -92, 2.4, ink),
      ].join(''),
    ),
    oval(0, -44, 4.2, 26, ink),
  ].join('')

export const whale: Draw = ({ main, shade, light, ink }) =>
  [
    stroke('M-24-66C-26-82-38-88-44-80M-24-66C-22-84-10-90-4-82M-24-66V-88', lighter('#9fdcec', 0.35), 4.5),
    path('M58-26C70-34 74-48 72-60C80-52 84-52 96-60C96-44 86-34 72-20Z', shade),
    path('M-70-10C-74-44-44-64-14-60C24-56 46-34 66-36C78-32 74-14 62-8C44 6 14 14-20 14C-48 14-68 6-70-10Z', main),
    path('M-70-10C-50-2-20-2 8-8C4 4-8 14-20 14C-48 14-68 6-70-10Z', light),
    stroke('M-58 2Q-34 8-6 4M-48 9Q-30 12-14 9', mix(light, main, 0.5), 2),
    path('M-8-6C-4 10-16 20-28 20C-30 10-24-2-8-6Z', shade),
    stroke('M-68-14Q-52-8-40-16', ink, 1.8),
    eye(-42, -26, 3.2, ink),
  ].join('')

export const fish: Draw = ({ main, shade, light, accent, ink }) =>
  place(
    [
      path('M34 0C50-24 64-28 70-24C62-8 62 8 70 24C64 28 50 24 34 0Z', accent),
      path('M-22-24C-10-46 20-44 30-22Z', accent) + path('M-6 24C2 40 20 38 26 20Z', accent),
      path('M-54 2C-40-26-4-40 42-4Q44 0 42 4C-4 38-42 30-54 2Z', main),
      path('M-54 2C-42 10-10 16 42 4C-4 38-42 30-54 2Z', shade),
      path('M-22-22Q-12 0-22 23Q-14 27-8 27Q4 0-6-26Q-14-26-22-22Z', light) +
        path('M14-21Q22 0 14 20Q20 17 25 14Q31 0 25-15Z', light),
      path('M-4 2C8-8 18-2 18 8C10 14 0 12-4 2Z', accent),
      disc(-37, -5, 7, '#fff') + disc(-38.5, -5, 3.8, ink) + disc(-40, -6.5, 1.3, '#fff'),
      stroke('M-53 4Q-47 8-43 6', ink, 1.8),
    ].join(''),
    0,
    -45,
    1,
  )

export const jellyfish: Draw = ({ main, shade, light, accent }) =>
  [
    [-24, 0, 24]
      .map((x) => stroke(`M${x}-58C${x - 14}-44 ${x + 14}-34 ${x}-20S${x - 8}-8 ${x - 2}-10`, shade, 6))
      .join(''),
    [-12, 12]
      .map((x) => stroke(`M${x}-58C${x - 14}-44 ${x + 14}-34 ${x}-20S${x - 8}-8 ${x - 2}-1`, accent, 6))
      .join(''),
    path('M-38-58C-40-112 40-112 38-58Q28-50 19-58Q10-50 0-58Q-10-50-19-58Q-28-50-38-58Z', main),
    path('M8-98C34-96 38-74 38-58Q28-50 19-58Q28-80 8-98Z', shade),
    both(disc(12, -72, 3.4, '#20243a')) + stroke('M-4-66Q0-63 4-66', '#20243a', 1.8) + oval(-16, -86, 7, 4, light, 0.7),
  ].join('')

export const turtle: Draw = ({ main, shade, light, ink }) =>
  [
    both(path('M22-16C34-18 40-6 36 0H20Z', light)),
    path('M38-22C52-40 68-34 66-22C64-12 50-10 36-12Z', light),
    path('M-46-14C-44-56 38-60 46-14Q0-6-46-14Z', main),
    path('M-46-14Q0-6 46-14Q44-8 40-7Q0 0-40-7Q-44-8-46-14Z', shade),
    path('M-12-42L10-43L18-28L2-18L-18-26Z', shade) +
      path('M-38-20Q-36-34-24-38L-22-22Z', shade) +
      path('M36-20Q34-34 22-39L24-22Z', shade),
    eye(57, -26, 2.6, ink),
    stroke('M56-17Q61-17 64-20', ink, 1.6),
  ].join('')

export const frog: Draw = ({ main, shade, light, ink }) =>
  [
    both(path('M14-22C40-44 54-18 34-4L52 0H20Z', shade) + disc(16, -66, 13, main)),
    path('M-38-46C-38-70 38-70 38-46C38-34 34-26 30-18C24-2-24-2-30-18C-34-26-38-34-38-46Z', main),
    path('M-28-30Q0-16 28-30C24-6 12-2 0-2C-12-2-24-6-28-30Z', light),
    both(
      path('M10-22C18-20 18-8 14-4L22 0H2L8-6Z', main) +
        disc(16, -68, 8, '#ffffff') +
        disc(16, -68, 4.6, ink) +
        disc(25, -46, 4, '#f0a3a3', 0.5),
    ),
    stroke('M-20-42Q0-30 20-42', ink, 2.2),
  ].join('')

export const dragon: Draw = ({ main, shade, light, accent, ink }) =>
  [
    both(path('M12-48C30-88 52-98 78-96C70-86 70-76 74-66C64-68 58-62 56-52C46-56 38-50 34-42Z', accent)),
    both(stroke('M16-50C32-80 52-92 76-95M34-74L56-53M44-84L73-67', darker(accent, 0.3), 1.8)),
    path('M10-4C40 4 60-4 62-26L72-24L60-44L50-24L57-26C54-14 40-14 18-20Z', shade),
    path('M-24 0C-30-26-15-48 0-54C15-48 30-26 24 0Z', main) + path('M0-54C15-48 30-26 24 0H8Z', shade),
    path('M0-46C-14-38-14-12 0-3C14-12 14-38 0-46Z', light) +
      stroke('M-8-34H8M-10-25H10M-9-16H9', mix(light, shade, 0.4), 1.6),
    both(oval(14, -4, 10, 5, main) + path('M8-82L20-104Q24-88 18-76Z', light) + path('M17-74L36-80L22-62Z', shade)),
    path('M-3-84L0-100L3-84Z', accent),
    path('M-24-66C-24-82-12-88 0-88C12-88 24-82 24-66C24-52 14-44 0-44C-14-44-24-52-24-66Z', main),
    path('M4-88C16-86 24-80 24-66C24-54 17-47 7-45Q18-66 4-88Z', mix(main, shade, 0.5)),
    oval(0, -54, 16, 9.5, light) + both(disc(5, -57, 1.6, ink)),
    eyes(11, -69, 4, ink) + stroke('M-7-51Q0-47 7-51', ink, 1.6),
  ].join('')
