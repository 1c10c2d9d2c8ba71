/** When a call is unfinished, lost, or free to give its authorization to another call. */
import type { WorkStatus } from '../../ports/mod.ts'
import type { Head } from './rows.ts'

/** The error of a call whose process went away, as the buyer reads it. */
export const LOST = 'The work was lost when the server stopped. Nothing was charged.'

/** The worker id of a call whose work runs at the vendor. No process owns it, so the call survives restarts. */
export const UPSTREAM_JOB = 'upstream'

export function isUnfinished(work: WorkStatus): boolean {
  return work === 'queued' || work === 'in_progress'
}

/** Whether a call is unfinished, its lease has expired and no settlement has begun. */
export function isLost(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'leaseExpiresAt'>, now: number): boolean {
  return isUnfinished(call.workStatus) && call.paymentStatus === 'verified' && call.leaseExpiresAt <= now
}

/** Whether a call was declared lost. Its worker may be alive: slow, suspended, or cut off from the storage. */
export function wasLost(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'error'>): boolean {
  return call.workStatus === 'failed' && call.paymentStatus === 'verified' && call.error === LOST
}

/** Whether the authorization of a call may be bound to another call: this one failed or is lost, and never sent it. */
export function isFree(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'leaseExpiresAt'>, now: number): boolean {
  return (call.workStatus === 'failed' && call.paymentStatus === 'verified') || isLost(call, now)
}
