/**
 * Tracks the newest blockhash. Offers carry it to save the buyer one call to a node; it also dates other blockhashes.
 */
import { lruCache } from '../lru_cache.ts'
import type { Latest, SolanaReads } from './reads.ts'

export type BlockhashTracker = {
  /** Reads the newest blockhash. Never rejects; without an answer the last one ages. */
  refresh(now: number): Promise<void>
  /** The blockhash for an offer's `extra`; empty when it is too old to sign over. */
  extra(now: number): { readonly recentBlockhash?: string; readonly lastValidBlockHeight?: string }
  /** When a blockhash expires, in milliseconds, estimated early; undefined for one that was never offered. */
  expiryOf(blockhash: string): number | undefined
}

/** Oldest blockhash to offer. It lives for a minute, and the buyer's work must fit in. */
const MAX_AGE_MS = 15_000
/** Blocks that a blockhash lives, and the shortest time of one block. */
const LIFE_BLOCKS = 150
const BLOCK_MS = 400
export const BLOCKHASH_LIFE_MS = LIFE_BLOCKS * BLOCK_MS

export function blockhashTracker(reads: SolanaReads): BlockhashTracker {
  const lastValids = lruCache<number>(1_000)
  let latest: (Latest & { readonly at: number }) | undefined

  return {
    async refresh(now) {
      const answer = await reads.latest()
      if (answer.kind === 'failure' || answer.lastValid < (latest?.lastValid ?? 0)) return
      latest = { ...answer, at: now }
      lastValids.set(answer.blockhash, answer.lastValid)
    },
    extra(now) {
      if (!latest || now - latest.at > MAX_AGE_MS) return {}
      return { recentBlockhash: latest.blockhash, lastValidBlockHeight: String(latest.lastValid) }
    },
    expiryOf(blockhash) {
      const lastValid = lastValids.get(blockhash)
      if (!latest || lastValid === undefined) return undefined
      return latest.at + (lastValid - latest.lastValid + LIFE_BLOCKS) * BLOCK_MS
    },
  }
}
