/** Problem types of MPP (RFC 9457), as the body of a 402 has them beside our own members. */

const BASE = 'https://paymentauth.org/problems/'

const TITLES = {
  'payment-required': 'Payment Required',
  'payment-insufficient': 'Payment Insufficient',
  'payment-expired': 'Payment Expired',
  'verification-failed': 'Verification Failed',
  'malformed-credential': 'Malformed Credential',
  'invalid-payload': 'Invalid Payload',
  'invalid-challenge': 'Invalid Challenge',
} as const

/** Why a 402 was sent. */
export type Problem = keyof typeof TITLES

type ProblemMembers = {
  readonly type: string
  readonly title: string
  readonly status: 402
  readonly detail?: string
}

export const problemMembers = (problem: Problem, detail?: unknown): ProblemMembers => ({
  type: BASE + problem,
  title: TITLES[problem],
  status: 402,
  ...(typeof detail === 'string' && { detail }),
})
