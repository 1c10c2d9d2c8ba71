/** Work that makes a result: inline while its window lasts, else as a job; and the polls that collect and pay for results. Steps 8 to 12. */
import {
  abandon,
  complete as completeCall,
  type Completion,
  fail,
  failIfOverdue,
  type SettleContext,
  type Paying,
  settleCall,
  STALLED,
} from '../payment/settle.ts'
import { within } from '../lib/timers.ts'
import { noteUnpaidCall, noteUncollectedJob } from '../payment/unpaid_calls.ts'
import { errorReply } from '../http/error_formats.ts'
import type { Hybrid, Inline, Job, Paid, Polled, Sold, Stored, UpstreamJob } from '../endpoint/mod.ts'
import type { Reply } from '../http/reply.ts'
import { keepFor, isForgotten } from '../endpoint/records.ts'
import { ApiError } from '../http/errors.ts'
import { callContextOf } from './call_context.ts'
import { type UpstreamJobs, upstreamJobs } from './upstream_job.ts'
import type { GatewayContext, OpenedCall } from './gateway_context.ts'
import { isWhole } from './media_mirror.ts'
import { gzipJson, gunzipJson } from '../lib/gzip_json.ts'
import type { Authorization, Call, PaymentCode } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import { judgeProof, wasHandedOut } from '../payment/proofs.ts'
import * as replies from '../endpoint/replies.ts'
import { keyIn } from './poll_urls.ts'
import { newId } from '../lib/ids.ts'
import { isSamePaymentMethod } from '../x402/offer.ts'
import type { Offers } from '../payment/offers.ts'
import { besideOf, gone, isTimely, paymentHeader, proofOf, resourceOf, type RequestContext } from './request_context.ts'
import { decodePayment, refusalHeaders } from '../x402/protocol.ts'

export type Jobs = {
  serve(working: OpenedCall<Paid>): Promise<Reply>
  /** The result of an order that costs nothing: no call is opened, and nothing is kept. Throws a Fault where there is none. */
  give(endpoint: Paid, input: unknown, requestContext: RequestContext): Promise<Reply>
  poll(endpoint: Polled, requestContext: RequestContext, id: string): Promise<Reply>
  /** What a wallet gets for a call that it has opened. */
  collect(endpoint: Sold, found: Call, collecting: Collecting): Promise<Reply>
  look: UpstreamJobs['look']
  /** How a replayed payment finds its call, with its key for the rightful; nothing, where the call can no longer be collected here. */
  recovery(call: Call, isRightful: boolean): Promise<replies.Body>
}

/** What a running job says beside its state. */
type Told = {
  readonly note?: string
  readonly progress?: number
  readonly elapsed_seconds?: number
  readonly poll_url?: string
}

/**
 * `more` joins the body of a 402. `isOrder`: this is the order itself, sent again, and not a poll. `isProven`: the wallet has signed for this poll.
 * `isKeyed`: the caller has shown that this is its call, by the poll key or as the order's sender; any authorization of the wallet will then do.
 */
export type Collecting = {
  readonly requestContext: RequestContext
  readonly running: (call: Call, told?: Told) => Reply
  readonly more?: replies.Body
  readonly isOrder?: boolean
  readonly isProven?: boolean
  readonly isKeyed?: boolean
}
type Showing = Pick<Collecting, 'running' | 'isOrder'> & {
  readonly collected: (call: Call, paid: IsPaid) => Promise<Reply>
  readonly now: number
}

/** Work that this process does. */
type Worked = Inline | Hybrid | Job

/** Nothing is left to pay. */
type IsPaid = Extract<Paying, { kind: 'settled' | 'free' }>
const isPaid = (paying: Paying): paying is IsPaid => paying.kind === 'settled' || paying.kind === 'free'

/** How long a poll waits to hear whether what it pays for is there. */
const STANDS_MS = 10_000

type Done =
  | { kind: 'made'; stored: Stored; raw: readonly string[]; completion: Completion }
  | { kind: 'failed'; apiError: ApiError }

export function jobs(gatewayContext: GatewayContext, offering: Offers): Jobs {
  const { ports, catalog, networks, timeouts, label } = gatewayContext
  const { storage, chain, clock, log, meter } = ports
  const money: SettleContext = { storage, chain, clock, log, meter, timeouts }
  const context = { catalog }
  const upstream = upstreamJobs(gatewayContext)
  const callContext = callContextOf(gatewayContext, offering)
  const pack = gzipJson()

  return { serve, give, poll, collect, recovery, look: upstream.look }

  /** Answers inline while the window lasts and the caller stays. The work goes on in any case. */
  async function serve(working: OpenedCall<Paid>): Promise<Reply> {
    const { endpoint, input, call, requestContext } = working
    if (endpoint.delivery === 'upstream_job')
      return await accepted(working, await upstream.submit({ ...working, endpoint }))
    if (endpoint.delivery === 'inline') return await serveAtOnce({ ...working, endpoint })
    const own = { ...working, endpoint }
    const windowMs = windowOf(endpoint, input)
    if (windowMs <= 0) {
      ports.background(workLater(own).catch((error) => release(call, error)))
      return await accepted(working, call)
    }
    const turn = { isSettling: false, isOver: false }
    const work = workInline(own, turn).catch((error) => release(call, error))
    ports.background(work)
    const waiting = new AbortController()
    const reply = await Promise.race([
      work,
      gone(requestContext.gone, waiting.signal),
      clock.wait(windowMs, waiting.signal).then(() => undefined),
    ])
    waiting.abort()
    if (reply) return reply
    if (turn.isSettling) return (await work) ?? (await envelope(endpoint, call))
    turn.isOver = true
    ports.background(begin(call))
    return await accepted(working, call)
  }

  /** How long an order is waited for in its own reply. What is a job at once stays one, whatever the gateway says of all others. */
  function windowOf(endpoint: Hybrid | Job, input: unknown): number {
    if (endpoint.delivery === 'job') return 0
    const { windowMs } = endpoint
    const own = typeof windowMs === 'number' ? windowMs : windowMs(input, context)
    return own === 0 ? 0 : (gatewayContext.inlineMs ?? own)
  }

  /** A job may outlive its authorization: it is noted, in case its wallet leaves it and orders others. */
  async function accepted({ endpoint, authorization }: OpenedCall<Paid>, call: Call): Promise<Reply> {
    const now = clock.now()
    await noteUncollectedJob({ storage, log }, call, {
      from: authorization.expiresAt,
      until: now + timeouts.unpaidBlockMs,
      now,
    })
    return await envelope(endpoint, call)
  }

  async function envelope(endpoint: Sold, call: Call, status: 'queued' | 'in_progress' = 'queued'): Promise<Reply> {
    return replies.envelope(endpoint, call, { key: await gatewayContext.pollUrls.keyOf(call.id), status })
  }

  async function give(endpoint: Paid, input: unknown, requestContext: RequestContext): Promise<Reply> {
    if (endpoint.delivery === 'upstream_job') throw new RangeError(`${endpoint.name}: an upstream job cannot be free`)
    const order = {
      id: newId(ports.random),
      input,
      payer: '',
      catalog,
      vendors: ports.vendors,
      networks,
      clock,
      now: clock.now(),
      records: storage,
    }
    try {
      const { result: made } = await within(clock, timeouts.answerMs, (signal) => endpoint.run({ ...order, signal }))
      const stored: Stored = { made, media: [], created: Math.floor(clock.now() / 1000) }
      return replies.bare(endpoint, { request: {} }, { stored, href: hrefOn(requestContext), headers: {} })
    } catch (error) {
      if (!(error instanceof ApiError))
        log.warn('work that costs nothing failed', { endpoint: endpoint.name, error: (error as Error).message })
      throw asApiError(endpoint, error)
    }
  }

  /** One shot: the result in this reply or not at all. The work goes on without its caller; its result then waits for a poll to pay. */
  async function serveAtOnce(working: OpenedCall<Inline>): Promise<Reply> {
    const work = workAtOnce(working).catch((error) => release(working.call, error))
    ports.background(work)
    return await work
  }

  /** Where the fate of its payment is unknown the result is served all the same (decision 16). */
  async function workAtOnce(working: OpenedCall<Inline>): Promise<Reply> {
    const { endpoint, call, requestContext, authorization } = working
    const done = await make(working, timeouts.answerMs)
    if (done.kind === 'failed') return failure(endpoint, call, done.apiError)
    if (requestContext.gone.aborted) {
      await complete(call, done.completion)
      await noteUnpaid(call)
      return await envelope(endpoint, call)
    }
    const retainUntil = clock.now() + endpoint.retention.settledMs
    const paying = await settleCall(money, call, authorization, {
      completion: done.completion,
      retainUntil,
      isDelivered: true,
    })
    if (isPaid(paying)) return result(working, done, paying)
    // What ended unsent can never be paid: it is withheld, though the chain cannot confirm that just now.
    const isLost = paying.kind === 'unavailable' && authorization.expiresAt <= clock.now()
    if (isLost)
      return replies.inlineRefusal(endpoint, call, {
        reason: paying.reason,
        key: await gatewayContext.pollUrls.keyOf(call.id),
      })
    if (paying.kind === 'unknown' || paying.kind === 'unresolved' || paying.kind === 'unavailable') {
      await noteUnpaid(call)
      return servedUnsettled(working, done.stored, paying.kind)
    }
    // Too short an authorization makes results lie as surely as a caller who leaves.
    if (authorization.expiresAt <= clock.now()) await noteUnpaid(call)
    if (endpoint.effects?.owed) await noteUnpaid(call)
    return await refusal(working, paying)
  }

  /** A wallet that lets results lie, or whose payment then fails, is not worked for without end. What costs nothing is never owed. */
  async function noteUnpaid(call: Call): Promise<void> {
    if (call.quote === 0n) return
    const now = clock.now()
    await noteUnpaidCall({ storage, log }, call, { now, until: now + timeouts.unpaidBlockMs })
  }

  /** Works, then settles at once, unless the inline turn is over or the caller has gone: the result then waits for a poll to pay. */
  async function workInline(
    working: OpenedCall<Worked>,
    turn: { isSettling: boolean; isOver: boolean },
  ): Promise<Reply | undefined> {
    const { endpoint, call, requestContext, authorization } = working
    const done = await make(working)
    if (done.kind === 'failed') return failure(endpoint, call, done.apiError)
    if (turn.isOver || requestContext.gone.aborted) return await complete(call, done.completion)
    turn.isSettling = true
    const retainUntil = clock.now() + endpoint.retention.settledMs
    const paying = await settleCall(money, call, authorization, { completion: done.completion, retainUntil })
    if (isPaid(paying)) return result(working, done, paying)
    if (paying.kind === 'unknown' || paying.kind === 'unresolved' || paying.kind === 'unavailable')
      return await envelope(endpoint, call, 'in_progress')
    return await refusal(working, paying)
  }

  /** Why a result that was made is not in the reply. One that came too late is not kept: its call had already failed. */
  async function refusal(
    { endpoint, call }: OpenedCall<Paid>,
    paying: Exclude<Paying, { kind: 'settled' | 'free' | 'unknown' | 'unresolved' | 'unavailable' }>,
  ): Promise<Reply> {
    const ended = await storage.getCall(call.id)
    if (ended?.error)
      return failure(endpoint, call, new ApiError('WORK_FAILED', { error: endpoint.failure, details: ended.error }))
    const reason = paying.kind === 'replayed' ? 'the authorization serves another call' : paying.reason
    return replies.inlineRefusal(endpoint, call, { reason, key: await gatewayContext.pollUrls.keyOf(call.id) })
  }

  async function workLater(working: OpenedCall<Worked>): Promise<void> {
    await begin(working.call)
    const done = await make(working)
    if (done.kind === 'made') await complete(working.call, done.completion)
  }

  async function begin(call: Call): Promise<void> {
    await storage.moveCall(
      call.id,
      { workStatus: ['queued'], workerId: gatewayContext.workerId },
      { workStatus: 'in_progress', startedAt: clock.now() },
    )
  }

  function release(call: Pick<Call, 'id'>, error: unknown): Promise<never> {
    return abandon(storage, call, { error, now: clock.now() })
  }

  /** Runs the work under the stall deadline and mirrors its media. A failure is recorded here, which frees the authorization. */
  async function make(working: OpenedCall<Worked>, deadlineMs = timeouts.stallMs): Promise<Done> {
    const { endpoint, input, call } = working
    const stallsAt = clock.now() + timeouts.stallMs
    try {
      const order = {
        id: call.id,
        input,
        payer: call.payer,
        catalog,
        vendors: ports.vendors,
        networks,
        clock,
        now: clock.now(),
        records: storage,
      }
      const made = await within(clock, deadlineMs, (signal) =>
        endpoint.run({ ...order, call: callContext(working, signal), signal }),
      )
      const media = await gatewayContext.mirror(call.id, made.media)
      if (!isWhole(media)) throw new Error('the result could neither be hosted nor linked')
      for (const record of made.recordsToStore?.(media) ?? [])
        await keepFor(storage, { ...record, owner: call.payer }, clock.now())
      const now = clock.now()
      const stored: Stored = { made: made.result, media, created: Math.floor(now / 1000) }
      return {
        kind: 'made',
        stored,
        raw: made.media?.urls ?? [],
        completion: {
          result: (await keptOf(endpoint, stored)) as unknown as Json,
          expiresAt: Math.min(now + endpoint.retention.unclaimedMs, made.until ?? Infinity),
        },
      }
    } catch (error) {
      const apiError = asApiError(endpoint, error)
      if (!(error instanceof ApiError))
        log.warn('work failed', { call: call.id, endpoint: endpoint.name, error: (error as Error).message })
      const now = clock.now()
      await fail(storage, call, now < stallsAt ? failureText(apiError) : STALLED, now)
      return { kind: 'failed', apiError }
    }
  }

  /** What was passed on may be megabytes. */
  async function keptOf(endpoint: Paid, stored: Stored): Promise<Stored> {
    return isVerbatim(endpoint) ? { ...stored, made: await pack(stored.made) } : stored
  }

  async function complete(call: Call, completion: Completion): Promise<undefined> {
    const isWon = await completeCall(money, call, completion)
    if (!isWon) log.warn('a result came too late: its call had already ended', { call: call.id })
  }

  function result(
    { endpoint, call, requestContext }: Pick<OpenedCall, 'endpoint' | 'call' | 'requestContext'>,
    { stored, raw }: { stored: Stored; raw?: readonly string[] },
    paid: IsPaid,
  ): Reply {
    const { receipt, now: isFirst } = paid.kind === 'settled' ? paid : { receipt: null, now: false }
    return replies.result(endpoint, call, {
      stored,
      receipt,
      label,
      href: hrefOn(requestContext),
      isFirst,
      ...(raw && { raw }),
    })
  }

  /** The result of a one shot although its payment has not settled; `why` is the class that its header names. */
  function servedUnsettled(
    { endpoint, call, requestContext }: Pick<OpenedCall<Paid>, 'endpoint' | 'call' | 'requestContext'>,
    stored: Stored,
    why: string,
  ): Reply {
    return replies.bare(endpoint, call, {
      stored,
      href: hrefOn(requestContext),
      headers: replies.unsettledHeaders(why),
      settlement: { success: false, tx_hash: '', network: label },
    })
  }

  // ── polls ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async function poll(route: Polled, requestContext: RequestContext, id: string): Promise<Reply> {
    const { of } = route
    const now = clock.now()
    const found = await storage.getCall(id)
    const isOurs = found && (of === 'all' || of.includes(found.endpoint))
    const endpoint = isOurs ? gatewayContext.sold.get(found.endpoint) : undefined
    const unknown = () =>
      new ApiError(route.signedQuery ? 'INVALID_JOB_ID' : 'JOB_NOT_FOUND', {
        message: 'There is no such job here: it never existed, or has expired.',
      })
    if (!found || !endpoint || found.gateway !== gatewayContext.name || isForgotten(found, now)) throw unknown()
    await gatewayContext.pollUrls.check(route, endpoint, { id, requestContext, now })
    const running = (call: Call, told?: Told) => replies.running(endpoint, call, told)
    // HEAD must change nothing and tell nothing, so it proves nothing.
    const proof =
      requestContext.request.method === 'HEAD'
        ? undefined
        : chain.proves && proofOf(requestContext.request, { job: endpoint.job, id })
    const isProven =
      proof !== undefined &&
      isTimely(proof, now) &&
      proof.wallet === found.payer &&
      (await chain.proves?.(proof)) === true
    // Whose proof does not hold is told what a stranger is told (contract 2.18).
    if (proof && !isProven) throw unknown()
    return await collect(endpoint, found, {
      requestContext,
      running,
      isProven,
      isKeyed: await gatewayContext.pollUrls.isKey(id, keyIn(requestContext.query)),
    })
  }

  async function collect(
    endpoint: Sold,
    found: Call,
    { requestContext, running: runs, more, isOrder = false, isProven = false, isKeyed = false }: Collecting,
  ): Promise<Reply> {
    const now = clock.now()
    const keyedUrl = replies.pollUrl(endpoint, found, await gatewayContext.pollUrls.keyOf(found.id))
    let isRightful = isKeyed || isProven
    // Who came without the key, and has proven the wallet, is given it: the next poll needs no proof.
    const running = (call: Call, told: Told = {}) =>
      runs(call, isRightful && !isKeyed ? { ...told, poll_url: keyedUrl } : told)
    const collected = async (call: Call, paid: IsPaid) =>
      result({ endpoint, call, requestContext }, { stored: await storedOf(endpoint, call) }, paid)
    const offers = offering.at({ amount: found.quote, maxTimeoutSeconds: found.offer.maxTimeoutSeconds }, [found.offer])
    const asking = {
      offers,
      resource: resourceOf(endpoint, requestContext),
      label,
      errorFormat: endpoint.errorFormat,
      beside: besideOf(requestContext.request),
    }
    const require = (why: replies.Body, headers: Readonly<Record<string, string>> = {}) => {
      const place = { job_id: found.id, poll_url: isRightful ? keyedUrl : replies.pollUrl(endpoint, found) }
      return replies.demand(
        { ...asking, headers },
        { ...more, ...place, ...why, model: found.model },
        replies.priceOf(found),
      )
    }
    const reject = (code: PaymentCode, reason: string) => require(replies.verificationFailed(code, reason))

    // HEAD must change nothing, so it never pays.
    const header = requestContext.request.method === 'HEAD' ? null : paymentHeader(requestContext.request)
    if (header === null) {
      const shown = isProven ? await show(endpoint, found, { running, collected, now }) : { call: found }
      return 'status' in shown ? shown : require(replies.signToCollect)
    }
    const decoded = decodePayment(header)
    if (!decoded.ok) return reject('PAYMENT_INVALID', decoded.reason)
    const identified = await offering.identify(decoded.payment, [
      found.offer,
      ...offers.filter((offer) => !isSamePaymentMethod(offer, found.offer)),
    ])
    // Public clients end a job on anything but 202 and 504 (decision 66).
    if (identified.kind === 'unavailable') return running(found, { note: replies.CHAIN_AWAY })
    if (identified.kind === 'refused') return reject(identified.code, identified.reason)
    const { payer, key, expiresAt, offer } = identified
    if (payer !== found.payer)
      throw new ApiError('PAYER_MISMATCH', { message: `This job was submitted by another wallet than ${payer}.` })

    const authorization: Authorization = { key, payer, payment: decoded.payment, offer, expiresAt }
    if (!isKeyed) {
      const proof = await judgeProof(money, found, authorization)
      if (proof.kind === 'unavailable') return running(found, { note: replies.CHAIN_AWAY })
      if (proof.kind === 'none')
        return require({
          ...replies.verificationFailed(proof.code, proof.reason),
          ...(proof.served && (await recovery(proof.served, !wasHandedOut(proof.served)))),
        })
      isRightful = true
    }

    const shown = await show(endpoint, found, { running, collected, now, isOrder })
    if ('status' in shown) return shown
    const { call } = shown
    if (!(await isThere(endpoint, call)))
      throw new ApiError('NOT_FOUND', {
        message: 'What was made has ended before it was paid for. Nothing was charged; order it again.',
      })
    const stored = await storedOf(endpoint, call)
    const paying = await settleCall(money, call, authorization, { retainUntil: now + endpoint.retention.settledMs })
    if (isPaid(paying)) return result({ endpoint, call, requestContext }, { stored }, paying)
    if (paying.kind === 'unknown' && isOrder && endpoint.delivery === 'inline')
      return servedUnsettled({ endpoint, call, requestContext }, stored, paying.kind)
    if (paying.kind === 'unknown') return running(call, { note: replies.CONFIRMING })
    if (paying.kind === 'unresolved')
      return replies.unsettled(endpoint, call, { stored, label, href: hrefOn(requestContext) })
    if (paying.kind === 'unavailable') return running(call, { note: replies.CHAIN_AWAY })
    // What only a fresh signature can mend is a payment that does not verify (contract 2.14).
    if (paying.kind === 'rejected' || (paying.kind === 'refused' && paying.code))
      return reject(paying.code ?? 'PAYMENT_INVALID', paying.reason)
    if (paying.kind === 'replayed') {
      return require({
        ...replies.verificationFailed('PAYMENT_REPLAY', 'the payment authorization was already used'),
        ...(await recovery(paying.call, !wasHandedOut(paying.call))),
      })
    }
    return require(replies.settlementFailed(paying.reason, endpoint), refusalHeaders({
      reason: paying.reason,
      network: offer.network,
      payer,
    }))
  }

  /** What may have been paid for already is there in any case. */
  async function isThere(endpoint: Sold, call: Call): Promise<boolean> {
    if (
      endpoint.delivery === 'stream' ||
      !endpoint.stands ||
      (call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused')
    )
      return true
    const { made } = call.result as unknown as Stored
    const asking = within(
      clock,
      STANDS_MS,
      async (signal) =>
        await endpoint.stands?.(made, {
          vendors: ports.vendors,
          signal,
          records: storage,
          now: clock.now(),
        }),
    )
    return (
      (await asking.catch(
        (error: Error) =>
          void log.warn('nobody could tell whether a result is still there', { call: call.id, error: error.message }),
      )) ?? true
    )
  }

  /** What one who has shown that the call is his is told of it; the call itself where only its money is missing. */
  async function show(
    endpoint: Sold,
    found: Call,
    { running, collected, now, isOrder = false }: Showing,
  ): Promise<Reply | { readonly call: Call }> {
    const known = await failIfOverdue(storage, found, { now, timeouts, living: gatewayContext.living })
    const { call, ...seen } =
      endpoint.delivery === 'upstream_job' ? await pollOnce(endpoint, known, isOrder) : { call: known }
    if (call.workStatus === 'failed')
      return replies.failed(
        endpoint,
        call,
        endpoint.delivery === 'upstream_job' ? await upstream.failure(call, now) : {},
      )
    if (call.workStatus !== 'completed') return running(call, seen)
    return call.receipt ? collected(call, { kind: 'settled', receipt: call.receipt, now: false }) : { call }
  }

  /** A vendor that cannot be asked is told to a poll where waiting helps, and never to the order itself; the job goes on. */
  async function pollOnce(endpoint: UpstreamJob, known: Call, isOrder: boolean): Promise<{ call: Call } & Told> {
    try {
      const { call, progress, elapsedSeconds } = await upstream.look(endpoint, known)
      return { call, elapsed_seconds: elapsedSeconds, ...(progress !== undefined && { progress }) }
    } catch (error) {
      if (!isOrder && error instanceof ApiError && (error.code === 'RATE_LIMITED' || error.code === 'UPSTREAM_TIMEOUT'))
        throw error
      if (!isOrder && (error as Error).name === 'TimeoutError')
        throw new ApiError('UPSTREAM_TIMEOUT', {
          message: 'The model could not be asked in time. The job goes on; poll again in a few seconds.',
        })
      log.warn('a job could not be looked at', { call: known.id, error: (error as Error).message })
      return { call: known }
    }
  }

  /** Where a hosted object is fetched: its store's public address, else this gateway under the origin that was called. */
  function hrefOn({ origin }: RequestContext): (key: string) => string {
    return (key) => ports.objects.url?.(key) ?? `${origin}/api/media/${key}`
  }

  async function recovery(call: Call, isRightful: boolean): Promise<replies.Body> {
    const endpoint = gatewayContext.sold.get(call.endpoint)
    const isHere = endpoint && call.gateway === gatewayContext.name && !isForgotten(call, clock.now())
    return isHere
      ? replies.recovery(endpoint, call, isRightful ? await gatewayContext.pollUrls.keyOf(call.id) : undefined)
      : {}
  }
}

async function storedOf(endpoint: Sold, { result }: Pick<Call, 'result'>): Promise<Stored> {
  const stored = result as unknown as Stored
  return isVerbatim(endpoint) ? { ...stored, made: await gunzipJson(stored.made) } : stored
}

const isVerbatim = (endpoint: Sold): boolean => endpoint.delivery === 'inline' && endpoint.verbatim === true

function asApiError(endpoint: Paid, error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (endpoint.errors?.includes('UPSTREAM_FAILED'))
    return new ApiError('UPSTREAM_FAILED', {
      message: 'The service behind this failed. Payment was NOT charged; the same request may be sent again.',
    })
  return new ApiError('WORK_FAILED', {
    error: endpoint.failure,
    details: 'The model did not deliver a result. Nothing was charged.',
  })
}

/** Why work failed, as the ledger keeps it and a poll says it. */
export function failureText({ message, parts }: ApiError): string {
  return typeof parts.details === 'string' ? `${message}: ${parts.details}` : message
}

/** An inline failure that is not the buyer's names its job (contract 5.48). */
function failure({ errorFormat }: Sold, call: Call, apiError: ApiError): Reply {
  if (apiError.code !== 'WORK_FAILED') return errorReply(apiError, errorFormat)
  return errorReply(
    new ApiError(apiError.code, { ...apiError.parts, fields: { ...apiError.parts.fields, job_id: call.id } }),
    errorFormat,
  )
}
