/** The 402 of a wallet that polls or collects its call: what would pay for it, or show that it is theirs. */
import type { Engine } from '../engine.ts'
import type { Sold } from '../endpoint/mod.ts'
import { isForgotten } from '../endpoint/records.ts'
import { problemOf } from '../endpoint/charging.ts'
import * as demands from '../endpoint/demands.ts'
import * as replies from '../endpoint/replies.ts'
import { besideOf, paymentHeader, type RequestContext, resourceOf } from '../endpoint/request_context.ts'
import type { Reply } from '../http/reply.ts'
import type { Paying } from '../payment/outcome.ts'
import type { Call, PaymentCode } from '../ports/mod.ts'
import type { Problem } from '../mpp/problem.ts'
import { chargingFor } from './payment_required.ts'
import { withCorrected } from '../x402/offer.ts'
import type { Offer } from '../x402/protocol.ts'

/** Fields of a poll of a running job beside its state. */
export type RunningFields = {
  readonly note?: string
  readonly progress?: number
  readonly elapsed_seconds?: number
  readonly poll_url?: string
}

/**
 * `more` is added to the body of a 402. `isOrder`: this is the order itself sent again, not a poll. `isProven`: the
 * wallet has signed for this poll. `isKeyed`: the caller has shown the poll key or has sent the order; any
 * authorization of the wallet is then accepted.
 */
export type Collecting = {
  readonly endpoint: Sold
  readonly found: Call
  readonly requestContext: RequestContext
  readonly running: (call: Call, fields?: RunningFields) => Reply
  readonly more?: demands.Body
  readonly isOrder?: boolean
  readonly isProven?: boolean
  readonly isKeyed?: boolean
}

/** With what its 402s ask for. `isRightful`: the caller may have the poll key. */
export type Collection = Collecting & {
  readonly isRightful: boolean
  readonly keyedUrl: string
  readonly offers: readonly Offer[]
  readonly asking: Omit<demands.Asking, 'offers'>
  readonly now: number
}

export async function collectionOf(engine: Engine, collecting: Collecting): Promise<Collection> {
  const { endpoint, found, requestContext, isOrder = false, isProven = false, isKeyed = false } = collecting
  const { pollUrls, signIns } = engine.identity
  const now = engine.ports.clock.now()
  const keyedUrl = replies.pollUrl(endpoint, found, await pollUrls.keyOf(found.id))
  const price = { amount: replies.dueOf(found), maxTimeoutSeconds: found.offer.maxTimeoutSeconds }
  const offers = engine.offers.at(price, [found.offer])
  const isPaying = isOrder || paymentHeader(requestContext.request) !== null
  const signIn = isPaying || isProven ? undefined : await signIns.challenge(requestContext)
  const asking = {
    resource: { ...resourceOf(endpoint, requestContext), signIn },
    label: engine.gateway.label,
    errorFormat: endpoint.errorFormat,
    help: demands.helpAt(requestContext.origin, engine.gateway.documents),
    beside: besideOf(requestContext.request),
    charging: chargingFor(engine, requestContext, offers),
  }
  return { ...collecting, isRightful: isKeyed || isProven, keyedUrl, offers, asking, now }
}

/** 202: the job runs. A caller without the key who has proven the wallet receives it: the next poll needs no proof. */
export function runningReply(collection: Collection, call: Call, fields: RunningFields = {}): Reply {
  const { running, isRightful, isKeyed = false, keyedUrl } = collection
  return running(call, isRightful && !isKeyed ? { ...fields, poll_url: keyedUrl } : fields)
}

/** 402: the call is there, and `why` it is not handed out. */
export function demandPayment(
  { endpoint, found, more, isRightful, keyedUrl, offers, asking, requestContext }: Collection,
  why: demands.Body,
  corrected: Partial<Pick<demands.Asking, 'headers' | 'offers' | 'resource' | 'problem'>> = {},
): Reply {
  const location = { job_id: found.id, poll_url: isRightful ? keyedUrl : replies.pollUrl(endpoint, found) }
  return demands.demand(
    { ...asking, offers, problem: requestContext.payment ? 'verification-failed' : 'payment-required', ...corrected },
    { ...more, ...location, ...why, model: found.model },
    replies.priceOf(found, replies.dueOf(found)),
  )
}

export function rejectPayment(
  collection: Collection,
  { code, reason, problem }: { readonly code: PaymentCode; readonly reason: string; readonly problem?: Problem },
  headers: Readonly<Record<string, string>> = {},
): Reply {
  const { offers, now, requestContext } = collection
  const why = problem ?? problemOf(requestContext.payment, { code, offers, now })
  return demandPayment(collection, demands.verificationFailed(code, reason), { headers, problem: why })
}

/** With a correction the buyer can sign again from what the chain knows (contract 1.78). */
export function correctPayment(
  collection: Collection,
  offer: Offer,
  { code, reason, corrected }: Extract<Paying, { kind: 'rejected' }>,
): Reply {
  if (!corrected) return rejectPayment(collection, { code, reason })
  const { extra, error } = corrected
  return demandPayment(
    collection,
    { ...demands.verificationFailed(code, reason), error },
    {
      offers: withCorrected(collection.offers, { offer, extra }),
      resource: { ...collection.asking.resource, error },
    },
  )
}

/**
 * The fields by which a replayed payment finds its call, with the poll key for its rightful owner. Empty when the call
 * can no longer be collected here.
 */
export async function recovery(engine: Engine, call: Call, isRightful: boolean): Promise<demands.Body> {
  const endpoint = engine.products.sold.get(call.endpoint)
  const isHere = endpoint && call.gateway === engine.gateway.name && !isForgotten(call, engine.ports.clock.now())
  return isHere
    ? replies.recovery(endpoint, call, isRightful ? await engine.identity.pollUrls.keyOf(call.id) : undefined)
    : {}
}
