/** Hands a payment to the API, and reads its outcome from the transfers where the answer leaves it open. */
import type { Settlement } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import type { ApiFailure } from '../../facilitator/api.ts'
import type { PendingSettlement } from '../../lib/in_flight.ts'
import type { CallOptions } from '../../lib/results.ts'
import { checkValue } from '../exact/payload.ts'
import type { BatchedSettleReply } from './api.ts'
import { find, rememberPaid, type TransferSearch } from './fate.ts'
import { type BatchedPayment, settleRequest } from './payload.ts'
import type { BatchedParts } from './scheme.ts'

export async function settle(
  parts: BatchedParts,
  payment: Payment,
  offer: Offer,
  at: CallOptions,
): Promise<Settlement> {
  const parsed = parts.parse(payment, offer)
  if ('kind' in parsed) return { kind: 'refused', reason: parsed.reason }
  const refusal = checkValue(parsed.exact, offer)
  if (refusal) return { kind: 'refused', reason: refusal.reason }
  const receipt = parts.paid.get(parsed.key)
  if (receipt) return { kind: 'settled', receipt }
  if (at.signal.aborted || parts.closed) return { kind: 'unknown', reason: 'no time left to settle' }
  if (at.now >= parsed.endsAt && !parts.settlements.has(parsed.digest))
    return settlementFrom(await find(parts, parsed, offer, at), {
      kind: 'refused',
      reason: 'the authorization is expired',
    })
  return await parts.settlements.settle(
    parsed.digest,
    (pending) => send(parts, parsed, offer, { now: at.now, pending }),
    at.signal,
  )
}

async function send(
  parts: BatchedParts,
  parsed: BatchedPayment,
  offer: Offer,
  { now, pending }: { now: number; pending: PendingSettlement },
): Promise<Settlement> {
  const { key, exact } = parsed
  const response = await parts.api.settle(settleRequest(exact, offer, parts.resource), {
    now,
    timeoutMs: parts.settleMs,
  })
  pending.isSending = false
  const sent = response.kind === 'result' ? response.value : response
  if (sent.kind === 'accepted') return { kind: 'settled', receipt: rememberPaid(parts, parsed, offer, sent.transfer) }
  if (sent.kind === 'failure' && !sent.unsent) parts.submitted.set(key, true)
  return settlementFrom(await find(parts, parsed, offer, { now }), outcomeOf(sent, parts.submitted.get(key) === true))
}

type NotAccepted = Exclude<BatchedSettleReply, { kind: 'accepted' }> | ApiFailure

function settlementFrom(
  found: TransferSearch,
  whileOpen: Extract<Settlement, { kind: 'refused' | 'unknown' }>,
): Settlement {
  if (found.kind === 'paid') return { kind: 'settled', receipt: found.receipt }
  if (found.kind === 'dead')
    return {
      kind: 'refused',
      reason: 'the authorization is dead: its nonce was used for another transfer, or its transfer failed',
    }
  return whileOpen
}

/**
 * A refusal is not final if the authorization may have been accepted before: the API checks the balance before the
 * nonce.
 */
function outcomeOf(response: NotAccepted, wasSubmitted: boolean): Extract<Settlement, { kind: 'refused' | 'unknown' }> {
  if (response.kind === 'failure')
    return {
      kind: 'unknown',
      reason: `${response.unsent ? 'nothing was sent' : 'it may have been sent'}: ${response.reason}`,
    }
  if (response.kind === 'used' || wasSubmitted)
    return { kind: 'unknown', reason: `${response.reason}: the authorization may have been taken before` }
  return { kind: 'refused', reason: `${response.reason}: the API refused the payment` }
}
