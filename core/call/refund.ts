/**
 * A buyer who asks for what is left of its deposit (contract 1.86). It is not a call: nothing is worked on, sold or
 * written to the ledger.
 */
import type { Engine } from '../engine.ts'
import type { Reply } from '../http/reply.ts'
import { isRefundRequest } from '../x402/offer.ts'
import type { Asking } from './payment_required.ts'

/** The reply to a request whose payment asks for a refund, on any paid route; undefined for every other request. */
export function refund(engine: Engine, asking: Asking): Promise<Reply> | undefined {
  const { request, payment } = asking.requestContext
  if (!engine.ports.chain.refund || request.method === 'HEAD') return undefined
  if (!payment?.ok || !isRefundRequest(payment.payment)) return undefined
  return import('./refund_deposit.ts').then(({ refundDeposit }) => refundDeposit(engine, asking, payment.payment))
}
