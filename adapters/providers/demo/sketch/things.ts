import type { Draw, Paint } from './creatures.ts'
import { both, box, darker, disc, hoop, lighter, mix, oval, path, place, stroke, turned, wreath } from './ink.ts'

const glow = ({ lit }: Paint) => (lit ? '#ffd772' : '#bfe0ea')
const white = ({ light }: Paint) => mix('#ffffff', light, 0.25)

export const cabin: Draw = (paint) => {
  const { main, shade, light, accent, ink, snow } = paint
  const pane =
    box(-1.8, -1.8, 17.6, 17.6, light, 1) + box(0, 0, 14, 14, glow(paint)) + stroke('M7 0V14M0 7H14', light, 1.4)
  const drift =
    'M0-100L-60-50Q-58-45-54-48L-46-52Q-40-58-34-61Q-30-70-24-71Q-16-80-8-80Q-2-90 4-84Q12-82 18-76' +
    'Q26-70 30-67Q34-60 40-58Q50-46 56-47Q60-47 59-51Z'
  return [
    stroke('M31-96C24-104 40-108 33-116S42-124 38-132', '#ffffff', 5, 0.55),
    box(25, -92, 11, 26, darker(accent, 0.35)) + box(23.5, -94, 14, 5, darker(accent, 0.5)),
    path('M-44 0V-46L0-84L44-46V0Z', main),
    path('M8 0V-77L44-46V0Z', shade),
    stroke('M-44-12H44M-44-24H44M-44-36H44', darker(main, 0.2), 1, 0.6),
    path('M0-96L-56-48L-49-41L0-82L49-41L56-48Z', accent),
    path('M0-96L56-48L49-41L0-82Z', darker(accent, 0.2)),
    snow ? path(drift, '#fbfdff') + box(22, -97, 17, 5, '#fbfdff', 2.5) : '',
    path('M-9 0V-25Q-9-32 0-32Q9-32 9-25V0Z', darker(accent, 0.45)) + disc(5, -14, 1.6, '#f4c95d'),
    place(pane, -33, -32, 1) + place(pane, 19, -32, 1),
    disc(0, -58, 7.5, light) + disc(0, -58, 5.5, glow(paint)) + stroke('M0-63V-53M-5-58H5', light, 1.2),
    stroke('M-13 0H13', ink, 2),
  ].join('')
}

export const castle: Draw = (paint) => {
  const { main, shade, light, accent, ink } = paint
  const tower = (x: number, width: number, top: number, hat: number) =>
    [
      box(x - width / 2, -top, width, top, main) + box(x + width * 0.12, -top, width * 0.38, top, shade),
      box(x - width / 2 - 2, -top - 4, width + 4, 7, light),
      path(`M${x - width / 2 - 4}-${top + 3}L${x}-${top + hat}L${x + width / 2 + 4}-${top + 3}Z`, accent),
      path(`M${x}-${top + hat}L${x + width / 2 + 4}-${top + 3}H${x + width * 0.1}Z`, darker(accent, 0.2)),
      stroke(`M${x}-${top + hat}v-11`, ink, 1.2) +
        path(`M${x}-${top + hat + 11}l11 3.5l-11 3.5Z`, lighter(accent, 0.25)),
      path(`M${x - 3}-${top - 20}v-7q3-5 6 0v7Z`, glow(paint)),
    ].join('')
  const teeth = (x: number, count: number, y: number) =>
    Array.from({ length: count }, (_, i) => box(x + i * 8, y, 5, 6, main)).join('')
  return [
    tower(-14, 17, 84, 32) + tower(17, 15, 72, 26),
    box(-40, -46, 80, 46, main) + box(10, -46, 30, 46, shade) + teeth(-37, 10, -51),
    tower(-43, 20, 58, 30) + tower(43, 20, 58, 30),
    stroke('M-28-30h6M-20-16h6M22-36h6M26-14h6M-6-40h6', darker(main, 0.25), 1.6),
    path('M-13 0V-20Q0-36 13-20V0Z', darker(accent, 0.6)) +
      stroke('M-6-1V-25M0-1V-28M6-1V-25M-12-10H12M-12-18H12', '#8c7355', 1.2),
  ].join('')
}

export const lighthouse: Draw = (paint) => {
  const { main, light, accent, ink, lit } = paint
  const beam = lit ? path('M0-96L-210-140V-78Z', '#fff0b0', 0.28) + path('M0-96L210-118V-60Z', '#fff0b0', 0.2) : ''
  return [
    path('M-46 2C-44-10-30-16-18-14C-4-20 14-18 24-13C40-14 58-8 62 2Z', mix('#6c6a78', ink, 0.2)),
    box(22, -26, 26, 20, light) + path('M19-25L35-38L51-25Z', darker(main, 0.2)) + box(30, -19, 7, 8, glow(paint)),
    beam,
    path('M-16-12L-10-86H10L16-12Z', white(paint)),
    path('M-14.6-30L-13.4-46H13.4L14.6-30ZM-12.1-62L-10.9-77H10.9L12.1-62Z', main) +
      path('M-16-12L-15.5-19H15.5L16-12Z', main),
    path('M3-86H10L16-12H6Z', ink, 0.16),
    box(-13, -89, 26, 4, ink, 1) +
      box(-8, -102, 16, 14, glow({ ...paint, lit: true })) +
      stroke('M0-102V-89', ink, 1.2),
    path('M-11-101Q0-118 11-101Z', main) + disc(0, -111, 2, ink),
    box(-3, -56, 6, 8, ink, 3) + path('M-4-12V-22Q0-27 4-22V-12Z', accent),
  ].join('')
}

export const windmill: Draw = (paint) => {
  const { main, shade, light, accent, ink } = paint
  const sail =
    box(-1.2, -46, 2.4, 46, ink) + box(1.2, -45, 12, 34, light) + stroke('M1-36H13M1-27H13M1-19H13M7-45V-11', ink, 0.8)
  return [
    path('M-22 0L-14-62H14L22 0Z', main) + path('M3-62H14L22 0H8Z', shade),
    path('M-17-60Q-14-82 0-84Q14-82 17-60Z', accent) + path('M4-83Q15-80 17-60H8Z', darker(accent, 0.2)),
    path('M-6 0V-15Q0-22 6-15V0Z', darker(accent, 0.45)) + box(-4, -44, 8, 9, glow(paint), 4),
    turned(wreath(sail, 4, 0, -68), 18, 0, -68) + disc(0, -68, 3.6, ink),
  ].join('')
}

export const boat: Draw = ({ main, shade, light, accent, ink }) =>
  [
    box(-2, -102, 3.4, 92, darker('#8a6043', 0.15)),
    path('M4-98C34-76 42-46 44-22H4Z', light) + path('M4-98C20-76 24-46 22-22H4Z', mix(light, accent, 0.16)),
    path('M-6-90C-30-66-38-40-40-22H-6Z', accent) + path('M-6-56Q-22-52-34-42L-38-28Q-22-38-6-42Z', light),
    path('M1-102L20-97L1-92Z', main),
    path('M-54-17H58C54-2 46 8 34 10H-30C-44 6-50-6-54-17Z', main) +
      path('M-51-9Q4-2 56-10C52 1 45 8 34 10H-30C-42 7-48-1-51-9Z', shade),
    stroke('M-53-15H57', light, 3),
    disc(-24, -3, 2.6, light) + disc(-8, -2, 2.6, light) + disc(8, -2, 2.6, light),
    stroke('M-54-17L-40-22', ink, 1),
  ].join('')

export const rocket: Draw = (paint) => {
  const { main, accent, ink } = paint
  return turned(
    [
      path('M-12-10Q-16 18 0 40Q16 18 12-10Z', '#f49b3f') + path('M-7-10Q-8 10 0 24Q8 10 7-10Z', '#ffe08a'),
      both(path('M14-46C30-38 36-20 32-2L12-16Z', main)),
      path('M-18-14C-26-52-16-88 0-106C16-88 26-52 18-14Z', white(paint)),
      path('M4-101C18-84 25-50 18-14H6Q16-60 4-101Z', ink, 0.14),
      path('M-14-82C-10-92-6-100 0-106C6-100 10-92 14-82Q0-76-14-82Z', main),
      disc(0, -60, 10.5, accent) +
        disc(0, -60, 7.5, glow({ ...paint, lit: false })) +
        stroke('M-4-62Q-2-66 2-66', '#fff', 1.8),
      path('M-20-26Q0-20 20-26L18-14Q0-9-18-14Z', main),
      path('M-10-12H10L7-5H-7Z', ink),
    ].join(''),
    16,
    0,
    -50,
  )
}

export const balloon: Draw = ({ main, shade, light, accent, ink }) =>
  [
    stroke('M-14-26L-7-12M14-26L7-12M0-26V-12', ink, 1.2),
    path('M0-112C34-112 46-88 40-66C36-48 20-38 14-26H-14C-20-38-36-48-40-66C-46-88-34-112 0-112Z', main),
    path('M0-112C34-112 46-88 40-66C36-48 20-38 14-26H8C34-60 26-96 0-112Z', shade),
    path('M0-112C-26-104-32-60-9-26H-3C-14-60-12-100 0-112Z', light) +
      path('M0-112C26-104 32-60 9-26H3C14-60 12-100 0-112Z', light),
    path('M-41-78Q0-66 41-78Q42-70 39-63Q0-52-39-63Q-42-70-41-78Z', accent),
    path('M-9-12H9L7 2H-7Z', mix('#a9743f', ink, 0.1)) + stroke('M-9-12H9M-8-5H8', mix('#7a4f2b', ink, 0.1), 2),
  ].join('')

export const plane: Draw = (paint) =>
  turned(
    [
      path('M-60-60L-78-92H-64L-40-62Z', paint.main),
      path('M-72-52C-40-72 44-76 72-58C82-50 74-40 54-38H-30C-56-38-72-44-72-52Z', white(paint)),
      path('M-72-52C-30-46 40-42 74-46C68-40 62-38 54-38H-30C-56-38-72-44-72-52Z', paint.main),
      path('M54-66Q68-62 74-55H56Z', glow({ ...paint, lit: false })),
      [-36, -22, -8, 6, 20, 34].map((x) => disc(x, -57, 3.2, glow(paint))).join(''),
      path('M4-48L-34-8H-18L34-46Z', paint.shade) + path('M-62-52L-84-40H-74L-46-50Z', paint.shade),
    ].join(''),
    -8,
    0,
    -50,
  )

export const car: Draw = (paint) =>
  [
    path('M-38-40C-34-58-26-62-12-62H16C28-62 36-52 44-38Z', paint.main),
    path('M-31-39C-28-52-24-56-14-56H-2V-39Z', glow(paint)) + path('M3-56H14C24-56 30-48 35-39H3Z', glow(paint)),
    path('M-64-14C-66-30-60-38-44-40H46C62-38 68-30 66-14Q64-10 58-10H-58Q-64-10-64-14Z', paint.main),
    path('M-65-22H66V-14Q64-10 58-10H-58Q-64-10-64-14Z', paint.shade),
    stroke('M0-38V-14M6-32H12', paint.shade, 1.8) +
      disc(60, -27, 4.5, '#ffe7a3') +
      box(-65, -31, 5, 9, paint.accent, 2),
    both(disc(36, -10, 14, paint.ink) + disc(36, -10, 7, paint.light)),
  ].join('')

export const train: Draw = (paint) =>
  [
    [-26, -6, 18]
      .map((x, i) => disc(x * 0.5 + 44 - i * 16, -104 - i * 13, 8 + i * 4, '#ffffff', 0.7 - i * 0.15))
      .join(''),
    box(-66, -70, 44, 54, paint.main, 3) +
      box(-71, -76, 54, 9, paint.accent, 4) +
      box(-58, -60, 26, 22, glow(paint), 3),
    box(-24, -56, 80, 40, paint.main, 14) + box(-24, -34, 80, 18, paint.shade, 6) + box(-6, -56, 5, 40, paint.accent),
    box(24, -56, 5, 40, paint.accent),
    path('M36-56L33-82H55L50-56Z', paint.shade) +
      box(30, -87, 28, 8, paint.accent, 3) +
      path('M2-56Q10-72 18-56Z', paint.accent),
    path('M54-20L76-2H50Z', paint.accent) + disc(57, -42, 5, '#ffe7a3'),
    box(-68, -20, 124, 8, paint.ink, 3),
    [-52, -26, 6, 36]
      .map((x, i) => disc(x, -10, i < 1 ? 14 : 10, paint.ink) + disc(x, -10, i < 1 ? 7 : 5, paint.light))
      .join(''),
  ].join('')

export const bicycle: Draw = ({ main, light, accent, ink }) =>
  [
    both(
      hoop(38, -26, 24, ink, 4) +
        stroke('M38-49V-3M15-26H61M22-42L54-10M22-10L54-42', light, 0.9) +
        disc(38, -26, 3, ink),
    ),
    stroke('M-38-26L-18-62H22L-2-26H-38M-22-70L-2-26M22-62L38-26M22-62L18-76H30', main, 4.6),
    path('M-34-74H-12Q-12-69-20-69Z', accent) + stroke('M30-76Q36-74 34-69', ink, 3.6) + disc(-2, -26, 6, accent),
  ].join('')

export const tree: Draw = ({ main, shade, light, accent, ink, snow, dice }) => {
  const crown = snow ? mix(main, '#ffffff', 0.75) : main
  const dots = Array.from({ length: 16 }, () =>
    disc(dice.between(-30, 30), dice.between(-90, -50), dice.between(1.4, 2.8), accent, 0.9),
  ).join('')
  return [
    path('M-8 0C-4-14-5-30-4-48H5C5-30 6-14 11 0Z', mix('#6e4a35', ink, 0.1)),
    stroke('M0-34L-15-50M2-40L16-54', mix('#6e4a35', ink, 0.1), 4),
    disc(-22, -56, 19, shade) + disc(24, -56, 18, shade) + disc(4, -52, 18, shade),
    disc(-18, -68, 22, mix(crown, shade, 0.5)) + disc(20, -70, 21, mix(crown, shade, 0.5)) + disc(0, -80, 24, crown),
    disc(-13, -72, 16, crown) + disc(14, -74, 14, crown),
    disc(-8, -87, 11, light, 0.28) + (snow ? '' : dots),
  ].join('')
}

export const pine: Draw = ({ main, shade, snow, ink }) => {
  const tier = (foot: number, half: number, tall: number) => {
    const tip = foot - tall
    const side = (way: number, color: string) =>
      path(`M0 ${tip}L${way * half} ${foot}Q${(way * half) / 2} ${foot + 4} 0 ${foot + 2}Z`, color)
    const at = (dx: number, down: number) => `L${dx * half} ${tip + down * tall}`
    const cap = `M0 ${tip}${at(-0.5, 0.5)}${at(-0.22, 0.58)}${at(0, 0.44)}${at(0.2, 0.56)}${at(0.5, 0.5)}Z`
    return side(-1, main) + side(1, shade) + (snow ? path(cap, '#f8fbff') : '')
  }
  return box(-3.5, -14, 7, 14, mix('#5b4033', ink, 0.2)) + tier(-12, 30, 38) + tier(-34, 24, 36) + tier(-56, 18, 44)
}

export const palm: Draw = ({ main, shade, accent, ink }) => {
  const frond = (turn: number, color: string) => turned(path('M0 0C12-16 34-16 50 6C34-4 16-3 0 3Z', color), turn)
  const crown =
    both(frond(34, shade)) +
    frond(-62, shade) +
    both(frond(10, main) + frond(-34, main)) +
    disc(-4, 4, 4, accent) +
    disc(4, 5, 4, accent)
  return path('M-8 0C-10-30-4-60 3-84H10C4-58 2-28 6 0Z', mix('#8b6344', ink, 0.1)) + place(crown, 6, -84, 1)
}

export const cactus: Draw = ({ main, shade, accent }) =>
  [
    stroke('M-9-36H-24Q-29-36-29-42V-58', main, 11) + stroke('M9-28H24Q29-28 29-34V-48', shade, 11),
    box(-10, -92, 20, 92, main, 10) + path('M2-92C8-91 10-86 10-82V0H2Z', shade),
    stroke('M-4-80V-70M-4-60V-50M-4-34V-24M5-72V-62M5-46V-36M5-20V-10', darker(main, 0.4), 1.4),
    wreath(oval(0, -5, 3, 5, accent), 5, 0, -92) + disc(0, -92, 3, '#ffe08a'),
  ].join('')

export const flower: Draw = ({ main, shade, accent, light, ink }) => {
  const leaf = mix('#4d9a5a', ink, 0.12)
  return [
    stroke('M0 0C4-20-4-34 0-60', leaf, 4),
    path('M1-16C10-38 30-38 36-30C30-16 14-10 1-16Z', leaf) +
      path('M0-8C-10-28-28-28-34-20C-28-8-12-2 0-8Z', darker(leaf, 0.15)),
    turned(wreath(path('M0 0C-12-10-10-32 0-34C10-32 12-10 0 0Z', shade), 8, 0, -70), 22, 0, -70),
    wreath(path('M0 0C-10-8-9-27 0-29C9-27 10-8 0 0Z', main), 8, 0, -70),
    disc(0, -70, 11, accent) + disc(-2, -72, 7, mix(accent, light, 0.4)),
  ].join('')
}

export const tulip: Draw = ({ main, shade, ink }) =>
  [
    stroke('M0 0V-58', mix('#4d9a5a', ink, 0.12), 4.5),
    path('M0 0C-8-30-24-44-30-52C-32-26-20-6 0 0Z', mix('#4d9a5a', ink, 0.12)),
    path('M0 0C8-24 20-36 28-42C28-20 16-4 0 0Z', mix('#3f824d', ink, 0.12)),
    path('M-19-92C-12-88-6-84 0-98C6-84 12-88 19-92C26-70 16-54 0-54C-16-54-26-70-19-92Z', main),
    path('M0-98C8-86 8-66 0-54C16-54 26-70 19-92C12-88 6-84 0-98Z', shade),
  ].join('')

export const mushroom: Draw = ({ main, shade, light }) =>
  [
    path('M-13-46C-10-28-18-10-16 0H16C18-10 10-28 13-46Z', light),
    path('M4-46C4-28 8-10 6 0H16C18-10 10-28 13-46Z', mix(light, shade, 0.3)),
    path('M-46-44C-44-82-22-94 0-94C22-94 44-82 46-44Q0-30-46-44Z', main),
    path('M12-93C32-88 45-74 46-44Q30-39 14-37.5Q36-62 12-93Z', shade),
    oval(-20, -62, 8, 10, light) + oval(6, -78, 9, 6, light) + oval(24, -58, 6, 8, light) + oval(-4, -50, 6, 4, light),
    disc(-28, -48, 3.5, light),
  ].join('')

export const cup: Draw = ({ main, shade, light, accent }) =>
  [
    stroke('M-12-78C-20-88-4-94-12-104M6-78C-2-88 14-96 6-108', '#ffffff', 4, 0.6),
    oval(0, -3, 56, 9, light) + oval(0, -5, 40, 5, mix(light, shade, 0.3)),
    hoop(36, -42, 15, shade, 7),
    path('M-38-66C-38-30-30-6-14-5H14C30-6 38-30 38-66Z', main) +
      path('M14-66C16-40 12-16 6-5H14C30-6 38-30 38-66Z', shade),
    oval(0, -66, 38, 9, lighter(main, 0.3)) + oval(0, -65, 33, 6.5, '#6b4227'),
    path('M-10-38C-18-48-28-38-18-28L-10-21L-2-28C8-38-2-48-10-38Z', accent),
  ].join('')

export const fruit: Draw = ({ main, shade, light, ink }) =>
  [
    path('M0-70C-16-82-46-76-46-44C-46-16-24 2-8 0Q0-3 8 0C24 2 46-16 46-44C46-76 16-82 0-70Z', main),
    path('M20-76C38-72 46-60 46-44C46-16 24 2 8 0C40-24 36-60 20-76Z', shade),
    stroke('M0-68C0-80 3-88 9-94', mix('#6e4a35', ink, 0.1), 4.5),
    path('M4-80C10-98 32-102 42-94C36-80 18-76 4-80Z', mix('#5aa05a', ink, 0.1)),
    oval(-26, -54, 7, 11, light, 0.5),
  ].join('')

export const crystal: Draw = ({ main, shade, light, accent }) =>
  [
    path('M-40 0L-46-34L-30-52L-16-34L-14 0Z', darker(accent, 0.22)) + path('M-40 0L-46-34L-30-52Z', accent),
    path('M14 0L18-46L36-66L50-42L42 0Z', shade) + path('M14 0L18-46L36-66L30 0Z', main),
    path('M-22 0L-24-76L0-106L24-76L22 0Z', main) + path('M0-106L24-76L22 0H4L8-72Z', shade),
    path('M0-106L-24-76L-8-70Z', light, 0.7) + path('M-8-70L8-72L0-106Z', light, 0.35),
  ].join('')
