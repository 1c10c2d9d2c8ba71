/** Steps 8 to 12 for calls that make a result: answered in the reply within the inline window, otherwise as a job. */
import { isPaid, isVerbatim, results } from './result.ts'
import { complete as completeCall } from '../payment/settlement/complete.ts'
import { abandon, fail, STALLED } from '../payment/settlement/fail.ts'
import type { Completion, Paying } from '../payment/settlement/paying.ts'
import { settleCall } from '../payment/settlement/settle.ts'
import { within } from '../lib/timers.ts'
import { noteUnpaidCall, noteUncollectedJob } from '../payment/unpaid/unpaid_calls.ts'
import { errorReply } from '../http/error_formats.ts'
import type { Hybrid, Inline, Job, Paid, Sold, Stored } from '../endpoint/mod.ts'
import type { Reply } from '../http/reply.ts'
import { storeRecords } from '../endpoint/records.ts'
import { ApiError, vendorErrorOf } from '../http/errors.ts'
import { callContextOf } from './call_context.ts'
import type { UpstreamJobs } from './upstream_job.ts'
import type { Engine } from '../engine.ts'
import type { OpenedCall } from './order.ts'
import { isWhole } from './media_mirror.ts'
import { gzipJson } from '../lib/gzip_json.ts'
import type { Call } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import * as replies from '../endpoint/replies.ts'
import { newId } from '../lib/ids.ts'
import { gone, type RequestContext } from './request_context.ts'

export type Jobs = {
  serve(working: OpenedCall<Paid>): Promise<Reply>
  /** Serves a free order. No call is opened and nothing is stored. Throws an ApiError when the work fails. */
  serveFree(endpoint: Paid, input: unknown, requestContext: RequestContext): Promise<Reply>
}

/** Deliveries whose work runs in this process. */
type Worked = Inline | Hybrid | Job

type Done =
  | { kind: 'made'; stored: Stored; raw: readonly string[]; completion: Completion }
  | { kind: 'failed'; apiError: ApiError }

/** How long a reply waits past its inline window for a settlement in flight (contract 2.28). */
const SETTLE_GRACE_MS = 3_000

export function jobs(engine: Engine, upstream: UpstreamJobs): Jobs {
  const { ports, money, mirror } = engine
  const { timeouts } = engine.settings
  const { catalog } = engine.products
  const { networks, workerId } = engine.gateway
  const { pollUrls } = engine.identity
  const { storage, clock, log } = ports
  const context = { catalog }
  const callContext = callContextOf(engine)
  const pack = gzipJson()

  const { result, servedUnsettled, hrefOn } = results(engine)

  return { serve, serveFree }

  /** Answers inline while the window is open and the caller is connected. The work continues in either case. */
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
    if (turn.isSettling) {
      const late = new AbortController()
      const settled = await Promise.race([work, clock.wait(SETTLE_GRACE_MS, late.signal).then(() => undefined)])
      late.abort()
      return settled ?? (await accepted(working, call, 'in_progress'))
    }
    turn.isOver = true
    ports.background(begin(call))
    return await accepted(working, call)
  }

  /**
   * The inline window in milliseconds. An order that is a job from the start stays one, whatever the gateway overrides.
   */
  function windowOf(endpoint: Hybrid | Job, input: unknown): number {
    if (endpoint.delivery === 'job') return 0
    const { windowMs } = endpoint
    const own = typeof windowMs === 'number' ? windowMs : windowMs(input, context)
    return own === 0 ? 0 : (engine.settings.inlineMs ?? own)
  }

  /**
   * Replies 202. The job may outlive its authorization, so it is recorded as unpaid in case the wallet abandons it and
   * orders others.
   */
  async function accepted(
    { endpoint, authorization }: OpenedCall<Paid>,
    call: Call,
    status?: 'in_progress',
  ): Promise<Reply> {
    const now = clock.now()
    await noteUncollectedJob({ storage, log }, call, {
      from: authorization.expiresAt,
      until: now + timeouts.unpaidBlockMs,
      now,
    })
    return await envelope(endpoint, call, status)
  }

  async function envelope(endpoint: Sold, call: Call, status: 'queued' | 'in_progress' = 'queued'): Promise<Reply> {
    return replies.envelope(endpoint, call, { key: await pollUrls.keyOf(call.id), status })
  }

  async function serveFree(endpoint: Paid, input: unknown, requestContext: RequestContext): Promise<Reply> {
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

  /**
   * Inline delivery: the result is in this reply or not served at all. If the caller disconnects, the work continues
   * and a poll pays for its result.
   */
  async function serveAtOnce(working: OpenedCall<Inline>): Promise<Reply> {
    const work = workAtOnce(working).catch((error) => release(working.call, error))
    ports.background(work)
    return await work
  }

  /** When the outcome of the settlement is unknown, the result is served anyway (decision 16). */
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
    // An authorization that expired unsent can never be settled, so the result is withheld even though the chain cannot
    // confirm this now.
    const isLost = paying.kind === 'unavailable' && authorization.expiresAt <= clock.now()
    if (isLost)
      return replies.inlineRefusal(endpoint, call, {
        reason: paying.reason,
        key: await pollUrls.keyOf(call.id),
      })
    if (paying.kind === 'unknown' || paying.kind === 'unresolved' || paying.kind === 'unavailable') {
      await noteUnpaid(call)
      return servedUnsettled(working, done.stored, paying.kind)
    }
    // An authorization that is too short leaves a result uncollected, just as a caller who disconnects does.
    if (authorization.expiresAt <= clock.now()) await noteUnpaid(call)
    if (endpoint.effects?.costsOperator) await noteUnpaid(call)
    return await refusal(working, paying)
  }

  /**
   * Records an unpaid result, so that a wallet that abandons results or whose payments fail is eventually blocked. Free
   * calls are never owed.
   */
  async function noteUnpaid(call: Call): Promise<void> {
    if (call.quote === 0n) return
    const now = clock.now()
    await noteUnpaidCall({ storage, log }, call, { now, until: now + timeouts.unpaidBlockMs })
  }

  /**
   * Runs the work, then settles at once. If the inline window has closed or the caller has left, the result waits for a
   * poll to pay.
   */
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

  /**
   * Why a finished result is not in the reply. A result that came too late is not stored: its call had already failed.
   */
  async function refusal(
    { endpoint, call }: OpenedCall<Paid>,
    paying: Exclude<Paying, { kind: 'settled' | 'free' | 'unknown' | 'unresolved' | 'unavailable' }>,
  ): Promise<Reply> {
    const ended = await storage.getCall(call.id)
    if (ended?.error)
      return failure(endpoint, call, new ApiError('WORK_FAILED', { error: endpoint.failure, details: ended.error }))
    const reason = paying.kind === 'replayed' ? 'the authorization serves another call' : paying.reason
    return replies.inlineRefusal(endpoint, call, { reason, key: await pollUrls.keyOf(call.id) })
  }

  async function workLater(working: OpenedCall<Worked>): Promise<void> {
    await begin(working.call)
    const done = await make(working)
    if (done.kind === 'made') await complete(working.call, done.completion)
  }

  async function begin(call: Call): Promise<void> {
    await storage.moveCall(
      call.id,
      { workStatus: ['queued'], workerId },
      { workStatus: 'in_progress', startedAt: clock.now() },
    )
  }

  function release(call: Pick<Call, 'id'>, error: unknown): Promise<never> {
    return abandon(storage, call, { error, now: clock.now() })
  }

  /** Runs the work under the stall deadline and mirrors its media. Records a failure, which frees the authorization. */
  async function make(working: OpenedCall<Worked>, deadlineMs = timeouts.maxJobMs): Promise<Done> {
    const { endpoint, input, call } = working
    const timesOutAt = clock.now() + timeouts.maxJobMs
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
      const media = await mirror(call.id, made.media)
      if (!isWhole(media)) throw new Error('the result could neither be hosted nor linked')
      for (const record of made.recordsToStore?.(media) ?? [])
        await storeRecords(storage, { ...record, owner: call.payer }, clock.now())
      const now = clock.now()
      const stored: Stored = { made: made.result, media, created: Math.floor(now / 1000) }
      return {
        kind: 'made',
        stored,
        raw: made.media?.urls ?? [],
        completion: {
          result: (await toStore(endpoint, stored)) as unknown as Json,
          expiresAt: Math.min(now + endpoint.retention.unclaimedMs, made.until ?? Infinity),
        },
      }
    } catch (error) {
      const apiError = asApiError(endpoint, error)
      if (!(error instanceof ApiError))
        log.warn('work failed', { call: call.id, endpoint: endpoint.name, error: (error as Error).message })
      const now = clock.now()
      const text = now < timesOutAt ? failureText(apiError) : STALLED
      await fail(storage, call, { error: text, vendorError: vendorErrorOf(error) }, now)
      return { kind: 'failed', apiError }
    }
  }

  /** Compresses verbatim results, which may be megabytes. */
  async function toStore(endpoint: Paid, stored: Stored): Promise<Stored> {
    return isVerbatim(endpoint) ? { ...stored, made: await pack(stored.made) } : stored
  }

  async function complete(call: Call, completion: Completion): Promise<undefined> {
    const isWon = await completeCall(money, call, completion)
    if (!isWon) log.warn('a result came too late: its call had already ended', { call: call.id })
  }
}

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

/** The failure as the ledger stores it and a poll shows it. */
export function failureText({ message, parts }: ApiError): string {
  return typeof parts.details === 'string' ? `${message}: ${parts.details}` : message
}

/** An inline failure that is not the caller's fault names its job (contract 5.48). */
function failure({ errorFormat }: Sold, call: Call, apiError: ApiError): Reply {
  if (apiError.code !== 'WORK_FAILED') return errorReply(apiError, errorFormat)
  return errorReply(
    new ApiError(apiError.code, { ...apiError.parts, fields: { ...apiError.parts.fields, job_id: call.id } }),
    errorFormat,
  )
}
