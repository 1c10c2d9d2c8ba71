/**
 * Delivers a stream to its reader: pulled event by event, ended when it stalls or runs too long, and settled on the way
 * when it is paid.
 */
import { errorEvent, type ErrorFormat } from '../http/error_formats.ts'
import type { Timeouts } from '../payment/timeouts.ts'
import type { AnswerStream } from '../endpoint/mod.ts'
import type { Reply } from '../http/reply.ts'
import { ApiError, causedBy } from '../http/errors.ts'
import type { Clock } from '../lib/clock.ts'
import { deadlinesOf } from '../lib/timers.ts'
import type { Ports } from '../ports/mod.ts'

/** Payment outcome of a stream. `unknown`: the settlement was sent and not confirmed in time. */
export type Charge = 'none' | 'settled' | 'unknown'

/**
 * The payment side of a stream. No method rejects. `settle` is idempotent. `isWhole` says that everything was
 * delivered.
 */
export type StreamPayment = {
  /** Latest moment to settle the stream, in milliseconds since 1970. */
  readonly settleBy: number
  /** Settle when content arrives, before any of it is delivered. If the payment is refused, the stream ends there. */
  readonly settlesEarly?: boolean
  /** What was used is charged, and not the signed price. */
  readonly chargesUse?: boolean
  record(bytes: Uint8Array): void
  settle(how: {
    readonly isWhole: boolean
    /** It is settled on the way, and goes on: what was used is not known yet. */
    readonly goesOn?: boolean
  }): Promise<{ readonly comment: string; readonly isRefused: boolean; readonly charge: Charge }>
  /** `isAbandoned`: the vendor was asked, and its answer was dropped because of the reader. */
  fail(apiError: ApiError, isAbandoned?: boolean): Promise<void>
  /** Whether this process still owns the call. Checked before each event is delivered. */
  isLeased(): boolean
  /** Checks ownership in storage: false when another call has taken the authorization. */
  renewLease(signal: AbortSignal): Promise<boolean>
}

export type Streaming = {
  readonly clock: Clock
  readonly timeouts: Timeouts
  readonly background: Ports['background']
  /** A function to end each active stream. */
  readonly open: Set<() => void>
}

type Sending = {
  readonly stream: AnswerStream
  readonly headers: Readonly<Record<string, string>>
  readonly errorFormat: ErrorFormat
  readonly payment?: StreamPayment
}

export const EVENT_STREAM = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
}

/**
 * The reply of a stream. Nothing is buffered: the upstream is read on demand and closed when the reader leaves. A paid
 * stream is settled at its end, at its deadline, when the reader leaves after content, or shortly before its
 * authorization expires. An error ends it unsettled.
 */
export function streamReply(
  { clock, timeouts, background, open }: Streaming,
  { stream, headers, errorFormat, payment }: Sending,
): Reply {
  const encoder = new TextEncoder()
  const endsAt = clock.now() + timeouts.streamMs
  const timers = deadlinesOf(clock)
  /** Aborts waits for storage. Absent for a free stream, which never waits for it. */
  const over = payment && new AbortController()
  let isOver = false
  /** Ends the sleep of the watch. */
  let wake = () => {}
  let pulledAt: number | undefined
  let isHolding = false
  let out: ReadableStreamDefaultController<Uint8Array> | undefined
  let isSettlementKnown = false
  let charge: Charge = 'none'

  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        out = controller
      },
      pull() {
        pulledAt = clock.now()
        return stream.next().then(payment ? (bytes) => deliverPaid(payment, bytes).catch(fail) : deliver, fail)
      },
      cancel() {
        if (isOver) return
        end()
        stream.cancel()
        if (payment) background(stream.hasContent() ? payment.settle({ isWhole: false }) : payment.fail(LEFT, true))
      },
    },
    { highWaterMark: 0 },
  )
  const drain = () => background(terminate(STOPPING))
  open.add(drain)
  background(watch().finally(() => open.delete(drain)))
  return { status: 200, headers: { ...EVENT_STREAM, ...headers }, body }

  /**
   * Once due, nothing more is delivered before the settlement has been confirmed. A process that was suspended may wake
   * long past the deadline with much data waiting in the vendor's socket.
   */
  function isDue({ settlesEarly, settleBy }: StreamPayment): boolean {
    return !isSettlementKnown && stream.hasContent() && (settlesEarly === true || clock.now() >= settleBy)
  }

  async function settleMidway(payment: StreamPayment): Promise<boolean> {
    const { isRefused } = await settle(payment, { isWhole: false, goesOn: true })
    isSettlementKnown = true
    return isRefused
  }

  async function settle(payment: StreamPayment, how: Parameters<StreamPayment['settle']>[0]) {
    if (charge === 'none') charge = 'unknown'
    const settlement = await payment.settle(how)
    charge = settlement.charge
    return settlement
  }

  /**
   * Delivers an event of a free stream. Not an async function, because its frame would cost more than the event's
   * bytes.
   */
  function deliver(bytes: Uint8Array | undefined): Promise<void> | undefined {
    pulledAt = undefined
    if (isOver) return undefined
    if (bytes === undefined) return close({ last: () => stream.closing(), isWhole: true }).catch(fail)
    out?.enqueue(bytes)
    return undefined
  }

  async function deliverPaid(payment: StreamPayment, bytes: Uint8Array | undefined): Promise<void> {
    pulledAt = undefined
    if (isOver) return
    if (over && !payment.isLeased()) await holdOn(payment, over.signal)
    if (isOver) return
    if (bytes === undefined) return await close({ last: () => stream.closing(), isWhole: true })
    payment.record(bytes)
    if (isDue(payment)) {
      const isRefused = await settleMidway(payment)
      if (isOver) return
      if (isRefused) return await fail(REFUSED)
    }
    out?.enqueue(bytes)
  }

  function end(): void {
    isOver = true
    over?.abort()
    wake()
  }

  function sleep(ms: number): Promise<void> {
    if (isOver) return Promise.resolve()
    return new Promise((resolve) => {
      const cancel = timers.after(ms, resolve)
      wake = () => {
        cancel()
        resolve()
      }
    })
  }

  /** The last event of a stream that ends with an error. It states what was charged (contract 3.24). */
  function lastEvent(apiError: ApiError): string {
    return errorEvent(
      withCharge(apiError, payment?.chargesUse ? BY_USE[charge] : CHARGES[charge]),
      errorFormat,
      stream.nextSequence?.(),
    )
  }

  /**
   * This process was suspended for longer than its lease, or could not renew it. Nothing more is delivered until
   * ownership of the call is confirmed.
   */
  async function holdOn({ renewLease }: StreamPayment, signal: AbortSignal): Promise<void> {
    isHolding = true
    const isOurs = await renewLease(signal).finally(() => (isHolding = false))
    if (!isOurs && !isOver) throw TAKEN
  }

  /** Ends a stream that is complete or has reached its limit. */
  async function close({ last, isWhole }: { last: () => string; isWhole: boolean }): Promise<void> {
    if (isWhole && !stream.hasContent()) return await fail(EMPTY)
    end()
    const { comment } = payment ? await settle(payment, { isWhole }) : { comment: '' }
    closeWith(comment + last())
    // Do not wait for upstreams that keep the connection open after their last event.
    stream.cancel()
  }

  async function fail(error: unknown): Promise<void> {
    if (isOver) return
    end()
    stream.cancel()
    const apiError =
      error instanceof ApiError
        ? error
        : causedBy(new ApiError('MODEL_UNAVAILABLE', { message: 'The model ended its answer early.' }), error)
    await payment?.fail(apiError, apiError === TOO_SHORT)
    closeWith(lastEvent(apiError))
  }

  /** Sends the last text to the reader, who may have left during settlement. */
  function closeWith(text: string): void {
    try {
      if (text !== '') out?.enqueue(encoder.encode(text))
      out?.close()
    } catch {
      out = undefined
    }
  }

  /** One timer for all limits. It sleeps until the next limit, instead of being reset for each event. */
  async function watch(): Promise<void> {
    let settleBy = payment?.settleBy ?? Number.POSITIVE_INFINITY
    for (;;) {
      const now = clock.now()
      const timesOutAt = (pulledAt ?? now) + timeouts.answerMs
      await sleep(Math.max(1, Math.min(timesOutAt, endsAt, settleBy) - now))
      if (isOver) return
      const then = clock.now()
      const isStalled = pulledAt !== undefined && then - pulledAt >= timeouts.answerMs
      // The model has answered but our storage does not respond: what was delivered is paid for.
      if (isStalled && isHolding) return await terminate(AWAY)
      if (isStalled) return halt(STALLED)
      if (then >= endsAt) return await terminate(tooLong(timeouts.streamMs))
      if (then < settleBy) continue
      settleBy = Number.POSITIVE_INFINITY
      // The reader has received nothing, so nothing is owed, and no time is left to settle.
      if (pulledAt !== undefined && !stream.hasContent()) return halt(TOO_SHORT)
      if (payment && (await settleMidway(payment))) return halt(REFUSED)
    }
  }

  /** Ends a stream with an error. When no read is pending, it ends at once instead of at the next read. */
  function halt(apiError: ApiError): void {
    background(fail(apiError))
  }

  /** Ends the stream here: what was delivered is paid for, and the reader is told why it ends. */
  async function terminate(apiError: ApiError): Promise<void> {
    if (isOver) return
    if (pulledAt !== undefined && !stream.hasContent()) return halt(apiError)
    stream.cancel()
    await close({ last: () => lastEvent(apiError), isWhole: false })
  }
}

const CHARGES: Readonly<Record<Charge, string>> = {
  none: 'Nothing was charged.',
  settled: 'The signed price was charged.',
  unknown: 'The signed price is charged once its settlement is confirmed, which it was not yet.',
}

/** Of a stream that is charged by use. */
const BY_USE: Readonly<Record<Charge, string>> = {
  none: 'Nothing was charged.',
  settled: 'It was charged; the receipt says how much.',
  unknown: 'It is charged once its settlement is confirmed, which it was not yet.',
}

/** Removes what a vendor's error says about charges, because the stream may have been settled before it. */
function withCharge({ code, message, parts }: ApiError, outcome: string): ApiError {
  const text = message.replace(/ ?Nothing was charged\.(?= |$)/g, '')
  return new ApiError(code, { ...parts, message: `${text} ${outcome}`.trim() })
}

const tooLong = (ms: number) =>
  new ApiError('UPSTREAM_TIMEOUT', { message: `The stream reached its limit of ${ms / 1000} seconds.` })
const STOPPING = new ApiError('MODEL_UNAVAILABLE', { message: 'The gateway is stopping; the stream ends here.' })
const LEFT = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The caller disconnected before the answer began. Nothing was charged.',
})
const EMPTY = new ApiError('MODEL_UNAVAILABLE', { message: 'The model ended without an answer. Nothing was charged.' })
const STALLED = new ApiError('UPSTREAM_TIMEOUT', { message: 'The model stopped in the middle of its answer.' })
const TOO_SHORT = new ApiError('UPSTREAM_TIMEOUT', {
  message: 'The authorization was about to expire before the answer began. Nothing was charged.',
})
const TAKEN = new ApiError('MODEL_UNAVAILABLE', {
  message: 'Another call has taken over the payment of this stream. The stream ends here.',
})
const AWAY = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The gateway could not reach its storage for too long; the stream ends here.',
})
const REFUSED = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The payment of this stream was refused, so it ends here.',
})
