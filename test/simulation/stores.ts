/** The storages that the model runs on. A real one works in a thread of its own. */
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import type { Storage } from '../../core/ports/mod.ts'
import { postgresServer } from '../adapters/storage/postgres/postgres_server.ts'
import { standing, standingStorage } from './standing.ts'
import type { Location } from './store_worker.ts'

export const STORES = ['memory', 'sqlite', 'postgres'] as const
export type StoreName = (typeof STORES)[number]

export type Store = {
  /** The storage of one run, empty. What the run before was given is the same one. */
  fresh(): Storage
  close(): Promise<void>
}

export async function openStore(name: StoreName): Promise<Store> {
  if (name === 'memory') return { fresh: memoryStorage, close: async () => {} }
  if (name === 'sqlite') return storeAt({ kind: 'sqlite', path: ':memory:' })
  const server = await postgresServer()
  const store = storeAt({ kind: 'postgres', url: await server.fresh() })
  return {
    fresh: store.fresh,
    async close() {
      await store.close()
      await server.stop()
    },
  }
}

function storeAt(location: Location): Store {
  const { ask, close } = standing(new URL('store_worker.ts', import.meta.url), location)
  const storage = standingStorage((verb, given) => ask({ verb, given }))
  return {
    fresh() {
      ask({ verb: 'renewed', given: [] })
      return storage
    },
    close,
  }
}
