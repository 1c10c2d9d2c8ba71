/** Plays tones that derive from the text, so equal orders make equal files. */
import { pacer } from '../../../adapters/providers/lib/pacer.ts'
import type { Samples } from '../../../adapters/providers/lib/wav.ts'
import { labelOf } from './drawing.ts'

export type SoundOrder = {
  readonly kind: 'speech' | 'sound' | 'music'
  readonly text: string
  readonly seconds: number
  readonly tonesPerSecond: number
}

const RATE = 16_000
/** Semitones above A3: any two of them sound well together. */
const SCALE = [0, 3, 5, 7, 10, 12, 15, 17]

export const noteOf = (kind: SoundOrder['kind']): string => `${labelOf(kind)}. Every sound is a tone.`

/** 16 bits, mono, exactly as long as ordered. A tone for each character in turn; white space is silent. */
export async function soundOf({ kind, text, seconds, tonesPerSecond }: SoundOrder): Promise<Samples> {
  const [characters, perTone] = [Array.from(text), RATE / tonesPerSecond]
  const [data, turn] = [new Int16Array(Math.max(1, Math.round(seconds * RATE))), pacer()]
  for (let at = 0; at < data.length; at++) {
    if (at % 1_024 === 0) await turn(2_048)
    const character = characters[Math.floor(at / perTone) % characters.length] ?? ''
    const pitch = 220 * 2 ** ((SCALE[(character.codePointAt(0) ?? 0) % SCALE.length] as number) / 12)
    const time = at % perTone
    const loudness = character.trim() ? 16_000 * Math.exp((-3 * time) / perTone) * Math.min(1, time / 100) : 0
    data[at] = loudness * Math.sin((2 * Math.PI * pitch * time) / RATE)
  }
  const samples = new Uint8Array(data.buffer)
  return { samples, rate: RATE, channels: 1, software: 'Farebox demo', comment: noteOf(kind), title: text }
}
