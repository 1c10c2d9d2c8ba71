/** The embedded audio vendor: a real, small synthesizer speaks; sounds and music are procedural, and say so in the file and in the reply. */
import { type AudioVendor, ApiError, type MadeAudio, type Voice } from '../../../core/mod.ts'
import { badField } from '../lib/audio_provider.ts'
import { COMPILED, type Ears, type Hand, inProcess, inThread } from './sketch/apart.ts'
import type { AudioAnswer, AudioOrder } from './sketch/audio_work.ts'
import { readWav } from '../lib/wav.ts'

/** Gives an order to a new hand; its answer, and that it died, is heard later, never at once. */
export type Program = (order: AudioOrder, ears: Ears<AudioAnswer>) => Hand

/** `waiting` is how many may queue, `limitMs` how long one may take. `thread` and `program` replace how and what is run, for tests. */
export type SketchAudioOptions = {
  readonly waiting?: number
  readonly limitMs?: number
  readonly thread?: boolean
  readonly program?: Program
}

const PROGRAM = COMPILED
  ? './adapters/providers/demo/sketch/audio_worker.ts'
  : new URL('./sketch/audio_worker.ts', import.meta.url)

const AT_ONCE = 2
/** About five minutes of speech, which takes three seconds. */
const MAX_TEXT = 5_000
const MAX_TUNE_S = 60
const USUAL_TUNE_S = 30

const VOICES: readonly Voice[] = [
  {
    id: 'slt',
    name: 'SLT',
    category: 'flite',
    labels: { accent: 'american', gender: 'female', language: 'en' },
    previewUrl: null,
  },
  {
    id: 'rms',
    name: 'RMS',
    category: 'flite',
    labels: { accent: 'american', gender: 'male', language: 'en' },
    previewUrl: null,
  },
  {
    id: 'awb',
    name: 'AWB',
    category: 'flite',
    labels: { accent: 'scottish', gender: 'male', language: 'en' },
    previewUrl: null,
  },
  {
    id: 'kal16',
    name: 'KAL',
    category: 'flite',
    labels: { accent: 'american', gender: 'male', language: 'en' },
    previewUrl: null,
  },
]

const spokenBy = (voice: string, ...names: readonly string[]) => names.map((name) => [name, voice] as const)
/** The contract's names, by the voice here that is most like theirs. */
const ALIASES = Object.fromEntries([
  ...spokenBy('slt', 'sarah', 'aria', 'laura', 'charlotte', 'alice', 'matilda', 'jessica', 'lily'),
  ...spokenBy('rms', 'roger', 'liam', 'eric', 'brian'),
  ...spokenBy('awb', 'george', 'charlie', 'callum', 'daniel'),
  ...spokenBy('kal16', 'will', 'chris', 'bill', 'river'),
])

type Task = { readonly order: AudioOrder; done(answer: AudioAnswer): void }

/**
 * Two orders at a time, each in a process of its own that is ended with its answer, its time limit, or its caller. The same order makes the
 * same sound. WAV only, and bare samples of speech: an encoder of anything else would not be ours to give away.
 */
export function sketchAudio(options: SketchAudioOptions = {}): AudioVendor & { close(): void } {
  const {
    waiting = 64,
    limitMs = 45_000,
    thread = COMPILED,
    program = (order, ears) => (thread ? inThread : inProcess)(PROGRAM, order, ears),
  } = options
  const queue: Task[] = []
  const callContext = new Map<Task, Hand>()
  let closed = false

  function next(): void {
    const task = callContext.size < AT_ONCE ? queue.shift() : undefined
    if (!task) return
    const timer = setTimeout(() => end({ error: 'it took too long' }), limitMs)
    const end = (answer: AudioAnswer) => {
      clearTimeout(timer)
      leave(task)
      task.done(answer)
    }
    try {
      callContext.set(task, program(task.order, { hear: end, died: (reason) => end({ error: reason }) }))
    } catch (cause) {
      // Whoever made room for this task still waits for his own sound.
      end({ error: cause instanceof Error ? cause.message : String(cause) })
    }
    next()
  }

  /** Takes a task from wherever it is; one that is worked on is stopped. */
  function leave(task: Task): void {
    const at = queue.indexOf(task)
    if (at >= 0) queue.splice(at, 1)
    const hand = callContext.get(task)
    callContext.delete(task)
    hand?.stop()
    if (hand && !closed) next()
  }

  async function make(order: AudioOrder, signal: AbortSignal): Promise<Exclude<AudioAnswer, { error: string }>> {
    signal.throwIfAborted()
    if (closed) throw new Error('the sketch vendor is closed')
    if (queue.length >= waiting)
      throw new ApiError('BUSY', {
        message: 'Too many sounds are waiting to be made. Nothing was charged; send the same request again.',
        headers: { 'retry-after': '10' },
      })
    const { promise, resolve, reject } = Promise.withResolvers<AudioAnswer>()
    const task: Task = { order, done: resolve }
    const stop = () => {
      reject(signal.reason)
      leave(task)
    }
    signal.addEventListener('abort', stop, { once: true })
    queue.push(task)
    next()
    const answer = await promise.finally(() => signal.removeEventListener('abort', stop))
    if ('error' in answer)
      throw answer.refusal === undefined
        ? new Error(`the sketch made no sound: ${answer.error}`)
        : badField('input', answer.refusal)
    return answer
  }

  return {
    makes: { speech: ['wav', 'pcm'], 'sound-effects': ['wav'], music: ['wav'] },
    // An id that looks like another vendor's is taken as well, so that clients of that one work here.
    voiceNames: { aliases: ALIASES, ids: /^(?:slt|rms|awb|kal16|[A-Za-z0-9]{20})$/ },
    maxCharacters: MAX_TEXT,

    async speak({ text, voice, format, speed }, { signal }) {
      const known = VOICES.some(({ id }) => id === voice) ? voice : 'slt'
      const { wav, seconds, note } = await make({ kind: 'speech', text: readable(text), voice: known, speed }, signal)
      const bare = format === 'pcm' ? readWav(wav) : undefined
      if (bare) return { url: uriOf(bare.samples, 'audio/pcm'), seconds, sampleRate: bare.rate, note }
      return { url: uriOf(wav, 'audio/wav'), seconds, note }
    },

    sound: async ({ text, seconds }, { signal }) =>
      madeOf(await make({ kind: 'sound', text: text.slice(0, READ), seconds }, signal)),

    async compose({ prompt, seconds = USUAL_TUNE_S }, { signal }) {
      return madeOf(
        await make({ kind: 'music', text: prompt.slice(0, READ), seconds: Math.min(seconds, MAX_TUNE_S) }, signal),
      )
    },

    async voices({ signal }) {
      signal.throwIfAborted()
      return VOICES
    },

    /** Ends what is made or waits. */
    close() {
      closed = true
      for (const task of [...callContext.keys(), ...queue]) {
        leave(task)
        task.done({ error: 'the sketch vendor is closed' })
      }
    },
  }
}

/** Only this much of a prompt is handed on. */
const READ = 2_000

const uriOf = (bytes: Uint8Array, type: string): string =>
  `data:${type};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}`
const madeOf = ({ wav, seconds, note }: Exclude<AudioAnswer, { error: string }>): MadeAudio => ({
  url: uriOf(wav, 'audio/wav'),
  seconds,
  note,
})

/** Letters that do not come apart into one of English and an accent. */
const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  Æ: 'Ae',
  œ: 'oe',
  Œ: 'Oe',
  ø: 'o',
  Ø: 'O',
  ł: 'l',
  Ł: 'L',
  đ: 'd',
  Đ: 'D',
  ð: 'th',
  Ð: 'Th',
  þ: 'th',
  Þ: 'Th',
  ı: 'i',
}

/** In the letters of English, which is all that it reads. Throws INVALID_BODY where nothing is left to say, or a letter would be left out: it is paid for. */
function readable(text: string): string {
  const known = text.normalize('NFKD').replace(/[ßæÆœŒøØłŁđĐðÐþÞı]/g, (letter) => LETTERS[letter] ?? '')
  if (/(?![A-Za-z0-9])[\p{L}\p{N}]/u.test(known))
    throw badField('input', 'holds letters that the embedded synthesizer cannot say: it reads English only')
  const plain = known
    .replace(/[\u2018\u2019\u02bc]/g, "'")
    .replace(/[\u201c\u201d]/g, '"')
    .replace(/[\u2010-\u2015]/g, '-')
    .replace(/[^\x20-\x7e\s]/g, '')
    .replace(/\s+/g, ' ')
    .trim()
  if (/[A-Za-z0-9]/.test(plain)) return plain
  throw badField('input', 'holds nothing that the embedded synthesizer can say: it reads English only')
}
