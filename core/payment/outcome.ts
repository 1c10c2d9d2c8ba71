/**
 * How a settlement ends, and what its end means for the reply. Deliveries, polls and second payments look it up here
 * and decide nothing themselves.
 */
import type { Call, Corrected, PaymentCode } from '../ports/mod.ts'
import type { Receipt } from '../x402/protocol.ts'

/** The result of a settlement attempt. Only `settled` means that money moved. */
export type Paying =
  | { kind: 'settled'; receipt: Receipt; now: boolean }
  /** Its quote is zero: the result is stored and nothing is settled. */
  | { kind: 'free' }
  /** The authorization could not be settled. With a code, a new signature helps. */
  | { kind: 'refused'; reason: string; code?: PaymentCode }
  /** The new authorization of a poll did not verify. */
  | { kind: 'rejected'; code: PaymentCode; reason: string; corrected?: Corrected }
  /** The chain is temporarily unreachable; nothing was sent. */
  | { kind: 'unavailable'; reason: string }
  /** `isElsewhere`: the settlement goes on, and this caller did not wait for its end. */
  | { kind: 'unknown'; reason: string; isElsewhere?: true }
  /** Unknown for so long that the buyer gets the result without a settlement (decision 16). */
  | { kind: 'unresolved'; reason: string }
  /** The offered authorization serves another call. */
  | { kind: 'replayed'; call: Call }

/** Nothing is left to pay. */
export type Paid = Extract<Paying, { kind: 'settled' | 'free' }>
export const isPaid = (paying: Paying): paying is Paid => paying.kind === 'settled' || paying.kind === 'free'

/**
 * The ends that the table tells apart. `expired` is `unavailable` with an authorization that has expired unsent: it can
 * never be settled, although the chain cannot confirm this now. `elsewhere` is `unknown` with `isElsewhere`.
 */
export const ENDS = [
  'settled',
  'free',
  'refused',
  'rejected',
  'replayed',
  'unavailable',
  'expired',
  'unknown',
  'elsewhere',
  'unresolved',
] as const
export type End = (typeof ENDS)[number]

/**
 * Where an end is met: in the only reply of an inline call; in the reply of a hybrid call within its window; after an
 * answer, whole or streamed; in background work; by a poll; by an inline order that is sent again; by the second
 * payment of a call.
 */
export type Moment = 'inline' | 'hybrid' | 'answer' | 'background' | 'poll' | 'resend' | 'second_payment'

/**
 * `serve`: the buyer gets the result now. `withhold`: it gets the reason, and the result is kept for a poll. `pending`:
 * it is told to ask again. `note`: whether the call is recorded as unpaid by its wallet.
 */
export type Meaning = { readonly reply: 'serve' | 'withhold' | 'pending'; readonly note: 'none' | 'unpaid' }

/** `unpaid_if_lost`: unless the same authorization can still pay for a result that has cost the operator nothing. */
type Row = { readonly reply: Meaning['reply']; readonly note: Meaning['note'] | 'unpaid_if_lost' }

const SERVE: Row = { reply: 'serve', note: 'none' }
const SERVE_UNPAID: Row = { reply: 'serve', note: 'unpaid' }
const WITHHOLD: Row = { reply: 'withhold', note: 'none' }
const WITHHOLD_UNPAID: Row = { reply: 'withhold', note: 'unpaid' }
const WITHHOLD_IF_LOST: Row = { reply: 'withhold', note: 'unpaid_if_lost' }
const PENDING: Row = { reply: 'pending', note: 'none' }

/** An authorization that is too short leaves a result uncollected, just as a caller who disconnects does. */
const INLINE: Readonly<Record<End, Row>> = {
  settled: SERVE,
  free: SERVE,
  refused: WITHHOLD_IF_LOST,
  rejected: WITHHOLD_IF_LOST,
  replayed: WITHHOLD_IF_LOST,
  unavailable: SERVE_UNPAID,
  expired: WITHHOLD,
  unknown: SERVE_UNPAID,
  elsewhere: SERVE_UNPAID,
  unresolved: SERVE_UNPAID,
}

const HYBRID: Readonly<Record<End, Row>> = {
  settled: SERVE,
  free: SERVE,
  refused: WITHHOLD,
  rejected: WITHHOLD,
  replayed: WITHHOLD,
  unavailable: PENDING,
  expired: PENDING,
  unknown: PENDING,
  elsewhere: PENDING,
  unresolved: PENDING,
}

/** The buyer may have the answer already, so that whatever is not settled is noted. */
const ANSWER: Readonly<Record<End, Row>> = {
  settled: SERVE,
  free: SERVE,
  refused: WITHHOLD_UNPAID,
  rejected: WITHHOLD_UNPAID,
  replayed: WITHHOLD_UNPAID,
  unavailable: SERVE_UNPAID,
  expired: WITHHOLD_UNPAID,
  unknown: SERVE_UNPAID,
  elsewhere: SERVE_UNPAID,
  unresolved: SERVE_UNPAID,
}

/** Nobody has read the answer: what is not settled waits for a poll (contract 7.17). */
const BACKGROUND: Readonly<Record<End, Row>> = {
  settled: SERVE,
  free: SERVE,
  refused: PENDING,
  rejected: PENDING,
  replayed: PENDING,
  unavailable: PENDING,
  expired: PENDING,
  unknown: PENDING,
  elsewhere: PENDING,
  unresolved: PENDING,
}

const POLL: Readonly<Record<End, Row>> = {
  settled: SERVE,
  free: SERVE,
  refused: WITHHOLD,
  rejected: WITHHOLD,
  replayed: WITHHOLD,
  unavailable: PENDING,
  expired: PENDING,
  unknown: PENDING,
  elsewhere: PENDING,
  unresolved: SERVE,
}

/** The first payment of the same request follows, so that its wallet owes that one from here on. */
const SECOND_PAYMENT: Readonly<Record<End, Row>> = {
  settled: SERVE_UNPAID,
  free: PENDING,
  refused: WITHHOLD,
  rejected: WITHHOLD,
  replayed: WITHHOLD,
  unavailable: WITHHOLD,
  expired: WITHHOLD,
  unknown: PENDING,
  elsewhere: PENDING,
  unresolved: PENDING,
}

const TABLE: Readonly<Record<Moment, Readonly<Record<End, Row>>>> = {
  inline: INLINE,
  hybrid: HYBRID,
  answer: ANSWER,
  background: BACKGROUND,
  poll: POLL,
  resend: { ...POLL, unknown: SERVE },
  second_payment: SECOND_PAYMENT,
}

/** `isExpired`: the authorization has expired. `costsOperator`: the work has cost the operator money. */
type At = { readonly moment: Moment; readonly isExpired?: boolean; readonly costsOperator?: boolean | undefined }

/** Looks up the meaning of a settlement's end at one moment. */
export function meaningOf(paying: Paying, { moment, isExpired = false, costsOperator = false }: At): Meaning {
  const { reply, note } = TABLE[moment][endOf(paying, isExpired)]
  if (note !== 'unpaid_if_lost') return { reply, note }
  return { reply, note: isExpired || costsOperator ? 'unpaid' : 'none' }
}

function endOf(paying: Paying, isExpired: boolean): End {
  if (paying.kind === 'unavailable' && isExpired) return 'expired'
  return paying.kind === 'unknown' && paying.isElsewhere ? 'elsewhere' : paying.kind
}

/** Why nothing was paid, for the buyer. */
export function reasonOf(paying: Exclude<Paying, Paid>): string {
  return paying.kind === 'replayed' ? 'the authorization serves another call' : paying.reason
}
