/** Asks the endpoint of an answer, under a deadline and for as long as its caller waits. */
import type { Engine } from '../../engine.ts'
import type { Answer, Streamed, StreamedOrder } from '../../endpoint/mod.ts'
import { ApiError, causedBy, vendorErrorOf } from '../../http/errors.ts'
import { deadlinesOf } from '../../lib/timers.ts'
import { abandon, fail } from '../../payment/settlement/fail.ts'
import { noteAbandonedCall } from '../../payment/unpaid/unpaid_calls.ts'
import type { Authorization, Call } from '../../ports/mod.ts'
import { failureText } from '../work/failure.ts'
import type { OpenedCall } from '../work/opened_call.ts'

type Request = {
  readonly order: Pick<StreamedOrder<unknown>, 'id' | 'input' | 'payer' | 'signal' | 'watchCost'>
  /** Longest wait for the answer in milliseconds; for a stream, for its first event. */
  readonly ms?: number
}

/**
 * Rejects only with an ApiError, and at once when `signal` aborts, whatever the vendor does. For a stream the timeout
 * covers the first event only; after that its reader ends it and pays for what was delivered.
 */
export async function askModel(engine: Engine, endpoint: Streamed, { order, ms }: Request): Promise<Answer> {
  const { answerMs } = engine.settings.timeouts
  const { signal } = order
  const limitMs = ms ?? answerMs
  const wait: Wait = { isLate: false, stop: new AbortController(), leave() {}, cancelDeadline() {} }
  try {
    signal.throwIfAborted()
    return await answerWithin(engine, endpoint, { order, limitMs, wait })
  } catch (error) {
    if (signal.aborted) throw callerLeft()
    if (error instanceof ApiError) throw withRetryAfter(error)
    if (wait.isLate)
      throw new ApiError('UPSTREAM_TIMEOUT', {
        message: `The model did not answer within ${Math.round(limitMs / 1000)} seconds${limitMs < answerMs ? ', and the authorization lives no longer' : ''}. Nothing was charged.`,
      })
    const { message } = error as Error
    engine.ports.log.warn('an answer failed', { endpoint: endpoint.name, error: message })
    throw causedBy(unavailable(), error)
  } finally {
    wait.cancelDeadline()
    signal.removeEventListener('abort', wait.leave)
  }
}

type Wait = { isLate: boolean; readonly stop: AbortController; leave(): void; cancelDeadline(): void }

function answerWithin(
  engine: Engine,
  endpoint: Streamed,
  { order, limitMs, wait }: Request & { readonly limitMs: number; readonly wait: Wait },
): Promise<Answer> {
  const { stop } = wait
  return new Promise((resolve, reject) => {
    wait.leave = () => {
      stop.abort(order.signal.reason)
      reject(callerLeft())
    }
    order.signal.addEventListener('abort', wait.leave, { once: true })
    wait.cancelDeadline = deadlinesOf(engine.ports.clock).after(limitMs, () => {
      stop.abort((wait.isLate = true))
      reject(new Error(`no answer within ${limitMs} ms`))
    })
    endpoint.answer(streamedOrder(engine, order, stop.signal)).then((answer) => {
      // Cancel a stream that arrives after the caller has stopped waiting.
      if (stop.signal.aborted && answer.kind === 'stream') answer.stream.cancel()
      resolve(answer)
    }, reject)
  })
}

function streamedOrder(
  { ports, products: { catalog } }: Engine,
  order: Request['order'],
  signal: AbortSignal,
): StreamedOrder<unknown> {
  const { vendors, countTokens, clock, log } = ports
  const { input, payer, watchCost } = order
  return {
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
    signal,
    ...(watchCost && { watchCost }),
  }
}

/**
 * The answer of an opened call. A failure fails the call, which frees its authorization, and is reported in the
 * caller's error format.
 */
export async function answerCall(
  engine: Engine,
  { endpoint, input, call, authorization }: OpenedCall<Streamed>,
  signal: AbortSignal,
): Promise<Answer> {
  const { clock } = engine.ports
  const { timeouts } = engine.settings
  const now = clock.now()
  const wasSent = !signal.aborted
  let isCostly = () => false
  const watchCost = (watched: () => boolean) => void (isCostly = watched)
  const ms = Math.min(timeouts.answerMs, lastMoment(engine, authorization) - now)
  try {
    const order = { id: call.id, input, payer: call.payer, signal, watchCost }
    return await askModel(engine, endpoint, { order, ms })
  } catch (error) {
    // Whether the time limit is set by an authorization that expires early.
    const isCutShort = ms < timeouts.answerMs && clock.now() - now >= ms
    const isAbandoned = wasSent && (signal.aborted || isCutShort || isCostly())
    throw await failAnswer(engine, call, { apiError: error as ApiError, isAbandoned })
  }
}

/**
 * Latest moment at which the answer must exist to be paid with this authorization. One that lives for less than twice
 * the margin is used halfway.
 */
export function lastMoment({ ports, settings }: Engine, { expiresAt }: Pick<Authorization, 'expiresAt'>): number {
  return Math.max(expiresAt - settings.timeouts.marginMs, (ports.clock.now() + expiresAt) / 2)
}

/**
 * Fails a call without an answer, and returns its error. `isAbandoned`: the vendor was asked, and its answer was
 * dropped because of the buyer.
 */
export async function failAnswer(
  engine: Engine,
  call: Call,
  { apiError, isAbandoned }: { readonly apiError: ApiError; readonly isAbandoned: boolean },
): Promise<ApiError> {
  const { storage, clock } = engine.ports
  if (isAbandoned) await noteAbandoned(engine, call)
  const failure = { error: failureText(apiError), vendorError: vendorErrorOf(apiError) }
  await fail(storage, call, failure, clock.now()).catch((error) => abandon(storage, call, { error, now: clock.now() }))
  return apiError
}

/** The vendor was asked, and its answer was dropped because of the buyer. */
export async function noteAbandoned({ ports, settings }: Engine, call: Call): Promise<void> {
  const now = ports.clock.now()
  await noteAbandonedCall(ports, call, { now, until: now + settings.timeouts.unpaidBlockMs })
}

/** Adds Retry-After to the error of an unavailable model (contract 6.54). */
function withRetryAfter(apiError: ApiError): ApiError {
  const { code, parts } = apiError
  if (
    (code !== 'MODEL_UNAVAILABLE' && code !== 'PROVIDER_CONFIG_ERROR') ||
    parts.headers?.['retry-after'] !== undefined
  )
    return apiError
  const again = new ApiError(code, { ...parts, headers: { ...parts.headers, 'retry-after': '5' } })
  return causedBy(again, apiError)
}

const unavailable = () =>
  new ApiError('MODEL_UNAVAILABLE', {
    message: 'The model did not answer. Nothing was charged; the same request may be sent again.',
    headers: { 'retry-after': '5' },
  })

export const callerLeft = () =>
  new ApiError('MODEL_UNAVAILABLE', {
    message: 'The caller disconnected before the answer was ready. Nothing was charged.',
  })
