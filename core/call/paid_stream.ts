/**
 * A stream on its way to its reader: pulled piece by piece, cut when it stalls or lasts too long, and settled on its
 * way where it is paid.
 */
import { errorEvent, type ErrorFormat } from '../http/error_formats.ts'
import type { Timeouts } from '../payment/timeouts.ts'
import type { AnswerStream } from '../endpoint/mod.ts'
import type { Reply } from '../http/reply.ts'
import { ApiError } from '../http/errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { Ports } from '../ports/mod.ts'

/** What became of the price of a stream. `unknown`: its settlement was asked for, and has not answered in time. */
export type Charge = 'none' | 'settled' | 'unknown'

/**
 * The money side of a stream. Nothing here rejects. `settle` may be called again; it settles once. `isWhole` says that
 * all was handed out.
 */
export type StreamPayment = {
  /** When the stream has to be settled at the latest, in milliseconds since 1970. */
  readonly settleBy: number
  /**
   * It is settled once content has begun, before that is handed out; where the payment is refused, the stream ends
   * there.
   */
  readonly settlesEarly?: boolean
  record(bytes: Uint8Array): void
  settle(how: {
    readonly isWhole: boolean
  }): Promise<{ readonly comment: string; readonly isRefused: boolean; readonly charge: Charge }>
  /** `isAbandoned`: the vendor was asked, and its answer given up for a reason of the reader's. */
  fail(apiError: ApiError, isAbandoned?: boolean): Promise<void>
  /** Whether the call is still ours to work on; asked before each piece is handed out. */
  isLeased(): boolean
  /** The same, asked of storage: false when another call has taken the authorization. */
  renewLease(signal: AbortSignal): Promise<boolean>
}

export type Streaming = {
  readonly clock: Clock
  readonly timeouts: Timeouts
  readonly background: Ports['background']
  /** How to end each stream that is under way. */
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
 * The reply of a stream. Nothing is buffered: the upstream is read when the reader asks, and hangs up when the reader
 * does. A paid one settles at its end, at its deadline, when its reader leaves after content, or shortly before its
 * authorization ends; an error ends it unsettled.
 */
export function streamReply(
  { clock, timeouts, background, open }: Streaming,
  { stream, headers, errorFormat, payment }: Sending,
): Reply {
  const encoder = new TextEncoder()
  const endsAt = clock.now() + timeouts.streamMs
  const over = new AbortController()
  let pulledAt: number | undefined
  let isHolding = false
  let cut: ((apiError: ApiError) => void) | undefined
  let out: ReadableStreamDefaultController<Uint8Array> | undefined
  let isSettlementKnown = false
  let charge: Charge = 'none'

  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        out = controller
      },
      async pull(controller) {
        pulledAt = clock.now()
        try {
          const bytes = await next()
          pulledAt = undefined
          if (over.signal.aborted) return
          if (payment?.isLeased() === false) await holdOn(payment)
          if (over.signal.aborted) return
          if (bytes === undefined) return await close({ last: () => stream.closing(), isWhole: true })
          payment?.record(bytes)
          if (payment && isDue(payment)) {
            const isRefused = await settleMidway(payment)
            if (over.signal.aborted) return
            if (isRefused) return await fail(REFUSED)
          }
          controller.enqueue(bytes)
        } catch (error) {
          await fail(error)
        }
      },
      cancel() {
        if (over.signal.aborted) return
        over.abort()
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
   * Nothing more is handed out before the settlement has answered. A process that stood still may wake with its
   * deadline long past, and with much that waits in the vendor's socket.
   */
  function isDue({ settlesEarly, settleBy }: StreamPayment): boolean {
    return !isSettlementKnown && stream.hasContent() && (settlesEarly === true || clock.now() >= settleBy)
  }

  async function settleMidway(payment: StreamPayment): Promise<boolean> {
    const { isRefused } = await settle(payment, { isWhole: false })
    isSettlementKnown = true
    return isRefused
  }

  async function settle(payment: StreamPayment, how: { readonly isWhole: boolean }) {
    if (charge === 'none') charge = 'unknown'
    const settlement = await payment.settle(how)
    charge = settlement.charge
    return settlement
  }

  /** The last event of a stream that ends with an error. It says what the stream has cost (contract 3.24). */
  function lastEvent(apiError: ApiError): string {
    return errorEvent(withCharge(apiError, charge), errorFormat, stream.nextSequence?.())
  }

  /** The next piece; rejects when the stream is cut while it waits. */
  function next(): Promise<Uint8Array | undefined> {
    return new Promise((resolve, reject) => {
      cut = reject
      stream.next().then(resolve, reject)
    })
  }

  /**
   * This process stood still for longer than its promise, or could not renew it: nothing more is given before it is
   * known whose call it is.
   */
  async function holdOn({ renewLease }: StreamPayment): Promise<void> {
    isHolding = true
    const isOurs = await renewLease(over.signal).finally(() => (isHolding = false))
    if (!isOurs && !over.signal.aborted) throw TAKEN
  }

  /** The end of a stream that has said all it had to say, or may say no more. */
  async function close({ last, isWhole }: { last: () => string; isWhole: boolean }): Promise<void> {
    if (isWhole && !stream.hasContent()) return await fail(EMPTY)
    over.abort()
    const { comment } = payment ? await settle(payment, { isWhole }) : { comment: '' }
    closeWith(comment + last())
    // Upstreams that keep the line open after their last event are not waited for.
    stream.cancel()
  }

  async function fail(error: unknown): Promise<void> {
    if (over.signal.aborted) return
    over.abort()
    stream.cancel()
    const apiError =
      error instanceof ApiError
        ? error
        : new ApiError('MODEL_UNAVAILABLE', { message: 'The model ended its answer early.' })
    await payment?.fail(apiError, apiError === TOO_SHORT)
    closeWith(lastEvent(apiError))
  }

  /** The last that the reader hears. He may have left while his money moved. */
  function closeWith(text: string): void {
    try {
      if (text !== '') out?.enqueue(encoder.encode(text))
      out?.close()
    } catch {
      out = undefined
    }
  }

  /** One timer for all limits: it sleeps until the next of them could be passed, and never once per piece. */
  async function watch(): Promise<void> {
    let settleBy = payment?.settleBy ?? Number.POSITIVE_INFINITY
    for (;;) {
      const now = clock.now()
      const timesOutAt = (pulledAt ?? now) + timeouts.answerMs
      await clock.wait(Math.max(1, Math.min(timesOutAt, endsAt, settleBy) - now), over.signal)
      if (over.signal.aborted) return
      const then = clock.now()
      const isStalled = pulledAt !== undefined && then - pulledAt >= timeouts.answerMs
      // The model has answered; it is our storage that does not: what was handed out is paid for.
      if (isStalled && isHolding) return await terminate(AWAY)
      if (isStalled) return halt(STALLED)
      if (then >= endsAt) return await terminate(tooLong(timeouts.streamMs))
      if (then < settleBy) continue
      settleBy = Number.POSITIVE_INFINITY
      // The reader asks and has had nothing: there is nothing to pay for, and no time left to pay.
      if (pulledAt !== undefined && !stream.hasContent()) return halt(TOO_SHORT)
      if (payment && (await settleMidway(payment))) return halt(REFUSED)
    }
  }

  /**
   * Ends a stream with an error. Where nobody asks for the next piece, nobody is waiting to be told: it is said at
   * once.
   */
  function halt(apiError: ApiError): void {
    if (pulledAt !== undefined) return cut?.(apiError)
    background(fail(apiError))
  }

  /** Ends it from here: what was handed out is paid for, and the reader is told why there is no more. */
  async function terminate(apiError: ApiError): Promise<void> {
    if (over.signal.aborted) return
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

/** What a vendor's error says of money is left out: a stream may have been settled before it. */
function withCharge({ code, message, parts }: ApiError, charge: Charge): ApiError {
  const text = message.replace(/ ?Nothing was charged\.(?= |$)/g, '')
  return new ApiError(code, { ...parts, message: `${text} ${CHARGES[charge]}`.trim() })
}

const tooLong = (ms: number) =>
  new ApiError('UPSTREAM_TIMEOUT', { message: `The stream was ended after ${ms / 1000} seconds, which is its limit.` })
const STOPPING = new ApiError('MODEL_UNAVAILABLE', { message: 'The gateway is stopping; the stream ends here.' })
const LEFT = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The caller left before the answer began. Nothing was charged.',
})
const EMPTY = new ApiError('MODEL_UNAVAILABLE', { message: 'The model ended without an answer. Nothing was charged.' })
const STALLED = new ApiError('UPSTREAM_TIMEOUT', { message: 'The model stopped in the middle of its answer.' })
const TOO_SHORT = new ApiError('UPSTREAM_TIMEOUT', {
  message:
    'The answer had not begun when the authorization had too little time left to be settled. Nothing was charged.',
})
const TAKEN = new ApiError('MODEL_UNAVAILABLE', {
  message: 'This stream was declared lost and its payment now serves another call. The stream ends here.',
})
const AWAY = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The gateway could not reach its storage for too long; the stream ends here.',
})
const REFUSED = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The payment of this stream was refused, so it ends here.',
})
