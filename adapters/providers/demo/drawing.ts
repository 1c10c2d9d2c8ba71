/** Pictures drawn straight into pixels: a sky, hills, a sun, and a caption that says what it is. */
import { blank, fitted, maskAlpha, paste, type Size, type Source } from '../lib/fitting.ts'
import { described, encodePng, type Raster } from '../lib/png.ts'

export const labelOf = (what: string): string => `Demo ${what} by Farebox - not a model`

export type PictureOrder = Size & { readonly kind: 'picture'; readonly prompt: string; readonly variant: number }
export type EditOrder = Size & {
  readonly kind: 'edit'
  readonly prompt: string
  readonly variant: number
  readonly images: readonly Source[]
  readonly mask?: Source
}
export type Color = readonly [red: number, green: number, blue: number]
type Disc = { readonly x: number; readonly y: number; readonly radius: number }

/** Numbers from 0 to below 1, the same ones for the same words. */
export function dice(words: string): () => number {
  let state = Bun.hash.murmur32v3(words)
  return () => {
    state = (state + 0x6d2b_79f5) | 0
    const mixed = Math.imul(state ^ (state >>> 15), state | 1)
    const more = mixed ^ (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61))
    return ((more ^ (more >>> 14)) >>> 0) / 2 ** 32
  }
}

const HUES = { red: 0, orange: 30, gold: 45, yellow: 50, green: 130, blue: 220, purple: 275, pink: 330 } as const

/** The hue that the words name first, else one of their own. */
export function hueOf(words: string, roll: () => number): number {
  const [named] = /\b(?:red|orange|gold|yellow|green|blue|purple|pink)\b/i.exec(words.slice(0, 2_000)) ?? []
  const own = roll() * 360
  return named ? HUES[named.toLowerCase() as keyof typeof HUES] : own
}

export function colorOf(hue: number, saturation: number, lightness: number): Color {
  const part = (offset: number) => {
    const at = (offset + hue / 30) % 12
    return (
      255 * (lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(at - 3, 9 - at, 1)))
    )
  }
  return [part(0), part(8), part(4)]
}

export function box(to: Raster, at: Size & { x: number; y: number }, color: Color): void {
  for (let y = Math.max(0, at.y); y < Math.min(to.height, at.y + at.height); y++) {
    for (let x = Math.max(0, at.x); x < Math.min(to.width, at.x + at.width); x++) {
      to.data.set([color[0], color[1], color[2], 255], (y * to.width + x) * 4)
    }
  }
}

export function disc(to: Raster, { x, y, radius }: Disc, color: Color): void {
  for (let row = Math.max(0, Math.floor(y - radius)); row < Math.min(to.height, y + radius + 1); row++) {
    for (let column = Math.max(0, Math.floor(x - radius)); column < Math.min(to.width, x + radius + 1); column++) {
      const share = Math.min(1, Math.max(0, radius - Math.hypot(column - x, row - y)))
      mixed(to.data, (row * to.width + column) * 4, color, share)
    }
  }
}

function mixed(data: Uint8Array, at: number, color: Color, share: number): void {
  for (let i = 0; i < 3; i++) data[at + i] = (data[at + i] as number) * (1 - share) + (color[i] as number) * share
}

/** The sky above hills of one hue; `sun` is where a sun may stand, above the highest hill. */
export function scene(size: Size, words: string): { picture: Raster; sun: Disc; shine: Color } {
  const roll = dice(words)
  const hue = hueOf(words, roll)
  const picture = blank(size)
  const [short, turn] = [Math.min(size.width, size.height), 40 + roll() * 60]
  const skies = [colorOf(hue + turn, 0.55, 0.5), colorOf(hue, 0.8, 0.86)] as const
  const hills = [0, 1, 2].map((each) => ({
    color: colorOf(hue + each * 12, 0.42, 0.62 - each * 0.17),
    base: 0.56 + each * 0.11,
    waves: [1, 2, 3].map((wave) => ({
      high: (0.06 * roll()) / wave,
      long: (wave * (2 + roll() * 4)) / short,
      from: roll() * 6.3,
    })),
  }))
  const ridges = Array.from({ length: size.width }, (_, x) => {
    return hills.map(
      ({ base, waves }) =>
        size.height * waves.reduce((y, { high, long, from }) => y - high * Math.sin(x * long + from), base),
    )
  })
  const [top, low] = skies
  for (let y = 0; y < size.height; y++) {
    const share = Math.min(1, y / size.height / 0.6)
    const sky = [0, 1, 2].map((i) => (top[i] as number) * (1 - share) + (low[i] as number) * share)
    for (let x = 0, at = y * size.width * 4; x < size.width; x++, at += 4) {
      const ridge = ridges[x] as number[]
      const color = hills[ridge.findLastIndex((from) => y > from)]?.color ?? sky
      picture.data[at] = color[0] as number
      picture.data[at + 1] = color[1] as number
      picture.data[at + 2] = color[2] as number
      picture.data[at + 3] = 255
    }
  }
  const sun = { x: size.width * (0.2 + 0.6 * roll()), y: size.height * (0.16 + 0.12 * roll()), radius: short * 0.09 }
  return { picture, sun, shine: colorOf(hue + 40, 1, 0.93) }
}

// ── letters ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Five columns of seven dots for each character from the space to Z, a byte each, the lowest bit on top. */
const FONT = Buffer.from(
  '000000000000005f00000007000700147f147f14242a7f2a12231308646236495620500008070300001c2241000041221c002a1c7f1c2a' +
    '08083e080800403010000808080808000060600020100804023e5149453e00427f400072494949462141494d331814127f102745454539' +
    '3c4a49493141211109073649494936464949291e0000140000004034000000081422411414141414004122140802015909063e415d594e' +
    '7c1211127c7f494949363e414141227f4141413e7f494949417f090909013e414151737f0808087f00417f41002040413f017f08142241' +
    '7f404040407f021c027f7f0408107f3e4141413e7f090909063e4151215e7f09192946264949493203017f01033f4040403f1f2040201f' +
    '3f4038403f631408146303047804036159494d43',
  'hex',
)
const PAPER: Color = [246, 237, 218]
const INK: Color = [59, 51, 80]

/** In the letters that there are: accents fall off, anything else unknown becomes a space. */
function legible(text: string): string {
  const bare = text
    .slice(0, 400)
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[\u2018\u2019]/g, "'")
    .toUpperCase()
  return bare
    .replace(/[^ -Z]/g, ' ')
    .replace(/ +/g, ' ')
    .trim()
}

/**
 * Writes as much of a text as fits into `width`, in the middle of it; `dot` is how many pixels a dot has on each side.
 */
function write(to: Raster, text: string, at: { x: number; y: number; width: number; dot: number }): void {
  const room = Math.floor(at.width / (6 * at.dot))
  const visible = text.length > room ? `${text.slice(0, Math.max(0, room - 3))}...`.slice(0, room) : text
  const left = at.x + Math.floor((at.width - (visible.length * 6 - 1) * at.dot) / 2)
  for (const [index, char] of [...visible].entries()) {
    for (let dot = 0; dot < 35; dot++) {
      const [column, row] = [Math.floor(dot / 7), dot % 7]
      if ((((FONT[(char.charCodeAt(0) - 32) * 5 + column] ?? 0) >> row) & 1) === 0) continue
      const corner = { x: left + (index * 6 + column) * at.dot, y: at.y + row * at.dot }
      box(to, { ...corner, width: at.dot, height: at.dot }, INK)
    }
  }
}

/**
 * A band of paper at the foot of an area, with a line for each text; the first is always whole where it can be read at
 * all.
 */
export function caption(to: Raster, texts: readonly string[], area: Size & { x: number; y: number }): void {
  const lines = texts.map(legible).filter((line) => line !== '')
  const fits = Math.floor((area.width - 4) / (6 * (lines[0]?.length ?? 1)))
  const dot = Math.max(1, Math.min(Math.round(Math.min(area.width, area.height) / 260), fits))
  const height = Math.min(area.height, (lines.length * 11 + 4) * dot)
  const top = area.y + area.height - height
  box(to, { ...area, y: top, height }, PAPER)
  const inside = { x: area.x + 2, width: area.width - 4, dot }
  for (const [index, line] of lines.entries()) write(to, line, { ...inside, y: top + (index * 11 + 4) * dot })
}

const whole = ({ width, height }: Size) => ({ x: 0, y: 0, width, height })

async function filed(raster: Raster, what: string, prompt: string): Promise<Uint8Array> {
  return described(await encodePng(raster), { Software: 'Farebox demo', Description: labelOf(what), Title: prompt })
}

/** A PNG of exactly the size; the same order is the same file. */
export async function picture({ prompt, width, height, variant }: PictureOrder): Promise<Uint8Array> {
  const drawn = scene({ width, height }, `${prompt}\0${variant}`)
  disc(drawn.picture, drawn.sun, drawn.shine)
  caption(drawn.picture, [labelOf('picture'), prompt], whole(drawn.picture))
  return await filed(drawn.picture, 'picture', prompt)
}

/**
 * The sources side by side, tinted with the hue of the words and with a frame of it. With a mask, what it keeps is the
 * first source's byte for byte. Throws INVALID_IMAGE for what cannot be decoded.
 */
export async function edited({ prompt, width, height, variant, images, mask }: EditOrder): Promise<Uint8Array> {
  const roll = dice(`${prompt}\0${variant}`)
  const hue = hueOf(prompt, roll)
  const base = await fitted(images[0] as Source, { width, height })
  const raster = { width, height, data: base.data.slice() }
  for (const [index, image] of images.length > 1 ? images.entries() : []) {
    const x = Math.floor((width * index) / images.length)
    paste(await fitted(image, { width: Math.floor((width * (index + 1)) / images.length) - x, height }), raster, {
      x,
      y: 0,
    })
  }
  const tint = colorOf(hue, 0.8, 0.35 + roll() * 0.3)
  const edge = Math.ceil(Math.min(width, height) / 24)
  for (let at = 0; at < raster.data.length; at += 4) {
    const [x, y] = [(at / 4) % width, Math.floor(at / 4 / width)]
    const isFrame = Math.min(x, y, width - 1 - x, height - 1 - y) < edge
    const share = Math.max(isFrame ? 0.9 : 0.3, 1 - (raster.data[at + 3] as number) / 255)
    mixed(raster.data, at, tint, share)
    raster.data[at + 3] = 255
  }
  const alpha = mask && (await maskAlpha(mask, images[0] as Source, base))
  caption(raster, [labelOf('edit'), prompt], alpha ? openIn(alpha, base) : whole(base))
  for (const [pixel, share] of alpha?.entries() ?? []) {
    for (let at = pixel * 4; share > 0 && at < pixel * 4 + 4; at++) {
      const [drawn, source] = [raster.data[at] as number, base.data[at] as number]
      raster.data[at] = Math.round(drawn + ((source - drawn) * share) / 255)
    }
  }
  return await filed(raster, 'edit', prompt)
}

/** The smallest area with everything that a mask does not keep whole. */
function openIn(alpha: Uint8Array, { width, height }: Size): Size & { x: number; y: number } {
  let [left, top, right, bottom] = [width, height, -1, -1]
  for (let at = alpha.indexOf(0); at >= 0; at = alpha.indexOf(0, at + 1)) {
    const [x, y] = [at % width, Math.floor(at / width)]
    left = Math.min(left, x)
    right = Math.max(right, x)
    top = Math.min(top, y)
    bottom = Math.max(bottom, y)
  }
  return right < 0
    ? { x: 0, y: 0, width: 0, height: 0 }
    : { x: left, y: top, width: right - left + 1, height: bottom - top + 1 }
}
