/** The pen: seeded chance, colour arithmetic and the few SVG shapes that every drawing here is made of. */

export type Dice = {
  /** A number in [0, 1). */
  next(): number
  between(low: number, high: number): number
  whole(low: number, high: number): number
  pick<T>(list: readonly T[]): T
  chance(probability: number): boolean
}

/** The same seed always rolls the same numbers, on every machine: no clock, no Math.random. */
export function dice(seed: string): Dice {
  let state = 0x9e3779b9
  for (let i = 0; i < seed.length; i++) state = Math.imul(state ^ seed.charCodeAt(i), 0x01000193) >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let x = Math.imul(state ^ (state >>> 16), 0x45d9f3b5)
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d)
    return ((x ^ (x >>> 16)) >>> 0) / 0x100000000
  }
  const between = (low: number, high: number) => low + (high - low) * next()
  return {
    next,
    between,
    whole: (low, high) => Math.floor(between(low, high + 1)),
    pick: <T>(list: readonly T[]) => list[Math.floor(next() * list.length)] as T,
    chance: (probability) => next() < probability,
  }
}

/** Walks from one `#rrggbb` to another; `share` 0 is the first, 1 the second. */
export function mix(from: string, to: string, share: number): string {
  const a = Number.parseInt(from.slice(1), 16)
  const b = Number.parseInt(to.slice(1), 16)
  const channel = (shift: number) => {
    const x = (a >> shift) & 255
    return Math.round(x + (((b >> shift) & 255) - x) * share) << shift
  }
  return `#${(channel(16) | channel(8) | channel(0)).toString(16).padStart(6, '0')}`
}

export function lighter(color: string, share: number): string {
  return mix(color, '#ffffff', share)
}

/** Toward a deep blue instead of black, so that shadows keep their colour. */
export function darker(color: string, share: number): string {
  return mix(color, '#171a33', share)
}

/** Perceived lightness of a colour, 0 to 1. */
export function lightness(color: string): number {
  const rgb = Number.parseInt(color.slice(1), 16)
  return (0.3 * (rgb >> 16) + 0.59 * ((rgb >> 8) & 255) + 0.11 * (rgb & 255)) / 255
}

/** A coordinate short enough for SVG: one decimal. */
export function num(value: number): number {
  return Math.round(value * 10) / 10
}

export function path(d: string, fill: string, opacity = 1): string {
  return `<path d="${d}" fill="${fill}"${faded(opacity)}/>`
}

export function stroke(d: string, color: string, width: number, opacity = 1): string {
  const pen = `stroke="${color}" stroke-width="${num(width)}" stroke-linecap="round" stroke-linejoin="round"`
  return `<path d="${d}" fill="none" ${pen}${faded(opacity)}/>`
}

export function oval(x: number, y: number, rx: number, ry: number, fill: string, opacity = 1): string {
  return `<ellipse cx="${num(x)}" cy="${num(y)}" rx="${num(rx)}" ry="${num(ry)}" fill="${fill}"${faded(opacity)}/>`
}

export function disc(x: number, y: number, r: number, fill: string, opacity = 1): string {
  return oval(x, y, r, r, fill, opacity)
}

export function box(x: number, y: number, width: number, height: number, fill: string, round = 0): string {
  return `<rect x="${num(x)}" y="${num(y)}" width="${num(width)}" height="${num(height)}" rx="${num(round)}" fill="${fill}"/>`
}

/** The outline of a circle. */
export function hoop(x: number, y: number, r: number, color: string, width: number, opacity = 1): string {
  const circle = `<circle cx="${num(x)}" cy="${num(y)}" r="${num(r)}" fill="none" stroke="${color}" stroke-width="${num(width)}"`
  return `${circle}${faded(opacity)}/>`
}

/** The drawing and its mirror image about x = 0. */
export function both(drawing: string): string {
  return `${drawing}<g transform="scale(-1 1)">${drawing}</g>`
}

/** Puts a drawing at a place; a negative `scale` faces it the other way. */
export function place(drawing: string, x: number, y: number, scale: number): string {
  const turn = scale < 0 ? `${scale.toFixed(3)} ${(-scale).toFixed(3)}` : scale.toFixed(3)
  return `<g transform="translate(${num(x)} ${num(y)}) scale(${turn})">${drawing}</g>`
}

export function turned(drawing: string, degrees: number, x = 0, y = 0): string {
  return `<g transform="rotate(${num(degrees)} ${num(x)} ${num(y)})">${drawing}</g>`
}

/** So many copies of a petal, which points up from (0, 0), around (x, y). */
export function wreath(petal: string, count: number, x: number, y: number): string {
  return Array.from({ length: count }, (_, at) => place(turned(petal, (at * 360) / count), x, y, 1)).join('')
}

export type Point = readonly [x: number, y: number]

export function polygon(points: readonly Point[], fill: string, opacity = 1): string {
  return path(`M${points.map(([x, y]) => `${num(x)} ${num(y)}`).join('L')}Z`, fill, opacity)
}

/** A soft line through the points, as path data: each point bends it, only the ends are touched. */
export function curve(points: readonly Point[]): string {
  const [first, ...rest] = points as [Point, ...Point[]]
  const bends = rest.slice(0, -1).map(([x, y], i) => {
    const after = rest[i + 1] as Point
    return `Q${num(x)} ${num(y)} ${num((x + after[0]) / 2)} ${num((y + after[1]) / 2)}`
  })
  const last = rest.at(-1) ?? first
  return `M${num(first[0])} ${num(first[1])}${bends.join('')}L${num(last[0])} ${num(last[1])}`
}

function faded(opacity: number): string {
  return opacity < 1 ? ` opacity="${opacity.toFixed(2)}"` : ''
}
