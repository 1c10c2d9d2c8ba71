/** Decides when a result, a ledger row or a call is over. */
import type { AuthorizationBinding, Row, Head } from './rows.ts'
import { isUnfinished, isFree } from './states.ts'

/**
 * Action of `prune` on a call. A settled call past its retention is emptied: its ledger columns stay. An unsettled one
 * is deleted once all its authorizations have expired or are free. One whose payment is in doubt stays.
 */
export function expiryAction(
  call: Head,
  bindings: readonly Pick<AuthorizationBinding, 'expiresAt'>[],
  now: number,
): 'none' | 'empty' | 'delete' {
  if (call.expiresAt > now || isUnfinished(call.workStatus)) return 'none'
  if (call.paymentStatus === 'settled') return call.emptied ? 'none' : 'empty'
  if (call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused') return 'none'
  return isFree(call, now) || bindings.every((binding) => binding.expiresAt <= now) ? 'delete' : 'none'
}

/** Whether `pruneLedger` deletes this call. Its authorizations can move no money any more, so none can be replayed. */
export function isLedgerRowOver(
  call: Pick<Row, 'paymentStatus' | 'settledAt' | 'emptied'>,
  bindings: readonly Pick<AuthorizationBinding, 'expiresAt'>[],
  { before, now }: { before: number; now: number },
): boolean {
  const isOld = call.paymentStatus === 'settled' && call.emptied && (call.settledAt ?? Infinity) <= before
  return isOld && bindings.every((binding) => binding.expiresAt <= now)
}

/** Whether a call may leave the ledger for the archive: it is paid, and its result is gone. */
export function isArchivable(call: Pick<Row, 'paymentStatus' | 'emptied'>): boolean {
  return call.paymentStatus === 'settled' && call.emptied
}
