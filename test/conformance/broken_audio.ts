import { TONE } from '../fakes/audio.ts'
import { type AudioVendor, ApiError } from '../../core/mod.ts'
import { turn } from './abort.ts'
import { BARRED, UPSTREAM_TEXT } from './audio.ts'
import { breaking, type Broken } from './law.ts'

/** Keeps every law; takes a few turns, so that an abort can come in between. */
function toneVendor(): AudioVendor {
  return {
    makes: { speech: ['wav'], 'sound-effects': ['wav'] },
    voiceNames: { aliases: { sarah: 'v1' }, ids: /^v\d+$/ },
    speak: ({ text }, at) => tone(text, at),
    sound: ({ text }, at) => tone(text, at),
    voices: async () => [
      { id: 'v1', name: 'Sarah', category: 'premade', labels: { gender: 'female' }, previewUrl: null },
    ],
  }
}

async function tone(text: string, { signal }: { signal: AbortSignal }) {
  for (let turns = 0; turns < 4; turns++) {
    signal.throwIfAborted()
    await turn()
  }
  if (text === BARRED) throw new ApiError('CONTENT_POLICY', { details: 'The safety system refused this text.' })
  return { url: TONE, seconds: 0.01 }
}

const broken = breaking<AudioVendor>(toneVendor)

export const brokenAudioVendors: readonly Broken<AudioVendor>[] = [
  broken('makes something, and has a verb for all that it says it makes', 'makes nothing', () => ({ makes: {} })),
  broken('a sound is one of the format that was ordered, by its URL or in a data URI', 'calls a WAV an MP3', () => ({
    makes: { speech: ['mp3'] },
  })),
  broken(
    'says how long a sound is in seconds, or nothing of it; of bare samples their rate as well',
    'counts in milliseconds',
    (good) => ({
      speak: async (...args) => ({ ...(await good.speak?.(...args)), url: TONE, seconds: 10_000 }),
    }),
  ),
  broken(
    'its voices have names of their own, in lower case, and its other ids are none of these',
    'takes any words for a voice',
    () => ({ voiceNames: { aliases: { sarah: 'v1' }, ids: /^/ } }),
  ),
  broken('lists each voice once, with labels that are text', 'lists a voice for each of its names', (good) => ({
    voices: async (at) => [...((await good.voices?.(at)) ?? []), ...((await good.voices?.(at)) ?? [])],
  })),
  broken('a refused text is a fault, in words that are not the vendor’s', 'repeats what its vendor said', (good) => ({
    speak: (job, at) =>
      job.text === BARRED
        ? Promise.reject(new ApiError('CONTENT_POLICY', { details: UPSTREAM_TEXT }))
        : (good.speak?.(job, at) as never),
  })),
  broken(
    'an aborted signal ends work with its reason, before it begins and while it runs',
    'finishes what it has begun',
    (good) => ({
      async speak(job, { signal }) {
        signal.throwIfAborted()
        for (let turns = 0; turns < 40; turns++) await turn()
        return (await good.speak?.(job, { signal: new AbortController().signal })) as never
      },
    }),
  ),
]
