/** Advice to clients for each error: the last column of the reference page's table. */
import type { ApiErrorCode } from '../http/errors.ts'

const CORRECT = 'Correct what the message names, and send it again.'
const LATER = 'Wait as long as `Retry-After` says, then send the same request again.'
const AGAIN = 'Send the same request again, with the same payment.'
const OTHER = 'Choose another model, or come back later.'

const BY_CODE: Readonly<Partial<Record<ApiErrorCode, string>>> = {
  INVALID_MODEL: 'Choose one of `available_models`.',
  INVALID_SIZE: 'Choose one of `valid_sizes`.',
  CONTENT_POLICY: 'Change the prompt or the picture: the model refuses this one.',
  CONTEXT_LENGTH_EXCEEDED: 'Shorten the conversation, or choose a model with a larger window.',
  STREAM_UNSUPPORTED: 'Leave `stream` out.',
  INVALID_CONTENT_TYPE: 'Send `content-type: application/json`.',
  NOT_ALLOWED: 'Ask the operator to list this wallet.',
  PAYER_MISMATCH: 'Use the wallet that has bought it.',
  AUTHORIZATION_USED: 'Sign a new payment.',
  PAYMENT_IDENTIFIER_CONFLICT: 'Choose a new id for a new request.',
  TOO_LARGE: 'Send less: `max_bytes` says how much is allowed.',
  FREE_TIER_RATE_LIMITED: 'Wait, or use a paid model.',
  WORK_FAILED: 'Send it again with the same payment, or change the request.',
  UPSTREAM_TIMEOUT: 'Send it again with the same payment, or ask for less.',
  MODEL_UNAVAILABLE: OTHER,
  PROVIDER_CONFIG_ERROR: OTHER,
  NOT_CONFIGURED: 'Only the operator can turn it on. Choose something else.',
  FACE_NOT_ACTIVE: 'Finish the check of the face first, then send it again.',
}

/** Errors of a 402, which have codes of their own. */
export const PAYMENT_ADVICE = [
  [
    '(no code)',
    'Nothing was paid yet: the body and `PAYMENT-REQUIRED` have the price.',
    'Sign one of `accepts`, and send the same request again with the payment in `PAYMENT-SIGNATURE`.',
  ],
  [
    'PAYMENT_INVALID',
    'The payment does not fit this request, or its signature is wrong. Nothing was charged.',
    'Sign a payment for the offer of this 402.',
  ],
  [
    'PAYMENT_UNFUNDED',
    'The wallet holds less than the price. Nothing was charged.',
    'Fund the wallet, then send the same request again.',
  ],
  [
    'PAYMENT_REPLAY',
    'This payment has already served a request.',
    'Collect the result of that request at `poll_url`, where there is one; else sign a new payment.',
  ],
  [
    'settlement_failed',
    'The chain refused the payment after the work. Nothing was charged.',
    'Follow `poll_url` with a new payment: the result is kept for you.',
  ],
] as const

/** Returns the advice for an error of this name and status. */
export function adviceOf(name: string, status: number): string {
  const own = BY_CODE[name as ApiErrorCode]
  if (own !== undefined) return own
  if (status === 429 || status === 503) return LATER
  if (status >= 500) return AGAIN
  if (status === 404) return 'Check the path and the id.'
  return CORRECT
}
