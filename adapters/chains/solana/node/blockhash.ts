/**
 * Tracks the newest blockhash. Offers carry it to save the buyer one call to a node; it also dates other blockhashes.
 */
import { boundedMap } from '../../../../core/lib/mod.ts'
import type { Latest, SolanaReads } from './reads.ts'

export type BlockhashExtra = { readonly recentBlockhash?: string; readonly lastValidBlockHeight?: string }

export type BlockhashTracker = {
  /** Reads the newest blockhash. Never rejects; without an answer the last one ages. */
  refresh(now: number): Promise<void>
  /** The blockhash for an offer's `extra`: one object for each. Empty when it is too old to sign over. */
  extra(now: number): BlockhashExtra
  /** When a blockhash expires, in milliseconds, estimated early; undefined for one that was never offered. */
  expiryOf(blockhash: string): number | undefined
}

/** Oldest blockhash to offer. It lives for a minute, and the buyer's work must fit in. */
const MAX_AGE_MS = 15_000
/** Blocks that a blockhash lives, and the shortest time of one block. */
const LIFE_BLOCKS = 150
const BLOCK_MS = 400
export const BLOCKHASH_LIFE_MS = LIFE_BLOCKS * BLOCK_MS

const NONE: BlockhashExtra = {}

export function blockhashTracker(reads: SolanaReads): BlockhashTracker {
  const lastValids = boundedMap<number>(1_000)
  let latest: (Latest & { readonly at: number; readonly extra: BlockhashExtra }) | undefined

  return {
    async refresh(now) {
      const answer = await reads.latest()
      if (answer.kind === 'failure' || answer.lastValid < (latest?.lastValid ?? 0)) return
      const extra = { recentBlockhash: answer.blockhash, lastValidBlockHeight: String(answer.lastValid) }
      latest = { ...answer, at: now, extra: latest?.blockhash === answer.blockhash ? latest.extra : extra }
      lastValids.set(answer.blockhash, answer.lastValid)
    },
    extra(now) {
      return !latest || now - latest.at > MAX_AGE_MS ? NONE : latest.extra
    },
    expiryOf(blockhash) {
      const lastValid = lastValids.get(blockhash)
      if (!latest || lastValid === undefined) return undefined
      return latest.at + (lastValid - latest.lastValid + LIFE_BLOCKS) * BLOCK_MS
    },
  }
}
