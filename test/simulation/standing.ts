/**
 * A thread that is asked one thing at a time, by somebody who stands still until it has answered: a run never waits, so
 * what does wait works in a thread of its own.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker, workerData } from 'node:worker_threads'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import type { Storage } from '../../core/ports/mod.ts'

/** `by`: which of several storages is asked. */
type StoreRequest = { readonly verb: string; readonly given: readonly unknown[]; readonly by?: number }
type Answered = { readonly value: unknown } | { readonly error: string }
type WorkerData = { readonly location: unknown; readonly port: MessagePort; readonly bell: Int32Array }

type Standing = {
  /** Throws what the thread has thrown. */
  ask(request: StoreRequest): unknown
  close(): Promise<void>
}

/** Far more than any verb may take. */
const LIMIT_MS = 30_000

/** `file`: a module that calls `serve`. */
export function standing(file: URL, location: unknown): Standing {
  const { port1: near, port2: port } = new MessageChannel()
  const bell = new Int32Array(new SharedArrayBuffer(4))
  const given: WorkerData = { location, port, bell }
  const worker = new Worker(file, { workerData: given, transferList: [port] })

  function ask(request: StoreRequest): unknown {
    Atomics.store(bell, 0, 0)
    near.postMessage(request)
    // The bell for the answer before may still be ringing.
    while (Atomics.load(bell, 0) === 0) {
      if (Atomics.wait(bell, 0, 0, LIMIT_MS) === 'timed-out')
        throw new Error(`${JSON.stringify(location)} does not answer ${request.verb}`)
    }
    const { message } = receiveMessageOnPort(near) as { message: Answered }
    if ('error' in message) throw new Error(message.error)
    return message.value
  }

  return {
    ask,
    async close() {
      ask({ verb: 'close', given: [] })
      near.close()
      await worker.terminate()
    },
  }
}

/** Each verb has been answered when it returns: its promise is settled already, as those of `memoryStorage` are. */
export function standingStorage(ask: (verb: string, given: readonly unknown[]) => unknown): Storage {
  const verbs = Object.keys(memoryStorage()).map((verb) => [
    verb,
    async (...given: readonly unknown[]) => ask(verb, given),
  ])
  return Object.fromEntries(verbs) as Storage
}

/** Where a thread was told to work. */
export const locationOf = <Location>(): Location => (workerData as WorkerData).location as Location

/** Answers what this thread is asked. */
export function serve(perform: (request: StoreRequest) => Promise<unknown>): void {
  const { port, bell } = workerData as WorkerData
  const answer = (answered: Answered) => {
    port.postMessage(answered)
    Atomics.store(bell, 0, 1)
    Atomics.notify(bell, 0)
  }
  port.on('message', (request: StoreRequest) =>
    perform(request).then(
      (value) => answer({ value }),
      (error: Error) => answer({ error: error.message }),
    ),
  )
}
