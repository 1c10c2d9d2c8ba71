/** The machine that core runs on: its clock, its randomness, its console. Bun, Deno and Node alike. */
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
import { memoryObjects } from './objects/memory.ts'
import { memoryStorage } from './storage/memory.ts'
import { countTokens } from './token_counter.ts'

/** Real time. A wait ends early when its signal aborts, and leaves no timer behind. */
export const systemClock: Clock = {
  now: () => Date.now(),
  wait: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const timer = setTimeout(end, Math.min(ms, MAX_TIMER))
      signal?.addEventListener('abort', end, { once: true })
      function end(): void {
        clearTimeout(timer)
        signal?.removeEventListener('abort', end)
        resolve()
      }
    }),
}

/** Above this a timer fires at once (2^31 - 1 milliseconds, about 24 days). */
const MAX_TIMER = 2_147_483_647

/** Warnings and alerts on standard error. */
export const consoleLog: Log = {
  info: () => {},
  warn: (message, fields = {}) => console.warn(message, fields),
  alert: (message, fields = {}) => console.error(message, fields),
}

export const randomBytes = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count))

export type LocalPorts = {
  readonly chain: Chain
  /** Who makes the images of a catalog row; undefined for a row that is not for sale. */
  readonly images: (row: ImageRow) => ImageVendor | undefined
  /** Who converses for a chat row; nobody, unless told. */
  readonly chat?: (row: ChatRow) => ChatVendor | undefined
  readonly storage?: Storage
  readonly objects?: Objects
  readonly log?: Log
}

/** Ports of one process that forgets everything when it ends, for a first embedding. Give it a storage before you take real money. */
export function localPorts({
  chain,
  images,
  chat = () => undefined,
  storage = memoryStorage(),
  objects = memoryObjects(),
  log = consoleLog,
}: LocalPorts): Ports {
  const media = async (): Promise<never> => {
    throw new Error('give localPorts a vendor that answers with data URIs, or wire mediaFetcher')
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
    countTokens: memoized(countTokens),
    background,
  }
}
