/** What the gateways of one process share, because they share a storage. */
import type { EngineLimits } from '../engine.ts'
import { type SharedCalls, sharedCalls } from '../payment/calls/calls.ts'
import type { Storage } from '../ports/mod.ts'

export type Shared = {
  readonly calls: SharedCalls
  /** With the figures of the first gateway. */
  limits?: Pick<EngineLimits, 'windows' | 'unpaidWork' | 'bodies'>
  /** The workers of this process. */
  readonly workers: Set<string>
  /** The calls of the last process have been taken over. */
  isTakenOver: boolean
}

const sharedByStorage = new WeakMap<Storage, Shared>()

/** The same for each gateway with this storage, as the host gave it. */
export function sharedOf(storage: Storage): Shared {
  const shared = sharedByStorage.get(storage) ?? { calls: sharedCalls(), workers: new Set(), isTakenOver: false }
  sharedByStorage.set(storage, shared)
  return shared
}
