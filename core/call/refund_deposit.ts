/** Sends the rest of a deposit back to its payer, and says what came of it. */
import type { Engine } from '../engine.ts'
import type { Price } from '../endpoint/mod.ts'
import * as demands from '../endpoint/demands.ts'
import { ApiError } from '../http/errors.ts'
import { json, type Reply } from '../http/reply.ts'
import { within } from '../lib/timers.ts'
import { silent } from '../ports/meter.ts'
import type { Refunding } from '../ports/mod.ts'
import { parseAtomic, print, usdc } from '../x402/money.ts'
import { fits, notOnOffer, withCorrected } from '../x402/offer.ts'
import { type Offer, type Payment, receiptHeaders, refusalHeaders } from '../x402/protocol.ts'
import { type Asking, demand } from './payment_required.ts'

/** Price of a refund, and the amount that its voucher adds to the channel. */
const NOTHING: Price = { amount: usdc(0n), maxTimeoutSeconds: 300, publicPrice: {} }

/** The reply to a request for the rest of a deposit: the refund, a 402 that says why not, or NOT_READY. */
export async function refundDeposit(engine: Engine, asking: Asking, payment: Payment): Promise<Reply> {
  const offers = engine.offers.at(NOTHING)
  const offer = offers.find((each) => fits(each, payment.accepted))
  const refunding = offer
    ? await ask(engine, { payment, offer, ip: asking.requestContext.ip })
    : notOffered(payment, offers)
  if (refunding.kind === 'unavailable') throw demands.cannotVerify(refunding.reason)
  if (refunding.kind === 'unknown') throw pending(refunding.reason, payment.accepted.network)
  if (refunding.kind === 'refused') return refused(engine, asking, { refunding, offers, offer })
  const { log, meter = silent } = engine.ports
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

/** A 402 that no signature covers: nothing is on sale here. */
function refused(
  engine: Engine,
  asking: Asking,
  {
    refunding: { code, reason, corrected },
    offers,
    offer,
  }: {
    readonly refunding: Extract<Refunding, { kind: 'refused' }>
    readonly offers: readonly Offer[]
    readonly offer: Offer | undefined
  },
): Reply {
  const { meter = silent } = engine.ports
  meter.judged(code)
  const { toSign: _, ...reply } = demand(engine, asking, {
    offers: corrected && offer ? withCorrected(offers, { offer, extra: corrected.extra }) : offers,
    price: NOTHING,
    why: { ...demands.verificationFailed(code, reason), ...(corrected && { error: corrected.error }) },
    ...(corrected && { error: corrected.error }),
  })
  return reply
}

async function ask(
  { ports, settings, identity }: Engine,
  { payment, offer, ip }: { readonly payment: Payment; readonly offer: Offer; readonly ip: string },
): Promise<Refunding> {
  const { chain, storage, clock } = ports
  const callOf = (key: string) => storage.callOf(key, clock.now())
  /** A call that failed frees its key. One that was settled has moved the channel on. */
  const isFree = async (key: string) => (await callOf(key)) === undefined
  const isFrom = async (key: string) => {
    const call = await callOf(key)
    return call !== undefined && (await identity.pollUrls.isFrom(call, ip))
  }
  try {
    const refunding = await within(clock, settings.timeouts.settleMs, async (signal) =>
      chain.refund?.(payment, offer, { now: clock.now(), signal, isFree, isFrom }),
    )
    return refunding ?? { kind: 'unavailable', reason: 'nothing can be deposited here' }
  } catch (error) {
    return { kind: 'unknown', reason: (error as Error).message }
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
