/**
 * Sends back what is left of a channel when its payer asks for it, in one transaction with the claim of what is due. A
 * refund is noted in the channel's record before anything else happens, so a purchase either comes before it or sees it
 * (decision 133). The contract's refund nonce lets one refund through, however often it is sent.
 */
import type { PrivateKeyAccount } from 'viem/accounts'
import type { PaymentCode, Refunding, RefundOptions, Refused, Unavailable } from '../../../../core/ports/mod.ts'
import type { Receipt } from '../../../../core/x402/mod.ts'
import { type Hex, numberIn, hexOf } from '../../lib/hex.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import { unavailable } from '../../lib/results.ts'
import type { Reads } from '../node/reads.ts'
import type { Relayer } from '../node/relayer.ts'
import { type ContractCall, parseLogs } from '../node/token.ts'
import { allOf, claimCall, mirrorCalls, mirrorIn, refundCall, refundIn, refundLogs, settleCall } from './contract.ts'
import type { ChannelDigests } from './digests.ts'
import type { ChannelCosts, Reservation } from './costs.ts'
import { outOfStep, overBudget, PREFIX, refusedChannel, type RefundRequest } from './payload.ts'
import {
  buyerOf,
  channelStateOf,
  type ChannelState,
  type ChannelStates,
  isRefunding,
  isRefundPublic,
  type Mirror,
  newState,
  type Refund,
  withMirror,
} from './state.ts'

export type RefundsContext = {
  readonly rpc: Pick<Rpc, 'request'>
  readonly reads: Pick<Reads, 'view'>
  readonly relayer: Pick<Relayer, 'send'>
  readonly states: ChannelStates
  readonly costs: ChannelCosts
  readonly authorizer: Pick<PrivateKeyAccount, 'sign' | 'address'>
  readonly digests: ChannelDigests
  /** Whether calls are open that the channel has reserved a part of its balance for. */
  readonly hasReserved: (state: ChannelState, now: number) => boolean
}

/** Gas of a claim with a refund, and of its simulation. */
const GAS = 300_000n
/** A refund that was requested and not sent within this time lets purchases go on: its process is gone. */
const REQUESTED_MS = 60_000
/** A refund that was sent and is not mined within this time is sent again by whoever asks. */
const RESEND_MS = 60_000
const MAX_RACES = 8

export const BUSY = `${PREFIX}channel_busy: a refund of the channel is under way`

/** A purchase or a refund while another one is under way. */
export const busy = (state: ChannelState, text = 'a refund of the channel is under way; ask again when it is done') =>
  refusedRefund('channel_busy', text, state)

export function channelRefunds(
  { rpc, reads, relayer, states, costs, authorizer, digests, hasReserved }: RefundsContext,
  { network, lagSeconds }: { readonly network: string; readonly lagSeconds: number },
) {
  /** The transactions of this process that are under way, by channel. */
  const sending = new Map<Hex, Promise<Refunding>>()

  async function refund(request: RefundRequest, at: RefundOptions): Promise<Refunding> {
    const { channelId, config, key } = request
    const { now, signal } = at
    for (let race = 0; race < MAX_RACES; race++) {
      const before = await states.get(channelId, now)
      const repeated = before && (await outcomeOf(request, before, now))
      if (repeated) return repeated
      if (before && isRefunding(before)) {
        const state = await ended(before, at)
        if (isRefunding(state)) return busy(state)
        continue
      }
      const mirror = await readMirror(channelId, signal)
      if ('kind' in mirror) return mirror
      const state = before ? withMirror(before, mirror, now) : newState({ channelId, config }, mirror, now)
      const refused = refusal(request, state) ?? (await unproven(request, state, at)) ?? unpaidFor(state, now)
      if (refused) return refused
      const requested = { ...state, refund: requestedRefund(request, state, now) }
      if (!(await states.replace(before, requested, now))) continue
      if (!hasReserved(state, now) && (await at.isFree(key))) return await once(channelId, () => begin(requested, now))
      await drop(requested, now)
      return busy(state, 'a call that the channel pays for is under way or not collected; ask again when it has ended')
    }
    return unavailable('the record of the channel is changed by others')
  }

  /** A refund is sent for purchases that pay for its gas and that of the deposits before it. */
  function unpaidFor(state: ChannelState, now: number): Refused | undefined {
    const bought = state.charged - BigInt(state.refundedAt ?? 0)
    const spent = BigInt(state.gasSpent ?? 0) + costs.refund()
    if (bought < spent) {
      const text = `${bought} base units were bought since the last refund; one is sent from ${spent} on, which pays for its gas. The payer can withdraw from the contract itself`
      return refusedRefund('refund_not_covered', text, state)
    }
    const until = costs.refundsLimitedUntil(buyerOf(state), now)
    return until === undefined ? undefined : overBudget('refund_transaction_failed', buyerOf(state), until)
  }

  /** Gas for a refund of this channel. Others may have used what was left of the wallet's since it was asked for. */
  function reservation(state: ChannelState, now: number): Reserved | Refused {
    const reserved = costs.reserveRefund(buyerOf(state), now)
    if (reserved.kind === 'reserved') return reserved
    return overBudget('refund_transaction_failed', buyerOf(state), reserved.until)
  }

  function once(channelId: Hex, work: () => Promise<Refunding>): Promise<Refunding> {
    const running = sending.get(channelId)
    if (running) return running
    const started = work().finally(() => sending.delete(channelId))
    sending.set(channelId, started)
    return started
  }

  /** Returns the outcome of an earlier, identical request; undefined for any other. */
  async function outcomeOf(request: RefundRequest, state: ChannelState, now: number): Promise<Refunding | undefined> {
    const { refund: last } = state
    if (last?.base !== String(request.ceiling) || last.part !== partOf(request)) return undefined
    if (last.status === 'requested') return undefined
    if (last.status === 'sent') return await once(state.channelId, () => finish(state, now))
    // Money that has come since is not what was refunded.
    if (last.part === null && state.balance > state.charged) return undefined
    return { kind: 'refunded', receipt: receiptOf(state, last), isRepeated: true }
  }

  async function begin(requested: Refunded, now: number): Promise<Refunding> {
    const call = await callOf(requested)
    const seen = await reads.view([call], { lagSeconds, gas: GAS, direct: true })
    if (seen.kind === 'failure' || !seen.results[0]?.ok) await drop(requested, now)
    if (seen.kind === 'failure') return unavailable(seen.reason)
    if (!seen.results[0]?.ok)
      return refusedRefund('refund_simulation_failed', 'the refund would revert: nothing was sent', requested)
    const reserved = reservation(requested, now)
    if (reserved.kind === 'refused') await drop(requested, now)
    if (reserved.kind === 'refused') return reserved
    const answer = await rpc.request('eth_blockNumber', [])
    const block = answer.kind === 'result' ? numberIn(answer.value) : undefined
    const noted = { ...requested.refund, status: 'sent' as const, at: now, ...(block !== undefined && { block }) }
    // A purchase that was charged meanwhile needs its money first.
    const sent = await move(requested, now, (state) =>
      state.charged === requested.charged &&
      state.balance >= requested.charged + BigInt(requested.refund.amount) &&
      !hasReserved(state, now)
        ? { ...state, refund: noted }
        : undefined,
    )
    if (sent) return await transmit({ ...sent, refund: noted }, { now, reserved })
    reserved.release()
    await drop(requested, now)
    return busy(requested, 'a call was charged meanwhile; ask again')
  }

  async function transmit(
    state: Refunded,
    { now, reserved }: { readonly now: number; readonly reserved: Reserved },
  ): Promise<Refunding> {
    const sent = await relayer.send({ ...(await callOf(state)), gas: GAS }, now)
    if (sent.kind === 'rejected') {
      reserved.release()
      await drop(state, now)
      return unavailable(`nothing was sent: ${sent.reason}`)
    }
    if (sent.kind === 'lost') return unknown('the refund was sent, and may still be mined')
    const paid = sent.receipt.success ? refundIn(sent.receipt.logs, state.channelId) : undefined
    if (paid) return await done(state, paid, now)
    const mirror = await readMirror(state.channelId)
    if ('kind' in mirror || sent.hasOtherNonces) return unknown('the refund was sent, and may still be mined')
    if (mirror.refundNonce > BigInt(state.refund.nonce)) return await done(state, await paidBefore(state), now)
    await drop(state, now)
    return unavailable('the refund reverted: nothing moved')
  }

  /** Finds out what became of a refund that was sent, perhaps by a process that is gone, and sends it again. */
  async function finish(before: ChannelState, now: number): Promise<Refunding> {
    const state = await states.get(before.channelId, now)
    if (!isSent(state)) return unknown('the refund has ended; ask again for its outcome')
    const mirror = await readMirror(state.channelId)
    if ('kind' in mirror) return unknown(mirror.reason)
    if (mirror.refundNonce > BigInt(state.refund.nonce)) return await done(state, await paidBefore(state), now)
    if (now - state.refund.at < RESEND_MS) return unknown('the refund was sent, and is not mined yet')
    const reserved = reservation(state, now)
    if (reserved.kind === 'refused') return unknown(reserved.reason)
    const noted = { ...state.refund, at: now }
    const again = await move(state, now, (current) => ({ ...current, refund: noted }))
    if (again) return await transmit({ ...again, refund: noted }, { now, reserved })
    reserved.release()
    return unknown('another process sends the refund')
  }

  /** The refund that has moved the nonce, as the chain shows it. */
  async function paidBefore({ channelId, refund: { block, amount } }: Refunded): Promise<Paid> {
    const fromBlock = block === undefined ? 'latest' : hexOf(BigInt(block))
    const answer = await rpc.request('eth_getLogs', [{ ...refundLogs(channelId), fromBlock, toBlock: 'latest' }])
    const logs = answer.kind === 'result' ? parseLogs(answer.value) : undefined
    return refundIn(logs ?? [], channelId) ?? { amount: BigInt(amount) }
  }

  async function done(sent: Refunded, { transactionHash, amount }: Paid, now: number): Promise<Refunding> {
    const mirror = await readMirror(sent.channelId)
    const noted: Refund = {
      ...sent.refund,
      status: 'done',
      at: now,
      amount: String(amount),
      ...(transactionHash && { transaction: transactionHash }),
    }
    const after = await move(sent, now, (state) => {
      const paid = { gasSpent: '0', refundedAt: String(state.charged) }
      const isSeen = !('kind' in mirror) && mirror.refundNonce > BigInt(sent.refund.nonce)
      return { ...(isSeen ? withMirror(state, mirror, now) : without(state, amount)), ...paid, refund: noted }
    })
    const state = after ?? (await states.get(sent.channelId, now))
    return state?.refund?.status === 'done'
      ? { kind: 'refunded', receipt: receiptOf(state, state.refund) }
      : unknown('the refund is paid, and noted by another process')
  }

  /** The channel once its refund has ended, or as it is where that is not known yet. Sends nothing. */
  async function ended(state: ChannelState, { now, signal }: { now: number; signal?: AbortSignal }) {
    if (!state.refund || !isRefunding(state)) return state
    if (state.refund.status === 'requested')
      return now - state.refund.at < REQUESTED_MS ? state : ((await drop(state as Refunded, now)) ?? state)
    if (!isSent(state) || sending.has(state.channelId)) return state
    const mirror = await readMirror(state.channelId, signal)
    if ('kind' in mirror || mirror.refundNonce <= BigInt(state.refund.nonce)) return state
    await once(state.channelId, async () => done(state, await paidBefore(state), now))
    return (await states.get(state.channelId, now)) ?? state
  }

  /** Ends the refunds that a process left behind. */
  async function resume(list: readonly ChannelState[], now: number): Promise<void> {
    for (const state of list) {
      if (sending.has(state.channelId)) continue
      if (isSent(state) && now - state.refund.at >= RESEND_MS) await once(state.channelId, () => finish(state, now))
      else if (isRefunding(state)) await ended(state, { now })
    }
  }

  async function readMirror(channelId: Hex, signal?: AbortSignal): Promise<Mirror | Unavailable> {
    const seen = await reads.view(mirrorCalls(channelId), { lagSeconds, ...(signal && { signal }) })
    if (seen.kind === 'failure') return unavailable(seen.reason)
    return mirrorIn(seen.results) ?? unavailable('the settlement contract does not answer on this network')
  }

  /** Claims what is due to the payee first: the contract would otherwise pay it back. */
  async function callOf(state: Refunded): Promise<ContractCall> {
    const { channelId, config, ceiling, charged, claimed } = state
    const [amount, nonce] = [BigInt(state.refund.amount), BigInt(state.refund.nonce)]
    const signature = await authorizer.sign({ hash: digests.refund(channelId, { nonce, amount }) })
    const back = refundCall(config, { amount, nonce, signature })
    if (charged <= claimed) return allOf([back])
    const hash = digests.claims([{ channelId, ceiling, charged }])
    const claim = claimCall([state], await authorizer.sign({ hash }))
    return allOf([claim, back, settleCall(config.receiver, config.token)])
  }

  /**
   * Changes the record of a channel while it has this refund, whatever else changes meanwhile. Undefined where it has
   * another one, or where `to` gives up.
   */
  async function move(
    { channelId, refund: mine }: Refunded,
    now: number,
    to: (state: ChannelState) => ChannelState | undefined,
  ): Promise<ChannelState | undefined> {
    for (;;) {
      const state = await states.get(channelId, now)
      const isMine = state?.refund?.at === mine.at && state.refund.status === mine.status
      const next = isMine ? to(state) : undefined
      if (!state || !next) return undefined
      if (await states.replace(state, next, now)) return next
    }
  }

  const drop = (state: Refunded, now: number) => move(state, now, ({ refund: _, ...rest }) => rest)

  function receiptOf(state: ChannelState, { transaction = '0x', amount }: Refund): Receipt {
    return {
      transaction: transaction === '0x' ? '' : transaction,
      network,
      payer: buyerOf(state),
      amount,
      extra: { channelState: channelStateOf(state) },
    }
  }

  return { refund, ended, resume, isIdle: () => sending.size === 0 }
}

export type ChannelRefunds = ReturnType<typeof channelRefunds>

type Reserved = Extract<Reservation, { readonly kind: 'reserved' }>
type Refunded = ChannelState & { readonly refund: Refund }
type Paid = { readonly amount: bigint; readonly transactionHash?: Hex }

const isSent = (state: ChannelState | undefined): state is Refunded => state?.refund?.status === 'sent'
const unknown = (reason: string): Refunding => ({ kind: 'unknown', reason })
const partOf = ({ amount }: RefundRequest): string | null => (amount === undefined ? null : String(amount))

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

function requestedRefund(request: RefundRequest, { charged, balance, refundNonce }: ChannelState, now: number): Refund {
  return {
    status: 'requested',
    base: String(charged),
    part: partOf(request),
    amount: String(request.amount ?? balance - charged),
    nonce: String(refundNonce),
    at: now,
  }
}

/** The channel after a refund that the node does not show yet. */
function without(state: ChannelState, amount: bigint): ChannelState {
  const { charged, claimed, withdrawing } = state
  const balance = state.balance - amount
  const free = balance - charged
  return {
    ...state,
    balance,
    claimed: claimed > charged ? claimed : charged,
    withdrawing: withdrawing > free ? free : withdrawing,
    refundNonce: state.refundNonce + 1n,
  }
}

function refusal({ ceiling, amount }: RefundRequest, state: ChannelState): Refused | undefined {
  const { balance, claimed, charged, refund: last } = state
  if (balance === 0n && claimed === 0n)
    return refusedRefund('channel_not_found', 'the channel has no balance on chain', state)
  if (ceiling !== charged) return outOfStep(ceiling, state)
  const left = balance - charged
  if (left <= 0n)
    return refusedRefund('refund_no_balance', `everything that was deposited is charged or paid back`, state)
  if (amount === undefined || amount === left) return undefined
  if (amount === 0n || amount > left) {
    const text = `amount is ${amount}; it must be from 1 to ${left}, which is left of the channel, or absent for all of it`
    return refusedRefund('refund_amount_invalid', text, state)
  }
  if (last?.base !== String(charged)) return undefined
  const text = `amount is ${amount}; a part was paid back since the last purchase, so only everything can be, which is ${left}`
  return refusedRefund('refund_amount_invalid', text, state)
}

const CODES: Readonly<Record<string, PaymentCode>> = {
  refund_amount_invalid: 'PAYMENT_INVALID',
  refund_owner_unproven: 'PAYMENT_REPLAY',
}

function refusedRefund(problem: string, text: string, state: ChannelState): Refused {
  const code = CODES[problem] ?? 'PAYMENT_UNFUNDED'
  const corrected = { error: `${PREFIX}${problem}`, extra: { channelState: channelStateOf(state) } }
  return { ...refusedChannel(code, problem, text), corrected }
}
