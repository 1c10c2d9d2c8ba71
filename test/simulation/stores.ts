/**
 * The storages that the model runs on. A run never waits, so a real one works in a thread of its own, and the run
 * stands still until it has answered.
 */
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import type { Storage } from '../../core/ports/mod.ts'
import { postgresServer } from '../adapters/storage/postgres/postgres_server.ts'
import type { Answered, StoreRequest, Location, WorkerData } from './store_worker.ts'

export const STORES = ['memory', 'sqlite', 'postgres'] as const
export type StoreName = (typeof STORES)[number]

export type Store = {
  /** The storage of one run, empty. What the run before was given is the same one. */
  fresh(): Storage
  close(): Promise<void>
}

/** Far more than any verb may take. */
const LIMIT_MS = 30_000

export async function openStore(name: StoreName): Promise<Store> {
  if (name === 'memory') return { fresh: memoryStorage, close: async () => {} }
  if (name === 'sqlite') return standing({ kind: 'sqlite', path: ':memory:' })
  const server = await postgresServer()
  const store = standing({ kind: 'postgres', url: await server.fresh() })
  return {
    fresh: store.fresh,
    async close() {
      await store.close()
      await server.stop()
    },
  }
}

/** Each verb has been answered when it returns: its promise is settled already, as those of `memoryStorage` are. */
function standing(location: Location): Store {
  const { port1: near, port2: port } = new MessageChannel()
  const bell = new Int32Array(new SharedArrayBuffer(4))
  const workerData: WorkerData = { location, port, bell }
  const worker = new Worker(new URL('store_worker.ts', import.meta.url), { workerData, transferList: [port] })

  function ask(request: StoreRequest): unknown {
    Atomics.store(bell, 0, 0)
    near.postMessage(request)
    // The bell for the answer before may still be ringing.
    while (Atomics.load(bell, 0) === 0) {
      if (Atomics.wait(bell, 0, 0, LIMIT_MS) === 'timed-out')
        throw new Error(`${location.kind} does not answer ${request.verb}`)
    }
    const { message } = receiveMessageOnPort(near) as { message: Answered }
    if ('error' in message) throw new Error(message.error)
    return message.value
  }

  const verbs = Object.keys(memoryStorage()).map((verb) => [
    verb,
    async (...given: readonly unknown[]) => ask({ verb, given }),
  ])
  const storage = Object.fromEntries(verbs) as Storage
  return {
    fresh() {
      ask({ verb: 'renewed', given: [] })
      return storage
    },
    async close() {
      ask({ verb: 'close', given: [] })
      near.close()
      await worker.terminate()
    },
  }
}
