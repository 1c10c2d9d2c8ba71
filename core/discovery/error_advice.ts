/** Advice to clients for each error: the last column of the reference page's table. */
import { type ApiErrorCode, apiErrorCodes, rowOf } from '../http/errors.ts'

const CORRECT = 'Correct what the message names, and send it again.'
const LATER = 'Wait as long as `Retry-After` says, then send the same request again.'
const AGAIN = 'Send the same request again, with the same payment.'

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
  const own = isCode(name) ? rowOf(name).advice : undefined
  if (own !== undefined) return own
  if (status === 429 || status === 503) return LATER
  if (status >= 500) return AGAIN
  if (status === 404) return 'Check the path and the id.'
  return CORRECT
}

const isCode = (name: string): name is ApiErrorCode => apiErrorCodes.includes(name as ApiErrorCode)
