/** State that the gateways of one process share, because they share a storage. */
import type { Engine, EngineLimits } from '../engine.ts'
import { oncePer } from '../lib/once_per.ts'
import { type SharedCalls, sharedCalls } from '../payment/calls/calls.ts'
import type { Storage } from '../ports/mod.ts'

export type Shared = {
  readonly calls: SharedCalls
  /** With the figures of the first gateway. */
  limits?: Pick<EngineLimits, 'windows' | 'unpaidWork' | 'bodies'>
  /** By name of the gateway. */
  readonly engines: Map<string, Engine>
  /** The workers of this process. */
  readonly workers: Set<string>
  /** The calls of the last process have been taken over. */
  isTakenOver: boolean
}

/** The same for each gateway with this storage, as the host gave it. */
export const sharedOf = oncePer<Storage, Shared>(() => ({
  calls: sharedCalls(),
  engines: new Map(),
  workers: new Set(),
  isTakenOver: false,
}))
