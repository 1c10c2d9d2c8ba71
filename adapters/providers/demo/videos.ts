/** The embedded video vendor: films of the procedural illustrator, which say so in every frame. */
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Log, VideoJob, VideoState, VideoVendor } from '../../../core/mod.ts'
import { COMPILED, type Ears, type Hand, inProcess, inThread } from './sketch/apart.ts'
import { frameSize, type FilmJob } from './sketch/film_plan.ts'
import type { Answer, Order } from './sketch/film_worker.ts'

/** Gives an order to a new hand; what it answers, and that it died, is heard later, never at once. */
export type Program = (orders: { readonly order: Order } & Ears<Answer>) => Hand

/**
 * `dir` is where films are kept, a new folder among the temporary files unless said. `waiting` is how many may queue, `kept` how many finished
 * ones may stay, `limitMs` how long one may take to draw; `log` hears why one failed. `thread` and `program` replace how and what is run,
 * for tests.
 */
export type SketchVideoOptions = {
  readonly dir?: string
  readonly waiting?: number
  readonly kept?: number
  readonly limitMs?: number
  readonly log?: Log
  readonly thread?: boolean
  readonly program?: URL | Program
}

const PROGRAM = COMPILED
  ? './adapters/providers/demo/sketch/film_worker.ts'
  : new URL('./sketch/film_worker.ts', import.meta.url)

const MAX_SECONDS = 30
/** Bytes of pictures that are kept for films which wait. */
const BYTES_HELD = 128 * 1024 * 1024
const CHUNK = 1 << 18
const LATE = 'it took too long'
/** How many jobs are remembered after they failed or were dropped. */
const REMEMBERED = 1024

/** Only this much of a prompt is handed on; the illustrator reads less. */
const PROMPT_READ = 1000

const LOST: VideoState = { kind: 'failed', reason: 'The sketch was lost with its process.' }
const DROPPED: VideoState = { kind: 'failed', reason: 'The sketch was not collected in time, and is gone.' }

type Film = { readonly path: string; state: VideoState; read: boolean }
type Task = { readonly film: Film; readonly job: FilmJob }

/**
 * Films what the words of a prompt name, without sound, one film at a time in a process of its own; the same film for the same job. Handles
 * end with this process. A clip can be asked for again until newer ones take its place, those first that were read.
 */
export function sketchVideo(options: SketchVideoOptions = {}): VideoVendor & { close(): void } {
  const { waiting = 32, kept = 64, limitMs = 300_000, program = PROGRAM, thread = COMPILED } = options
  const films = new Map<string, Film>()
  const queue: Task[] = []
  const callContext = new Set<Hand>()
  const begin: Program =
    typeof program === 'function'
      ? program
      : ({ order, ...ears }) => (thread ? inThread : inProcess)(program, order, ears)
  let folder: string | undefined
  let busy = false
  let closed = false
  let loaded: Promise<void> | undefined

  /** Runs one order apart from this thread, and stops whatever did it at its last answer or at its time limit. */
  const run = (order: Order, heard: (progress: number) => void) =>
    new Promise<Answer>((resolve) => {
      const end = (answer: Answer) => {
        clearTimeout(timer)
        if (callContext.delete(hand)) hand.stop()
        resolve(answer)
      }
      const hear = (answer: Answer) => ('progress' in answer ? heard(answer.progress) : end(answer))
      const hand = begin({ order, hear, died: (error) => end({ error }) })
      const timer = setTimeout(() => end({ error: LATE }), limitMs)
      callContext.add(hand)
    })

  /** Asks whether the encoder is there; a yes holds for good. */
  const load = async () => {
    const answer = await run({ path: '' }, () => {})
    if ('error' in answer && !closed)
      throw new Error(`the sketch cannot film: its encoder, h264-mp4-encoder, could not be loaded (${answer.error})`)
  }

  const next = async (): Promise<void> => {
    const task = busy || closed ? undefined : queue.shift()
    if (!task) return
    const { film, job } = task
    busy = true
    film.state = { kind: 'running', status: 'in_progress', progress: 0 }
    const heard = (percent: number) => {
      film.state = { kind: 'running', status: 'in_progress', progress: Math.min(99, percent) }
    }
    const answer = await run({ job, path: film.path }, heard).catch((cause: unknown): Answer => ({
      error: String(cause),
    }))
    busy = false
    film.state = stateAfter(job, answer)
    if ('error' in answer && !closed)
      options.log?.warn('a video sketch failed', { error: answer.error, prompt: job.prompt.slice(0, 80) })
    if ('error' in answer) rmSync(film.path, { force: true })
    tidy()
    return next()
  }

  /** Drops the clips that are too many, those first that were read, then the oldest; and forgets the oldest failures. */
  const tidy = () => {
    const done = [...films.values()]
      .filter(({ state }) => state.kind === 'done')
      .toSorted((a, b) => Number(b.read) - Number(a.read))
    for (const film of done.slice(0, Math.max(0, done.length - kept))) {
      film.state = DROPPED
      rmSync(film.path, { force: true })
    }
    const failed = [...films].filter(([, { state }]) => state.kind === 'failed')
    for (const [handle] of failed.slice(0, Math.max(0, failed.length - REMEMBERED))) films.delete(handle)
  }

  const place = () => {
    if (options.dir) mkdirSync(options.dir, { recursive: true })
    return options.dir ?? mkdtempSync(join(tmpdir(), 'farebox-films-'))
  }

  const check = (signal: AbortSignal) => {
    signal.throwIfAborted()
    if (closed) throw new Error('the sketch vendor is closed')
  }

  return {
    async submit(order, { signal }) {
      check(signal)
      const job = filmJob(order)
      loaded ??= load().catch((cause: unknown) => {
        loaded = undefined
        throw cause
      })
      await unlessAborted(loaded, signal)
      check(signal)
      const held = queue.reduce((sum, waits) => sum + bytesOf(waits.job), 0)
      if (queue.length >= waiting || (held > 0 && held + bytesOf(job) > BYTES_HELD))
        throw new Error('too many sketches are waiting')
      folder ??= place()
      const handle = randomUUID()
      const film: Film = {
        path: join(folder, `${handle}.mp4`),
        state: { kind: 'running', status: 'queued' },
        read: false,
      }
      films.set(handle, film)
      queue.push({ film, job })
      void next()
      return { handle }
    },

    async look(handle, { signal }) {
      signal.throwIfAborted()
      return films.get(handle)?.state ?? LOST
    },

    async clip(handle, { signal }) {
      signal.throwIfAborted()
      const film = films.get(handle)
      if (film?.state.kind !== 'done') throw new Error('there is no such sketch to read')
      const { size } = await stat(film.path)
      return { body: bodyOf(film, { size, signal }), type: 'video/mp4', size }
    },

    /** Ends what is drawn or waits, and deletes every film. */
    close() {
      closed = true
      for (const hand of callContext) hand.stop()
      callContext.clear()
      queue.length = 0
      for (const { path } of films.values()) rmSync(path, { force: true })
      films.clear()
      if (folder && !options.dir) rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** What the drawing process needs of a job. Throws for what it cannot film; links are not followed, only named in the label. */
function filmJob(job: VideoJob): FilmJob {
  const {
    prompt,
    seconds,
    resolution,
    aspectRatio,
    seed,
    returnLastFrame,
    referenceImages,
    referenceVideos,
    referenceAudios,
  } = job
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > MAX_SECONDS)
    throw new Error(`sketch films 1 to ${MAX_SECONDS} seconds, not ${seconds}`)
  frameSize(job)
  const references = [referenceImages, referenceVideos, referenceAudios].reduce(
    (sum, list) => sum + (list?.length ?? 0),
    0,
  )
  const unseen = [job.asset ? 'character not shown' : '', references > 0 ? `references not shown: ${references}` : '']
    .filter(Boolean)
    .join(', ')
  const { image, lastFrame } = job
  return Object.fromEntries(
    Object.entries({
      prompt: prompt.slice(0, PROMPT_READ),
      seconds,
      resolution,
      aspectRatio,
      seed,
      image,
      lastFrame,
      unseen,
      returnLastFrame,
    }).filter(([, value]) => value !== undefined),
  ) as FilmJob
}

function bytesOf({ image = '', lastFrame = '' }: FilmJob): number {
  return image.length + lastFrame.length
}

function stateAfter({ seconds }: FilmJob, answer: Answer): VideoState {
  if ('error' in answer)
    return {
      kind: 'failed',
      reason: answer.error === LATE ? 'The sketch took too long to draw.' : 'The sketch could not be drawn.',
    }
  const lastFrameUrl = 'bytes' in answer ? answer.lastFrame : undefined
  return { kind: 'done', seconds, ...(lastFrameUrl && { lastFrameUrl }) }
}

/** The file, opened when it is first asked for; it may be deleted while it is read. */
function bodyOf(film: Film, { size, signal }: { size: number; signal: AbortSignal }): ReadableStream<Uint8Array> {
  let file: FileHandle | undefined
  let at = 0
  const leave = async () => {
    const left = file
    file = undefined
    await left?.close()
  }
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          signal.throwIfAborted()
          file ??= await open(film.path)
          const { buffer, bytesRead } = await file.read(new Uint8Array(Math.min(CHUNK, size - at)), { position: at })
          if (bytesRead === 0) throw new Error('the sketch was cut short')
          at += bytesRead
          controller.enqueue(buffer.subarray(0, bytesRead))
          if (at < size) return
          film.read = true
          await leave()
          controller.close()
        } catch (cause) {
          await leave()
          throw cause
        }
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  )
}

function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}
