import { num } from './ink.ts'

/** Single-stroke capitals on a grid six units tall: advance width, then path data. Drawn here, so no font is shipped or licensed. */
const GLYPHS: Readonly<Record<string, readonly [width: number, d: string]>> = {
  A: [4, 'M0 6 2 0 4 6M.7 4H3.3'],
  B: [3.6, 'M0 0V6H2A1.6 1.6 0 0 0 2 2.8H0M2 2.8A1.4 1.4 0 0 0 2 0H0'],
  C: [4, 'M4 1.2C3.6.4 2.9 0 2.2 0 .8 0 0 1.2 0 3S.8 6 2.2 6C2.9 6 3.6 5.6 4 4.8'],
  D: [4.2, 'M0 0V6H1.4C3.2 6 4.2 4.8 4.2 3S3.2 0 1.4 0Z'],
  E: [3.2, 'M3.2 0H0V6H3.2M0 3H2.7'],
  F: [3.1, 'M3.1 0H0V6M0 3H2.6'],
  G: [4.2, 'M4 1.2C3.6.4 2.9 0 2.2 0 .8 0 0 1.2 0 3S.8 6 2.2 6C3.4 6 4.2 5.2 4.2 3.3H2.5'],
  H: [4, 'M0 0V6M4 0V6M0 3H4'],
  I: [0.2, 'M.1 0V6'],
  J: [2.6, 'M2.6 0V4.4C2.6 6.5.4 6.5 0 4.9'],
  K: [3.7, 'M0 0V6M3.5 0 0 3.6M1.3 2.4 3.7 6'],
  L: [2.9, 'M0 0V6H2.9'],
  M: [4.8, 'M0 6V0L2.4 4 4.8 0V6'],
  N: [4, 'M0 6V0L4 6V0'],
  O: [4.6, 'M2.3 0C.8 0 0 1.3 0 3S.8 6 2.3 6 4.6 4.7 4.6 3 3.8 0 2.3 0Z'],
  P: [3.5, 'M0 6V0H1.8A1.7 1.7 0 0 1 1.8 3.4H0'],
  Q: [4.6, 'M2.3 0C.8 0 0 1.3 0 3S.8 6 2.3 6 4.6 4.7 4.6 3 3.8 0 2.3 0ZM2.9 4.3 4.5 6.3'],
  R: [3.7, 'M0 6V0H1.8A1.7 1.7 0 0 1 1.8 3.4H0M1.8 3.4 3.7 6'],
  S: [3.5, 'M3.3 1C3 .3 2.4 0 1.7 0 .7 0 .1.6.1 1.5.1 3.6 3.5 2.4 3.5 4.5 3.5 5.5 2.7 6 1.7 6 .9 6 .2 5.6 0 4.8'],
  T: [3.8, 'M0 0H3.8M1.9 0V6'],
  U: [4, 'M0 0V4C0 6.7 4 6.7 4 4V0'],
  V: [4, 'M0 0 2 6 4 0'],
  W: [6, 'M0 0 1.5 6 3 1 4.5 6 6 0'],
  X: [3.8, 'M0 0 3.8 6M3.8 0 0 6'],
  Y: [3.8, 'M0 0 1.9 3 3.8 0M1.9 3V6'],
  Z: [3.6, 'M0 0H3.6L0 6H3.6'],
  '0': [3.8, 'M1.9 0C.7 0 0 1.3 0 3S.7 6 1.9 6 3.8 4.7 3.8 3 3.1 0 1.9 0Z'],
  '1': [1.5, 'M0 1 1.5 0V6'],
  '2': [3.5, 'M.1 1.3C.4.4 1 0 1.7 0 3.6 0 4 2 2.6 3.4L0 6H3.5'],
  '3': [3.5, 'M.2.8C.6.3 1.1 0 1.7 0 3.6 0 3.7 2.8 1.5 2.8 4 2.8 4 6 1.6 6 .9 6 .4 5.7 0 5.1'],
  '4': [3.9, 'M3 6V0L0 4.3H3.9'],
  '5': [3.5, 'M3.2 0H.5L.2 2.7C1.6 1.8 3.5 2.4 3.5 4.2 3.5 6.2 1 6.5 0 5.2'],
  '6': [3.6, 'M3 .1C1 .3 0 2 0 4 0 6.7 3.6 6.6 3.6 4.2 3.6 2 .6 1.9.1 3.7'],
  '7': [3.6, 'M0 0H3.6L1.3 6'],
  '8': [3.7, 'M1.8 2.8C-.1 2.6.1 0 1.8 0S3.7 2.6 1.8 2.8C-.6 3-.4 6 1.8 6S4.2 3 1.8 2.8Z'],
  '9': [3.6, 'M.6 5.9C2.6 5.7 3.6 4 3.6 2 3.6-.7 0-.6 0 1.8 0 4 3 4.1 3.5 2.3'],
  '.': [0.2, 'M.1 5.9V6'],
  ',': [0.5, 'M.4 5.8 0 6.9'],
  ':': [0.2, 'M.1 2V2.1M.1 5.9V6'],
  '!': [0.2, 'M.1 0V4M.1 5.9V6'],
  '?': [3, 'M0 1.3C.3.4.9 0 1.5 0 3.2 0 3.5 1.8 2.2 2.6 1.6 3 1.5 3.4 1.5 4M1.5 5.9V6'],
  "'": [0.2, 'M.1 0V1.3'],
  '-': [1.8, 'M0 3.3H1.8'],
  '+': [2.6, 'M0 3.2H2.6M1.3 1.9V4.5'],
  '&': [4.2, 'M4.2 6 .9 1.9C.1.9.7 0 1.6 0S3.1 1 2.3 1.8L1 2.8C-.6 4 0 6 1.7 6 3 6 3.9 5 4 3.5'],
  '/': [2.4, 'M0 6.4 2.4-.4'],
  '(': [1.1, 'M1.1-.4C-.4 1.6-.4 4.4 1.1 6.4'],
  ')': [1.1, 'M0-.4C1.5 1.6 1.5 4.4 0 6.4'],
}
const GAP = 1.5
const SPACE = 2.7

/** What of a text these capitals can show: accents fall off, anything else unknown becomes a space. Safe inside SVG by construction. */
export function legible(text: string): string {
  const bare = text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[‘’`"“”]/g, "'")
    .replace(/[–—]/g, '-')
    .toUpperCase()
  return [...bare]
    .map((char) => (GLYPHS[char] ? char : ' '))
    .join('')
    .replace(/ +/g, ' ')
    .trim()
}

/** Width of a legible text whose capitals are `height` tall. */
export function lengthOf(text: string, height: number): number {
  const units = [...text].reduce((sum, char) => sum + GAP + (GLYPHS[char]?.[0] ?? SPACE - GAP), -GAP)
  return (Math.max(0, units) * height) / 6
}

/** The text, cut at a word with three dots where it would be longer than `room`. */
export function fitted(text: string, height: number, room: number): string {
  if (lengthOf(text, height) <= room) return text
  const words = text.split(' ')
  while (words.length > 1 && lengthOf(`${words.join(' ')}...`, height) > room) words.pop()
  let cut = words.join(' ')
  while (cut.length > 0 && lengthOf(`${cut}...`, height) > room) cut = cut.slice(0, -1)
  return cut.length > 0 ? `${cut.replace(/[ ,.-]+$/, '')}...` : ''
}

/** Draws a legible text with its top left corner at (x, y). */
export function lettering(
  text: string,
  x: number,
  y: number,
  look: { height: number; color: string; weight?: number },
): string {
  let pen = 0
  const strokes: string[] = []
  for (const char of text) {
    const glyph = GLYPHS[char]
    if (glyph) strokes.push(`<path transform="translate(${num(pen)})" d="${glyph[1]}"/>`)
    pen += glyph ? glyph[0] + GAP : SPACE
  }
  const attributes = `fill="none" stroke="${look.color}" stroke-width="${look.weight ?? 0.8}" stroke-linecap="round" stroke-linejoin="round"`
  return `<g transform="translate(${num(x)} ${num(y)}) scale(${(look.height / 6).toFixed(3)})" ${attributes}>${strokes.join('')}</g>`
}
