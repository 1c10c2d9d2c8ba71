/** Outcomes of payments, deposits and refunds on a chain (decision 53). */
import type { Receipt } from '../x402/protocol.ts'

export type PaymentCode =
  | 'PAYMENT_INVALID'
  | 'PAYMENT_UNFUNDED'
  | 'PAYMENT_REPLAY'
  | 'PAYMENT_BLOCKHASH_STALE'
  | 'PAYMENT_VERIFICATION_UNAVAILABLE'

/** With `corrected`, the buyer can sign again from what the chain knows better than the buyer does. */
export type Refused = { kind: 'refused'; code: PaymentCode; reason: string; corrected?: Corrected }

/**
 * A corrected offer of the scheme that was signed. It comes first in the next 402, with `extra` beside its own; `error`
 * is the top-level `error` of that 402.
 */
export type Corrected = { readonly extra: Readonly<Record<string, unknown>>; readonly error: string }

export type Unavailable = { kind: 'unavailable'; reason: string }

/** Outcome of a deposit that has to be made before the work. The buyer gets `extra`, whatever becomes of the call. */
export type Securing =
  | { kind: 'secured'; extra?: Readonly<Record<string, unknown>> }
  | Refused
  | Unavailable
  /** It was sent, and may still be mined. The same payment asks for its outcome. */
  | { kind: 'unknown'; reason: string }

/**
 * Outcome of a refund. The receipt's `amount` is what was sent to the payer. `isRepeated`: an earlier request got the
 * same answer.
 */
export type Refunding =
  | { kind: 'refunded'; receipt: Receipt; isRepeated?: true }
  | Refused
  | Unavailable
  /** It was sent, and may still be mined. The same request asks for its outcome. */
  | { kind: 'unknown'; reason: string }
