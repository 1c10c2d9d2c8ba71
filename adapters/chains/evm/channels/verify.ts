/** Whether a voucher would pay, and the deposit that has to come before the work (decision 149). */
import type { Securing, Verdict } from '../../../../core/ports/mod.ts'
import { type Offer, type Payment, usdc } from '../../../../core/x402/mod.ts'
import type { CallOptions } from '../../lib/results.ts'
import { notCovered, outOfStep, refusedChannel, spentVoucher } from './payload.ts'
import { busy } from './refunds/record.ts'
import { parse, type VoucherScheme } from './scheme.ts'
import { type ChannelState, channelStateOf, isRefunding, isSpentVoucher } from './state.ts'
import { current } from './synced_state.ts'

export async function verify(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: CallOptions,
): Promise<Verdict> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return parsed
  const { base, ceiling, deposit } = parsed
  const coming = deposit?.amount ?? 0n
  const isShort = (state: ChannelState) => ceiling > state.balance + coming - state.withdrawing
  const problem = deposit && (await vouchers.deposits.problem({ ...parsed, deposit }, at))
  if (problem && problem !== 'landed') return problem
  // The balance includes a deposit that has landed.
  const found = await current(vouchers, parsed, at, problem === 'landed' ? () => true : isShort)
  if ('kind' in found) return found
  const state = isRefunding(found) ? await vouchers.refunds.ended(found, at) : found
  if (isRefunding(state)) return busy(state)
  if (base !== state.charged) return outOfStep(parsed.ceiling, state)
  if (isSpentVoucher(state, ceiling)) return spentVoucher(ceiling)
  const added = problem === 'landed' ? 0n : coming
  const free = state.balance + added - state.withdrawing - state.charged
  if (state.balance + added === 0n) {
    const text = 'the channel has no balance on chain; send a payload of type deposit first'
    return refusedChannel('PAYMENT_UNFUNDED', 'channel_not_found', text)
  }
  if (ceiling > state.charged + free) return notCovered(ceiling, { ...state, balance: state.balance + added })
  // Vouchers have no block: what is charged is in the balance as soon as it is settled.
  // The first charge of a channel makes its record.
  const isPrepaid = deposit === undefined && state.ceiling > 0n
  const valid = { kind: 'valid', balance: usdc(free), asOf: at.now, block: 0, holds, isSecured: true } as const
  return { ...valid, ...(isPrepaid && { isPrepaid }) }

  /** A refund that begins from now on sees the call; one that began before is seen here. */
  async function holds({ now }: { now: number }): Promise<boolean> {
    const current = await vouchers.states.get(state.channelId, now)
    return !current || (!isRefunding(current) && current.refundNonce === state.refundNonce)
  }
}

/** Brings the deposit of a payment on chain, before anything is worked on for it. */
export async function secure(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: CallOptions,
): Promise<Securing> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return parsed
  const { deposit, base, ceiling } = parsed
  if (!deposit) return { kind: 'secured' }
  const landing = await vouchers.deposits.land({ ...parsed, deposit }, at)
  if (landing.kind !== 'landed') return landing
  const { state } = landing
  if (base !== state.charged) return outOfStep(ceiling, state)
  if (ceiling > state.balance - state.withdrawing) return notCovered(ceiling, state)
  return { kind: 'secured', extra: { channelState: channelStateOf(state) } }
}
