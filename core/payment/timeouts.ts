/** Time limits for the steps of a paid call. */

/** Time limits in milliseconds. The settlement lease outlives the deadline given to `settle`. */
export type Timeouts = {
  readonly verifyMs: number
  readonly settleMs: number
  readonly settleLeaseMs: number
  /** How often a worker must renew its leases. */
  readonly workLeaseMs: number
  /** A job that runs longer counts as stalled (contract 2.20). */
  readonly maxJobMs: number
  /**
   * How long after an authorization expires its outcome may stay unknown before an operator is alerted (decision 16).
   */
  readonly unresolvedMs: number
  /** How long a caller waits for a settlement of its call that is under way elsewhere (contract 1.90). */
  readonly takenMs: number
  /** Deadline for a vendor to accept a job (contract 12.41). */
  readonly submitMs: number
  /**
   * Deadline for an answer, for the first event of a stream, and for each next event while the reader waits (contract
   * 6.52).
   */
  readonly answerMs: number
  /** Maximum duration of a stream. */
  readonly streamMs: number
  /**
   * How long a finished answer waits for its settlement. It is then served, unless its payment is known to be refused
   * (contract 6.47).
   */
  readonly receiptMs: number
  /** A stream is settled when its authorization has this long to live. */
  readonly marginMs: number
  /** Minimum remaining life of an authorization for calls that are settled after the answer (contract 1.63). */
  readonly minLifeMs: number
  /** How long an identical resend of a paid request gets the stored answer (contract 1.39). */
  readonly resendMs: number
  /** How long a refused settlement after delivery blocks its payer (decision 41). */
  readonly unpaidBlockMs: number
}

/**
 * The time limits of a gateway that sets none, in milliseconds.
 *
 * @example
 * const longest = timeouts.maxJobMs
 */
export const timeouts: Timeouts = {
  verifyMs: 8_000,
  settleMs: 30_000,
  settleLeaseMs: 45_000,
  workLeaseMs: 30_000,
  maxJobMs: 3_600_000,
  unresolvedMs: 600_000,
  takenMs: 3_000,
  submitMs: 20_000,
  answerMs: 120_000,
  streamMs: 500_000,
  receiptMs: 10_000,
  marginMs: 30_000,
  minLifeMs: 20_000,
  resendMs: 600_000,
  unpaidBlockMs: 86_400_000,
}
