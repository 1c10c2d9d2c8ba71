/** Every question that core asks of a chain. */
import type { Usdc } from '../x402/money.ts'
import type { Receipt, Payment, Offer } from '../x402/protocol.ts'
import type { Terms } from '../x402/offer.ts'

export type PaymentCode =
  | 'PAYMENT_INVALID'
  | 'PAYMENT_UNFUNDED'
  | 'PAYMENT_REPLAY'
  | 'PAYMENT_BLOCKHASH_STALE'
  | 'PAYMENT_VERIFICATION_UNAVAILABLE'

export type Refused = { kind: 'refused'; code: PaymentCode; reason: string }

export type Unavailable = { kind: 'unavailable'; reason: string }

/**
 * `purse` names what it is paid from, where that is not the payer's own balance of the asset: exposure is summed over
 * it.
 */
export type Identity =
  | { kind: 'known'; payer: string; key: string; expiresAt: number; fundedBy?: string }
  | Refused
  | Unavailable

/** `block` is the block or slot that the balance was read in, by the count that receipts of the same chain use. */
export type Verdict = { kind: 'valid'; balance?: Usdc; asOf: number; block?: number } | Refused | Unavailable

export type Settlement =
  | { kind: 'settled'; receipt: Receipt }
  /**
   * Promises that this call sent nothing, or that the authorization is dead. With a code, a fresh signature is what
   * helps.
   */
  | { kind: 'refused'; reason: string; code?: PaymentCode }
  /**
   * This call sent nothing, for a reason that is ours to mend, such as a relayer without gas. The authorization is as
   * good as before.
   */
  | Unavailable
  | { kind: 'unknown'; reason: string }

export type Fate =
  | { kind: 'paid'; receipt: Receipt }
  | { kind: 'open' }
  | { kind: 'dead'; code?: PaymentCode }
  | { kind: 'unknown'; reason: string }

/**
 * `no_gas`: the accounts that pay for settlements hold too little. `no_key`: other replicas hold every key. `clock`:
 * this process does not know the time well enough. `reason` is for the operator only.
 */
export type Closed = { readonly code: 'no_gas' | 'no_key' | 'clock'; readonly reason: string }

/** A wallet's signature over a text, which proves who asks and pays nothing. */
export type Proof = { readonly wallet: string; readonly message: string; readonly signature: string }

/** Five questions about money on one network (decision 19), and two about who somebody is and what he holds. */
export interface Chain {
  /** What an address holds of the asset that is asked for. Rejects where it cannot be read, or is no address there. */
  balance?(address: string, at: { signal: AbortSignal }): Promise<Usdc>
  /**
   * What it can be paid in, preferred first. Synchronous, from cache, never I/O. Empty until checked: no paid route
   * opens before.
   */
  terms(now: number): readonly Terms[]
  /** Why it does not sell although it was checked; undefined while it sells. Synchronous, like `terms`. */
  closed?(now: number): Closed | undefined
  /**
   * Whether the wallet has signed the message, in this chain's way. Absent where no client proves itself so. Never
   * rejects.
   */
  proves?(proof: Proof): Promise<boolean>
  /**
   * Who signed, under which key; looks at signature, domain, asset and recipient only. No I/O for plain accounts. `now`
   * dates what names no end itself.
   */
  identify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Identity>
  /** Would it pay now? Moves no money. */
  verify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Verdict>
  settle(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Settlement>
  /**
   * What became of it; `paid` needs our own transfer, `dead` means it can never move money. Monotone: paid and dead are
   * final. `expiresAt`, as identify() told it first, spares a chain without nonces from looking further back than it
   * can have moved any.
   */
  fate(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal; expiresAt?: number }): Promise<Fate>
}
