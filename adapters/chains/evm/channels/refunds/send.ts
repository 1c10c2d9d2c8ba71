/** Sends a refund that was requested, in one transaction with the claim of what is due. */
import type { Refunding, Refused } from '../../../../../core/ports/mod.ts'
import { numberIn } from '../../../lib/hex.ts'
import { unavailable } from '../../../lib/results.ts'
import type { ContractCall } from '../../node/multicall.ts'
import { allOf, claimCall, refundCall, refundIn, settleCall } from '../contract.ts'
import type { Reservation } from '../costs.ts'
import { overBudget } from '../payload.ts'
import { buyerOf, type ChannelState } from '../state.ts'
import { done, paidBefore } from './end.ts'
import {
  afterRefund,
  busy,
  drop,
  isClosing,
  isSent,
  leftOf,
  move,
  type Refunded,
  type RefundParts,
  refusedRefund,
  type Request,
  unknown,
} from './record.ts'
import { readMirror } from '../mirror.ts'

/** Gas of a claim with a refund, and of its simulation. */
const GAS = 300_000n

/** A refund that was sent and is not mined within this time is sent again by whoever asks. */
export const RESEND_MS = 60_000

/** Gas for a refund of this channel. Others may have used what was left of the wallet's since it was asked for. */
function reservation(refunds: RefundParts, state: ChannelState, now: number): Reserved | Refused {
  const reserved = refunds.costs.reserveRefund(buyerOf(state), now)
  if (reserved.kind === 'reserved') return reserved
  return overBudget('refund_transaction_failed', buyerOf(state), reserved.until)
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

async function transmit(
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

/** Claims what is due to the payee first: the contract would otherwise pay it back. */
async function callOf(refunds: RefundParts, state: Refunded): Promise<ContractCall> {
  const { channelId, config, ceiling, charged, claimed } = state
  const [amount, nonce] = [BigInt(state.refund.amount), BigInt(state.refund.nonce)]
  const signature = await refunds.authorizer.sign({ hash: refunds.digests.refund(channelId, { nonce, amount }) })
  const back = refundCall(config, { amount, nonce, signature })
  if (charged <= claimed) return allOf([back])
  const hash = refunds.digests.claims([{ channelId, ceiling, charged }])
  const claim = claimCall([state], await refunds.authorizer.sign({ hash }))
  return allOf([claim, back, settleCall(config.receiver, config.token)])
}

type Reserved = Extract<Reservation, { readonly kind: 'reserved' }>
