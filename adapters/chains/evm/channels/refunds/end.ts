/** Ends a refund: notes what the chain shows of it, and frees a channel whose request nobody sent. */
import type { Refunding } from '../../../../../core/ports/mod.ts'
import { type Hex, hexOf } from '../../../lib/hex.ts'
import { parseLogs } from '../../node/token.ts'
import { refundIn, refundLogs } from '../contract.ts'
import { type ChannelState, gasPaidWith, isRefunding, type Refund, withMirror } from '../state.ts'
import { drop, isSent, move, once, receiptOf, type Refunded, type RefundParts, unknown } from './record.ts'
import { readMirror } from '../mirror.ts'

/** A refund that was requested and not sent within this time lets purchases go on: its process is gone. */
const REQUESTED_MS = 60_000

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

type Paid = { readonly amount: bigint; readonly transactionHash?: Hex }

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
