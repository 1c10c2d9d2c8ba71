/** Clock, randomness and console of the host machine, for Bun, Deno and Node. */
import {
  type Chain,
  type ChatRow,
  type ChatVendor,
  type Clock,
  type ImageRow,
  type ImageVendor,
  type Log,
  memoized,
  type Objects,
  type Ports,
  type Storage,
} from '../core/mod.ts'
import { pause, randomBytes } from './machine.ts'
import { memoryObjects } from './objects/memory.ts'
import { memoryStorage } from './storage/memory/mod.ts'
import { countTokens, textDigest } from './token_counter.ts'

/**
 * The system clock. A wait ends early when its signal aborts, and leaves no timer behind.
 *
 * @example
 * await systemClock.wait(1_000, signal)
 */
export const systemClock: Clock = {
  now: () => Date.now(),
  wait: pause,
}

/**
 * Writes warnings and alerts to standard error, and drops information.
 *
 * @example
 * const ports = localPorts({ chain, images, log: consoleLog })
 */
export const consoleLog: Log = {
  info: () => {},
  warn: (message, fields = {}) => console.warn(message, fields),
  alert: (message, fields = {}) => console.error(message, fields),
}

/** The ports that `localPorts` cannot provide itself, and those that you may replace. */
export type LocalPorts = {
  readonly chain: Chain
  /** The vendor of an image catalog row; undefined for a row that is not sold. */
  readonly images: (row: ImageRow) => ImageVendor | undefined
  /** The vendor of a chat catalog row. Default: none. */
  readonly chat?: (row: ChatRow) => ChatVendor | undefined
  readonly storage?: Storage
  readonly objects?: Objects
  readonly log?: Log
}

/**
 * Ports of one process, in memory, for a first embedding. Pass a durable storage before you take real money. Throws
 * RangeError for a storage or objects that are there and undefined.
 *
 * @example
 * const ports = localPorts({ chain: memoryChain(), images })
 */
export function localPorts(given: LocalPorts): Ports {
  const missing = (['storage', 'objects'] as const).find((port) => port in given && !given[port])
  if (missing)
    throw new RangeError(`localPorts: ${missing} is ${given[missing]}; leave it out to keep everything in memory`)
  const {
    chain,
    images,
    chat = () => undefined,
    storage = memoryStorage(),
    objects = memoryObjects(),
    log = consoleLog,
  } = given
  const media = async (): Promise<never> => {
    throw new Error(
      'localPorts cannot download media: use a vendor that returns data URIs, or set vendors.media to mediaFetcher()',
    )
  }
  const background = (work: Promise<unknown>) =>
    void work.catch((error: Error) => log.alert('background work failed', { error: error.message }))
  return {
    chain,
    storage,
    objects,
    log,
    clock: systemClock,
    random: randomBytes,
    vendors: { images, chat, media },
    countTokens: memoized(countTokens, { digest: textDigest }),
    background,
  }
}
