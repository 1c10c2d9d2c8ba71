/** Sound as numbers: oscillators, noise, filters, a small room, and how a mix becomes samples. */
import type { Dice } from './ink.ts'

/** Of everything that is made here; a second of it in two channels is 128 KB. */
export const RATE = 32_000

export type Track = Float32Array

export type Mix = { readonly left: Track; readonly right: Track }

export const silence = (seconds: number): Track => new Float32Array(Math.max(1, Math.round(seconds * RATE)))
export const stereo = (seconds: number): Mix => ({ left: silence(seconds), right: silence(seconds) })

/** Adds a sound at a time and a place: -1 is left, 1 is right. What reaches over the end is cut. */
export function place(
  { left, right }: Mix,
  sound: Track,
  { at, pan = 0, gain = 1 }: { at: number; pan?: number; gain?: number },
): void {
  const first = Math.max(0, Math.round(at * RATE))
  const angle = ((pan + 1) * Math.PI) / 4
  const [l, r] = [gain * Math.cos(angle), gain * Math.sin(angle)]
  const count = Math.min(sound.length, left.length - first)
  for (let i = 0; i < count; i++) {
    const value = sound[i] as number
    left[first + i] = (left[first + i] as number) + l * value
    right[first + i] = (right[first + i] as number) + r * value
  }
}

/** A sound of so many seconds whose value at each time is said. */
export function render(seconds: number, value: (time: number) => number): Track {
  const sound = silence(seconds)
  for (let i = 0; i < sound.length; i++) sound[i] = value(i / RATE)
  return sound
}

export function noise(seconds: number, dice: Dice): Track {
  const sound = silence(seconds)
  for (let i = 0; i < sound.length; i++) sound[i] = 2 * dice.next() - 1
  return sound
}

/** Each value by a factor of its time. */
export function shaped(sound: Track, factor: (time: number) => number): Track {
  for (let i = 0; i < sound.length; i++) sound[i] = (sound[i] as number) * factor(i / RATE)
  return sound
}

/** What is below a pitch in Hz; it may move. */
export function low(sound: Track, pitch: number | ((time: number) => number)): Track {
  const at = typeof pitch === 'number' ? () => pitch : pitch
  let held = 0
  for (let i = 0; i < sound.length; i++) {
    held += (1 - Math.exp((-2 * Math.PI * at(i / RATE)) / RATE)) * ((sound[i] as number) - held)
    sound[i] = held
  }
  return sound
}

/** What is above a pitch in Hz. */
export function high(sound: Track, pitch: number): Track {
  const below = low(sound.slice(), pitch)
  for (let i = 0; i < sound.length; i++) sound[i] = (sound[i] as number) - (below[i] as number)
  return sound
}

/** What is around a pitch in Hz, which may move; the narrower, the more it rings. */
export function band(sound: Track, pitch: number | ((time: number) => number), narrowness = 2): Track {
  const at = typeof pitch === 'number' ? () => pitch : pitch
  let [slow, ringing] = [0, 0]
  for (let i = 0; i < sound.length; i++) {
    const step = 2 * Math.sin((Math.PI * Math.min(at(i / RATE), RATE / 7)) / RATE)
    slow += step * ringing
    ringing += step * ((sound[i] as number) - slow - ringing / narrowness)
    sound[i] = ringing
  }
  return sound
}

/** Rises for so many seconds, then falls off; `decay` is how long until about a third is left. */
export const injected = (rise: number, decay: number) => (time: number) =>
  time < rise ? time / rise : Math.exp((rise - time) / decay)
export const wave = (pitch: number, time: number, phase = 0): number => Math.sin(2 * Math.PI * pitch * time + phase)
/** Between two times, with soft edges of so many seconds. */
export const held = (seconds: number, edge: number) => (time: number) =>
  Math.min(1, time / edge, Math.max(0, (seconds - time) / edge))

const COMBS = [0.0297, 0.0371, 0.0411, 0.0437]

/** A small room around it; each side hears its own. */
export function echoed({ left, right }: Mix, share: number): Mix {
  for (const [side, sound] of [left, right].entries()) {
    const dry = sound.slice()
    for (const comb of COMBS) {
      const length = Math.round((comb + side * 0.0013) * RATE)
      const ring = new Float32Array(length)
      let damped = 0
      for (let i = 0; i < dry.length; i++) {
        const back = ring[i % length] as number
        damped += 0.6 * (back - damped)
        ring[i % length] = (dry[i] as number) + 0.8 * damped
        sound[i] = (sound[i] as number) + (share / COMBS.length) * back
      }
    }
  }
  return { left, right }
}

const LOUDEST = 0.85
/** Nobody hears what is below; it would only take room. */
const LOWEST_HZ = 25
const EDGE_S = 0.01

/** 16 bits, little-endian, in turn, as loud as can be, with edges that do not click; softly bent rather than cut off. */
export function samplesOf(mix: Mix): Uint8Array {
  const [left, right] = [high(mix.left, LOWEST_HZ), high(mix.right, LOWEST_HZ)]
  let peak = 0
  for (const side of [left, right]) for (const value of side) peak = Math.max(peak, Math.abs(value))
  const gain = peak > 0 ? LOUDEST / Math.min(peak, 4) : 0
  const data = new DataView(new ArrayBuffer(4 * left.length))
  const edge = held(left.length / RATE, EDGE_S)
  for (let i = 0; i < left.length; i++) {
    for (const [side, sound] of [left, right].entries()) {
      const value = Math.max(-1, Math.min(1, Math.tanh(gain * (sound[i] as number) * edge(i / RATE)) / Math.tanh(1)))
      data.setInt16(4 * i + 2 * side, Math.round(value * 32_767), true)
    }
  }
  return new Uint8Array(data.buffer)
}
