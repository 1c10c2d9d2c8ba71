/** The interfaces to the outside world, a file each. */
import type { Clock } from '../lib/clock.ts'
import type { Chain } from './chain.ts'
import type { Log } from './log.ts'
import type { Meter } from './meter.ts'
import type { Objects } from './objects.ts'
import type { Storage } from './storage/mod.ts'
import type { Vendors } from './vendors/mod.ts'

export type * from './chain.ts'
export { addressIn, type ChainFamily, familyOf, type NetworkFacts } from './chain_family.ts'
export type * from './chain_keys.ts'
export type * from './chain_outcomes.ts'
export type * from './log.ts'
export { isObjectKey } from './objects.ts'
export type * from './objects.ts'
export { LOOKUP_CHARACTERS } from './storage/ledger_reads.ts'
export type * from './storage/mod.ts'
export { storageProbe } from './storage_probe.ts'
export { BAR_SECONDS } from './vendors/market.ts'

/** Everything that a gateway is wired to. */
export type Ports = {
  readonly storage: Storage
  readonly objects: Objects
  readonly chain: Chain
  readonly vendors: Vendors
  readonly clock: Clock
  readonly log: Log
  /** Metrics; optional. */
  readonly meter?: Meter
  /** Cryptographically strong bytes. */
  random(bytes: number): Uint8Array
  /**
   * Estimates the number of tokens of a text. Takes linear time for any text, and yields to other work between slices.
   */
  countTokens(text: string): number | Promise<number>
  /** Keeps background work alive after the reply. */
  background(work: Promise<unknown>): void
}
