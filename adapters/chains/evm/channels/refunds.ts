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
  gasPaidWith,
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
  /** Sum of what open calls of the channel may cost, in base units. It is never sent back. */
  readonly reserved: (state: ChannelState, now: number) => bigint
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

/** State of `channelRefunds`. */
export type RefundParts = RefundsContext & {
  readonly network: string
  readonly lagSeconds: number
  /** The transactions of this process that are under way, by channel. */
  readonly sending: Map<Hex, Promise<Refunding>>
}

export function channelRefunds(
  context: RefundsContext,
  { network, lagSeconds }: { readonly network: string; readonly lagSeconds: number },
) {
  const sending = new Map<Hex, Promise<Refunding>>()
  const refunds: RefundParts = { ...context, network, lagSeconds, sending }
  return {
    refund: (request: RefundRequest, at: RefundOptions) => refund(refunds, request, at),
    close: (request: ClosingRequest, at: ClosingOptions) => close(refunds, request, at),
    ended: (state: ChannelState, at: { now: number; signal?: AbortSignal }) => ended(refunds, state, at),
    resume: (list: readonly ChannelState[], now: number) => resume(refunds, list, now),
    isPaidFor: (state: ChannelState, now: number) => unpaidFor(refunds, state, now) === undefined,
    isIdle: () => sending.size === 0,
  }
}

/** A refund of everything that is left, whatever is charged meanwhile. No voucher asks for it: its owner was proven. */
export type ClosingRequest = Pick<RefundRequest, 'channelId' | 'config'> & {
  readonly kind: 'closing'
  /** The channel without what ends with the refund, as its record is once the refund is sent. */
  readonly closed: (state: ChannelState) => ChannelState
}

type Request = RefundRequest | ClosingRequest

const isClosing = (request: Request): request is ClosingRequest => request.kind === 'closing'

/** The channel as it is once this refund is sent. */
const afterRefund = (request: Request, state: ChannelState): ChannelState =>
  isClosing(request) ? request.closed(state) : state

export async function refund(refunds: RefundParts, request: RefundRequest, at: RefundOptions): Promise<Refunding> {
  return await refundOf(refunds, request, { ...at, unproven: (state) => unproven(request, state, at) })
}

/** Sends back everything that is neither charged nor reserved by calls that are open. */
export async function close(refunds: RefundParts, request: ClosingRequest, at: ClosingOptions): Promise<Refunding> {
  return await refundOf(refunds, request, { ...at, isFree: async () => true, unproven: async () => undefined })
}

type ClosingOptions = { readonly now: number; readonly signal?: AbortSignal }

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

/** Gas for a refund of this channel. Others may have used what was left of the wallet's since it was asked for. */
export function reservation(refunds: RefundParts, state: ChannelState, now: number): Reserved | Refused {
  const reserved = refunds.costs.reserveRefund(buyerOf(state), now)
  if (reserved.kind === 'reserved') return reserved
  return overBudget('refund_transaction_failed', buyerOf(state), reserved.until)
}

export function once(refunds: RefundParts, channelId: Hex, work: () => Promise<Refunding>): Promise<Refunding> {
  const running = refunds.sending.get(channelId)
  if (running) return running
  const started = work().finally(() => refunds.sending.delete(channelId))
  refunds.sending.set(channelId, started)
  return started
}

/** Returns the outcome of an earlier, identical request; undefined for any other. */
export async function outcomeOf(
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

export async function begin(
  refunds: RefundParts,
  requested: Refunded,
  { request, now }: { readonly request: Request; readonly now: number },
): Promise<Refunding> {
  const call = await callOf(refunds, requested)
  const seen = await refunds.reads.view([call], { lagSeconds: refunds.lagSeconds, gas: GAS, direct: true })
  if (seen.kind === 'failure' || !seen.results[0]?.ok) await drop(refunds, requested, now)
  if (seen.kind === 'failure') return unavailable(seen.reason)
  if (!seen.results[0]?.ok)
    return refusedRefund('refund_simulation_failed', 'the refund would revert: nothing was sent', requested)
  const reserved = reservation(refunds, requested, now)
  if (reserved.kind === 'refused') await drop(refunds, requested, now)
  if (reserved.kind === 'refused') return reserved
  const answer = await refunds.rpc.request('eth_blockNumber', [])
  const block = answer.kind === 'result' ? numberIn(answer.value) : undefined
  const noted = { ...requested.refund, status: 'sent' as const, at: now, ...(block !== undefined && { block }) }
  const sent = await move(refunds, requested, now, (state) => {
    const next = afterRefund(request, state)
    const left = leftOf(refunds, next, now)
    // Whoever closes a key wants what is left by now, and later what open calls leave.
    if (isClosing(request) && left > 0n) {
      const closing = refunds.reserved(next, now) > 0n ? ('rest' as const) : ('done' as const)
      return { ...next, closing, refund: { ...noted, amount: String(left) } }
    }
    // A purchase that was charged or reserved meanwhile needs its money first.
    return left >= BigInt(requested.refund.amount) ? { ...next, refund: noted } : undefined
  })
  if (sent) return await transmit(refunds, sent, { now, reserved })
  reserved.release()
  await drop(refunds, requested, now)
  return busy(requested, 'a call was charged meanwhile; ask again')
}

export async function transmit(
  refunds: RefundParts,
  state: Refunded,
  { now, reserved }: { readonly now: number; readonly reserved: Reserved },
): Promise<Refunding> {
  const sent = await refunds.relayer.send({ ...(await callOf(refunds, state)), gas: GAS }, now)
  if (sent.kind === 'rejected') {
    reserved.release()
    await drop(refunds, state, now)
    return unavailable(`nothing was sent: ${sent.reason}`)
  }
  if (sent.kind === 'lost') return unknown('the refund was sent, and may still be mined')
  const paid = sent.receipt.success ? refundIn(sent.receipt.logs, state.channelId) : undefined
  if (paid) return await done(refunds, state, paid, now)
  const mirror = await readMirror(refunds, state.channelId)
  if ('kind' in mirror || sent.hasOtherNonces) return unknown('the refund was sent, and may still be mined')
  if (mirror.refundNonce > BigInt(state.refund.nonce))
    return await done(refunds, state, await paidBefore(refunds, state), now)
  await drop(refunds, state, now)
  return unavailable('the refund reverted: nothing moved')
}

/** Finds out what became of a refund that was sent, perhaps by a process that is gone, and sends it again. */
export async function finish(refunds: RefundParts, before: ChannelState, now: number): Promise<Refunding> {
  const state = await refunds.states.get(before.channelId, now)
  if (!isSent(state)) return unknown('the refund has ended; ask again for its outcome')
  const mirror = await readMirror(refunds, state.channelId)
  if ('kind' in mirror) return unknown(mirror.reason)
  if (mirror.refundNonce > BigInt(state.refund.nonce))
    return await done(refunds, state, await paidBefore(refunds, state), now)
  if (now - state.refund.at < RESEND_MS) return unknown('the refund was sent, and is not mined yet')
  const reserved = reservation(refunds, state, now)
  if (reserved.kind === 'refused') return unknown(reserved.reason)
  const noted = { ...state.refund, at: now }
  const again = await move(refunds, state, now, (current) => ({ ...current, refund: noted }))
  if (again) return await transmit(refunds, again, { now, reserved })
  reserved.release()
  return unknown('another process sends the refund')
}

/** The refund that has moved the nonce, as the chain shows it. */
export async function paidBefore(
  refunds: RefundParts,
  { channelId, refund: { block, amount } }: Refunded,
): Promise<Paid> {
  const fromBlock = block === undefined ? 'latest' : hexOf(BigInt(block))
  const answer = await refunds.rpc.request('eth_getLogs', [{ ...refundLogs(channelId), fromBlock, toBlock: 'latest' }])
  const logs = answer.kind === 'result' ? parseLogs(answer.value) : undefined
  return refundIn(logs ?? [], channelId) ?? { amount: BigInt(amount) }
}

export async function done(
  refunds: RefundParts,
  sent: Refunded,
  { transactionHash, amount }: Paid,
  now: number,
): Promise<Refunding> {
  const mirror = await readMirror(refunds, sent.channelId)
  const noted: Refund = {
    ...sent.refund,
    status: 'done',
    at: now,
    amount: String(amount),
    ...(transactionHash && { transaction: transactionHash }),
  }
  const after = await move(refunds, sent, now, (state) => {
    const gasPaid = gasPaidWith(state, refunds.costs.refund())
    const paid = { gasSpent: '0', gasPaid, refundedAt: String(state.charged) }
    const seen = 'kind' in mirror ? state : withMirror(state, mirror, now)
    // A mirror is not noted where the node is behind, or where this request began long before the last one.
    const isNoted = seen.refundNonce > BigInt(sent.refund.nonce)
    return {
      ...(isNoted ? seen : without(state, { amount, base: BigInt(sent.refund.base) })),
      ...paid,
      refund: noted,
    }
  })
  const state = after ?? (await refunds.states.get(sent.channelId, now))
  return state?.refund?.status === 'done'
    ? { kind: 'refunded', receipt: receiptOf(refunds, state, state.refund) }
    : unknown('the refund is paid, and noted by another process')
}

/** The channel once its refund has ended, or as it is where that is not known yet. Sends nothing. */
export async function ended(
  refunds: RefundParts,
  state: ChannelState,
  { now, signal }: { now: number; signal?: AbortSignal },
) {
  if (!state.refund || !isRefunding(state)) return state
  if (state.refund.status === 'requested')
    return now - state.refund.at < REQUESTED_MS ? state : ((await drop(refunds, state as Refunded, now)) ?? state)
  if (!isSent(state) || refunds.sending.has(state.channelId)) return state
  const mirror = await readMirror(refunds, state.channelId, signal)
  if ('kind' in mirror || mirror.refundNonce <= BigInt(state.refund.nonce)) return state
  await once(refunds, state.channelId, async () => done(refunds, state, await paidBefore(refunds, state), now))
  return (await refunds.states.get(state.channelId, now)) ?? state
}

/** Ends the refunds that a process left behind, and sends what open calls of closed keys have left. */
export async function resume(refunds: RefundParts, list: readonly ChannelState[], now: number): Promise<void> {
  for (const state of list) {
    if (refunds.sending.has(state.channelId)) continue
    if (isSent(state) && now - state.refund.at >= RESEND_MS)
      await once(refunds, state.channelId, () => finish(refunds, state, now))
    else if (isRefunding(state)) await ended(refunds, state, { now })
    else if (state.closing === 'rest' && refunds.reserved(state, now) === 0n) await sendRest(refunds, state, now)
  }
}

/** Gives up on a rest that no purchase pays the gas for: its payer can withdraw it, or deposit again. */
async function sendRest(refunds: RefundParts, { channelId, config }: ChannelState, now: number): Promise<void> {
  const request = { kind: 'closing', channelId, config, closed: (state: ChannelState) => state } as const
  if (!isOver(await close(refunds, request, { now }))) return
  await refunds.states.change(channelId, now, (state) =>
    state.closing === 'rest' && !isRefunding(state) && refunds.reserved(state, now) === 0n
      ? { ...state, closing: 'done' }
      : state,
  )
}

/** Whether nothing is left, or nothing pays for sending it. */
function isOver(outcome: Refunding): boolean {
  if (outcome.kind === 'refunded') return outcome.isRepeated ?? false
  if (outcome.kind !== 'refused') return false
  return /_(?:refund_no_balance|refund_not_covered|channel_not_found)$/.test(outcome.corrected?.error ?? '')
}

export async function readMirror(
  refunds: RefundParts,
  channelId: Hex,
  signal?: AbortSignal,
): Promise<Mirror | Unavailable> {
  const seen = await refunds.reads.view(mirrorCalls(channelId), {
    lagSeconds: refunds.lagSeconds,
    ...(signal && { signal }),
  })
  if (seen.kind === 'failure') return unavailable(seen.reason)
  return mirrorIn(seen.results) ?? unavailable('the settlement contract does not answer on this network')
}

/** Claims what is due to the payee first: the contract would otherwise pay it back. */
export async function callOf(refunds: RefundParts, state: Refunded): Promise<ContractCall> {
  const { channelId, config, ceiling, charged, claimed } = state
  const [amount, nonce] = [BigInt(state.refund.amount), BigInt(state.refund.nonce)]
  const signature = await refunds.authorizer.sign({ hash: refunds.digests.refund(channelId, { nonce, amount }) })
  const back = refundCall(config, { amount, nonce, signature })
  if (charged <= claimed) return allOf([back])
  const hash = refunds.digests.claims([{ channelId, ceiling, charged }])
  const claim = claimCall([state], await refunds.authorizer.sign({ hash }))
  return allOf([claim, back, settleCall(config.receiver, config.token)])
}

/**
 * Changes the record of a channel while it has this refund, whatever else changes meanwhile. Undefined where it has
 * another one, or where `to` gives up.
 */
export async function move<To extends ChannelState>(
  refunds: RefundParts,
  { channelId, refund: mine }: Refunded,
  now: number,
  to: (state: ChannelState) => To | undefined,
): Promise<To | undefined> {
  for (;;) {
    const state = await refunds.states.get(channelId, now)
    const isMine = state?.refund?.at === mine.at && state.refund.status === mine.status
    const next = isMine ? to(state) : undefined
    if (!state || !next) return undefined
    if (await refunds.states.replace(state, next, now)) return next
  }
}

const drop = (refunds: RefundParts, state: Refunded, now: number): Promise<ChannelState | undefined> =>
  move<ChannelState>(refunds, state, now, ({ refund: _, ...rest }) => rest)

export function receiptOf(refunds: RefundParts, state: ChannelState, { transaction = '0x', amount }: Refund): Receipt {
  return {
    transaction: transaction === '0x' ? '' : transaction,
    network: refunds.network,
    payer: buyerOf(state),
    amount,
    extra: { channelState: channelStateOf(state) },
  }
}

export type ChannelRefunds = ReturnType<typeof channelRefunds>

type Reserved = Extract<Reservation, { readonly kind: 'reserved' }>
type Refunded = ChannelState & { readonly refund: Refund }
type Paid = { readonly amount: bigint; readonly transactionHash?: Hex }

const isSent = (state: ChannelState | undefined): state is Refunded => state?.refund?.status === 'sent'
const unknown = (reason: string): Refunding => ({ kind: 'unknown', reason })
/** Null for everything that is left. */
const partOf = (request: Request): string | null =>
  isClosing(request) || request.amount === undefined ? null : String(request.amount)

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

/** The channel after a refund that the node does not show yet. Calls may have been charged since it was sent. */
function without(
  state: ChannelState,
  { amount, base }: { readonly amount: bigint; readonly base: bigint },
): ChannelState {
  const { charged, claimed, withdrawing } = state
  const balance = state.balance - amount
  const free = balance - charged
  return {
    ...state,
    balance,
    claimed: claimed > base ? claimed : base,
    withdrawing: withdrawing > free ? free : withdrawing,
    refundNonce: state.refundNonce + 1n,
  }
}

/**
 * The most that a refund sends back: neither charged, nor reserved by calls that are open. A withdrawal under way would
 * take the rest of these calls, so what it takes stays beside them.
 */
function leftOf({ reserved }: Pick<RefundsContext, 'reserved'>, state: ChannelState, now: number): bigint {
  const sum = reserved(state, now)
  const left = state.balance - state.charged - sum
  return sum > 0n ? left - state.withdrawing : left
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

const CODES: Readonly<Record<string, PaymentCode>> = {
  refund_amount_invalid: 'PAYMENT_INVALID',
  refund_owner_unproven: 'PAYMENT_REPLAY',
}

function refusedRefund(problem: string, text: string, state: ChannelState): Refused {
  const code = CODES[problem] ?? 'PAYMENT_UNFUNDED'
  const corrected = { error: `${PREFIX}${problem}`, extra: { channelState: channelStateOf(state) } }
  return { ...refusedChannel(code, problem, text), corrected }
}
