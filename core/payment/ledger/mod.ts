/**
 * The ledger rules, as pure decisions (decisions 4, 12, 15, 18). A storage reads the rows that a function here takes,
 * performs its `writes` in order and returns its `answer`, all in one atomic step. Storages decide nothing themselves.
 */
export { type ClaimAnswer, decideClaim } from './claim.ts'
export type { Decision, Write } from './decision.ts'
export { expiryAction, isArchivable, isLedgerRowOver } from './expiry.ts'
export { decideFinish } from './finish.ts'
export { type Lease, mayLease, takePermits, type Window } from './leases.ts'
export { decideRenewal, mayMove, PATCHABLE, patchOf } from './moves.ts'
export { decideOpen, decidePaid, type OpenAnswer, openedCall, type PaidAnswer } from './open.ts'
export { mayMoveRecord, unexpired } from './records.ts'
export {
  type AuthorizationBinding,
  type ClaimFields,
  ENTRY_FIELDS,
  type Head,
  NO_NOTES,
  type Row,
  type RowPatch,
  UNCLAIMED,
} from './rows.ts'
export { isFree, isLost, isUnfinished, LOST, UPSTREAM_JOB, wasLost } from './states.ts'
