import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Sketch } from './sketch/scene.ts'
import type { Answer } from './sketch/worker.ts'

export type ImageJob = { model: string; prompt: string; width: number; height: number; n: number }
export type MadeImage = { url: string; revisedPrompt?: string }
export interface ImageVendor {
  generate(job: ImageJob, options: { signal: AbortSignal }): Promise<readonly MadeImage[]>
}

/** `program` replaces the drawing program, for tests; `waiting` is how many pictures may queue. */
export type SketchOptions = { threads?: number; waiting?: number; program?: URL }

const LARGEST_SIDE = 4096
const MOST_IMAGES = 16
/** Pixels in the making at one time, for a picture takes about 12 bytes of memory for each. */
const PIXELS_AT_ONCE = LARGEST_SIDE * LARGEST_SIDE
/** A thread never gives memory back; one that drew more pixels than this is let go. */
const PIXELS_TO_RETIRE = 2048 * 2048

type Task = { sketch: Sketch; pixels: number; done(url: string): void; failed(cause: unknown): void }
type Painter = { worker: Worker; task?: Task; retiring: boolean }

/**
 * The embedded image vendor: an illustration composed from the words of the prompt, drawn on at most two threads that start with
 * the first picture. It is no model and says so in the picture. A running picture cannot be stopped, only dropped; `close` ends all.
 */
export function sketchVendor(options: SketchOptions = {}): ImageVendor & { close(): Promise<void> } {
  const threads = options.threads ?? Math.min(2, availableParallelism())
  const waiting = options.waiting ?? 256
  const program = options.program ?? new URL('./sketch/worker.ts', import.meta.url)
  const painters = new Set<Painter>()
  const queue: Task[] = []
  let closed = false

  const start = (): Painter => {
    const painter: Painter = { worker: new Worker(program), retiring: false }
    let reason = 'it ended without an answer'
    painter.worker.on('message', (answer: Answer) => settle(painter, answer))
    painter.worker.on('error', (cause: Error) => {
      reason = cause.message
      lose(painter, reason)
    })
    painter.worker.on('exit', () => lose(painter, reason))
    painters.add(painter)
    return painter
  }

  const settle = (painter: Painter, answer: Answer) => {
    const { task } = painter
    delete painter.task
    painter.worker.unref()
    if (task && 'url' in answer) task.done(answer.url)
    if (task && 'error' in answer) task.failed(new Error(`sketch could not draw: ${answer.error}`))
    if (painter.retiring) dismiss(painter)
    work()
  }

  const lose = (painter: Painter, reason: string) => {
    painters.delete(painter)
    painter.task?.failed(new Error(`the sketch thread stopped: ${reason}`))
    delete painter.task
    work()
  }

  const dismiss = (painter: Painter) => {
    painters.delete(painter)
    return painter.worker.terminate()
  }

  const work = () => {
    const [task] = queue
    if (closed || !task) return
    const drawing = [...painters].reduce((sum, painter) => sum + (painter.task?.pixels ?? 0), 0)
    if (drawing > 0 && drawing + task.pixels > PIXELS_AT_ONCE) return
    const idle = [...painters].find((painter) => !painter.task)
    if (!idle && painters.size >= threads) return
    queue.shift()
    const painter = idle ?? start()
    painter.task = task
    painter.retiring = task.pixels > PIXELS_TO_RETIRE
    painter.worker.ref()
    painter.worker.postMessage(task.sketch)
    work()
  }

  const draw = (sketch: Sketch, signal: AbortSignal) => new Promise<string>((resolve, reject) => {
    const task: Task = {
      sketch,
      pixels: sketch.width * sketch.height,
      done: (url) => {
        signal.removeEventListener('abort', stop)
        resolve(url)
      },
      failed: (cause) => {
        signal.removeEventListener('abort', stop)
        reject(cause)
      },
    }
    const stop = () => {
      const at = queue.indexOf(task)
      if (at >= 0) queue.splice(at, 1)
      task.failed(signal.reason)
      work()
    }
    signal.addEventListener('abort', stop)
    queue.push(task)
    work()
  })

  return {
    async generate({ prompt, width, height, n }, { signal }) {
      signal.throwIfAborted()
      if (closed) throw new Error('sketch is closed')
      if (![width, height].every((side) => Number.isInteger(side) && side >= 16 && side <= LARGEST_SIDE)) throw new Error(`sketch draws 16 to ${LARGEST_SIDE} pixels a side, not ${width}x${height}`)
      if (!Number.isInteger(n) || n < 1 || n > MOST_IMAGES) throw new Error(`sketch draws 1 to ${MOST_IMAGES} pictures at once, not ${n}`)
      if (queue.length + n > waiting) throw new Error('sketch has too many pictures waiting')
      const urls = await Promise.all(Array.from({ length: n }, (_, variant) => draw({ prompt, width, height, variant }, signal)))
      return urls.map((url) => ({ url }))
    },

    async close() {
      closed = true
      const running = [...painters].flatMap((painter) => painter.task ?? [])
      for (const task of [...queue.splice(0), ...running]) task.failed(new Error('sketch is closed'))
      await Promise.all([...painters].map(dismiss))
    },
  }
}
