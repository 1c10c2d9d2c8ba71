/**
 * A buyer who asks for what is left of its deposit (contract 1.86). It is no call: nothing is worked on, sold or
 * written to the ledger.
 */
import type { Free, Price, Sold } from '../../endpoint/mod.ts'
import * as replies from '../../endpoint/replies.ts'
import { ApiError } from '../../http/errors.ts'
import { json, type Reply } from '../../http/reply.ts'
import { within } from '../../lib/timers.ts'
import type { Offers } from '../../payment/offers.ts'
import type { Timeouts } from '../../payment/timeouts.ts'
import { silent } from '../../ports/meter.ts'
import type { Call, Ports, Refunding } from '../../ports/mod.ts'
import { parseAtomic, print, usdc } from '../../x402/money.ts'
import { fits, isRefundRequest, notOnOffer, withCorrected } from '../../x402/offer.ts'
import { type Decoded, type Offer, type Payment, receiptHeaders, refusalHeaders } from '../../x402/protocol.ts'

/** A request, with what its payment header says. */
type PayingRequest = { readonly request: Request; readonly payment: Decoded | undefined; readonly ip: string }

/** Makes a 402, as for orders. */
type Demand<Context> = (
  endpoint: Sold | Free,
  context: Context,
  demanded: { price: Price; offers: readonly Offer[]; why: replies.Body; error?: string },
) => Reply

type RefundsContext<Context> = {
  readonly ports: Pick<Ports, 'chain' | 'storage' | 'clock' | 'log' | 'meter'>
  readonly timeouts: Pick<Timeouts, 'settleMs'>
  readonly pollUrls: { isFrom(call: Pick<Call, 'id' | 'request'>, ip: string): Promise<boolean> }
  readonly offering: Pick<Offers, 'at'>
  readonly demand: Demand<Context>
}

/** What a refund costs, and what its voucher adds to the channel. */
const NOTHING: Price = { amount: usdc(0n), maxTimeoutSeconds: 300, publicPrice: {} }

/** The reply to a request whose payment asks for a refund, on any paid route; undefined for every other request. */
export function refunds<Context extends PayingRequest>({
  ports,
  timeouts,
  pollUrls,
  offering,
  demand,
}: RefundsContext<Context>): (endpoint: Sold | Free, context: Context) => Promise<Reply> | undefined {
  const { chain, storage, clock, log, meter = silent } = ports

  return function refundOf(endpoint, context) {
    if (!chain.refund || context.request.method === 'HEAD') return undefined
    const { payment: decoded } = context
    if (!decoded?.ok || !isRefundRequest(decoded.payment)) return undefined
    return refund(endpoint, context, decoded.payment)
  }

  async function refund(endpoint: Sold | Free, context: Context, payment: Payment): Promise<Reply> {
    const offers = offering.at(NOTHING)
    const offer = offers.find((each) => fits(each, payment.accepted))
    const refunding = offer ? await ask(payment, offer, context.ip) : notOffered(payment, offers)
    if (refunding.kind === 'unavailable') throw replies.cannotVerify(refunding.reason)
    if (refunding.kind === 'unknown') throw pending(refunding.reason, payment.accepted.network)
    if (refunding.kind === 'refused') {
      meter.judged(refunding.code)
      const { code, reason, corrected } = refunding
      const { toSign: _, ...reply } = demand(endpoint, context, {
        offers: corrected && offer ? withCorrected(offers, { offer, extra: corrected.extra }) : offers,
        price: NOTHING,
        why: { ...replies.verificationFailed(code, reason), ...(corrected && { error: corrected.error }) },
        ...(corrected && { error: corrected.error }),
      })
      return reply
    }
    const { receipt } = refunding
    const { payer, network, transaction } = receipt
    const paidBack = parseAtomic(receipt.amount) ?? usdc(0n)
    const amount = print(paidBack)
    if (!refunding.isRepeated) meter.refunded?.(paidBack)
    if (!refunding.isRepeated) log.info('a deposit was refunded', { payer, network, amount, transaction })
    const body = { object: 'refund', status: 'refunded', payer, network, transaction, amount, currency: 'USDC' }
    const reply = json(200, body, { 'cache-control': 'private, no-store', ...receiptHeaders(receipt) })
    return { ...reply, toSign: { isReceipt: false } }
  }

  async function ask(payment: Payment, offer: Offer, ip: string): Promise<Refunding> {
    const isFrom = (key: string) => isOrderedFrom(key, ip)
    try {
      const refunding = await within(clock, timeouts.settleMs, async (signal) =>
        chain.refund?.(payment, offer, { now: clock.now(), signal, isFree, isFrom }),
      )
      return refunding ?? { kind: 'unavailable', reason: 'nothing can be deposited here' }
    } catch (error) {
      return { kind: 'unknown', reason: (error as Error).message }
    }
  }

  /** A call that failed frees its key. One that was settled has moved the channel on. */
  async function isFree(key: string): Promise<boolean> {
    return (await storage.callOf(key, clock.now())) === undefined
  }

  async function isOrderedFrom(key: string, ip: string): Promise<boolean> {
    const call = await storage.callOf(key, clock.now())
    return call !== undefined && (await pollUrls.isFrom(call, ip))
  }
}

const notOffered = ({ accepted }: Payment, offers: readonly Offer[]): Refunding => ({
  kind: 'refused',
  code: 'PAYMENT_INVALID',
  reason: notOnOffer(accepted, offers),
})

/** It may have been sent: the same request learns its outcome, and never refunds twice. */
function pending(reason: string, network: string): ApiError {
  return new ApiError('NOT_READY', {
    message: 'The refund may be under way, and is not confirmed yet. Send the same request again for its outcome.',
    details: reason,
    headers: { 'retry-after': '5', ...refusalHeaders({ reason: 'settlement_pending', network, payer: '' }) },
  })
}
