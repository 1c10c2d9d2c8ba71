/** Answers a wallet that polls or collects its call: steps 4, 6, 11 and 12 for a call that is there already. */
import type { Engine } from '../engine.ts'
import type { Stored } from '../endpoint/mod.ts'
import { payingFor } from '../endpoint/charging.ts'
import * as demands from '../endpoint/demands.ts'
import * as replies from '../endpoint/replies.ts'
import { paymentHeader } from '../endpoint/request_context.ts'
import { ApiError } from '../http/errors.ts'
import type { Reply } from '../http/reply.ts'
import { wasHandedOut } from '../identity/proofs.ts'
import { isPaid, meaningOf, type Paying } from '../payment/outcome.ts'
import { settledMsOf } from '../payment/retention.ts'
import { knownWithin, settleCall } from '../payment/settlement/settle.ts'
import { within } from '../lib/timers.ts'
import type { Authorization, Call, OpenedKey } from '../ports/mod.ts'
import { chargesUse, isCumulative, isSamePaymentMethod } from '../x402/offer.ts'
import { type Offer, type Payment, refusalHeaders } from '../x402/protocol.ts'
import {
  type Collecting,
  type Collection,
  collectionOf,
  correctPayment,
  demandPayment,
  recovery,
  rejectPayment,
  runningReply,
} from './poll_payment_required.ts'
import { hrefOn, paidReply, storedOf, unsettledReply } from './work/result_replies.ts'
import { isSignedFor, pollProofs } from '../identity/poll_proofs.ts'
import { isStillThere, show } from './show.ts'

/** A collection that its wallet pays for. */
type PaidCollection = Collection & { readonly authorization: Authorization }

export async function collect(engine: Engine, collecting: Collecting): Promise<Reply> {
  const collection = await collectionOf(engine, collecting)
  const { request } = collection.requestContext
  // HEAD must change nothing, so it never pays.
  const header = request.method === 'HEAD' ? null : paymentHeader(request)
  const { apiKey } = collection.requestContext
  const isKey = apiKey && header === null && request.method !== 'HEAD'
  if (isKey && apiKey) return await settleProven(engine, await proveByKey(engine, collection, apiKey))
  if (header === null) {
    const state = collection.isProven ? await show(engine, collection) : { call: collection.found }
    return 'status' in state ? state : demandPayment(collection, demands.signToCollect)
  }
  const { payment: presented } = collection.requestContext
  if (!presented?.ok)
    return rejectPayment(collection, { code: 'PAYMENT_INVALID', reason: presented?.reason ?? 'there is no payment' })
  const wrong = await engine.charges?.problem(collection.requestContext)
  if (wrong) return rejectPayment(collection, { code: 'PAYMENT_INVALID', ...wrong })
  const proven = await prove(engine, collection, presented.payment)
  return 'status' in proven ? proven : await settleProven(engine, proven)
}

/** An API key proves that it has ordered: it is sent to nobody else, and its payment is of this call alone. */
async function proveByKey(engine: Engine, collection: Collection, apiKey: OpenedKey): Promise<PaidCollection> {
  const { found } = collection
  const { chain, clock } = engine.ports
  const ordered = { key: found.authorization, offer: found.offer }
  const paying = await within(clock, engine.settings.timeouts.verifyMs, async (signal) =>
    chain.apiKeys?.payAgain(apiKey, ordered, { now: clock.now(), signal }),
  )
  const identified = paying && (await engine.offers.identify(paying.payment, [paying.offer]))
  if (!paying || identified?.kind !== 'known')
    throw new ApiError('PAYER_MISMATCH', { message: 'This job was not submitted with this API key.' })
  const { key, expiresAt, offer } = identified
  const authorization = { key, payer: found.payer, payment: paying.payment, offer, expiresAt }
  return { ...collection, isRightful: true, authorization }
}

async function settleProven(engine: Engine, proven: PaidCollection): Promise<Reply> {
  const state = await show(engine, proven)
  return 'status' in state ? state : await settle(engine, proven, state.call)
}

/** Step 4: the payment proves that its caller is the wallet of the call. */
async function prove(engine: Engine, collection: Collection, payment: Payment): Promise<PaidCollection | Reply> {
  const { found, isKeyed = false } = collection
  const identified = await engine.offers.identify(payment, acceptedOffers(collection, payment))
  // Public clients give up on any status other than 202 and 504 (decision 66).
  if (identified.kind === 'unavailable') return runningReply(collection, found, { note: replies.CHAIN_AWAY })
  if (identified.kind === 'refused') return rejectPayment(collection, identified)
  const { key, expiresAt, offer, signer } = identified
  const payer = signer === found.payer ? signer : identified.payer
  const paying = payingFor(payment, collection.requestContext.payment, offer)
  const authorization: Authorization = { key, payer, payment: paying, offer, expiresAt }
  const proofs = pollProofs(engine.money, engine.identity.pollUrls)
  const isEnough = isKeyed && isSignedFor(found, { payer })
  const proof = isEnough ? { kind: 'proof' as const } : await proofs.authorization(found, authorization)
  if (proof.kind === 'stranger')
    throw new ApiError('PAYER_MISMATCH', { message: `This job was submitted by another wallet than ${payer}.` })
  if (proof.kind === 'unavailable') return runningReply(collection, found, { note: replies.CHAIN_AWAY })
  if (proof.kind === 'none') {
    // Who knows only an old state of its channel would sign the same voucher again.
    const verdict = isCumulative(offer) ? await engine.offers.verify(paying, offer) : undefined
    if (verdict?.kind === 'refused' && verdict.corrected)
      return correctPayment(collection, offer, { ...verdict, kind: 'rejected' })
    return demandPayment(collection, {
      ...demands.verificationFailed(proof.code, proof.reason),
      ...(proof.served && !wasHandedOut(proof.served) && (await recovery(engine, proof.served, true))),
    })
  }
  return { ...collection, isRightful: true, authorization }
}

/** The offers that a payment may be for. What was used is collection for in place of the quote (contract 1.75). */
function acceptedOffers({ found, offers }: Collection, { accepted }: Payment): readonly Offer[] {
  const isSame = (offer: Offer) => isSamePaymentMethod(offer, found.offer)
  const due = chargesUse(found.offer) ? offers.filter((offer) => isSame(offer) && offer.amount === accepted.amount) : []
  return [...due, found.offer, ...offers.filter((offer) => !isSame(offer))]
}

/** Step 11: settles the finished call. */
async function settle(engine: Engine, collection: PaidCollection, call: Call): Promise<Reply> {
  const { endpoint, authorization, now, isOrder = false } = collection
  if (!(await isStillThere(engine, endpoint, call)))
    throw new ApiError('NOT_FOUND', {
      message: 'The result expired before it was paid for. Nothing was charged; order it again.',
    })
  const stored = await storedOf(endpoint, call)
  const settling = settleCall(engine.money, call, authorization, {
    retainUntil: now + settledMsOf(call, endpoint.retention),
    by: isOrder ? 'reply' : 'poll',
  })
  const { receiptMs } = engine.settings.timeouts
  const paying = await (isOrder ? knownWithin(receiptMs, settling, engine.ports) : settling)
  return await replyTo(engine, { ...collection, call, stored }, paying)
}

/** Step 12: the result, or why it is not handed out. */
async function replyTo(
  engine: Engine,
  collected: PaidCollection & { readonly call: Call; readonly stored: Stored },
  paying: Paying,
): Promise<Reply> {
  const { endpoint, call, stored, requestContext, isOrder = false } = collected
  const answered = { endpoint, call, requestContext }
  if (isPaid(paying)) return paidReply(engine, answered, { stored, paid: paying })
  const { reply } = meaningOf(paying, { moment: isOrder && endpoint.delivery === 'inline' ? 'resend' : 'poll' })
  if (reply === 'pending') {
    const note = paying.kind === 'unknown' ? replies.CONFIRMING : replies.CHAIN_AWAY
    return runningReply(collected, call, { note })
  }
  if (reply === 'withhold') return await withheldReply(engine, collected, paying)
  if (paying.kind !== 'unresolved' && endpoint.delivery === 'inline')
    return unsettledReply(engine, { ...answered, endpoint }, { stored, why: paying.kind })
  const { label } = engine.gateway
  return replies.unsettled(endpoint, call, { stored, label, href: hrefOn(engine, requestContext) })
}

/** The payment was refused. */
async function withheldReply(
  engine: Engine,
  collection: PaidCollection,
  paying: Exclude<Paying, { kind: 'settled' | 'free' }>,
): Promise<Reply> {
  const { endpoint, authorization } = collection
  const { offer, payer } = authorization
  // The payment cannot be verified, and only a fresh signature helps (contract 2.14).
  if (paying.kind === 'rejected') return correctPayment(collection, offer, paying)
  if (paying.kind === 'replayed')
    return demandPayment(collection, {
      ...demands.verificationFailed('PAYMENT_REPLAY', 'the payment authorization was already used'),
      ...(await recovery(engine, paying.call, !wasHandedOut(paying.call))),
    })
  const headers = refusalHeaders({ reason: paying.reason, network: offer.network, payer })
  if (paying.kind === 'refused' && paying.code)
    return rejectPayment(collection, { code: paying.code, reason: paying.reason }, headers)
  return demandPayment(collection, replies.settlementFailed(paying.reason, endpoint), { headers })
}
