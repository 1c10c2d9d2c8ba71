/** Steps 8 to 12 for answers that are settled after they are made, whole or streamed (decision 17). */
import { concatBytes } from '../lib/bytes.ts'
import { abandon, fail } from '../payment/settlement/fail.ts'
import type { Paying } from '../payment/settlement/paying.ts'
import { settleCall } from '../payment/settlement/settle.ts'
import { chargeOf } from '../payment/control/margin.ts'
import { settledMsOf } from '../payment/retention.ts'
import { deadlinesOf } from '../lib/timers.ts'
import { noteAbandonedCall, noteUnpaidCall } from '../payment/unpaid/unpaid_calls.ts'
import { errorEvent } from '../http/error_formats.ts'
import type { Answer, Streamed, StreamedOrder, Stored, Used } from '../endpoint/mod.ts'
import { json, type Reply } from '../http/reply.ts'
import { ApiError, causedBy, vendorErrorOf } from '../http/errors.ts'
import type { Engine } from '../engine.ts'
import type { OpenedCall } from './order.ts'
import { failureText } from './job.ts'
import type { Call } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import * as replies from '../endpoint/replies.ts'
import { tokensOf } from '../payment/spend_report.ts'
import { type Charge, EVENT_STREAM, type StreamPayment, streamReply } from './paid_stream.ts'
import { newSecret } from '../lib/ids.ts'
import type { RequestContext } from './request_context.ts'
import { chargesUse } from '../x402/offer.ts'
import { receiptHeaders } from '../x402/protocol.ts'

export type StreamedCalls = {
  /** Serves a free answer. Uses neither a call nor the database. */
  serveFree(endpoint: Streamed, input: unknown, requestContext: RequestContext): Promise<Reply>
  serve(working: OpenedCall<Streamed>): Promise<Reply>
  /** Cancels unfinished background work. False when it had already ended. */
  cancel(id: string, why: string): Promise<boolean>
  /** Stops active streams and settles what was delivered. Returns their number. */
  drain(): number
}

/** Payment outcome of an answer, as its headers or its last comment report it. */
type Paidness = {
  readonly headers: Readonly<Record<string, string>>
  readonly isRefused: boolean
  readonly charge: Charge
  readonly reason?: string
}

export function streamedCalls(engine: Engine): StreamedCalls {
  const { ports, money } = engine
  const { timeouts } = engine.settings
  const { catalog } = engine.products
  const { active } = engine.calls
  const { pollUrls } = engine.identity
  const { storage, clock, log, meter, vendors, countTokens } = ports
  const answering = deadlinesOf(clock)
  const running = new Map<string, AbortController>()
  const streaming = { clock, timeouts, background: ports.background, open: new Set<() => void>() }

  return { serveFree, serve, cancel, drain }

  function drain(): number {
    const ends = [...streaming.open]
    for (const end of ends) end()
    return ends.length
  }

  async function serveFree(endpoint: Streamed, input: unknown, requestContext: RequestContext): Promise<Reply> {
    const startedAt = clock.now()
    let id: string | undefined
    const order = {
      get id() {
        return (id ??= newSecret(ports.random))
      },
      input,
      payer: null,
      signal: requestContext.gone,
    }
    const answer = await ask(endpoint, order)
    if (answer.kind === 'whole') return json(200, answer.body, { 'cache-control': 'no-store', ...answer.headers })
    meter?.streamBegan?.(endpoint.name, clock.now() - startedAt)
    return streamReply(streaming, { stream: answer.stream, headers: answer.headers, errorFormat: endpoint.errorFormat })
  }

  async function serve(working: OpenedCall<Streamed>): Promise<Reply> {
    const { endpoint, input, call, requestContext } = working
    const queued = endpoint.deferred?.(input, { ...call, key: await pollUrls.keyOf(call.id) })
    if (queued) {
      ports.background(workAlone(working).catch((error) => abandon(storage, call, { error, now: clock.now() })))
      return json(200, queued, { 'cache-control': 'no-store' })
    }
    const answer = await attempt(working, requestContext.gone)
    if (requestContext.gone.aborted) {
      if (answer.kind === 'stream') answer.stream.cancel()
      throw await failed(call, callerLeft(), { isAbandoned: true })
    }
    if (answer.kind === 'stream') {
      meter?.streamBegan?.(endpoint.name, clock.now() - call.createdAt)
      return streamReply(streaming, {
        stream: answer.stream,
        headers: answer.headers,
        errorFormat: endpoint.errorFormat,
        payment: streamPaymentOf(working, answer),
      })
    }
    const stored = storedOf(answer, JSON.stringify(answer.body))
    const paid = await settle(working, stored, { answer: 'whole', used: answer }).catch((error) =>
      abandon(storage, call, { error, now: clock.now() }),
    )
    if (paid.isRefused)
      return replies.inlineRefusal(endpoint, call, {
        reason: paid.reason ?? 'the payment was refused',
        key: await pollUrls.keyOf(call.id),
      })
    return replies.answered(answerOf(stored), paid.headers)
  }

  /**
   * Latest moment at which the answer must exist to be paid with this authorization. One that lives for less than twice
   * the margin is used halfway.
   */
  function lastMoment({ expiresAt }: OpenedCall['authorization'], now: number): number {
    return Math.max(expiresAt - timeouts.marginMs, (now + expiresAt) / 2)
  }

  /**
   * Asks the endpoint. A failure fails the call, which frees its authorization, and is reported in the caller's error
   * format.
   */
  async function attempt(
    { endpoint, input, call, authorization }: OpenedCall<Streamed>,
    signal: AbortSignal,
  ): Promise<Answer> {
    const now = clock.now()
    const wasSent = !signal.aborted
    const ms = Math.min(timeouts.answerMs, lastMoment(authorization, now) - now)
    try {
      return await ask(endpoint, { id: call.id, input, payer: call.payer, signal }, ms)
    } catch (error) {
      // Whether the time limit is set by an authorization that expires early.
      const isCutShort = ms < timeouts.answerMs && clock.now() - now >= ms
      throw await failed(call, error as ApiError, { isAbandoned: wasSent && (signal.aborted || isCutShort) })
    }
  }

  async function failed(
    call: Call,
    apiError: ApiError,
    { isAbandoned }: { readonly isAbandoned: boolean },
  ): Promise<ApiError> {
    if (isAbandoned) await noteAbandoned(call)
    const failure = { error: failureText(apiError), vendorError: vendorErrorOf(apiError) }
    await fail(storage, call, failure, clock.now()).catch((error) =>
      abandon(storage, call, { error, now: clock.now() }),
    )
    return apiError
  }

  /** The vendor was asked, and its answer was dropped because of the buyer. */
  async function noteAbandoned(call: Call): Promise<void> {
    const now = clock.now()
    await noteAbandonedCall({ storage, log }, call, { now, until: now + timeouts.unpaidBlockMs })
  }

  /**
   * Rejects only with an ApiError, and at once when `signal` aborts, whatever the vendor does. For a stream the timeout
   * covers the first event only; after that its reader ends it and pays for what was delivered.
   */
  async function ask(
    endpoint: Streamed,
    order: Pick<StreamedOrder<unknown>, 'id' | 'input' | 'payer' | 'signal'>,
    ms = timeouts.answerMs,
  ): Promise<Answer> {
    const { input, payer, signal } = order
    let isLate = false
    const stop = new AbortController()
    let leave = () => {}
    let met = () => {}
    try {
      signal.throwIfAborted()
      return await new Promise<Answer>((resolve, reject) => {
        leave = () => {
          stop.abort(signal.reason)
          reject(callerLeft())
        }
        signal.addEventListener('abort', leave, { once: true })
        met = answering.after(ms, () => {
          stop.abort((isLate = true))
          reject(new Error(`no answer within ${ms} ms`))
        })
        const streamedOrder: StreamedOrder<unknown> = {
          // Few formats have it in their answers, and it costs random bytes.
          get id() {
            return order.id
          },
          input,
          payer,
          catalog,
          vendors,
          countTokens,
          clock,
          log,
          signal: stop.signal,
        }
        endpoint.answer(streamedOrder).then((answer) => {
          // Cancel a stream that arrives after the caller has stopped waiting.
          if (stop.signal.aborted && answer.kind === 'stream') answer.stream.cancel()
          resolve(answer)
        }, reject)
      })
    } catch (error) {
      if (signal.aborted) throw callerLeft()
      if (error instanceof ApiError) throw worthAnother(error)
      if (isLate)
        throw new ApiError('UPSTREAM_TIMEOUT', {
          message: `The model did not answer within ${Math.round(ms / 1000)} seconds${ms < timeouts.answerMs ? ', and the authorization lives no longer' : ''}. Nothing was charged.`,
        })
      log.warn('an answer failed', { endpoint: endpoint.name, error: (error as Error).message })
      const unavailable = new ApiError('MODEL_UNAVAILABLE', {
        message: 'The model did not answer. Nothing was charged; the same request may be sent again.',
        headers: { 'retry-after': '5' },
      })
      throw causedBy(unavailable, error)
    } finally {
      met()
      signal.removeEventListener('abort', leave)
    }
  }

  /**
   * Stores the answer, then settles it. Waits for the settlement only for a while: the answer is served unless its
   * payment is known to be refused (contract 6.46). Rejects when a whole answer cannot be stored: it is then neither
   * served nor charged. Answers that were already delivered are settled to the end, as are those that are served before
   * settlement.
   */
  async function settle(
    working: OpenedCall<Streamed>,
    stored: Stored,
    { answer, used }: { readonly answer: 'whole' | 'streamed' | 'unread'; readonly used: Used | undefined },
  ): Promise<Paidness> {
    const { endpoint, call, authorization } = working
    const usage = tokensOf(answerOf(stored).usage)
    if (usage) meter?.tokensUsed?.(endpoint.name, usage)
    const charge = used && (await chargeByUse(working, used))
    const attempt = async (): Promise<Paying> => {
      const now = clock.now()
      const completion = {
        result: stored as unknown as Json,
        expiresAt: now + endpoint.retention.unclaimedMs,
        usage,
        ...(charge !== undefined && { charge }),
      }
      return await settleCall(money, call, authorization, {
        completion,
        retainUntil: now + settledMsOf(call, endpoint.retention),
        isDelivered: true,
      })
    }
    const insisted = async (): Promise<Paying> =>
      (await insist(authorization, { call, what: 'the settlement of an answer that was delivered' }, attempt)) ??
      (await givenAway(call))
    // An authorization that expired unsent can never be settled, so the answer is withheld even though the chain cannot
    // confirm this now.
    const isLost = ({ kind }: Paying) => kind === 'unavailable' && authorization.expiresAt <= clock.now()
    const heard = async (paying: Paying): Promise<Paidness> =>
      paidness(call, answer === 'unread' ? paying : await noted(call, paying, answer), isLost(paying))
    const known = (answer === 'streamed' ? insisted() : attempt()).then(heard)
    const first = await new Promise<Paidness | undefined>((resolve, reject) => {
      const met = answering.after(timeouts.receiptMs, () => resolve(undefined))
      known.then(resolve, reject).finally(met)
    })
    if (first) return first
    const again = async (error: Error): Promise<Paidness> => {
      log.alert('an answer was served, and storage failed before it was settled; it is tried again', {
        call: call.id,
        payer: call.payer,
        error: error.message,
      })
      return await heard(await insisted())
    }
    ports.background(known.catch(again))
    return { headers: replies.unsettledHeaders('unknown'), isRefused: false, charge: 'unknown' }
  }

  /** The charge of an answer by what was used; undefined where the quote is charged. */
  async function chargeByUse({ endpoint, input, call, margin, authorization }: OpenedCall<Streamed>, used: Used) {
    if (!endpoint.cost || !chargesUse(authorization.offer)) return undefined
    try {
      const cost = await endpoint.cost(input, used, { countTokens })
      return cost && chargeOf(cost, { quote: call.quote, ...(margin !== undefined && { margin }) })
    } catch (error) {
      log.warn('what an answer used could not be counted; it is charged its quote', {
        call: call.id,
        error: (error as Error).message,
      })
      return undefined
    }
  }

  /** The headers with a signed receipt, where receipts are signed. */
  async function signed(headers: Paidness['headers'], { origin, path }: RequestContext): Promise<Paidness['headers']> {
    return (await engine.signing?.headers(headers, `${origin}${path}`, origin)) ?? headers
  }

  /** Records an answer as unpaid when its buyer has it and the payment failed. */
  async function noted(call: Call, paying: Paying, answer: 'whole' | 'streamed'): Promise<Paying> {
    if (paying.kind === 'settled') return paying
    const now = clock.now()
    const what = answer === 'whole' ? 'made' : 'delivered'
    if (isRefusal(paying))
      log.warn(`an answer was ${what}, and its payment refused; its wallet gets no more until it is paid`, {
        call: call.id,
        payer: call.payer,
      })
    await noteUnpaidCall({ storage, log }, call, { now, until: now + timeouts.unpaidBlockMs })
    return paying
  }

  /**
   * Retries a failed storage operation while the authorization is valid, and alerts the operator; undefined when it has
   * expired.
   */
  async function insist<T>(
    authorization: OpenedCall['authorization'],
    { call, what }: { call: Call; what: string },
    work: () => Promise<T>,
  ): Promise<T | undefined> {
    for (let pause = 1_000; ; pause *= 2) {
      try {
        return await work()
      } catch (error) {
        const left = authorization.expiresAt - clock.now()
        const tell = left <= 0 ? log.alert : log.warn
        tell(`storage failed in ${what}`, {
          call: call.id,
          payer: call.payer,
          isLast: left <= 0,
          error: (error as Error).message,
        })
        if (left <= 0) return undefined
        await clock.wait(Math.min(pause, left))
      }
    }
  }

  async function givenAway(call: Call): Promise<Paying> {
    await fail(
      storage,
      call,
      'The answer was delivered, and could not be settled in time. Nothing was charged.',
      clock.now(),
    ).catch(() => false)
    return { kind: 'unavailable', reason: 'storage failed until the authorization had ended' }
  }

  /** Background work: its output cannot be read before it is settled (contract 7.17). */
  async function workAlone(working: OpenedCall<Streamed>): Promise<void> {
    const { call } = working
    const stop = new AbortController()
    running.set(call.id, stop)
    try {
      await storage.moveCall(
        call.id,
        { workStatus: ['queued'], workerId: engine.gateway.workerId },
        { workStatus: 'in_progress', startedAt: clock.now() },
      )
      const answer = await attempt(working, stop.signal)
      if (answer.kind === 'stream') throw new Error('work in the background is answered whole')
      const key = await pollUrls.keyOf(call.id)
      const body = working.endpoint.deferredAnswer?.(answer.body, { id: call.id, key }) ?? answer.body
      await settle(working, storedOf(answer, JSON.stringify(body)), { answer: 'unread', used: answer })
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
    } finally {
      running.delete(call.id)
    }
  }

  async function cancel(id: string, why: string): Promise<boolean> {
    const call = await storage.getCall(id)
    const isFirst = await fail(storage, { id }, why, clock.now())
    running.get(id)?.abort(new Error(why))
    if (isFirst && call && call.startedAt !== null) await noteAbandoned(call)
    return isFirst
  }

  /**
   * The payment side of a stream. A partial stream is stored with an error at its end, so that it cannot be mistaken
   * for the whole answer.
   */
  function streamPaymentOf(
    working: OpenedCall<Streamed>,
    { headers, stream }: Extract<Answer, { kind: 'stream' }>,
  ): StreamPayment {
    const {
      endpoint: { errorFormat },
      call,
      authorization,
      requestContext,
    } = working
    const recorded: Uint8Array[] = []
    let size = 0
    const isByUse = endpointCharges(working)
    /** The first events of a stream that is charged by use. */
    const first: Uint8Array[] = []
    let firstSize = 0
    let paid: Promise<Paidness> | undefined
    const body = (isWhole: boolean) => {
      if (size > MAX_RECORDED) return errorEvent(TOO_LONG, errorFormat, stream.nextSequence?.())
      return (
        new TextDecoder().decode(concatBytes(recorded, size)) +
        (isWhole ? stream.closing() : errorEvent(NOT_WHOLE, errorFormat, stream.nextSequence?.()))
      )
    }
    const stored = (isWhole: boolean) =>
      storedOf(
        { headers: { ...headers, 'content-type': EVENT_STREAM['content-type'] }, usage: stream.usage() },
        body(isWhole),
      )

    const usedBy = (isWhole: boolean): Used => {
      if (isWhole || firstSize === 0) return { usage: stream.usage() }
      return { usage: stream.usage(), read: { events: concatBytes(first, firstSize), times: size / firstSize } }
    }

    return {
      settleBy: lastMoment(authorization, clock.now()),
      settlesEarly: working.settlesEarly ?? false,
      chargesUse: isByUse,
      record(bytes) {
        size += bytes.length
        if (isByUse && firstSize < MAX_RECORDED) {
          first.push(bytes)
          firstSize += bytes.length
        }
        if (size <= MAX_RECORDED) recorded.push(bytes)
        if (size > MAX_RECORDED) recorded.length = 0
      },
      async settle({ isWhole, goesOn = false }) {
        const isFirst = paid === undefined
        paid ??= settle(working, stored(isWhole), { answer: 'streamed', used: goesOn ? undefined : usedBy(isWhole) })
        const outcome = await paid
        // It was settled on the way, so the rest has to be added.
        if (!isFirst)
          await storage
            .moveCall(
              call.id,
              { workStatus: ['completed'] },
              { result: stored(isWhole) as unknown as Json, usage: tokensOf(stream.usage()), endedAt: clock.now() },
            )
            .catch(unkept)
        const headers = await signed(outcome.headers, requestContext)
        return { comment: commentOf(headers), isRefused: outcome.isRefused, charge: outcome.charge }
      },
      isLeased: () => active.isLeased(call.id),
      renewLease: (signal) => active.renewLease(call.id, signal),
      async fail(apiError, isAbandoned = false) {
        if (paid !== undefined) return
        if (isAbandoned) await noteAbandoned(call)
        const failure = { error: failureText(apiError), vendorError: vendorErrorOf(apiError) }
        const failing = () => fail(storage, call, failure, clock.now())
        await failing().catch(() =>
          ports.background(insist(authorization, { call, what: 'the end of a stream that broke off' }, failing)),
        )
      },
    }
  }

  function unkept(error: Error): void {
    log.warn('could not store the rest of a stream that was settled before its end', { error: error.message })
  }

  function storedOf({ headers, usage }: Pick<Answer & { kind: 'whole' }, 'headers' | 'usage'>, body: string): Stored {
    const made: replies.StoredAnswer = { headers: { 'content-type': JSON_TYPE, ...headers }, body, usage }
    return { made, media: [], created: Math.floor(clock.now() / 1000) }
  }
}

/** Adds Retry-After to the error of an unavailable model (contract 6.54). */
function worthAnother(apiError: ApiError): ApiError {
  const { code, parts } = apiError
  if (
    (code !== 'MODEL_UNAVAILABLE' && code !== 'PROVIDER_CONFIG_ERROR') ||
    parts.headers?.['retry-after'] !== undefined
  )
    return apiError
  const another = new ApiError(code, { ...parts, headers: { ...parts.headers, 'retry-after': '5' } })
  return causedBy(another, apiError)
}

const JSON_TYPE = 'application/json'
const callerLeft = () =>
  new ApiError('MODEL_UNAVAILABLE', {
    message: 'The caller disconnected before the answer was ready. Nothing was charged.',
  })
const NOT_WHOLE = new ApiError('MODEL_UNAVAILABLE', {
  message:
    'Only this part of the stream was stored, because its reader disconnected before the end. It was charged once.',
})
const TOO_LONG = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The stream was delivered once and was too long to be stored. It was charged once.',
})
/** Longer streams are not stored for replays, so that many streams cannot fill the memory. */
const MAX_RECORDED = 131_072

const answerOf = ({ made }: Stored) => made as unknown as replies.StoredAnswer

/** Whether a call is charged by what was used, and its endpoint can tell how much that is. */
const endpointCharges = ({ endpoint, authorization }: OpenedCall<Streamed>): boolean =>
  endpoint.cost !== undefined && chargesUse(authorization.offer)

function paidness(call: Call, paying: Paying, isLost: boolean): Paidness {
  if (paying.kind === 'settled') {
    const headers = { ...receiptHeaders(paying.receipt), ...replies.chargeHeaders(call, paying.receipt) }
    return { headers, isRefused: false, charge: 'settled' }
  }
  if (paying.kind === 'unavailable' && isLost)
    return { headers: replies.unsettledHeaders(paying.kind), isRefused: true, charge: 'none', reason: paying.reason }
  if (!isRefusal(paying)) return { headers: replies.unsettledHeaders(paying.kind), isRefused: false, charge: 'unknown' }
  const reason =
    paying.kind === 'replayed' ? 'the authorization serves another call' : (paying as { reason: string }).reason
  return { headers: replies.unsettledHeaders('refused'), isRefused: true, charge: 'none', reason }
}

const isRefusal = ({ kind }: Paying): boolean => kind === 'refused' || kind === 'rejected' || kind === 'replayed'

/**
 * The receipt of a stream as SSE comments, because its headers have already been sent. Clients ignore comments that
 * they do not know.
 */
function commentOf(headers: Readonly<Record<string, string>>): string {
  return `${Object.entries(headers)
    .map(([name, value]) => `: ${name} ${value}`)
    .join('\n')}\n\n`
}
