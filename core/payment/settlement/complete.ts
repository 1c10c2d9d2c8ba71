/** Stores the result of a call that moves no money now: a free one, or one that a poll pays for. */
import type { Call } from '../../ports/mod.ts'
import { takenBack } from '../calls/active_calls.ts'
import type { Paying } from '../outcome.ts'
import type { Completion, SettleContext } from './context.ts'

/** Completes a free call. Its authorization proves the wallet: it stays bound to the call and is never sent. */
export async function completeFree(
  context: Pick<SettleContext, 'storage' | 'clock' | 'timeouts'>,
  call: Call,
  completion: Completion | undefined,
): Promise<Paying> {
  if (!completion) return { kind: 'free' }
  const isWon = await complete(context, call, completion)
  return isWon ? { kind: 'free' } : { kind: 'refused', reason: 'the call had already ended' }
}

/**
 * Stores the result of a call without a settlement. False when the call had ended. A call declared lost meanwhile is
 * taken back where possible.
 */
export async function complete(
  { storage, clock, timeouts }: Pick<SettleContext, 'storage' | 'clock' | 'timeouts'>,
  call: Call,
  made: Completion,
): Promise<boolean> {
  const { result, expiresAt, usage = null, charge } = made
  const now = clock.now()
  const move = () =>
    storage.moveCall(
      call.id,
      { workStatus: ['queued', 'in_progress'], workerId: call.workerId, paymentStatus: 'verified' },
      { workStatus: 'completed', result, expiresAt, usage, endedAt: now, ...(charge !== undefined && { charge }) },
    )
  return (await move()) || ((await takenBack(storage, call, now + timeouts.workLeaseMs)) && (await move()))
}
