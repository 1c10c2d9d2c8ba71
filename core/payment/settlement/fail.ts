/** Fails calls whose work ends without a result. None of them is charged. */
import type { Call, CallStorage, RecordStorage } from '../../ports/mod.ts'
import type { ActiveCalls } from '../calls/active_calls.ts'
import { isUnfinished, LOST } from '../ledger/mod.ts'
import type { Timeouts } from '../timeouts.ts'

export const STALLED = 'Job stalled: it ran for more than an hour. Nothing was charged.'

/**
 * Why an unfinished call counts as failed; undefined while it may still succeed. `lostBy` replaces `now` after an
 * outage.
 */
export function overdue(call: Call, now: number, timeouts: Timeouts, lostBy = now): string | undefined {
  if (!isUnfinished(call.workStatus)) return undefined
  if (now - (call.startedAt ?? call.createdAt) > timeouts.maxJobMs) return STALLED
  if (call.leaseExpiresAt <= lostBy) return LOST
  return undefined
}

/** Why a call failed: as the buyer may read it, and what the operator's timeline shows of the vendor. */
type Failure = { readonly error: string; readonly vendorError: string | undefined }

/** Longest reason and vendor error in characters that the ledger keeps. */
export const MAX_REASON = 500

/** Fails a call, uncharged. False when it had ended. */
export function fail(
  storage: CallStorage & RecordStorage,
  call: Pick<Call, 'id'>,
  failure: string | Failure,
  now: number,
): Promise<boolean> {
  const { error, vendorError } = typeof failure === 'string' ? { error: failure, vendorError: undefined } : failure
  return storage.moveCall(
    call.id,
    { workStatus: ['queued', 'in_progress'], paymentStatus: 'verified' },
    {
      workStatus: 'failed',
      error,
      endedAt: now,
      ...(vendorError !== undefined && { vendorError: vendorError.slice(0, MAX_REASON) }),
    },
  )
}

/** Fails a call whose worker died or that ran too long; returns the call as it is then stored. */
export async function failIfOverdue(
  storage: CallStorage & RecordStorage,
  call: Call,
  { now, timeouts, activeCalls }: { now: number; timeouts: Timeouts; activeCalls: ActiveCalls },
): Promise<Call> {
  const error = overdue(
    call,
    now,
    timeouts,
    activeCalls.has(call.id) ? Number.NEGATIVE_INFINITY : activeCalls.lostBy(now),
  )
  if (!error) return call
  await fail(storage, call, error, now)
  return (await storage.getCall(call.id)) ?? call
}

/**
 * Fails a call whose work cannot start because storage failed, so that its authorization is free again. Throws `error`.
 */
export async function abandon(
  storage: CallStorage & RecordStorage,
  call: Pick<Call, 'id'>,
  { error, now }: { error: unknown; now: number },
): Promise<never> {
  await fail(storage, call, LOST, now)
  throw error
}
