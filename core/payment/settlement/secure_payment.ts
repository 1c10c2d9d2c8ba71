/**
 * The end of step 8, for payments with a deposit: the buyer's money is on chain before any work begins (contract 1.94).
 * The deposit stays the buyer's whatever becomes of the call.
 */
import { within } from '../../lib/timers.ts'
import { fail } from './fail.ts'
import type { Timeouts } from '../timeouts.ts'
import type { Authorization, Call, Corrected, PaymentCode, Ports, Securing } from '../../ports/mod.ts'

type SecureContext = {
  readonly ports: Pick<Ports, 'chain' | 'storage' | 'clock'>
  readonly timeouts: Pick<Timeouts, 'settleMs'>
}

/** `extra` is told to the buyer where the work fails, such as the state of its channel. */
type SecuredPayment =
  | { readonly kind: 'secured'; readonly extra?: Readonly<Record<string, unknown>> }
  | { readonly kind: 'refused'; readonly code: PaymentCode; readonly reason: string; readonly corrected?: Corrected }
  | { readonly kind: 'unavailable'; readonly reason: string }

/**
 * Brings the deposit of an opened call on chain. Where that fails the call fails, uncharged, and the same payment may
 * be sent again: a deposit that lands meanwhile is found, and never sent twice.
 */
export async function securePayment(
  { ports: { chain, storage, clock }, timeouts }: SecureContext,
  { call, authorization }: { readonly call: Pick<Call, 'id'>; readonly authorization: Authorization },
): Promise<SecuredPayment> {
  if (!chain.secure) return { kind: 'secured' }
  const { payment, offer } = authorization
  const securing = await within(clock, timeouts.settleMs, async (signal) =>
    chain.secure?.(payment, offer, { now: clock.now(), signal }),
  ).catch((error: Error): Securing => ({ kind: 'unknown', reason: error.message }))
  if (!securing || securing.kind === 'secured') return securing ?? { kind: 'secured' }
  await fail(storage, call, `The deposit was not made: ${securing.reason}. Nothing was charged.`, clock.now())
  return securing.kind === 'unknown' ? { ...securing, kind: 'unavailable' } : securing
}
