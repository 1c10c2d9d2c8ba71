/** How a stream ends that has no normal end, and what its last event says of the charge. */
import type { AnswerStream } from '../../endpoint/mod.ts'
import { errorEvent, type ErrorFormat } from '../../http/error_formats.ts'
import { ApiError, causedBy } from '../../http/errors.ts'
import type { Charge } from './payment_report.ts'

type Ended = {
  readonly stream: AnswerStream
  readonly errorFormat: ErrorFormat
  readonly charge: Charge
  readonly payment?: { readonly chargesUse?: boolean }
}

/** The last event of a stream that ends with an error. It states what was charged (contract 3.24). */
export function lastEvent({ stream, errorFormat, charge, payment }: Ended, apiError: ApiError): string {
  const outcome = payment?.chargesUse ? BY_USE[charge] : CHARGES[charge]
  return errorEvent(withCharge(apiError, outcome), errorFormat, stream.nextSequence?.())
}

export function asStreamError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  return causedBy(new ApiError('MODEL_UNAVAILABLE', { message: 'The model ended its answer early.' }), error)
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

export const tooLong = (ms: number) =>
  new ApiError('UPSTREAM_TIMEOUT', { message: `The stream reached its limit of ${ms / 1000} seconds.` })
export const STOPPING = new ApiError('MODEL_UNAVAILABLE', { message: 'The gateway is stopping; the stream ends here.' })
export const LEFT = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The caller disconnected before the answer began. Nothing was charged.',
})
export const EMPTY = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The model ended without an answer. Nothing was charged.',
})
export const STALLED = new ApiError('UPSTREAM_TIMEOUT', { message: 'The model stopped in the middle of its answer.' })
export const TOO_SHORT = new ApiError('UPSTREAM_TIMEOUT', {
  message: 'The authorization was about to expire before the answer began. Nothing was charged.',
})
export const TAKEN = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The payment of this stream now serves another call or was refunded.',
})
export const AWAY = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The gateway could not reach its storage for too long; the stream ends here.',
})
export const REFUSED = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The payment of this stream was refused, so it ends here.',
})
