import { boundedMap } from '../../../core/lib/mod.ts'

/** Reverts per payer and hour. A contract can detect simulation; a plain account can only be emptied in between. */
export const MAX_CONTRACT_REVERTS = 2
export const MAX_ACCOUNT_REVERTS = 5

const HOUR_MS = 3_600_000
const PAYERS = 10_000

export type RevertLimiter = {
  /** Counts a transfer of this payer that passed simulation, was mined at our cost and moved nothing. */
  recordRevert(payer: string, now: number): void
  count(payer: string, now: number): number
  /** The time until which nothing is sent for this payer; undefined while it may pay. */
  blockedUntil(payer: string, isContract: boolean, now: number): number | undefined
}

/**
 * Bounds the gas that a payer can waste. Counts are per process, so a restart clears them. A success does not clear
 * them, or every second transfer could waste gas; an hour without another revert does.
 */
export function payerRevertLimiter(): RevertLimiter {
  const reverts = boundedMap<{ readonly count: number; readonly until: number }>(PAYERS)

  function count(payer: string, now: number): number {
    const found = reverts.get(payer)
    return found && now < found.until ? found.count : 0
  }

  return {
    count,
    recordRevert(payer, now) {
      const until = Math.max(reverts.get(payer)?.until ?? 0, now + HOUR_MS)
      reverts.set(payer, { count: count(payer, now) + 1, until })
    },
    blockedUntil(payer, isContract, now) {
      const limit = isContract ? MAX_CONTRACT_REVERTS : MAX_ACCOUNT_REVERTS
      return count(payer, now) >= limit ? reverts.get(payer)?.until : undefined
    },
  }
}
