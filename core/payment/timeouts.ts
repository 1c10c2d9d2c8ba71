/** How long each step of a paid call may take. */

/** How long things may take, in milliseconds. The settlement lease outlives the deadline given to `settle`. */
export type Timeouts = {
  readonly verifyMs: number
  readonly settleMs: number
  readonly settleLeaseMs: number
  /** How often an owner must say that it is alive. */
  readonly workLeaseMs: number
  /** A job that runs longer has stalled (contract 2.20). */
  readonly maxJobMs: number
  /** How long after an authorization's end its fate may stay unknown before a person is called (decision 16). */
  readonly unresolvedMs: number
  /** How long a poll waits for another poll's settlement. */
  readonly takenMs: number
  /** Longest wait until a vendor has taken a job (contract 12.41). */
  readonly submitMs: number
  /**
   * Longest wait for an answer, for the first event of a stream, and for the next one while the reader asks (contract
   * 6.52).
   */
  readonly answerMs: number
  /** Longest stream. */
  readonly streamMs: number
  /**
   * How long an answer that is ready waits for its settlement; it is then served, unless its payment is known to be
   * refused (contract 6.47).
   */
  readonly receiptMs: number
  /** A stream settles when its authorization has so long to live. */
  readonly marginMs: number
  /** An authorization for what is settled after it was given lives at least so long when it comes (contract 1.63). */
  readonly minLifeMs: number
  /** How long an identical resend of a paid request is given the stored answer (contract 1.39). */
  readonly resendMs: number
  /** How long a refused settlement after delivery keeps its payer from further answers (decision 41). */
  readonly unpaidBlockMs: number
}

export const timeouts: Timeouts = {
  verifyMs: 8_000,
  settleMs: 30_000,
  settleLeaseMs: 45_000,
  workLeaseMs: 30_000,
  maxJobMs: 3_600_000,
  unresolvedMs: 600_000,
  takenMs: 40_000,
  submitMs: 20_000,
  answerMs: 120_000,
  streamMs: 500_000,
  receiptMs: 10_000,
  marginMs: 30_000,
  minLifeMs: 20_000,
  resendMs: 600_000,
  unpaidBlockMs: 86_400_000,
}
