/** A scripted audio vendor for tests. */
import type { AudioVendor, MadeAudio, MusicJob, SoundJob, SpeechJob } from '../../core/mod.ts'
import { orAbort } from '../../adapters/http/or_abort.ts'
import { wavOf } from '../../adapters/providers/lib/wav.ts'

type AudioJob = SpeechJob | SoundJob | MusicJob
export type ScriptedAudio = Required<Omit<AudioVendor, 'maxCharacters'>> & { readonly jobs: readonly AudioJob[] }

/** A hundredth of a second of sound. */
export const TONE_BYTES: Uint8Array = wavOf({
  samples: Uint8Array.from({ length: 320 }, (_, index) => (index * 37) % 256),
  rate: 16_000,
  channels: 1,
})
export const TONE = `data:audio/wav;base64,${Buffer.from(TONE_BYTES).toString('base64')}`

/**
 * Records every job. Rejects at once when the signal aborts, whatever the script does.
 *
 * @example
 * const audio = scriptedAudio()
 */
export function scriptedAudio(
  script: (job: AudioJob, at: { signal: AbortSignal; attempt: number }) => Promise<MadeAudio> = async () => ({
    url: TONE,
  }),
): ScriptedAudio {
  const jobs: AudioJob[] = []
  const make = async (job: AudioJob, { signal }: { signal: AbortSignal }): Promise<MadeAudio> => {
    signal.throwIfAborted()
    const attempt = jobs.push(job)
    return await orAbort(script(job, { signal, attempt }), signal)
  }
  return {
    jobs,
    makes: { speech: ['wav', 'mp3', 'pcm'], 'sound-effects': ['wav', 'mp3'], music: ['wav'] },
    voiceNames: { aliases: { sarah: 'voice-1', george: 'voice-2' }, ids: /^voice-\d+$/ },
    speak: make,
    sound: make,
    compose: make,
    async voices({ signal }) {
      signal.throwIfAborted()
      return [
        { id: 'voice-1', name: 'Sarah', category: 'premade', labels: { gender: 'female' }, previewUrl: null },
        { id: 'voice-3', name: 'Nobody', category: 'cloned', labels: {}, previewUrl: 'https://voices.example/3.mp3' },
      ]
    },
  }
}
