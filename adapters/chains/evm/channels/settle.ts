/** Charges a channel by one voucher, and finds out what became of a charge. */
import type { DrawDown, Fate, Settlement, SettleOptions } from '../../../../core/ports/mod.ts'
import type { Offer, Payment, Receipt } from '../../../../core/x402/mod.ts'
import { type Channeled, dueOf, outOfStep, PREFIX } from './payload.ts'
import { BUSY } from './refunds/record.ts'
import { parse, type VoucherScheme } from './scheme.ts'
import {
  buyerOf,
  type ChannelState,
  channelStateOf,
  chargedState,
  isSpentVoucher,
  type Mirror,
  newState,
  withMirror,
} from './state.ts'
import { chargeable, claimable, isFresh, withClaims } from './synced_state.ts'
import { readMirror } from './mirror.ts'

const MAX_RACES = 8

/**
 * One compare and set. A voucher whose base is below what is charged was charged before: its key was bound to one
 * call, and only that call moves the channel from its base. A deposit came before the work (`secure`); that of a poll
 * comes here.
 */
export async function settle(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: SettleOptions,
): Promise<Settlement> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return { kind: 'refused', reason: parsed.reason }
  const due = dueOf(offer, at.charge)
  const { channelId, base, ceiling, signature, deposit } = parsed
  let hasLanded = false
  vouchers.active++
  try {
    for (let race = 0; race < MAX_RACES; race++) {
      const before = await vouchers.states.get(channelId, at.now)
      if (before && base < before.charged) return { kind: 'settled', receipt: receiptOf(vouchers, parsed, before, due) }
      if (before?.refund?.status === 'sent') return { kind: 'refused', reason: BUSY }
      const state = await chargeable(vouchers, parsed, before, { ...at, due })
      if ('kind' in state) return { kind: 'unknown', reason: state.reason }
      if (base !== state.charged) return { kind: 'refused', reason: outOfStep(ceiling, state).reason }
      const isShort = state.charged + due > claimable(vouchers, state, at.now)
      if (isShort && (!deposit || hasLanded))
        return { kind: 'refused', reason: `${PREFIX}insufficient_balance: the channel has ${state.balance}` }
      if (isShort && deposit) {
        const landing = await vouchers.deposits.land({ ...parsed, deposit }, at)
        if (landing.kind === 'refused') return { kind: 'refused', reason: landing.reason }
        if (landing.kind !== 'landed') return landing
        hasLanded = true
        continue
      }
      // Whoever waits for it has given up, and asks for its fate.
      if (at.signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
      const proven = deposit && { isPayerProven: true as const }
      const next = chargedState({ ...state, ...proven }, { due, ceiling, signature })
      if (await vouchers.states.replace(before, next, at.now))
        return { kind: 'settled', receipt: receiptOf(vouchers, parsed, next, due) }
    }
    return { kind: 'unknown', reason: 'the record of the channel is changed by others' }
  } finally {
    vouchers.active--
  }
}

/** Only for a channel with a record: the first charge of one is stored by `settle`. */
export async function drawDown(
  vouchers: VoucherScheme,
  payment: Payment,
  offer: Offer,
  at: Omit<SettleOptions, 'signal'>,
): Promise<DrawDown | undefined> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused' || parsed.deposit) return undefined
  const before = await vouchers.states.get(parsed.channelId, at.now)
  const due = dueOf(offer, at.charge)
  if (!before || parsed.base !== before.charged || before.refund?.status === 'sent') return undefined
  if (!isFresh(vouchers, before, at.now) || before.charged + due > claimable(vouchers, before, at.now)) return undefined
  const { ceiling, signature } = parsed
  const next = chargedState(before, { due, ceiling, signature })
  return { ...vouchers.states.moving(before, next, at.now), receipt: receiptOf(vouchers, parsed, next, due) }
}

export async function fate(vouchers: VoucherScheme, payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate> {
  const parsed = parse(vouchers, payment, offer)
  if (parsed.kind === 'refused') return { kind: 'unknown', reason: parsed.reason }
  const voucher = parsed
  const { base, deposit, channelId } = parsed
  const { now, signal } = at
  const state = await vouchers.states.get(channelId, now)
  const due = dueOf(offer, at.charge)
  if (state && base < state.charged) return { kind: 'paid', receipt: receiptOf(vouchers, parsed, state, due) }
  if (state && base > state.charged) return { kind: 'dead' }
  if (state && isSpentVoucher(state, parsed.ceiling)) return { kind: 'dead', code: 'PAYMENT_REPLAY' }
  const covers = (mirror: Mirror) => base >= mirror.claimed && base + due <= claimable(vouchers, mirror, now)
  if (!deposit) {
    if (state && isFresh(vouchers, state, now) && covers(state)) return { kind: 'open' }
    const mirror = await readMirror(vouchers, channelId, signal)
    if ('kind' in mirror) return { kind: 'unknown', reason: mirror.reason }
    if (!covers(mirror)) return await dead(mirror)
    const checked = await withClaims(
      vouchers,
      state ? withMirror(state, mirror, now) : newState(parsed, mirror, now),
      now,
    )
    if ('kind' in checked) return { kind: 'unknown', reason: checked.reason }
    return isSpentVoucher(checked, parsed.ceiling) ? { kind: 'dead', code: 'PAYMENT_REPLAY' } : { kind: 'open' }
  }
  const seen = await vouchers.deposits.seen({ ...parsed, deposit }, { lagSeconds: 0, signal })
  if ('kind' in seen) return { kind: 'unknown', reason: seen.reason }
  // The token accepts it before `validBefore`, not in that second. What has landed is settled by the next attempt.
  const isOver = seen.used || BigInt(seen.time) >= deposit.validBefore
  if (!isOver || covers(seen.mirror)) return { kind: 'open' }
  return seen.used ? await dead(seen.mirror) : { kind: 'dead' }

  /**
   * Whoever still settles it, by what it has read before, finds another record and reads again. A channel without a
   * record gets none: a poll would store it for nothing, and money that a settlement counts on stays for minutes.
   */
  async function dead(mirror: Mirror): Promise<Fate> {
    const noted = await vouchers.states.mirror(channelId, mirror, now)
    const isPaid = noted && base < noted.charged
    return isPaid ? { kind: 'paid', receipt: receiptOf(vouchers, voucher, noted, due) } : { kind: 'dead' }
  }
}

function receiptOf(vouchers: VoucherScheme, { deposit }: Channeled, state: ChannelState, due: bigint): Receipt {
  const isOurs = deposit !== undefined && state.deposit?.nonce === deposit.nonce
  return {
    transaction: isOurs ? (state.deposit?.transaction ?? '') : '',
    network: vouchers.network,
    payer: buyerOf(state),
    amount: String(due),
    block: 0,
    extra: { chargedAmount: String(due), channelState: channelStateOf(state) },
  }
}
