/** The part of a channel's record that its refund moves: what is left, the refund under way, and its end. */
import type { PrivateKeyAccount } from 'viem/accounts'
import type { PaymentCode, Refunding, Refused } from '../../../../../core/ports/mod.ts'
import type { Receipt } from '../../../../../core/x402/mod.ts'
import type { Hex } from '../../../lib/hex.ts'
import type { Rpc } from '../../../lib/json_rpc.ts'
import type { Reads } from '../../node/reads.ts'
import type { Relayer } from '../../node/relayer.ts'
import type { ChannelCosts } from '../costs.ts'
import type { ChannelDigests } from '../digests.ts'
import { PREFIX, type RefundRequest, refusedChannel } from '../payload.ts'
import { buyerOf, type ChannelState, channelStateOf, type Refund } from '../state.ts'
import { type ChannelStates } from '../records.ts'

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

/** A refund of everything that is left, whatever is charged meanwhile. No voucher asks for it: its owner was proven. */
export type ClosingRequest = Pick<RefundRequest, 'channelId' | 'config'> & {
  readonly kind: 'closing'
  /** The channel without what ends with the refund, as its record is once the refund is sent. */
  readonly closed: (state: ChannelState) => ChannelState
}

export type Request = RefundRequest | ClosingRequest

export const isClosing = (request: Request): request is ClosingRequest => request.kind === 'closing'

/** The channel as it is once this refund is sent. */
export const afterRefund = (request: Request, state: ChannelState): ChannelState =>
  isClosing(request) ? request.closed(state) : state

export function once(refunds: RefundParts, channelId: Hex, work: () => Promise<Refunding>): Promise<Refunding> {
  const running = refunds.sending.get(channelId)
  if (running) return running
  const started = work().finally(() => refunds.sending.delete(channelId))
  refunds.sending.set(channelId, started)
  return started
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

export const drop = (refunds: RefundParts, state: Refunded, now: number): Promise<ChannelState | undefined> =>
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

export type Refunded = ChannelState & { readonly refund: Refund }

export const isSent = (state: ChannelState | undefined): state is Refunded => state?.refund?.status === 'sent'

export const unknown = (reason: string): Refunding => ({ kind: 'unknown', reason })

/** Null for everything that is left. */
export const partOf = (request: Request): string | null =>
  isClosing(request) || request.amount === undefined ? null : String(request.amount)

/**
 * The most that a refund sends back: neither charged, nor reserved by calls that are open. A withdrawal under way would
 * take the rest of these calls, so what it takes stays beside them.
 */
export function leftOf({ reserved }: Pick<RefundsContext, 'reserved'>, state: ChannelState, now: number): bigint {
  const sum = reserved(state, now)
  const left = state.balance - state.charged - sum
  return sum > 0n ? left - state.withdrawing : left
}

const CODES: Readonly<Record<string, PaymentCode>> = {
  refund_amount_invalid: 'PAYMENT_INVALID',
  refund_owner_unproven: 'PAYMENT_REPLAY',
}

export function refusedRefund(problem: string, text: string, state: ChannelState): Refused {
  const code = CODES[problem] ?? 'PAYMENT_UNFUNDED'
  const corrected = { error: `${PREFIX}${problem}`, extra: { channelState: channelStateOf(state) } }
  return { ...refusedChannel(code, problem, text), corrected }
}
