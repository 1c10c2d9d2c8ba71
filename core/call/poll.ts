/**
 * Polls: report the state of a call to its wallet, and settle a finished one. Steps 4, 6, 11 and 12 for an existing
 * call.
 */
import { hrefOn, paidReply, storedOf, unsettledReply } from './work/result_replies.ts'
import { failIfOverdue } from '../payment/settlement/fail.ts'
import { isPaid, meaningOf, type Paid as IsPaid, type Paying } from '../payment/outcome.ts'
import { knownWithin, settleCall } from '../payment/settlement/settle.ts'
import { settledMsOf } from '../payment/retention.ts'
import { within } from '../lib/timers.ts'
import type { Polled, Sold, Stored, UpstreamJob } from '../endpoint/mod.ts'
import type { Reply } from '../http/reply.ts'
import { isForgotten } from '../endpoint/records.ts'
import { ApiError } from '../http/errors.ts'
import { pollUpstream, upstreamFailure } from './delivery/upstream_poll.ts'
import type { Engine } from '../engine.ts'
import type { Authorization, Call, PaymentCode } from '../ports/mod.ts'
import { wasHandedOut } from '../identity/proofs.ts'
import type { SignedInAs } from '../x402/sign_in.ts'
import * as replies from '../endpoint/replies.ts'
import { isSignedFor, type PollJudged, pollProofs } from './poll_proofs.ts'
import { keyIn } from '../identity/poll_urls.ts'
import { chargesUse, isSamePaymentMethod, withCorrected } from '../x402/offer.ts'
import { besideOf, paymentHeader, proofOf, resourceOf, type RequestContext } from '../endpoint/request_context.ts'
import { decodePayment, type Offer, refusalHeaders } from '../x402/protocol.ts'

export type Polls = {
  poll(endpoint: Polled, requestContext: RequestContext, id: string): Promise<Reply>
  /** Answers a wallet that polls or collects its call. */
  collect(endpoint: Sold, found: Call, collecting: Collecting): Promise<Reply>
  /**
   * The fields by which a replayed payment finds its call, with the poll key for its rightful owner. Empty when the
   * call can no longer be collected here.
   */
  recovery(call: Call, isRightful: boolean): Promise<replies.Body>
}

/** What a poll of a running job reports beside its state. */
type RunningFields = {
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
  readonly requestContext: RequestContext
  readonly running: (call: Call, fields?: RunningFields) => Reply
  readonly more?: replies.Body
  readonly isOrder?: boolean
  readonly isProven?: boolean
  readonly isKeyed?: boolean
}
type Showing = Pick<Collecting, 'running' | 'isOrder'> & {
  readonly collected: (call: Call, paid: IsPaid) => Promise<Reply>
  readonly now: number
}

/** How long a poll waits to learn whether its result is still available. */
const STANDS_MS = 10_000

export function polls(engine: Engine): Polls {
  const { ports, money, offers: offering } = engine
  const { name, label } = engine.gateway
  const { timeouts } = engine.settings
  const { sold } = engine.products
  const { pollUrls, signIns } = engine.identity
  const { storage, chain, clock, log } = ports
  const proofs = pollProofs(money, pollUrls)

  return { poll, collect, recovery }

  async function poll(route: Polled, requestContext: RequestContext, id: string): Promise<Reply> {
    const { of } = route
    const now = clock.now()
    const found = await storage.getCall(id)
    const isOurs = found && (of === 'all' || of.includes(found.endpoint))
    const endpoint = isOurs ? sold.get(found.endpoint) : undefined
    const unknown = () =>
      new ApiError(route.signedQuery ? 'INVALID_JOB_ID' : 'JOB_NOT_FOUND', {
        message: 'There is no such job here: it never existed, or has expired.',
      })
    if (!found || !endpoint || found.gateway !== name || isForgotten(found, now)) throw unknown()
    await pollUrls.check(route, endpoint, { id, query: requestContext.query, now })
    const running = (call: Call, fields?: RunningFields) => replies.running(endpoint, call, fields)
    // HEAD must change nothing and reveal nothing, so it proves nothing.
    const signature =
      requestContext.request.method === 'HEAD'
        ? undefined
        : chain.proves && proofOf(requestContext.request, { job: endpoint.job, id })
    const isProof = ({ kind }: PollJudged) => kind === 'proof'
    // A caller with an invalid proof gets the same answer as a stranger (contract 2.18).
    if (signature && !isProof(await proofs.signature(found, signature))) throw unknown()
    const signedIn = await signedInWith(requestContext)
    const isSignedIn = signedIn.kind === 'wallet'
    if (isSignedIn && !isProof(await proofs.signIn(found, signedIn.wallet))) throw unknown()
    return await collect(endpoint, found, {
      requestContext,
      running,
      isProven: signature !== undefined || isSignedIn,
      ...(signedIn.kind === 'refused' && { more: { details: signedIn.reason } }),
      isKeyed: isProof(await proofs.pollKey(found, keyIn(requestContext.query))),
    })
  }

  /** A payment says more than a sign-in, and HEAD must change nothing: a sign-in is used up. */
  async function signedInWith(requestContext: RequestContext): Promise<SignedInAs> {
    const { request } = requestContext
    if (request.method === 'HEAD' || paymentHeader(request) !== null) return { kind: 'none' }
    return await signIns.wallet(request.headers, requestContext)
  }

  async function collect(
    endpoint: Sold,
    found: Call,
    { requestContext, running: runs, more, isOrder = false, isProven = false, isKeyed = false }: Collecting,
  ): Promise<Reply> {
    const now = clock.now()
    const keyedUrl = replies.pollUrl(endpoint, found, await pollUrls.keyOf(found.id))
    let isRightful = isKeyed || isProven
    // A caller without the key who has proven the wallet receives the key: the next poll needs no proof.
    const running = (call: Call, fields: RunningFields = {}) =>
      runs(call, isRightful && !isKeyed ? { ...fields, poll_url: keyedUrl } : fields)
    const collected = async (call: Call, paid: IsPaid) =>
      paidReply(engine, { endpoint, call, requestContext }, { stored: await storedOf(endpoint, call), paid })
    const offers = offering.at({ amount: replies.dueOf(found), maxTimeoutSeconds: found.offer.maxTimeoutSeconds }, [
      found.offer,
    ])
    const isPaying = isOrder || paymentHeader(requestContext.request) !== null
    const signIn = isPaying || isProven ? undefined : await signIns.challenge(requestContext)
    const asking = {
      offers,
      resource: { ...resourceOf(endpoint, requestContext), signIn },
      label,
      errorFormat: endpoint.errorFormat,
      beside: besideOf(requestContext.request),
    }
    const require = (
      why: replies.Body,
      headers: Readonly<Record<string, string>> = {},
      corrected: Partial<Pick<replies.Asking, 'offers' | 'resource'>> = {},
    ) => {
      const location = { job_id: found.id, poll_url: isRightful ? keyedUrl : replies.pollUrl(endpoint, found) }
      return replies.demand(
        { ...asking, ...corrected, headers },
        { ...more, ...location, ...why, model: found.model },
        replies.priceOf(found, replies.dueOf(found)),
      )
    }
    const reject = (code: PaymentCode, reason: string, headers: Readonly<Record<string, string>> = {}) =>
      require(replies.verificationFailed(code, reason), headers)
    /** With a correction the buyer can sign again from what the chain knows (contract 1.78). */
    const correct = (offer: Offer, { code, reason, corrected }: Extract<Paying, { kind: 'rejected' }>) => {
      if (!corrected) return reject(code, reason)
      const { extra, error } = corrected
      return require({ ...replies.verificationFailed(code, reason), error }, {}, {
        offers: withCorrected(offers, { offer, extra }),
        resource: { ...asking.resource, error },
      })
    }

    // HEAD must change nothing, so it never pays.
    const header = requestContext.request.method === 'HEAD' ? null : paymentHeader(requestContext.request)
    if (header === null) {
      const state = isProven ? await show(endpoint, found, { running, collected, now }) : { call: found }
      return 'status' in state ? state : require(replies.signToCollect)
    }
    const decoded = decodePayment(header)
    if (!decoded.ok) return reject('PAYMENT_INVALID', decoded.reason)
    const isSame = (offer: Offer) => isSamePaymentMethod(offer, found.offer)
    // What was used is asked for in place of the quote (contract 1.75).
    const { amount } = decoded.payment.accepted
    const due = chargesUse(found.offer) ? offers.filter((offer) => isSame(offer) && offer.amount === amount) : []
    const others = offers.filter((offer) => !isSame(offer))
    const identified = await offering.identify(decoded.payment, [...due, found.offer, ...others])
    // Public clients give up on any status other than 202 and 504 (decision 66).
    if (identified.kind === 'unavailable') return running(found, { note: replies.CHAIN_AWAY })
    if (identified.kind === 'refused') return reject(identified.code, identified.reason)
    const { key, expiresAt, offer, signer } = identified
    const payer = signer === found.payer ? signer : identified.payer
    const authorization: Authorization = { key, payer, payment: decoded.payment, offer, expiresAt }
    const isEnough = isKeyed && isSignedFor(found, { payer })
    const proof = isEnough ? { kind: 'proof' as const } : await proofs.authorization(found, authorization)
    if (proof.kind === 'stranger')
      throw new ApiError('PAYER_MISMATCH', { message: `This job was submitted by another wallet than ${payer}.` })
    if (proof.kind === 'unavailable') return running(found, { note: replies.CHAIN_AWAY })
    if (proof.kind === 'none')
      return require({
        ...replies.verificationFailed(proof.code, proof.reason),
        ...(proof.served && !wasHandedOut(proof.served) && (await recovery(proof.served, true))),
      })
    isRightful = true

    const state = await show(endpoint, found, { running, collected, now, isOrder })
    if ('status' in state) return state
    const { call } = state
    if (!(await isThere(endpoint, call)))
      throw new ApiError('NOT_FOUND', {
        message: 'The result expired before it was paid for. Nothing was charged; order it again.',
      })
    const stored = await storedOf(endpoint, call)
    const settling = settleCall(money, call, authorization, {
      retainUntil: now + settledMsOf(call, endpoint.retention),
      by: isOrder ? 'reply' : 'poll',
    })
    const paying = await (isOrder ? knownWithin(timeouts.receiptMs, settling, ports) : settling)
    if (isPaid(paying)) return paidReply(engine, { endpoint, call, requestContext }, { stored, paid: paying })
    const { reply } = meaningOf(paying, { moment: isOrder && endpoint.delivery === 'inline' ? 'resend' : 'poll' })
    if (reply === 'pending')
      return running(call, { note: paying.kind === 'unknown' ? replies.CONFIRMING : replies.CHAIN_AWAY })
    if (reply === 'serve' && paying.kind !== 'unresolved' && endpoint.delivery === 'inline')
      return unsettledReply(engine, { endpoint, call, requestContext }, { stored, why: paying.kind })
    if (reply === 'serve')
      return replies.unsettled(endpoint, call, { stored, label, href: hrefOn(engine, requestContext) })
    // The payment cannot be verified, and only a fresh signature helps (contract 2.14).
    if (paying.kind === 'rejected') return correct(offer, paying)
    const refusal = (reason: string) => refusalHeaders({ reason, network: offer.network, payer })
    if (paying.kind === 'refused' && paying.code) return reject(paying.code, paying.reason, refusal(paying.reason))
    if (paying.kind === 'replayed') {
      return require({
        ...replies.verificationFailed('PAYMENT_REPLAY', 'the payment authorization was already used'),
        ...(await recovery(paying.call, !wasHandedOut(paying.call))),
      })
    }
    return require(replies.settlementFailed(paying.reason, endpoint), refusal(paying.reason))
  }

  /** Whether the result is still available. Always true once it may have been paid for. */
  async function isThere(endpoint: Sold, call: Call): Promise<boolean> {
    if (
      endpoint.delivery === 'stream' ||
      !endpoint.isStillValid ||
      (call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused')
    )
      return true
    const { made } = call.result as unknown as Stored
    const asking = within(
      clock,
      STANDS_MS,
      async (signal) =>
        await endpoint.isStillValid?.(made, {
          vendors: ports.vendors,
          signal,
          records: storage,
          now: clock.now(),
        }),
    )
    return (
      (await asking.catch(
        (error: Error) =>
          void log.warn('could not check whether a result is still available', { call: call.id, error: error.message }),
      )) ?? true
    )
  }

  /**
   * Reports a call to a caller who has shown that it is theirs. Returns the call itself when only its payment is
   * missing.
   */
  async function show(
    endpoint: Sold,
    found: Call,
    { running, collected, now, isOrder = false }: Showing,
  ): Promise<Reply | { readonly call: Call }> {
    const known = await failIfOverdue(storage, found, { now, timeouts, activeCalls: engine.calls.active })
    const { call, ...seen } =
      endpoint.delivery === 'upstream_job' ? await pollOnce(endpoint, known, isOrder) : { call: known }
    if (call.workStatus === 'failed')
      return replies.failed(
        endpoint,
        call,
        endpoint.delivery === 'upstream_job' ? await upstreamFailure(storage, call, now) : {},
      )
    if (call.workStatus !== 'completed') return running(call, seen)
    return call.receipt ? collected(call, { kind: 'settled', receipt: call.receipt, now: false }) : { call }
  }

  /**
   * Polls the vendor. When it cannot be reached, a poll is told to wait and the job continues; an order gets no such
   * error.
   */
  async function pollOnce(
    endpoint: UpstreamJob,
    known: Call,
    isOrder: boolean,
  ): Promise<{ call: Call } & RunningFields> {
    try {
      const { call, progress, elapsedSeconds } = await pollUpstream(engine, endpoint, known)
      return { call, elapsed_seconds: elapsedSeconds, ...(progress !== undefined && { progress }) }
    } catch (error) {
      if (!isOrder && error instanceof ApiError && (error.code === 'RATE_LIMITED' || error.code === 'UPSTREAM_TIMEOUT'))
        throw error
      if (!isOrder && (error as Error).name === 'TimeoutError')
        throw new ApiError('UPSTREAM_TIMEOUT', {
          message: 'The model did not answer in time. The job continues; poll again in a few seconds.',
        })
      log.warn('an upstream job could not be polled', { call: known.id, error: (error as Error).message })
      return { call: known }
    }
  }

  async function recovery(call: Call, isRightful: boolean): Promise<replies.Body> {
    const endpoint = sold.get(call.endpoint)
    const isHere = endpoint && call.gateway === name && !isForgotten(call, clock.now())
    return isHere ? replies.recovery(endpoint, call, isRightful ? await pollUrls.keyOf(call.id) : undefined) : {}
  }
}
