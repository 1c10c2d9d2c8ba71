/** Every interface to the outside world, a file each. */
import type { Clock } from '../lib/clock.ts'
import type { Chain } from './chain.ts'
import type { Log } from './log.ts'
import type { Meter } from './meter.ts'
import type { Objects } from './objects.ts'
import type { Storage } from './storage.ts'
import type { Vendors } from './vendors/mod.ts'

export type * from './chain.ts'
export type * from './log.ts'
export type * from './objects.ts'
export type * from './storage.ts'

/** Everything that one gateway is wired to. */
export type Ports = {
  readonly storage: Storage
  readonly objects: Objects
  readonly chain: Chain
  readonly vendors: Vendors
  readonly clock: Clock
  readonly log: Log
  /** Counts what is done; nobody counts where there is none. */
  readonly meter?: Meter
  /** Cryptographically strong bytes. */
  random(bytes: number): Uint8Array
  /**
   * About how many tokens a text is. Linear in its length whatever the text, and lets other work run between slices.
   */
  countTokens(text: string): Promise<number>
  /** Keeps work alive that no request waits for. */
  background(work: Promise<unknown>): void
}
