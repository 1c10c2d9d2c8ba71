/** Changes the colours of a picture to what a prompt says: the light of an hour, a colour, a style. */
import { earliest, wordsOf, type Brief } from './brief.ts'
import { darker, lighter, lightness, mix, type Dice } from './ink.ts'
import type { Tones } from './palette.ts'
import type { Raster } from './png.ts'

type Effect = 'poster' | 'pixel' | 'pencil' | 'negative'
type Style = Effect | 'mono' | 'sepia' | 'vivid'

/** `map` gives each lightness its colour, and `share` says how far a pixel goes there; gamma above 1 and gain below 1 darken. */
type Look = {
  effect?: Effect
  map: readonly string[]
  share: number
  gamma: number
  gain: number
  saturation: number
  glow: Glow
}
/** A light that falls on the picture: its place and reach as shares of it, its colour and strength; corners darken by `dusk`. */
type Glow = { x: number; y: number; reach: number; color: string; strength: number; dusk: number }

const STYLES: Readonly<Record<Style, string>> = {
  mono: 'monochrome grayscale greyscale noir black-and bw desaturate colorless',
  sepia: 'sepia vintage antique retro old nostalgic western aged',
  negative: 'negative invert inverted xray solarized',
  pixel: 'pixel pixelated pixelate pixelart mosaic 8-bit retrogame lego minecraft blocky',
  pencil: 'pencil sketch sketched drawing drawn outline lineart engraving charcoal ink',
  poster:
    'poster cartoon comic anime pop vector flat illustration painting watercolor watercolour painted oil stencil ghibli',
  vivid: 'vivid vibrant colorful colourful saturated hdr dramatic saturate',
}
const HOURS = {
  night: { share: 0.52, gamma: 1.5, gain: 0.66, saturation: 0.75, dusk: 0.5 },
  sunset: { share: 0.5, gamma: 1.15, gain: 0.95, saturation: 1, dusk: 0.3 },
  dawn: { share: 0.42, gamma: 0.85, gain: 1, saturation: 0.85, dusk: 0.15 },
  day: { share: 0.3, gamma: 0.78, gain: 1, saturation: 1.2, dusk: 0.05 },
} as const
const AUTUMN = ['#24150f', '#7c3d1c', '#d4832f', '#f3cf8e']
/** The least mean change of a channel, of 255, that counts as visible. */
const VISIBLE = 16

/** Recolours the picture where `counts` is true, or everywhere; never so little that nobody would see it. Alpha stays. */
export function grade(picture: Raster, look: Look, counts: (pixel: number) => boolean): void {
  const before = sampleOf(picture, counts)
  if (look.effect) EFFECTS[look.effect](picture)
  const after = sampleOf(picture, counts)
  const stronger = [0.25, 0.5, 1].map((more) => ({ ...look, share: Math.min(1, look.share + more) }))
  const reversed = { ...look, share: 0.7, map: [...look.map].reverse() }
  const chosen = [look, ...stronger].find((each) => changeOf(before, after, each) >= VISIBLE) ?? reversed
  recolour(picture, chosen)
}

/** Reads the look from the words; `gentle` keeps more of the source where the prompt asks for no light of its own. */
export function lookOf(prompt: string, scene: { brief: Brief; tones: Tones; gentle: boolean; chance: Dice }): Look {
  const { brief, tones, gentle, chance } = scene
  const style = earliest(wordsOf(prompt), STYLES)
  const lit = brief.said.has('hour') || brief.said.has('place') || brief.extras.size > 0
  const hour = HOURS[brief.hour]
  const calm = style && style !== 'vivid' && !lit ? { share: 0, gamma: 1, gain: 1, saturation: 1, dusk: 0.1 } : hour
  const glow: Glow = {
    x: chance.between(0.15, 0.85),
    y: chance.between(0.1, 0.6),
    reach: chance.between(0.45, 0.8),
    color: brief.hour === 'night' ? '#86a2e6' : tones.orb,
    strength: brief.hour === 'night' ? 0.16 : 0.22,
    dusk: calm.dusk,
  }
  const base = {
    map: mapOf(brief, tones),
    share: gentle && !lit ? 0.16 : calm.share,
    gain: calm.gain,
    saturation: calm.saturation,
    glow,
  }
  const gamma = calm.gamma * chance.between(0.93, 1.07)
  if (style === 'mono') return { ...base, gamma, map: ['#08080a', '#f7f6f3'], share: 1 }
  if (style === 'sepia') return { ...base, gamma, map: ['#1c110a', '#6f4a2c', '#c9a273', '#fbeccb'], share: 0.94 }
  if (style === 'vivid') return { ...base, gamma, saturation: 1.7 }
  return { ...base, gamma, ...(style && { effect: style }) }
}

/** Colours from the darkest to the lightest: of a colour that was named, of autumn, or of the sky. */
function mapOf({ wash, extras, actors, said }: Brief, tones: Tones): readonly string[] {
  const named = wash ?? (said.has('cast') ? actors.find(({ color }) => color)?.color : undefined)
  if (named) return [darker(named, 0.85), darker(named, 0.35), named, lighter(named, 0.75)]
  if (extras.has('autumn')) return AUTUMN
  const sky = [...tones.sky].sort((a, b) => lightness(a) - lightness(b))
  return [mix(sky[0] as string, '#05060f', 0.75), ...sky, lighter(sky.at(-1) as string, 0.55)]
}

// ── colours ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Reads three bytes and leaves three numbers in `made`: an array for each pixel would cost more memory than the picture. */
type Colouring = { readonly made: Float32Array; of(r: number, g: number, b: number): void }

/** The look as a function of one colour, before any glow. */
function colouring({ map, share, gamma, gain, saturation }: Look): Colouring {
  const tone = Float32Array.from({ length: 256 }, (_, at) => 255 * gain * (at / 255) ** gamma)
  const ramp = rampOf(map)
  const made = new Float32Array(3)
  const of = (r: number, g: number, b: number) => {
    const light = (77 * r + 150 * g + 29 * b) >> 8
    const toned = tone[light] as number
    const lift = light > 0 ? toned / light : 0
    const at = Math.round(toned) * 3
    made[0] = blend(toned, r * lift, ramp[at] as number)
    made[1] = blend(toned, g * lift, ramp[at + 1] as number)
    made[2] = blend(toned, b * lift, ramp[at + 2] as number)
  }
  const blend = (toned: number, value: number, goal: number) => {
    const own = toned + (value - toned) * saturation
    return own + (goal - own) * share
  }
  return { made, of }
}

/** 256 colours, three bytes each, on a way through the given ones. */
function rampOf(colors: readonly string[]): Uint8Array {
  const ramp = new Uint8Array(256 * 3)
  for (let at = 0; at < 256; at++) {
    const along = (at / 255) * (colors.length - 1)
    const from = Math.min(colors.length - 2, Math.floor(along))
    const rgb = Number.parseInt(mix(colors[from] as string, colors[from + 1] as string, along - from).slice(1), 16)
    ramp.set([rgb >> 16, (rgb >> 8) & 255, rgb & 255], at * 3)
  }
  return ramp
}

function recolour({ width, height, data }: Raster, look: Look): void {
  const { glow } = look
  const { made, of } = colouring(look)
  const clamped = new Uint8ClampedArray(data.buffer, data.byteOffset, data.length)
  const lamp = Number.parseInt(glow.color.slice(1), 16)
  const [red, green, blue] = [lamp >> 16, (lamp >> 8) & 255, lamp & 255]
  const size = Math.min(width, height) * glow.reach
  for (let y = 0; y < height; y++) {
    const down = (y / height - 0.5) ** 2
    const fall = ((y - glow.y * height) / size) ** 2
    for (let x = 0; x < width; x++) {
      const at = (y * width + x) * 4
      of(data[at] as number, data[at + 1] as number, data[at + 2] as number)
      const [r, g, b] = [made[0] as number, made[1] as number, made[2] as number]
      const lit = glow.strength * Math.max(0, 1 - ((x - glow.x * width) / size) ** 2 - fall)
      const kept = 1 - glow.dusk * ((x / width - 0.5) ** 2 + down)
      clamped[at] = (r + (red - r) * lit) * kept
      clamped[at + 1] = (g + (green - g) * lit) * kept
      clamped[at + 2] = (b + (blue - b) * lit) * kept
    }
  }
}

/** Up to 4096 visible pixels, evenly spread, three numbers each. */
function sampleOf({ width, height, data }: Raster, counts: (pixel: number) => boolean): readonly number[] {
  const pixels = width * height
  const step = Math.max(1, Math.floor(pixels / 65_536))
  const all: number[] = []
  for (let at = 0; at < pixels; at += step) if (data[at * 4 + 3] !== 0 && counts(at)) all.push(at)
  const every = Math.max(1, Math.floor(all.length / 4096))
  return all.filter((_, order) => order % every === 0).flatMap((at) => [...data.subarray(at * 4, at * 4 + 3)])
}

/** The mean difference of a channel between a sample as it was and as the look leaves it. */
function changeOf(before: readonly number[], after: readonly number[], look: Look): number {
  const { made, of } = colouring(look)
  let sum = 0
  for (let at = 0; at < after.length; at += 3) {
    of(after[at] as number, after[at + 1] as number, after[at + 2] as number)
    for (let i = 0; i < 3; i++) sum += Math.abs((made[i] as number) - (before[at + i] as number))
  }
  return after.length > 0 ? sum / after.length : VISIBLE
}

// ── effects ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const EFFECTS: Readonly<Record<Effect, (picture: Raster) => void>> = {
  negative: ({ data }) => {
    for (let at = 0; at < data.length; at++) if (at % 4 !== 3) data[at] = 255 - (data[at] as number)
  },

  poster: ({ data }) => {
    const level = Uint8Array.from({ length: 256 }, (_, value) => Math.round(value / 51) * 51)
    for (let at = 0; at < data.length; at++) if (at % 4 !== 3) data[at] = level[data[at] as number] as number
  },

  pixel: ({ width, height, data }) => {
    const cell = Math.max(2, Math.round(Math.min(width, height) / 56))
    for (let top = 0; top < height; top += cell) {
      for (let left = 0; left < width; left += cell) {
        const middle = (Math.min(height - 1, top + (cell >> 1)) * width + Math.min(width - 1, left + (cell >> 1))) * 4
        const color = data.slice(middle, middle + 4)
        for (let y = top; y < Math.min(height, top + cell); y++) {
          for (let x = left; x < Math.min(width, left + cell); x++) data.set(color, (y * width + x) * 4)
        }
      }
    }
  },

  pencil: ({ width, height, data }) => {
    const light = Uint8Array.from({ length: width * height }, (_, at) => {
      return (
        (77 * (data[at * 4] as number) + 150 * (data[at * 4 + 1] as number) + 29 * (data[at * 4 + 2] as number)) >> 8
      )
    })
    const reach = Math.max(1, Math.round(Math.min(width, height) / 700))
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const here = light[y * width + x] as number
        const right = light[y * width + Math.min(width - 1, x + reach)] as number
        const below = light[Math.min(height - 1, y + reach) * width + x] as number
        const edge = Math.abs(here - right) + Math.abs(here - below)
        const hatch = here < 110 && (x + y) % (reach * 6) < reach * 2 ? 0.75 : 1
        const paper = (205 + here * 0.18) * hatch
        data.fill(Math.max(0, paper - edge * 3), (y * width + x) * 4, (y * width + x) * 4 + 3)
      }
    }
  },
}
