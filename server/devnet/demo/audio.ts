/** The demo audio vendor: speech, sounds and music of tones, labelled as demo. */
import type { AudioVendor, MadeAudio, Voice } from '../../../core/mod.ts'
import { secondsOf, wavOf } from '../../../adapters/providers/lib/wav.ts'
import { dataUri, demoQueue } from './queue.ts'
import { noteOf, type SoundOrder, soundOf } from './sounds.ts'

const [MAX_CHARACTERS, MAX_PROMPT, MAX_WAITING] = [5_000, 2_000, 64]
const [MAX_MUSIC_SECONDS, DEFAULT_MUSIC_SECONDS, DEFAULT_SOUND_SECONDS] = [60, 30, 4]
const CHARACTERS_PER_SECOND = 15
const LABELS = { accent: 'none', gender: 'neutral', language: 'en' }
const VOICES: readonly Voice[] = [{ id: 'tones', name: 'Tones', category: 'demo', labels: LABELS, previewUrl: null }]
/** The contract's voice names: all of them are the same tones here. */
const NAMES = `sarah aria laura charlotte alice matilda jessica lily roger liam eric brian george charlie callum daniel
will chris bill river`

/** Equal orders make equal sounds. WAV only, and PCM for speech: other formats would need an encoder. */
export function demoAudio(): AudioVendor {
  const limit = demoQueue(MAX_WAITING)

  async function make(order: SoundOrder, format: string, signal: AbortSignal): Promise<MadeAudio> {
    signal.throwIfAborted()
    return await limit(async () => {
      const sound = await soundOf(order)
      const made = { seconds: secondsOf(sound), note: noteOf(order.kind) }
      if (format === 'pcm') return { url: dataUri(sound.samples, 'audio/pcm'), sampleRate: sound.rate, ...made }
      return { url: dataUri(wavOf(sound), 'audio/wav'), ...made }
    }, signal)
  }

  return {
    makes: { speech: ['wav', 'pcm'], 'sound-effects': ['wav'], music: ['wav'] },
    // Accepts ids that look like another vendor's, so that clients of that vendor work here.
    voiceNames: {
      aliases: Object.fromEntries(NAMES.split(/\s+/).map((name) => [name, 'tones'])),
      ids: /^(?:tones|[A-Za-z0-9]{20})$/,
    },
    maxCharacters: MAX_CHARACTERS,
    async speak({ text, format, speed }, { signal }) {
      const tonesPerSecond = CHARACTERS_PER_SECOND * speed
      const seconds = Array.from(text).length / tonesPerSecond
      return await make({ kind: 'speech', text, seconds, tonesPerSecond }, format, signal)
    },
    async sound({ text, format, seconds = DEFAULT_SOUND_SECONDS }, { signal }) {
      return await make({ kind: 'sound', text: text.slice(0, MAX_PROMPT), seconds, tonesPerSecond: 1 }, format, signal)
    },
    async compose({ prompt, seconds: wanted = DEFAULT_MUSIC_SECONDS }, { signal }) {
      const seconds = Math.min(wanted, MAX_MUSIC_SECONDS)
      return await make({ kind: 'music', text: prompt.slice(0, MAX_PROMPT), seconds, tonesPerSecond: 4 }, 'wav', signal)
    },
    async voices({ signal }) {
      signal.throwIfAborted()
      return VOICES
    },
  }
}
