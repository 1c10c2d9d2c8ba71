/** The demo audio vendor: flite speaks, sounds and music are made by a small program, and all of it says so. */
import type { AudioVendor, MadeAudio, Voice } from '../../../core/mod.ts'
import { badField } from '../lib/audio_provider.ts'
import { SPOKEN_NOTE } from './flite.ts'
import { type ThreadOptions, workshop } from './threads.ts'
import { noteOf } from './tune.ts'
import type { AnyOrder } from './worker.ts'

/** About five minutes of speech, which takes three seconds. */
const MAX_TEXT = 5_000
const [MAX_TUNE_S, USUAL_TUNE_S, USUAL_SOUND_S] = [60, 30, 4]
/** Only this much of a prompt is handed on. */
const READ = 2_000

const voice = (id: string, name: string, accent: string, gender: string): Voice => {
  return { id, name, category: 'flite', labels: { accent, gender, language: 'en' }, previewUrl: null }
}
const VOICES: readonly Voice[] = [
  voice('slt', 'SLT', 'american', 'female'),
  voice('rms', 'RMS', 'american', 'male'),
  voice('awb', 'AWB', 'scottish', 'male'),
  voice('kal16', 'KAL', 'american', 'male'),
]

/** The contract's names, by the voice here that is most like theirs. */
const ALIASES = Object.fromEntries(
  Object.entries({
    slt: 'sarah aria laura charlotte alice matilda jessica lily',
    rms: 'roger liam eric brian',
    awb: 'george charlie callum daniel',
    kal16: 'will chris bill river',
  }).flatMap(([id, names]) => names.split(' ').map((name) => [name, id])),
)

/**
 * The same order makes the same sound. WAV only, and bare samples of speech: an encoder of anything else would not be
 * ours to give away.
 */
export function demoAudio(options: ThreadOptions = {}): AudioVendor & { close(): void } {
  const threads = workshop(options)

  async function make(order: AnyOrder, note: string, signal: AbortSignal): Promise<MadeAudio> {
    signal.throwIfAborted()
    threads.admit()
    const { url = '', ...made } = await threads.run(order, { signal })
    return { url, ...made, note }
  }

  return {
    makes: { speech: ['wav', 'pcm'], 'sound-effects': ['wav'], music: ['wav'] },
    // An id that looks like another vendor's is taken as well, so that clients of that one work here.
    voiceNames: { aliases: ALIASES, ids: /^(?:slt|rms|awb|kal16|[A-Za-z0-9]{20})$/ },
    maxCharacters: MAX_TEXT,
    async speak({ text, voice: wanted, format, speed }, { signal }) {
      const known = VOICES.some(({ id }) => id === wanted) ? wanted : 'slt'
      return await make({ kind: 'speech', text: readable(text), voice: known, speed, format }, SPOKEN_NOTE, signal)
    },
    async sound({ text, seconds = USUAL_SOUND_S }, { signal }) {
      return await make({ kind: 'sound', text: text.slice(0, READ), seconds }, noteOf('sound'), signal)
    },
    async compose({ prompt, seconds = USUAL_TUNE_S }, { signal }) {
      const order = { kind: 'music', text: prompt.slice(0, READ), seconds: Math.min(seconds, MAX_TUNE_S) } as const
      return await make(order, noteOf('music'), signal)
    },
    async voices({ signal }) {
      signal.throwIfAborted()
      return VOICES
    },
    close: threads.close,
  }
}

/** Letters that do not come apart into one of English and an accent. */
const LETTERS: Readonly<Record<string, string>> = Object.fromEntries(
  'ß ss æ ae Æ Ae œ oe Œ Oe ø o Ø O ł l Ł L đ d Đ D ð th Ð Th þ th Þ Th ı i'
    .split(' ')
    .flatMap((each, at, all) => (at % 2 ? [] : [[each, all[at + 1] ?? '']])),
)

/**
 * In the letters of English, which is all that it reads. Throws INVALID_BODY where a letter would be left out, or
 * nothing is left: it is paid for.
 */
function readable(text: string): string {
  const known = text.normalize('NFKD').replace(/[ßæÆœŒøØłŁđĐðÐþÞı]/g, (letter) => LETTERS[letter] ?? '')
  if (/(?![A-Za-z0-9])[\p{L}\p{N}]/u.test(known))
    throw badField('input', 'holds letters that the demo cannot say: it reads English only')
  const marks = known
    .replace(/[\u2018\u2019\u02bc]/g, "'")
    .replace(/[\u201c\u201d]/g, '"')
    .replace(/[\u2010-\u2015]/g, '-')
  const plain = marks
    .replace(/[^\x20-\x7e\s]/g, '')
    .replace(/\s+/g, ' ')
    .trim()
  if (/[A-Za-z0-9]/.test(plain)) return plain
  throw badField('input', 'holds nothing that the demo can say: it reads English only')
}
