/** Programs that draw, film and speak apart from the server: in a process that ends with its work, or in a thread where there is one file only. */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'

/** One file holds everything: a program goes by its path from the root, and cannot be a process of its own. Name it to `bun build --compile` too. */
export const COMPILED = /\$bunfs|~BUN/.test(import.meta.url)

/** What a program is being watched by; `died` where it ended before it had answered. */
export type Ears<Answer> = { hear(answer: Answer): void; died(reason: string): void }
/** Ends a program at once. */
export type Hand = { stop(): void }

/** Without the environment, and so without its secrets; the process ends with the connection to this one. */
export function inProcess<Order, Answer>(program: string | URL, order: Order, { hear, died }: Ears<Answer>): Hand {
  const path = program instanceof URL ? fileURLToPath(program) : program
  const child = Bun.spawn([process.execPath, path], {
    cwd: dirname(path),
    env: {},
    stdio: ['ignore', 'ignore', 'ignore'],
    serialization: 'advanced',
    ipc: (answer: Answer) => hear(answer),
    onExit: (_, code, signal) => died(`its process ended with ${signal ?? code}`),
  })
  child.send(order)
  return { stop: () => child.kill('SIGKILL') }
}

export function inThread<Order, Answer>(program: string | URL, order: Order, { hear, died }: Ears<Answer>): Hand {
  const worker = new Worker(program)
  let reason = 'its thread ended'
  worker.on('message', hear)
  worker.on('error', (cause: Error) => {
    reason = cause.message
  })
  worker.on('exit', () => died(reason))
  worker.postMessage(order)
  return { stop: () => void worker.terminate() }
}
