import type { Draw, Paint } from './creatures.ts'
import { both, box, darker, disc, hoop, lighter, mix, oval, path, stroke } from './ink.ts'

const SKINS = ['#f3cfb3', '#e3b08a', '#c68a5f', '#94603f', '#6b4530']
const HAIRS = ['#2b2230', '#5a3825', '#8c5a30', '#d9a852', '#b4502f', '#cfcad0']

type Dress = 'coat' | 'wizard' | 'crown' | 'suit'

const coated = (paint: Paint, dress: Dress): string => {
  const { main, shade, light, accent, ink, dice } = paint
  const skin = mix(dice.pick(SKINS), ink, 0.06)
  const hair = mix(dice.pick(HAIRS), ink, 0.06)
  const long = dice.chance(0.5)
  const space = dress === 'suit'
  const robe = dress === 'wizard' || dress === 'crown'
  const glove = space ? accent : skin
  const sleeve = (side: number, color: string) => {
    return stroke(`M${side * 15}-56Q${side * 24}-44 ${side * 22}-30`, color, 9) + disc(side * 22, -28, 4.5, glove)
  }
  const leg = path('M1.5-20H12L11 0H2Z', space ? light : darker(accent, 0.55)) + path('M1-4H11Q15-4 15 0H1Z', ink)
  const buttons = stroke('M0-56V-16', shade, 1.2) + [-46, -36, -26].map((y) => disc(-4, y, 1.6, light)).join('')
  const panel = box(-9, -48, 18, 12, light, 2) + disc(-4, -42, 2, accent) + disc(3, -42, 2, '#e2574c')
  const extras: Readonly<Record<Dress, () => string>> = {
    coat: () => stroke('M-13-60Q0-54 13-60', accent, 7) + path('M4-58L15-40L7-37L0-56Z', accent),
    suit: () =>
      disc(0, -76, 21, '#cfeaf5', 0.2) +
      hoop(0, -76, 20, lighter(light, 0.4), 4) +
      stroke('M-11-85Q-8-90-2-91', '#ffffff', 2.6),
    crown: () =>
      path('M-14-88L-16-104L-7-97L0-107L7-97L16-104L14-88Q0-84-14-88Z', '#f2c14e') + disc(0, -94, 2.4, '#e2574c'),
    wizard: () =>
      [
        oval(0, -86, 25, 5, shade) + path('M-16-87Q-4-104 8-124Q6-102 16-87Q0-82-16-87Z', main),
        path('M0-104l1.5 3.5l3.8.4l-2.9 2.6l.9 3.8l-3.3-2l-3.3 2l.9-3.8l-2.9-2.6l3.8-.4Z', '#ffe08a'),
        path('M-9-66C-12-48-4-40 0-36C4-40 12-48 9-66Q0-60-9-66Z', '#f3f0ea'),
      ].join(''),
  }
  return [
    space ? box(-19, -60, 38, 34, shade, 6) : '',
    long && !space ? path('M-17-80C-22-60-22-56-16-50H16C22-56 22-60 17-80Z', hair) : '',
    robe ? '' : both(leg),
    sleeve(1, shade),
    path(robe ? 'M-13-60Q0-66 13-60L24 0H-24Z' : 'M-15-60Q0-66 15-60L20-14Q0-9-20-14Z', main),
    path(robe ? 'M3-63Q10-62 13-60L24 0H8Z' : 'M3-63Q10-62 15-60L20-14Q14-12 8-11Z', shade),
    space ? panel : buttons,
    sleeve(-1, main),
    disc(0, -76, 15, skin),
    both(disc(5.5, -75, 1.9, ink) + disc(9, -70, 2.6, '#e58a7a', 0.5)) + stroke('M-3-69Q0-66.5 3-69', ink, 1.3),
    space ? '' : path('M-16-74C-18-92-8-96 2-95C14-94 18-84 16-73Q11-83 4-85Q-8-85-16-74Z', hair),
    extras[dress](),
  ].join('')
}
export const person: Draw = (paint) => coated(paint, 'coat')
export const wizard: Draw = (paint) => coated(paint, 'wizard')
export const royal: Draw = (paint) => coated(paint, 'crown')
export const astronaut: Draw = (paint) => coated(paint, 'suit')

export const robot: Draw = ({ main, shade, light, accent, ink, lit }) =>
  [
    stroke('M0-88V-100', shade, 2.4) + disc(0, -103, 4, accent),
    both(
      path('M4-18H15V-4H4Z', shade) +
        path('M1 0Q1-8 10-8Q19-8 19 0Z', ink) +
        stroke('M26-48Q36-40 32-28', shade, 7) +
        disc(32, -25, 6, ink),
    ),
    box(-25, -54, 50, 38, main, 8) + path('M8-54H17Q25-54 25-46V-24Q25-16 17-16H8Z', shade),
    box(-15, -46, 30, 18, light, 4) + stroke('M-10-37H-5L-2-42L2-32L5-37H10', accent, 2.2),
    box(-6, -60, 12, 8, ink),
    both(box(29, -80, 6, 14, accent, 2)),
    box(-31, -90, 62, 33, main, 10) + path('M12-90H21Q31-90 31-80V-67Q31-57 21-57H12Z', shade),
    box(-24, -84, 48, 21, darker(ink, 0.2), 8),
    both(disc(11, -74, 6, lit ? '#9ff5e6' : '#8fe6f2') + disc(12.5, -76, 2, '#ffffff')) +
      stroke('M-4-68Q0-65.5 4-68', '#8fe6f2', 1.6),
  ].join('')

export const snowman: Draw = ({ accent, main, ink }) => {
  const ball = (y: number, r: number) => {
    const [x, top, low] = [r * 0.2, y - r * 0.98, y + r * 0.98]
    return (
      disc(0, y, r, '#fbfdff') +
      path(`M${x} ${top}A${r} ${r} 0 0 1 ${x} ${low}Q${r * 0.9} ${y} ${x} ${top}Z`, '#cfdeec')
    )
  }
  return [
    stroke('M-20-48L-40-62M-33-57L-34-66M20-48L42-58M34-55L40-66', '#6e4a35', 2.6),
    ball(-20, 24) + ball(-52, 18) + ball(-78, 14),
    stroke('M-13-66Q0-59 13-66', main, 6.5) + path('M6-64L14-42L6-40L1-62Z', main),
    both(disc(5, -81, 2, ink)) + path('M0-78L18-74L0-73Z', '#f08a3c') + stroke('M-5-71Q0-68 5-71', ink, 1.4),
    [-54, -46, -28, -18].map((y) => disc(0, y, 2.1, ink)).join(''),
    box(-18, -92, 36, 4, ink, 2) + box(-11, -112, 22, 21, ink, 2) + box(-11, -97, 22, 5, accent),
  ].join('')
}
