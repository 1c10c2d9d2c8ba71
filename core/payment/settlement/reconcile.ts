/** Reconciles settlements whose outcome is unknown. */
import type { Call } from '../../ports/mod.ts'
import type { SettleContext } from './context.ts'
import { record } from './record.ts'
import { MAX_PAUSE_MS, MIN_PAUSE_MS, retryOf } from './retries.ts'
import { spend } from './send.ts'

/**
 * Reconciles a call left in `settling`: asks the chain, sends its authorization again where it is still open, or
 * alerts. `forgiven`: it ended unpaid, and not by its buyer's fault.
 */
export async function reconcile(
  context: SettleContext,
  call: Call,
  retainUntil: number,
): Promise<'forgiven' | undefined> {
  const { storage, clock, timeouts, retries } = context
  const now = clock.now()
  if (now < (retries.get(call.id)?.nextAt ?? now)) return undefined
  const claim = await storage.claimSettlement(call.id, undefined, { now, until: now + timeouts.settleLeaseMs })
  if (claim.kind !== 'retry') {
    retries.delete(call.id)
    return undefined
  }
  const { authorization, token } = claim
  const spent = await spend(context, authorization, { stored: claim, charge: claim.charge })
  const ending = {
    token,
    authorization,
    spent,
    startedAt: now,
    retainUntil,
    isDelivered: false,
    by: 'maintenance',
  } as const
  const paying = await record(context, call, ending)
  const isOpen = typeof paying === 'object' && (paying.kind === 'unknown' || paying.kind === 'unavailable')
  if (!isOpen) retries.delete(call.id)
  if (!isOpen) return paying === 'forgiven' ? paying : undefined
  // Wake before an authorization expires, and when it is time to give up.
  const retry = retryOf(retries, call.id)
  const left = Math.max(MIN_PAUSE_MS, (authorization.expiresAt - now) / 2)
  const givesUpAt = authorization.expiresAt + timeouts.unresolvedMs + 1
  retry.nextAt = Math.min(now + Math.min(retry.pauseMs, left), Math.max(givesUpAt, now + 1))
  retry.pauseMs = Math.min(2 * retry.pauseMs, MAX_PAUSE_MS)
  return undefined
}
