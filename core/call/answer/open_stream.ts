/** A stream on its way to its reader, and how it ends: whole, with an error, or where it has to stop. */
import type { Engine } from '../../engine.ts'
import type { AnswerStream } from '../../endpoint/mod.ts'
import type { ErrorFormat } from '../../http/error_formats.ts'
import type { ApiError } from '../../http/errors.ts'
import { withReceipt } from '../../http/stream_receipt.ts'
import type { Charge } from './payment_report.ts'
import { asStreamError, EMPTY, lastEvent, REFUSED, TOO_SHORT } from './stream_errors.ts'

/**
 * The payment side of a stream. No method rejects. `settle` is idempotent. `isWhole` says that everything was
 * delivered.
 */
export type StreamPayment = {
  /** Latest moment to settle the stream, in milliseconds since 1970. */
  readonly settleBy: number
  /** Settle when content arrives, before any of it is delivered. If the payment is refused, the stream ends there. */
  readonly settlesEarly?: boolean
  /** The charge is counted from use; otherwise it is the signed price. */
  readonly chargesUse?: boolean
  record(bytes: Uint8Array): void
  settle(how: {
    readonly isWhole: boolean
    /** It is settled on the way, and goes on: what was used is not known yet. */
    readonly goesOn?: boolean
  }): Promise<{
    /** Headers of the receipt, which are sent at the end of the stream, because its own headers have been sent. */
    readonly receipt: Readonly<Record<string, string>>
    readonly isRefused: boolean
    readonly charge: Charge
  }>
  /** `isAbandoned`: the vendor was asked, and its answer was dropped because of the reader, or was costly. */
  fail(apiError: ApiError, isAbandoned?: boolean): Promise<void>
  /** Whether this process still owns the call. Checked before each event is delivered. */
  isLeased(): boolean
  /** Checks ownership in storage: false when another call has taken the authorization. */
  renewLease(signal: AbortSignal): Promise<boolean>
}

export type Sending = {
  readonly stream: AnswerStream
  readonly headers: Readonly<Record<string, string>>
  readonly errorFormat: ErrorFormat
  readonly payment?: StreamPayment
}

export type StreamEngine = Pick<Engine, 'ports' | 'settings' | 'deliveries'>

/** A stream on its way to its reader. */
export type OpenStream = Sending & {
  readonly engine: StreamEngine
  readonly endsAt: number
  /** Aborts waits for storage. Absent for a free stream, which never waits for it. */
  readonly over: AbortController | undefined
  isOver: boolean
  /** Ends the sleep of the watch. */
  wake(): void
  pulledAt: number | undefined
  isHolding: boolean
  out: ReadableStreamDefaultController<Uint8Array> | undefined
  isSettlementKnown: boolean
  charge: Charge
}

/** Whether the payment was refused. */
export async function settleMidway(open: OpenStream, payment: StreamPayment): Promise<boolean> {
  const { isRefused } = await settle(open, payment, { isWhole: false, goesOn: true })
  open.isSettlementKnown = true
  return isRefused
}

async function settle(open: OpenStream, payment: StreamPayment, how: Parameters<StreamPayment['settle']>[0]) {
  if (open.charge === 'none') open.charge = 'unknown'
  const settlement = await payment.settle(how)
  open.charge = settlement.charge
  return settlement
}

export function end(open: OpenStream): void {
  open.isOver = true
  open.over?.abort()
  open.wake()
}

/** Ends a stream that is complete or has reached its limit. */
export async function close(
  open: OpenStream,
  { last, isWhole }: { last: () => string; isWhole: boolean },
): Promise<void> {
  const { stream, payment } = open
  if (isWhole && !stream.hasContent()) return await fail(open, EMPTY)
  end(open)
  const paid = payment && (await settle(open, payment, { isWhole }))
  // The whole content may be in the closing events.
  const isWithheld = paid?.isRefused === true && payment?.settlesEarly === true && !open.isSettlementKnown
  const closing = isWithheld ? lastEvent(open, REFUSED) : last()
  closeWith(open, paid ? withReceipt(closing, { receipt: paid.receipt, errorFormat: open.errorFormat }) : closing)
  // Do not wait for upstreams that keep the connection open after their last event.
  stream.cancel()
}

export async function fail(open: OpenStream, error: unknown): Promise<void> {
  if (open.isOver) return
  end(open)
  open.stream.cancel()
  const apiError = asStreamError(error)
  await open.payment?.fail(apiError, apiError === TOO_SHORT || open.stream.isCostly?.())
  closeWith(open, lastEvent(open, apiError))
}

/** Sends the last text to the reader, who may have left during settlement. */
function closeWith(open: OpenStream, text: string): void {
  try {
    if (text !== '') open.out?.enqueue(new TextEncoder().encode(text))
    open.out?.close()
  } catch {
    open.out = undefined
  }
}

/** Ends a stream with an error. When no read is pending, it ends at once instead of at the next read. */
export function halt(open: OpenStream, apiError: ApiError): void {
  open.engine.ports.background(fail(open, apiError))
}

/** Ends the stream here: what was delivered is paid for, and the reader is told why it ends. */
export async function terminate(open: OpenStream, apiError: ApiError): Promise<void> {
  if (open.isOver) return
  if (open.pulledAt !== undefined && !open.stream.hasContent()) return halt(open, apiError)
  open.stream.cancel()
  await close(open, { last: () => lastEvent(open, apiError), isWhole: false })
}
