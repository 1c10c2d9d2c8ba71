/** A storage that can be as it was: it keeps what was written, and writes it again up to a moment. */
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { Storage } from '../../../core/ports/mod.ts'

export type Journal = {
  readonly storage: Storage
  /** How much was written so far. */
  length(): number
  /** A storage in which only so much was ever written. */
  restored(length: number): Journal
}

const WRITES = [
  'openCall',
  'recordPaid',
  'moveCall',
  'renew',
  'claimSettlement',
  'finishSettlement',
  'lease',
  'hit',
  'putRecord',
  'moveRecord',
  'prune',
] as const

type Write = (inner: Storage) => unknown

export function journal(writes: Write[] = []): Journal {
  const inner = memoryStorage()
  for (const write of writes) write(inner)
  const noted = (verb: (typeof WRITES)[number]) => {
    // Each verb is called as it was; their types differ.
    const call = inner[verb] as (...given: readonly unknown[]) => unknown
    return (...given: readonly unknown[]) => {
      writes.push((other) => (other[verb] as typeof call)(...given))
      return call(...given)
    }
  }
  const verbs = Object.fromEntries(WRITES.map((verb) => [verb, noted(verb)]))
  return {
    storage: { ...inner, ...verbs } as Storage,
    length: () => writes.length,
    restored: (length) => journal(writes.slice(0, length)),
  }
}
