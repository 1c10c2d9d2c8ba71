/** Who works on what: leases of processes, the calls that they have lost, and limits that they count together. */
import type { Call } from './calls.ts'

export type Bucket = { readonly key: string; readonly limit: number; readonly windowMs: number }

/** Time, leases and limits that processes agree on. */
export interface Coordination {
  /** Whether several processes may use this database at the same time. Absent: it belongs to one process. */
  readonly isShared?: boolean
  /** The time of the database, where it runs on another machine. Absent where it is the time of this process. */
  now?(): Promise<number>
  /** Takes or extends a named lease. False while another worker has it. */
  lease(name: string, workerId: string, at: { now: number; until: number }): Promise<boolean>
  /** Takes up to `take` permits from a fixed rate window; grants at most what is left. */
  hit(bucket: Bucket, take: number, now: number): Promise<{ granted: number; resetAt: number }>
  /**
   * Extends the leases of a worker's calls to `until`, and returns the ids of those that it may continue: its
   * unfinished ones, and those that were declared lost while their authorization has served no other call since, which
   * are unfinished again. Each call is one atomic step.
   */
  renew(workerId: string, ids: readonly string[], until: number): Promise<readonly string[]>
  /** Unfinished calls whose lease has expired, oldest first, then by id. */
  lostCalls(now: number, limit: number): Promise<readonly Call[]>
  /** Unfinished calls of a worker on one gateway, by id; only ids after `after`, which is an id or the empty string. */
  unfinishedCalls(workerId: string, at: { gateway: string; after: string; limit: number }): Promise<readonly Call[]>
  /**
   * Calls in `settling` whose claim expired at or before `before`, oldest first, then by id; of one gateway, where it
   * is given.
   */
  unsettled(before: number, limit: number, gateway?: string): Promise<readonly Call[]>
}
