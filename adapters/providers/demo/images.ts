/** The embedded image vendor: a procedural illustrator that says so in every picture. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { ImageJob, ImageVendor } from '../../../core/mod.ts'
import { COMPILED } from './sketch/apart.ts'
import type { Edit } from './sketch/edit.ts'
import { refused } from './sketch/fit.ts'
import { EDIT_LABEL } from './sketch/png.ts'
import type { Sketch } from './sketch/scene.ts'
import { sourcesOf, type Sources } from './sketch/sources.ts'
import type { Answer } from './sketch/worker.ts'

/** `waiting` is how many pictures may queue; `program` replaces what the threads run, for tests. */
export type SketchOptions = { readonly threads?: number; readonly waiting?: number; readonly program?: URL }

const PROGRAM = COMPILED ? './adapters/providers/demo/sketch/worker.ts' : new URL('./sketch/worker.ts', import.meta.url)

const LARGEST_SIDE = 4096
const MAX_IMAGES = 16
/** Pixels in the making at one time; each takes about ten bytes of memory to draw, and fifty to edit. */
const PIXELS_AT_ONCE = LARGEST_SIDE * LARGEST_SIDE
/** A thread keeps the memory of its largest picture, so after more pixels than this it is let go. */
const PIXELS_TO_KEEP = 2048 * 2048
/** Bytes of sources that are kept for edits which wait or run. */
const BYTES_HELD = 256 * 1024 * 1024

type Task = { sketch: Sketch | Edit; done(url: string): void; failed(cause: unknown): void }
type Painter = { worker: Worker; task: Task | undefined; pixels: number; leaving: boolean }

/**
 * Draws what the words of a prompt name, or edits what it is given: the same picture for the same job, on at most two threads that start
 * with the first one.
 * Idle threads do not keep the process alive. An abort stops the picture itself; a thread that dies fails its picture and is replaced.
 */
export function sketchVendor(options: SketchOptions = {}): ImageVendor & { close(): Promise<void> } {
  const threads = options.threads ?? Math.min(2, availableParallelism())
  const waiting = options.waiting ?? 256
  const painters = new Set<Painter>()
  const queue: Task[] = []
  let closed = false
  let held = 0

  const hire = (): Painter => {
    const painter: Painter = {
      worker: new Worker(options.program ?? PROGRAM),
      task: undefined,
      pixels: 0,
      leaving: false,
    }
    let reason = 'no answer'
    painter.worker.on('message', (answer: Answer) => deliver(painter, answer))
    painter.worker.on('error', (cause: Error) => {
      reason = cause.message
    })
    painter.worker.on('exit', () => bury(painter, reason))
    painters.add(painter)
    return painter
  }

  /** Gives the oldest task to a free thread, as long as there is one and the pixels in the making stay within bounds. */
  const assign = () => {
    const [task] = queue
    if (closed || !task) return
    const pixels = pixelsOf(task.sketch)
    const busy = [...painters].reduce((sum, painter) => sum + painter.pixels, 0)
    if (busy > 0 && busy + pixels > PIXELS_AT_ONCE) return
    const idle = [...painters].find((painter) => !painter.task && !painter.leaving)
    if (!idle && painters.size >= threads) return
    const painter = idle ?? hire()
    queue.shift()
    Object.assign(painter, { task, pixels })
    painter.worker.ref()
    painter.worker.postMessage(task.sketch)
    assign()
  }

  const deliver = (painter: Painter, answer: Answer) => {
    const { task, pixels } = painter
    if (!task || painter.leaving) return
    painter.task = undefined
    conclude(task, answer)
    if (pixels > PIXELS_TO_KEEP) return void dismiss(painter)
    painter.pixels = 0
    painter.worker.unref()
    assign()
  }

  /** Ends a thread; it counts until it is really gone, for until then its memory does. */
  const dismiss = (painter: Painter) => {
    painter.leaving = true
    return painter.worker.terminate()
  }

  const conclude = (task: Task, answer: Answer) => {
    if ('url' in answer) return task.done(answer.url)
    task.failed('refused' in answer ? refused(answer.refused) : new Error(`sketch could not draw: ${answer.error}`))
  }

  const bury = (painter: Painter, reason: string) => {
    painters.delete(painter)
    painter.task?.failed(new Error(`the sketch thread died: ${reason}`))
    assign()
  }

  const abandon = (task: Task) => {
    const at = queue.indexOf(task)
    if (at >= 0) queue.splice(at, 1)
    const painter = [...painters].find((candidate) => candidate.task === task)
    if (painter) void dismiss(painter)
  }

  const draw = (sketch: Sketch | Edit, signal: AbortSignal) =>
    new Promise<string>((resolve, reject) => {
      const stop = () => {
        reject(signal.reason)
        abandon(task)
      }
      const over = () => signal.removeEventListener('abort', stop)
      const task: Task = {
        sketch,
        done: (url) => {
          over()
          resolve(url)
        },
        failed: (cause) => {
          over()
          reject(cause)
        },
      }
      signal.addEventListener('abort', stop, { once: true })
      queue.push(task)
      assign()
    })

  /** Draws the variants of a job, all or none. */
  const drawAll = async (job: ImageJob, { signal }: { signal: AbortSignal }, sources?: Sources) => {
    signal.throwIfAborted()
    if (closed) throw new Error('the sketch vendor is closed')
    check(job)
    if (queue.length + job.n > waiting) throw new Error('too many sketches are waiting')
    const { prompt, width, height } = job
    return await Promise.all(
      Array.from({ length: job.n }, (_, variant) => draw({ prompt, width, height, variant, ...sources }, signal)),
    )
  }

  return {
    async generate(job, at) {
      return (await drawAll(job, at)).map((url) => ({ url }))
    },

    async edit(job, at) {
      at.signal.throwIfAborted()
      const sources = sourcesOf(job)
      const bytes = [...sources.images, ...(sources.mask ? [sources.mask] : [])].reduce(
        (sum, source) => sum + source.bytes.length,
        0,
      )
      if (held > 0 && held + bytes > BYTES_HELD) throw new Error('too many sketches are waiting')
      held += bytes
      try {
        const urls = await drawAll(job, at, sources)
        return urls.map((url) => ({ url, revisedPrompt: `${EDIT_LABEL}: ${clipped(job.prompt)}` }))
      } finally {
        held -= bytes
      }
    },

    async close() {
      closed = true
      const tasks = [...queue.splice(0), ...[...painters].flatMap((painter) => painter.task ?? [])]
      for (const task of tasks) task.failed(new Error('the sketch vendor is closed'))
      await Promise.all([...painters].map(dismiss))
    },
  }
}

function check({ width, height, n }: ImageJob): void {
  const fits = (side: number) => Number.isInteger(side) && side >= 64 && side <= LARGEST_SIDE
  if (!fits(width) || !fits(height))
    throw new Error(`sketch draws 64 to ${LARGEST_SIDE} pixels a side, not ${width}x${height}`)
  if (!Number.isInteger(n) || n < 1 || n > MAX_IMAGES)
    throw new Error(`sketch draws 1 to ${MAX_IMAGES} images at a time, not ${n}`)
}

/** What a task weighs: an edit has several layers, and holds its largest source, which is decoded elsewhere and soon let go. */
function pixelsOf(task: Sketch | Edit): number {
  const pixels = task.width * task.height
  if (!('images' in task)) return pixels
  return 2 * pixels + Math.max(...task.images.map(({ width, height }) => width * height)) / 4
}

/** At most 200 characters, none of them cut in half. */
function clipped(prompt: string): string {
  return Array.from(prompt.slice(0, 400)).slice(0, 200).join('')
}
