/** Worker threads that draw, film and play apart from the server. */
import { Worker } from 'node:worker_threads'
import { ApiError } from '../../../core/http/errors.ts'
import type { Answer, AnyOrder, Made } from './worker.ts'

/** `waiting` is how many orders may queue, `limitMs` how long one may take; tests replace `program`. */
export type ThreadOptions = {
  readonly threads?: number
  readonly waiting?: number
  readonly limitMs?: number
  readonly program?: URL | string
}
/** `weight` is about how many bytes of memory the order needs while it is made. */
export type Running = { readonly signal?: AbortSignal; readonly weight?: number; progress?(percent: number): void }

type Task = {
  readonly order: AnyOrder
  readonly weight: number
  progress?: (percent: number) => void
  end(answer: Answer): void
}
type Thread = {
  readonly worker: Worker
  task?: Task | undefined
  timer?: ReturnType<typeof setTimeout>
  heaviest: number
}

/** In a compiled binary the worker goes by its path from the root; `server/build.ts` names it to the compiler. */
const COMPILED = /\$bunfs|~BUN/.test(import.meta.url)
const PROGRAM = COMPILED ? './adapters/providers/demo/worker.ts' : new URL('./worker.ts', import.meta.url)

const MAX_WEIGHT = 1 << 30
/** A thread keeps the memory of its heaviest order, so it ends after one above this weight. */
const MAX_IDLE_WEIGHT = 1 << 26
const CLOSED = 'the demo is closed'

/**
 * Makes orders in their sequence, each on a thread of its own. Idle threads do not keep the process alive; an abort
 * ends the thread.
 */
export function workshop({ threads = 2, waiting = 64, limitMs = 60_000, program = PROGRAM }: ThreadOptions = {}) {
  const queue: Task[] = []
  const all = new Set<Thread>()
  let closed = false

  function start(): Thread {
    const thread: Thread = { worker: new Worker(program), heaviest: 0 }
    let reason = 'the thread gave no answer'
    thread.worker.on('message', (answer: Answer) => {
      if ('progress' in answer) thread.task?.progress?.(answer.progress)
      else finish(thread, answer)
    })
    thread.worker.on('error', (cause: Error) => (reason = cause.message))
    thread.worker.on('exit', () => {
      all.delete(thread)
      finish(thread, { error: reason })
    })
    all.add(thread)
    return thread
  }

  function next(): void {
    const [task] = queue
    const busy = [...all].reduce((sum, each) => sum + (each.task?.weight ?? 0), 0)
    if (!task || closed || (busy > 0 && busy + task.weight > MAX_WEIGHT)) return
    const idle = [...all].find((each) => !each.task && each.heaviest <= MAX_IDLE_WEIGHT)
    if (!idle && all.size >= threads) return
    queue.shift()
    const thread = idle ?? start()
    thread.task = task
    thread.heaviest = Math.max(thread.heaviest, task.weight)
    thread.timer = setTimeout(() => finish(thread, { error: 'it took too long' }, true), limitMs)
    thread.worker.ref()
    thread.worker.postMessage(task.order)
    next()
  }

  function finish(thread: Thread, answer: Answer, stop = thread.heaviest > MAX_IDLE_WEIGHT): void {
    const { task } = thread
    clearTimeout(thread.timer)
    thread.task = undefined
    if (stop) {
      thread.heaviest = Number.POSITIVE_INFINITY
      void thread.worker.terminate()
    } else thread.worker.unref()
    task?.end(answer)
    next()
  }

  function leave(task: Task): void {
    const at = queue.indexOf(task)
    if (at >= 0) queue.splice(at, 1)
    const thread = [...all].find((each) => each.task === task)
    if (thread) finish(thread, { error: 'it was stopped' }, true)
  }

  return {
    /** Throws BUSY for `count` more orders where too many wait. */
    admit(count = 1): void {
      if (closed) throw new Error(CLOSED)
      if (queue.length + count <= waiting) return
      const message = `${queue.length} demo orders wait already, of ${waiting} that may. Nothing was charged; send the same request again.`
      throw new ApiError('BUSY', { message, headers: { 'retry-after': '10' } })
    },

    /** What the worker made. Throws the worker's faults, the reason of an abort, and an Error for everything else. */
    async run(order: AnyOrder, { signal, weight = 0, progress }: Running = {}): Promise<Made> {
      signal?.throwIfAborted()
      if (closed) throw new Error(CLOSED)
      const { promise, resolve, reject } = Promise.withResolvers<Answer>()
      const task: Task = { order, weight, ...(progress && { progress }), end: resolve }
      const stop = () => {
        reject(signal?.reason)
        leave(task)
      }
      signal?.addEventListener('abort', stop, { once: true })
      queue.push(task)
      next()
      const answer = await promise.finally(() => signal?.removeEventListener('abort', stop))
      if ('made' in answer) return answer.made
      if ('apiError' in answer) throw new ApiError(answer.apiError.code, answer.apiError.parts)
      throw new Error(`the demo made nothing: ${'error' in answer ? answer.error : 'it has not ended'}`)
    },

    /** Ends the orders that run or wait. */
    close(): void {
      closed = true
      for (const task of queue.splice(0)) task.end({ error: CLOSED })
      for (const thread of all) finish(thread, { error: CLOSED }, true)
    },
  }
}
