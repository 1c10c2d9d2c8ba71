/** The icon of a gateway, a coin over its slot, as a 16 by 16 ICO file. */

const ART = [
  '................',
  '.....cccccc.....',
  '....cwwwwwwc....',
  '...cwwwwwwwwc...',
  '...cwwccccwwc...',
  '...cwcwwwwcwc...',
  '...cwcwwwwcwc...',
  '...cwwccccwwc...',
  '...cwwwwwwwwc...',
  '....cwwwwwwc....',
  '.....cccccc.....',
  '................',
  '.iiiiiiiiiiiiii.',
  '.ibbbbbbbbbbbbi.',
  '.iiiiiiiiiiiiii.',
  '................',
]
/** Blue, green, red, alpha. */
const INKS: Readonly<Record<string, readonly number[]>> = {
  '.': [0, 0, 0, 0],
  c: [36, 74, 138, 255],
  w: [110, 190, 240, 255],
  i: [80, 51, 59, 255],
  b: [30, 20, 24, 255],
}

const SIZE = 16
const HEADER = 22
const BITMAP = 40
const PIXELS = SIZE * SIZE * 4
const MASK = SIZE * 4

/**
 * One 32-bit bitmap with its rows from the bottom up, and an empty mask, because the alpha channel has the
 * transparency.
 */
export function favicon(): Uint8Array {
  const bytes = new Uint8Array(HEADER + BITMAP + PIXELS + MASK)
  const view = new DataView(bytes.buffer)
  view.setUint16(2, 1, true)
  view.setUint16(4, 1, true)
  bytes.set([SIZE, SIZE, 0, 0, 1, 0, 32, 0], 6)
  view.setUint32(14, BITMAP + PIXELS + MASK, true)
  view.setUint32(18, HEADER, true)
  view.setUint32(HEADER, BITMAP, true)
  view.setInt32(HEADER + 4, SIZE, true)
  view.setInt32(HEADER + 8, 2 * SIZE, true)
  view.setUint16(HEADER + 12, 1, true)
  view.setUint16(HEADER + 14, 32, true)
  const pixels = [...ART].reverse().flatMap((row) => [...row].flatMap((ink) => INKS[ink] ?? []))
  bytes.set(pixels, HEADER + BITMAP)
  return bytes
}
