/** The newest blockhash, which saves a buyer one question to a node, and what it tells about the lives of others. */
import { lruCache } from '../lru_cache.ts'
import type { Latest, SolanaReads } from './reads.ts'

export type SolanaHint = {
  /** Asks for the newest blockhash. Never rejects; without an answer the last one grows old. */
  refresh(now: number): Promise<void>
  /** What an offer says of it; nothing when it is too old to be worth a buyer's signature. */
  extra(now: number): { readonly recentBlockhash?: string; readonly lastValidBlockHeight?: string }
  /** About when a blockhash runs out, in milliseconds, rather too early; undefined for one that was never a hint. */
  endOf(blockhash: string): number | undefined
}

/** How old a hint may be. It has a minute to live, and the buyer's work has to fit in it. */
const FRESH_MS = 15_000
/** How many blocks a blockhash lives, and how long one of them takes at the least. */
const LIFE_BLOCKS = 150
const BLOCK_MS = 400
export const LIFE_MS = LIFE_BLOCKS * BLOCK_MS

export function solanaHint(reads: SolanaReads): SolanaHint {
  const lastValids = lruCache<number>(1_000)
  let latest: (Latest & { readonly at: number }) | undefined

  return {
    async refresh(now) {
      const answer = await reads.latest()
      if (answer.kind === 'trouble' || answer.lastValid < (latest?.lastValid ?? 0)) return
      latest = { ...answer, at: now }
      lastValids.set(answer.blockhash, answer.lastValid)
    },
    extra(now) {
      if (!latest || now - latest.at > FRESH_MS) return {}
      return { recentBlockhash: latest.blockhash, lastValidBlockHeight: String(latest.lastValid) }
    },
    endOf(blockhash) {
      const lastValid = lastValids.get(blockhash)
      if (!latest || lastValid === undefined) return undefined
      return latest.at + (lastValid - latest.lastValid + LIFE_BLOCKS) * BLOCK_MS
    },
  }
}
