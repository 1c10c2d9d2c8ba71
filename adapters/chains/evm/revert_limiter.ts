import { lruCache } from '../lru_cache.ts'

/** Reverts of one payer within an hour. A contract can tell a rehearsal from the block; a key's account can only be emptied in between. */
export const MAX_CONTRACT_REVERTS = 2
export const MAX_ACCOUNT_REVERTS = 5

const HOUR_MS = 3_600_000
const PAYERS = 10_000

export type RevertLimiter = {
  /** One more transfer of this payer passed its rehearsal, was mined at our cost, and moved nothing. */
  note(payer: string, now: number): void
  count(payer: string, now: number): number
  /** Until when nothing is sent for this payer any more; undefined while it may pay. */
  blockedUntil(payer: string, isContract: boolean, now: number): number | undefined
}

/**
 * Bounds the gas that a payer can burn. Counted per process: a restart forgives. A success does not, or every second one could
 * burn gas; an hour without another revert does.
 */
export function payerRevertLimiter(): RevertLimiter {
  const noted = lruCache<{ readonly count: number; readonly until: number }>(PAYERS)

  function count(payer: string, now: number): number {
    const found = noted.get(payer)
    return found && now < found.until ? found.count : 0
  }

  return {
    count,
    note(payer, now) {
      const until = Math.max(noted.get(payer)?.until ?? 0, now + HOUR_MS)
      noted.set(payer, { count: count(payer, now) + 1, until })
    },
    blockedUntil(payer, isContract, now) {
      const limit = isContract ? MAX_CONTRACT_REVERTS : MAX_ACCOUNT_REVERTS
      return count(payer, now) >= limit ? noted.get(payer)?.until : undefined
    },
  }
}
