/** Sends one authorization to the chain, once, and asks the chain what became of it. */
import { within } from '../../lib/timers.ts'
import type { Authorization, PaymentCode, Settlement } from '../../ports/mod.ts'
import { parseAtomic, type Usdc } from '../../x402/money.ts'
import { chargesUse, isCumulative } from '../../x402/offer.ts'
import type { Offer, Receipt } from '../../x402/protocol.ts'
import type { SettleContext } from './context.ts'

/**
 * `isUnsent`: this attempt sent nothing. `isRefused`: the chain refuses it as it stands, which is its payer's doing.
 * `isLate`: it ended by its own terms while it was being settled.
 */
export type Spent = (Settlement | Dead) & {
  readonly isUnsent?: boolean
  readonly isRefused?: boolean
  readonly isLate?: boolean
}

/**
 * Sends one authorization; where it may have been sent before, asks the chain first what became of it. One that expired
 * before it was ever sent is not sent: its outcome would count as unknown, and an unknown outcome gives the result away
 * in the end. `stored` is given where it comes from storage; its expiry is then the one recorded first.
 */
export async function spend(
  context: SettleContext,
  authorization: Authorization,
  { stored, charge }: { readonly stored: { readonly sent: boolean } | undefined; readonly charge: Usdc | undefined },
): Promise<Spent> {
  const { chain, clock, timeouts } = context
  const { payment, offer } = authorization
  const wasSent = stored?.sent ?? false
  const due = chargeFor(offer, charge)
  const end = { ...due, ...(stored && { expiresAt: authorization.expiresAt }) }
  try {
    const isOver = !wasSent && authorization.expiresAt <= clock.now()
    if (wasSent || isOver) {
      const fate = await askFate(context, authorization, end)
      // A deposit that has landed pays as long as its channel does.
      const isUnconfirmed = fate.kind === 'unknown' || (fate.kind === 'open' && !isCumulative(offer))
      if (isOver && isUnconfirmed)
        return { kind: 'unavailable', reason: 'the chain has not yet confirmed that the authorization is over' }
      const isLate = wasSent && authorization.expiresAt <= clock.now() && !isCumulative(offer)
      if (fate.kind !== 'open') return { ...fate, isUnsent: true, isLate }
    }
    const settlement = await within(clock, timeouts.settleMs, (signal) =>
      chain.settle(payment, offer, { now: clock.now(), signal, ...due }),
    )
    if (settlement.kind === 'unavailable' && wasSent)
      return { kind: 'unknown', reason: settlement.reason, isUnsent: true }
    if (settlement.kind !== 'refused') return settlement
    const fate = await askFate(context, authorization, end)
    if (fate.kind === 'settled') return fate
    if (fate.kind === 'dead') return { ...fate, ...settlement, kind: 'dead' }
    return wasSent ? { kind: 'unknown', reason: settlement.reason, isRefused: true } : settlement
  } catch (error) {
    return { kind: 'unknown', reason: (error as Error).message }
  }
}

/** The charge of this authorization: the call's charge where its scheme allows that, else its whole amount. */
export function chargeFor(offer: Offer, charge: Usdc | undefined): { readonly charge?: Usdc } {
  const most = parseAtomic(offer.amount)
  if (charge === undefined || most === undefined || !chargesUse(offer)) return {}
  return { charge: charge < most ? charge : most }
}

type Dead = { kind: 'dead'; reason: string; code?: PaymentCode }
type FateOf = { kind: 'settled'; receipt: Receipt } | { kind: 'open' } | Dead | { kind: 'unknown'; reason: string }

/** Asks the chain what became of an authorization. Never rejects. */
export async function askFate(
  { chain, clock, timeouts }: SettleContext,
  { payment, offer }: Authorization,
  end: { readonly expiresAt?: number; readonly charge?: Usdc } | undefined,
): Promise<FateOf> {
  try {
    const fate = await within(clock, timeouts.verifyMs, (signal) =>
      chain.fate(payment, offer, { now: clock.now(), signal, ...end }),
    )
    if (fate.kind === 'paid') return { kind: 'settled', receipt: fate.receipt }
    if (fate.kind === 'dead') return { reason: 'the authorization can no longer move money', ...fate }
    return fate
  } catch (error) {
    return { kind: 'unknown', reason: (error as Error).message }
  }
}
