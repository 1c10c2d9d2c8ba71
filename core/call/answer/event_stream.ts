/**
 * Delivers a stream to its reader: pulled event by event, ended when it stalls or runs too long, and settled on the way
 * when it is paid.
 */
import type { Reply } from '../../http/reply.ts'
import { deadlinesOf } from '../../lib/timers.ts'
import {
  close,
  end,
  fail,
  halt,
  type OpenStream,
  type Sending,
  settleMidway,
  type StreamEngine,
  type StreamPayment,
  terminate,
} from './open_stream.ts'
import { AWAY, LEFT, REFUSED, STALLED, STOPPING, TAKEN, TOO_SHORT, tooLong } from './stream_errors.ts'

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
export function eventStream(engine: StreamEngine, sending: Sending): Reply {
  const { ports, settings, deliveries } = engine
  const { stream, payment, headers } = sending
  const open: OpenStream = {
    ...sending,
    engine,
    endsAt: ports.clock.now() + settings.timeouts.streamMs,
    over: payment && new AbortController(),
    isOver: false,
    wake() {},
    pulledAt: undefined,
    isHolding: false,
    out: undefined,
    isSettlementKnown: false,
    charge: 'none',
  }
  const onError = (error: unknown) => fail(open, error)
  const onEvent = payment
    ? (bytes: Uint8Array | undefined) => sendPaid(open, payment, bytes).catch(onError)
    : (bytes: Uint8Array | undefined) => sendFree(open, bytes)
  const body = new ReadableStream<Uint8Array>(
    {
      start: (controller) => void (open.out = controller),
      pull() {
        open.pulledAt = ports.clock.now()
        return stream.next().then(onEvent, onError)
      },
      cancel: () => readerLeft(open),
    },
    { highWaterMark: 0 },
  )
  const drain = () => ports.background(terminate(open, STOPPING))
  deliveries.streams.add(drain)
  ports.background(watch(open).finally(() => deliveries.streams.delete(drain)))
  return { status: 200, headers: { ...EVENT_STREAM, ...headers }, body }
}

function readerLeft(open: OpenStream): void {
  const { stream, payment, engine } = open
  if (open.isOver) return
  end(open)
  stream.cancel()
  if (payment)
    engine.ports.background(stream.hasContent() ? payment.settle({ isWhole: false }) : payment.fail(LEFT, true))
}

/**
 * Sends an event of a free stream. Not an async function, because its frame would cost more than the event's bytes.
 */
function sendFree(open: OpenStream, bytes: Uint8Array | undefined): Promise<void> | undefined {
  open.pulledAt = undefined
  if (open.isOver) return undefined
  if (bytes === undefined)
    return close(open, { last: () => open.stream.closing(), isWhole: true }).catch((error) => fail(open, error))
  open.out?.enqueue(bytes)
  return undefined
}

async function sendPaid(open: OpenStream, payment: StreamPayment, bytes: Uint8Array | undefined): Promise<void> {
  const { over, stream } = open
  open.pulledAt = undefined
  if (open.isOver) return
  if (over && !payment.isLeased()) await holdOn(open, payment, over.signal)
  if (open.isOver) return
  if (bytes === undefined) return await close(open, { last: () => stream.closing(), isWhole: true })
  payment.record(bytes)
  if (isDue(open, payment)) {
    const isRefused = await settleMidway(open, payment)
    if (open.isOver) return
    if (isRefused) return await fail(open, REFUSED)
  }
  open.out?.enqueue(bytes)
}

/**
 * This process was suspended for longer than its lease, or could not renew it. Nothing more is delivered until
 * ownership of the call is confirmed.
 */
async function holdOn(open: OpenStream, { renewLease }: StreamPayment, signal: AbortSignal): Promise<void> {
  open.isHolding = true
  const isOurs = await renewLease(signal).finally(() => (open.isHolding = false))
  if (!isOurs && !open.isOver) throw TAKEN
}

/**
 * Once due, nothing more is delivered before the settlement has been confirmed. A process that was suspended may wake
 * long past the deadline with much data waiting in the vendor's socket.
 */
function isDue({ isSettlementKnown, stream, engine }: OpenStream, { settlesEarly, settleBy }: StreamPayment): boolean {
  return !isSettlementKnown && stream.hasContent() && (settlesEarly === true || engine.ports.clock.now() >= settleBy)
}

/** One timer for all limits. It sleeps until the next limit, instead of being reset for each event. */
async function watch(open: OpenStream): Promise<void> {
  const { engine, payment, endsAt, stream } = open
  const { clock } = engine.ports
  const { answerMs, streamMs } = engine.settings.timeouts
  let settleBy = payment?.settleBy ?? Number.POSITIVE_INFINITY
  for (;;) {
    const now = clock.now()
    const timesOutAt = (open.pulledAt ?? now) + answerMs
    await sleep(open, Math.max(1, Math.min(timesOutAt, endsAt, settleBy) - now))
    if (open.isOver) return
    const then = clock.now()
    const isStalled = open.pulledAt !== undefined && then - open.pulledAt >= answerMs
    // The model has answered but our storage does not respond: what was delivered is paid for.
    if (isStalled && open.isHolding) return await terminate(open, AWAY)
    if (isStalled) return halt(open, STALLED)
    if (then >= endsAt) return await terminate(open, tooLong(streamMs))
    if (then < settleBy) continue
    settleBy = Number.POSITIVE_INFINITY
    // The reader has received nothing, so nothing is owed, and no time is left to settle.
    if (open.pulledAt !== undefined && !stream.hasContent()) return halt(open, TOO_SHORT)
    if (payment && (await settleMidway(open, payment))) return halt(open, REFUSED)
  }
}

function sleep(open: OpenStream, ms: number): Promise<void> {
  if (open.isOver) return Promise.resolve()
  return new Promise((resolve) => {
    const cancel = deadlinesOf(open.engine.ports.clock).after(ms, resolve)
    open.wake = () => {
      cancel()
      resolve()
    }
  })
}
