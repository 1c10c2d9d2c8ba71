/** Whether a payment by `upto` would settle now, by a simulation of its settlement. */
import type { Verdict } from '../../../../core/ports/mod.ts'
import { type Offer, type Payment, usdc } from '../../../../core/x402/mod.ts'
import { uintIn } from '../../lib/hex.ts'
import { type CallOptions, unavailable } from '../../lib/results.ts'
import { balanceCall } from '../node/token.ts'
import { checkUpto, refusedUpto } from './payload.ts'
import { allowanceCall, bitmapCall, isNonceUsed, settleCall, tokenPermitOf } from './permit2.ts'
import { parse, simulate, type UptoScheme } from './scheme.ts'

export async function verify(scheme: UptoScheme, payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
  const upto = parse(scheme, payment, offer)
  if (upto.kind === 'refused') return upto
  const refusal = checkUpto(upto, offer, at.now, scheme.config.lookbackSeconds)
  if (refusal) return refusal
  const permit = tokenPermitOf(payment, upto)
  const calls = [{ to: upto.token, data: balanceCall(upto.from) }, bitmapCall(upto), allowanceCall(upto)]
  const [seen, plain, permitted] = await Promise.all([
    scheme.reads.view(calls, { lagSeconds: scheme.lagSeconds, signal: at.signal }),
    simulate(scheme, upto, settleCall(upto, upto.amount), at.signal),
    permit ? simulate(scheme, upto, settleCall(upto, upto.amount, permit), at.signal) : undefined,
  ])
  if (seen.kind === 'failure') return unavailable(seen.reason)
  if (plain.kind === 'failure') return unavailable(plain.reason)
  if (permitted?.kind === 'failure') return unavailable(permitted.reason)
  const [balance, bitmap, allowance] = seen.results.map((result) => uintIn(result))
  if (balance === undefined || bitmap === undefined || allowance === undefined)
    return refusedUpto(
      'PAYMENT_INVALID',
      'permit2_proxy_not_deployed',
      `${scheme.network} has no Permit2, or no such token`,
    )
  if (isNonceUsed(bitmap, upto))
    return refusedUpto('PAYMENT_REPLAY', 'permit2_invalid_nonce', 'the nonce is used or invalidated on chain')
  if (balance < upto.amount) {
    const text = `the payer has ${balance} base units; the price is at most ${upto.amount}`
    return refusedUpto('PAYMENT_UNFUNDED', 'permit2_insufficient_balance', text)
  }
  if (plain.results[0]?.ok || permitted?.results[0]?.ok) {
    // The limit on open calls together: Permit2 moves no more, and a permit serves one call.
    const movable = plain.results[0]?.ok ? allowance : upto.amount
    const { block } = seen
    const funds = usdc(movable < balance ? movable : balance)
    return { kind: 'valid', balance: funds, asOf: at.now, ...(block !== undefined && { block }) }
  }
  if (allowance < upto.amount) {
    const text = `Permit2 may move ${allowance} base units of the payer; approve it, or send an ERC-2612 permit for exactly ${upto.amount} (eip2612GasSponsoring)`
    return refusedUpto('PAYMENT_UNFUNDED', 'permit2_allowance_required', text)
  }
  return refusedUpto('PAYMENT_INVALID', 'permit2_simulation_failed', 'the settlement would revert')
}
