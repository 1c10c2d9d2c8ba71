/** Decides who may continue and change a call. */
import type { CallPatch, PaymentStatus, WorkStatus } from '../../ports/mod.ts'
import type { AuthorizationBinding, RowPatch, Head } from './rows.ts'
import { isUnfinished, wasLost } from './states.ts'
import { type Decision, withoutWrites } from './decision.ts'

/**
 * Decides whether a worker may continue a call, and extends its lease to `until`. A call that was declared lost becomes
 * the worker's again while its authorization has served no other call: its first binding is then still its own, and
 * open.
 */
export function decideRenewal(
  call: Head | undefined,
  seen: { bindings: readonly Pick<AuthorizationBinding, 'position' | 'status'>[]; workerId: string },
  until: number,
): Decision<boolean> {
  if (!call || call.workerId !== seen.workerId) return withoutWrites(false)
  const { id } = call
  if (isUnfinished(call.workStatus))
    return {
      answer: true,
      writes: call.leaseExpiresAt < until ? [{ kind: 'patch', id, patch: { leaseExpiresAt: until } }] : [],
    }
  if (!wasLost(call) || !seen.bindings.some(({ position, status }) => position === 0 && status === 'open'))
    return withoutWrites(false)
  const work = call.startedAt === null ? 'queued' : 'in_progress'
  return {
    answer: true,
    writes: [
      {
        kind: 'patch',
        id,
        patch: { workStatus: work, error: null, endedAt: null, leaseExpiresAt: Math.max(until, call.leaseExpiresAt) },
      },
    ],
  }
}

/** Whether a compare-and-set on a call applies. */
export function mayMove(
  call: Pick<Head, 'workStatus' | 'paymentStatus' | 'workerId'> | undefined,
  from: { workStatus: readonly WorkStatus[]; workerId?: string; paymentStatus?: PaymentStatus },
): boolean {
  if (!call || !from.workStatus.includes(call.workStatus)) return false
  if (from.workerId !== undefined && from.workerId !== call.workerId) return false
  return from.paymentStatus === undefined || from.paymentStatus === call.paymentStatus
}

/** The fields that a patch may set. Others are ignored, so no caller can change a payment status outside the ledger. */
export const PATCHABLE = [
  'workStatus',
  'workerId',
  'leaseExpiresAt',
  'startedAt',
  'endedAt',
  'result',
  'error',
  'usage',
  'charge',
  'expiresAt',
  'vendorError',
] as const satisfies readonly (keyof CallPatch)[]

export function patchOf(patch: CallPatch): RowPatch {
  return Object.fromEntries(
    PATCHABLE.filter((field) => patch[field] !== undefined).map((field) => [field, patch[field]]),
  )
}
