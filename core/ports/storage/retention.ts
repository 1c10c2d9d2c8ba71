/** Deletion of calls and of all that expires. */
import type { Call } from './calls.ts'

/** Deletes expired rows, and moves old ones to an archive. */
export interface RetentionStorage {
  /**
   * Deletes what has expired: unsettled calls, results of settled ones, rate windows, leases and records. Returns how
   * many rows it changed. The ledger stays.
   */
  prune(now: number): Promise<number>
  /**
   * Deletes ledger rows: settled calls whose result `prune` has deleted, that settled at or before `before`, and whose
   * authorizations have all expired at `now`. Returns how many.
   */
  pruneLedger(before: number, now: number): Promise<number>
  /** Rows that `pruneLedger` would delete, oldest settlement first, then by id. */
  ledgerRows(before: number, now: number, limit: number): Promise<readonly Call[]>
  /**
   * Deletes settled calls whose result `prune` has deleted, with their authorizations. What they paid is still counted
   * by `spendByModel`, as of `day`, in days since 1970. Returns how many there were.
   */
  archiveCalls(ids: readonly string[], day: number): Promise<number>
}
