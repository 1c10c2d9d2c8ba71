/** What one order comes to: a WAV that says in itself what made it. */
import { secondsOf, wavOf } from '../../lib/wav.ts'
import { MAX_S, spoken } from './flite.ts'
import { soundOf } from './sounds.ts'
import { RATE, samplesOf } from './synth.ts'
import { tuneOf } from './tune.ts'

export type AudioOrder =
  | { readonly kind: 'speech'; readonly text: string; readonly voice: string; readonly speed: number }
  | { readonly kind: 'sound'; readonly text: string; readonly seconds?: number | undefined }
  | { readonly kind: 'music'; readonly text: string; readonly seconds: number }

/** `refusal` is what is wrong with the text, for whoever wrote it. */
export type AudioAnswer =
  | { readonly wav: Uint8Array; readonly seconds: number; readonly note: string }
  | { readonly error: string; readonly refusal?: string }

const SOFTWARE = 'Farebox sketch audio'
export const SPOKEN_NOTE = 'Spoken by flite, a small synthesizer of English, and not by the model.'
export const SOUND_NOTE = 'Procedural sound by Farebox - not a model.'
export const TUNE_NOTE = 'Procedural music by Farebox - not a model. Nobody sings.'

export async function audioOf(order: AudioOrder): Promise<AudioAnswer> {
  if (order.kind === 'speech') {
    const samples = await spoken(order)
    if (!samples) return { error: 'it would last too long', refusal: `takes longer than ${MAX_S / 60} minutes to say` }
    return {
      wav: wavOf({ ...samples, software: `${SOFTWARE} with flite`, comment: SPOKEN_NOTE }),
      seconds: secondsOf(samples),
      note: SPOKEN_NOTE,
    }
  }
  if (order.kind === 'sound') {
    const { mix, names } = soundOf(order)
    return written(
      samplesOf(mix),
      `${SOUND_NOTE} ${names.length > 0 ? `Heard in the words: ${names.join(', ')}.` : 'No word names a sound that it knows.'}`,
      order.text,
    )
  }
  const { mix, words } = tuneOf({ prompt: order.text, seconds: order.seconds })
  return written(samplesOf(mix), `${TUNE_NOTE} ${words}.`, order.text)
}

function written(samples: Uint8Array, note: string, title: string): AudioAnswer {
  const made = { samples, rate: RATE, channels: 2 }
  return { wav: wavOf({ ...made, software: SOFTWARE, comment: note, title }), seconds: secondsOf(made), note }
}
