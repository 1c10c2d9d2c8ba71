/** Asks for a refund: checks the request, notes it in the record, and sends it once no open call needs the money. */
import type { Refunding, RefundOptions, Refused } from '../../../../../core/ports/mod.ts'
import { unavailable } from '../../../lib/results.ts'
import { outOfStep, overBudget, type RefundRequest } from '../payload.ts'
import { buyerOf, type ChannelState, isRefunding, isRefundPublic, newState, type Refund, withMirror } from '../state.ts'
import { ended } from './end.ts'
import {
  afterRefund,
  busy,
  type ClosingRequest,
  drop,
  isClosing,
  leftOf,
  once,
  partOf,
  receiptOf,
  type RefundParts,
  refusedRefund,
  type Request,
} from './record.ts'
import { begin, finish } from './send.ts'
import { readMirror } from '../mirror.ts'

const MAX_RACES = 8

export async function refund(refunds: RefundParts, request: RefundRequest, at: RefundOptions): Promise<Refunding> {
  return await refundOf(refunds, request, { ...at, unproven: (state) => unproven(request, state, at) })
}

/** Sends back everything that is neither charged nor reserved by calls that are open. */
export async function close(refunds: RefundParts, request: ClosingRequest, at: ClosingOptions): Promise<Refunding> {
  return await refundOf(refunds, request, { ...at, isFree: async () => true, unproven: async () => undefined })
}

export type ClosingOptions = { readonly now: number; readonly signal?: AbortSignal }

type Checks = Pick<RefundOptions, 'isFree'> & {
  readonly unproven: (state: ChannelState) => Promise<Refused | undefined>
}

async function refundOf(refunds: RefundParts, request: Request, at: ClosingOptions & Checks): Promise<Refunding> {
  const { channelId, config } = request
  const { now, signal } = at
  for (let race = 0; race < MAX_RACES; race++) {
    const before = await refunds.states.get(channelId, now)
    const repeated = before && (await outcomeOf(refunds, request, before, now))
    if (repeated) return repeated
    if (before && isRefunding(before)) {
      const state = await ended(refunds, before, at)
      if (isRefunding(state)) return busy(state)
      continue
    }
    const mirror = await readMirror(refunds, channelId, signal)
    if ('kind' in mirror) return mirror
    // While the chain was read, calls may have been charged, and another refund may have begun or ended.
    const current = await refunds.states.get(channelId, now)
    if (current?.refund?.at !== before?.refund?.at || current?.refund?.status !== before?.refund?.status) continue
    const state = current ? withMirror(current, mirror, now) : newState({ channelId, config }, mirror, now)
    const left = leftOf(refunds, afterRefund(request, state), now)
    const refused = refusal(request, state, left) ?? (await at.unproven(state)) ?? unpaidFor(refunds, state, now)
    if (refused) return refused
    const requested = { ...state, refund: requestedRefund(request, state, { left, now }) }
    if (!(await refunds.states.replace(current, requested, now))) continue
    if (isClosing(request) || (await at.isFree(request.key)))
      return await once(refunds, channelId, () => begin(refunds, requested, { request, now }))
    await drop(refunds, requested, now)
    return busy(state, 'a call that the channel pays for is under way or not collected; ask again when it has ended')
  }
  return unavailable('the record of the channel is changed by others')
}

/** A refund is sent for purchases that pay for its gas and that of the deposits before it. */
export function unpaidFor(refunds: RefundParts, state: ChannelState, now: number): Refused | undefined {
  const bought = state.charged - BigInt(state.refundedAt ?? 0)
  const spent = BigInt(state.gasSpent ?? 0) + refunds.costs.refund()
  if (bought < spent) {
    const text = `${bought} base units were bought since the last refund; one is sent from ${spent} on, which pays for its gas. The payer can withdraw from the contract itself`
    return refusedRefund('refund_not_covered', text, state)
  }
  const until = refunds.costs.refundsLimitedUntil(buyerOf(state), now)
  return until === undefined ? undefined : overBudget('refund_transaction_failed', buyerOf(state), until)
}

/** Returns the outcome of an earlier, identical request; undefined for any other. */
async function outcomeOf(
  refunds: RefundParts,
  request: Request,
  state: ChannelState,
  now: number,
): Promise<Refunding | undefined> {
  const { refund: last } = state
  const base = String(isClosing(request) ? state.charged : request.ceiling)
  if (last?.base !== base || last.part !== partOf(request)) return undefined
  if (last.status === 'requested') return undefined
  if (last.status === 'sent') return await once(refunds, state.channelId, () => finish(refunds, state, now))
  // Money that has come or was released since is not what was refunded.
  if (last.part === null && leftOf(refunds, afterRefund(request, state), now) > 0n) return undefined
  return { kind: 'refunded', receipt: receiptOf(refunds, state, last), isRepeated: true }
}

/**
 * A refund that others could ask for is sent only to where the last call was ordered: the official client signs nothing
 * that is new (decision 145).
 */
async function unproven(
  { fundedBy, config }: RefundRequest,
  state: ChannelState,
  { isFrom }: Pick<RefundOptions, 'isFrom'>,
): Promise<Refused | undefined> {
  if (!isRefundPublic(state)) return undefined
  if (state.lastBase !== undefined && (await isFrom(`${fundedBy}/${state.lastBase}`))) return undefined
  const text = `others may have this voucher, so a refund is sent only when asked for from the address of the channel's last purchase. Buy something from this address first, or withdraw from the contract itself: initiateWithdraw, and finalizeWithdraw ${config.withdrawDelay} seconds later`
  return refusedRefund('refund_owner_unproven', text, state)
}

function requestedRefund(
  request: Request,
  { charged, refundNonce }: ChannelState,
  { left, now }: { readonly left: bigint; readonly now: number },
): Refund {
  return {
    status: 'requested',
    base: String(charged),
    part: partOf(request),
    amount: partOf(request) ?? String(left),
    nonce: String(refundNonce),
    at: now,
  }
}

function refusal(request: Request, state: ChannelState, left: bigint): Refused | undefined {
  const { balance, claimed, charged, refund: last } = state
  const { ceiling, amount } = isClosing(request) ? { ceiling: charged, amount: undefined } : request
  if (balance === 0n && claimed === 0n)
    return refusedRefund('channel_not_found', 'the channel has no balance on chain', state)
  if (ceiling !== charged) return outOfStep(ceiling, state)
  if (left <= 0n) {
    const text = `everything that was deposited is charged, paid back, or reserved by calls that are open`
    return refusedRefund('refund_no_balance', text, state)
  }
  if (amount === undefined || amount === left) return undefined
  if (amount === 0n || amount > left) {
    const text = `amount is ${amount}; it must be from 1 to ${left}, which is left of the channel, or absent for all of it`
    return refusedRefund('refund_amount_invalid', text, state)
  }
  if (last?.base !== String(charged)) return undefined
  const text = `amount is ${amount}; a part was paid back since the last purchase, so only everything can be, which is ${left}`
  return refusedRefund('refund_amount_invalid', text, state)
}
