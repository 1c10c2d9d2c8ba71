/** Sounds and music of a few voices: plucked tones, a bass, and noise. The same words make the same file. */
import type { Samples } from '../lib/wav.ts'
import { dice, labelOf } from './drawing.ts'

export type SoundOrder = { readonly kind: 'sound' | 'music'; readonly text: string; readonly seconds: number }

const RATE = 32_000
const EDGE_S = 0.01
/** Half tones above the lowest note; any two of them go together. */
const SCALES = [
  [0, 2, 4, 7, 9],
  [0, 3, 5, 7, 10],
] as const
const CHORDS = [0, -3, -7, -5] as const

type Note = {
  readonly at: number
  readonly pitch: number
  readonly loud: number
  readonly decay: number
  readonly pan: number
}
type Mix = readonly [left: Float32Array, right: Float32Array]

export const noteOf = (kind: 'sound' | 'music'): string =>
  `${labelOf(kind)}.${kind === 'music' ? ' Nobody sings.' : ''}`

/** Two channels of 16 bits, exactly as long as was ordered. */
export function sound({ kind, text, seconds }: SoundOrder): Samples {
  const length = Math.max(1, Math.round(seconds * RATE))
  const mix: Mix = [new Float32Array(length), new Float32Array(length)]
  const roll = dice(`${kind}\0${text}`)
  if (kind === 'music') compose(mix, roll)
  else effect(mix, roll)
  return {
    samples: samplesOf(mix),
    rate: RATE,
    channels: 2,
    software: 'Farebox demo',
    comment: noteOf(kind),
    title: text,
  }
}

/** Four chords that go round, a bass under them, and a melody out of one scale. */
function compose(mix: Mix, roll: () => number): void {
  const beat = 60 / (80 + roll() * 60)
  const scale = roll() < 0.5 ? SCALES[0] : SCALES[1]
  const root = 45 + Math.floor(roll() * 10)
  for (let step = 0; step * beat * RATE < mix[0].length; step++) {
    const chord = CHORDS[(step >> 2) % CHORDS.length] ?? 0
    const at = step * beat
    if (step % 4 === 0)
      for (const tone of [0, 7, 12])
        pluck(mix, { at, pitch: root + chord + tone, loud: 0.5, decay: 1.2, pan: tone / 12 - 0.5 })
    if (step % 2 === 0) pluck(mix, { at, pitch: root + chord - 12, loud: 0.8, decay: 0.5, pan: 0 })
    const tone = (scale[Math.floor(roll() * scale.length)] ?? 0) + 12 + 12 * Math.floor(roll() * 2)
    if (roll() < 0.8)
      pluck(mix, {
        at: at + (roll() < 0.3 ? beat / 2 : 0),
        pitch: root + tone,
        loud: 0.7,
        decay: 0.4,
        pan: roll() - 0.5,
      })
  }
}

/** A bed of noise that swells, and tones at their own pace. */
function effect(mix: Mix, roll: () => number): void {
  const [swell, dark, pace, pitch] = [0.2 + roll() * 2, 0.02 + roll() * 0.3, 0.15 + roll() * 0.8, 40 + roll() * 40]
  for (const channel of mix) {
    let noise = 0
    for (let at = 0; at < channel.length; at++) {
      noise += dark * (2 * roll() - 1 - noise)
      channel[at] = noise * (0.6 + 0.4 * Math.sin((2 * Math.PI * swell * at) / RATE))
    }
  }
  for (let at = 0; at * RATE < mix[0].length; at += pace * (0.7 + 0.6 * roll())) {
    pluck(mix, {
      at,
      pitch: pitch + Math.floor(roll() * 3) * 5,
      loud: 0.8,
      decay: 0.05 + roll() * 0.4,
      pan: 2 * roll() - 1,
    })
  }
}

/** Adds a tone with its octave and its twelfth; what reaches over the end is cut. `pitch` is a MIDI note. */
function pluck([left, right]: Mix, { at, pitch, loud, decay, pan }: Note): void {
  const first = Math.round(at * RATE)
  const turn = (2 * Math.PI * 440 * 2 ** ((pitch - 69) / 12)) / RATE
  const end = Math.min(left.length, first + Math.round(decay * 6 * RATE))
  for (let index = first; index < end; index++) {
    const time = index - first
    const fade = Math.exp(-time / RATE / decay) * Math.min(1, time / 90)
    const value =
      loud *
      fade *
      (Math.sin(turn * time) + 0.4 * fade * Math.sin(2 * turn * time) + 0.2 * fade * Math.sin(3 * turn * time))
    left[index] = (left[index] as number) + value * (1 - pan) * 0.5
    right[index] = (right[index] as number) + value * (1 + pan) * 0.5
  }
}

/** As loud as can be, with edges that do not click. */
function samplesOf(mix: Mix): Uint8Array {
  const length = mix[0].length
  let peak = 0
  for (const channel of mix) for (const value of channel) peak = Math.max(peak, Math.abs(value))
  const data = new DataView(new ArrayBuffer(4 * length))
  for (let at = 0; at < length; at++) {
    const edge = Math.min(1, at / RATE / EDGE_S, (length - at) / RATE / EDGE_S)
    for (const [side, channel] of mix.entries()) {
      data.setInt16(4 * at + 2 * side, Math.round((27_000 * edge * (channel[at] as number)) / (peak || 1)), true)
    }
  }
  return new Uint8Array(data.buffer)
}
