/** The chain interface (decision 5). */
import type { Usdc } from '../x402/money.ts'
import type { Receipt, Payment, Offer } from '../x402/protocol.ts'
import type { Terms } from '../x402/offer.ts'
import type { ChainFamily } from './chain_family.ts'
import type { ChainKeys } from './chain_keys.ts'
import type { PaymentCode, Refused, Unavailable, Securing, Refunding } from './chain_outcomes.ts'
import type { RecordMove } from './storage/mod.ts'

/**
 * `payer` is the wallet that has signed this payload. `fundedBy` names the balance that pays, when it is not the
 * payer's own balance of the asset: exposure is summed over it. `otherAddress` is a second address that the payload
 * names, which proves nothing: a block-list refuses either, an allow-list wants the payer. `signer` is another key that
 * has signed this payload: what it ordered before the payer was proven stays its own.
 */
export type Identity =
  | {
      kind: 'known'
      payer: string
      key: string
      expiresAt: number
      fundedBy?: string
      otherAddress?: string
      signer?: string
    }
  | Refused
  | Unavailable

/**
 * `block` is the block or slot of the balance, in the numbering of the chain's receipts. `holds` is asked once the call
 * is open: false where the money may be on its way back to the payer since, so that the call must not begin.
 */
export type Verdict =
  | {
      kind: 'valid'
      balance?: Usdc
      asOf: number
      block?: number
      /** The money was deposited for this seller before: `drawDown` can settle it. */
      isPrepaid?: true
      /** The money is deposited for this seller on chain, or will be before the work begins (`secure`). */
      isSecured?: true
      holds?(at: { now: number }): Promise<boolean>
    }
  | Refused
  | Unavailable

/**
 * Change that settling makes in storage, and its receipt. Whoever stores it reports at the end whether it was stored.
 */
export type DrawDown = { readonly spent: RecordMove; readonly receipt: Receipt; end(isStored: boolean): void }

export type Settlement =
  | { kind: 'settled'; receipt: Receipt }
  /** This attempt sent nothing, or the authorization is dead. With a code, a fresh signature helps. */
  | { kind: 'refused'; reason: string; code?: PaymentCode }
  /**
   * This attempt sent nothing, for a reason on our side, such as a relayer without gas. The authorization is still
   * good.
   */
  | Unavailable
  | { kind: 'unknown'; reason: string }

export type Fate =
  | { kind: 'paid'; receipt: Receipt }
  | { kind: 'open' }
  | { kind: 'dead'; code?: PaymentCode }
  | { kind: 'unknown'; reason: string }

/**
 * `isFree`: whether no call that is under way was paid with this key, as `identify` returns it. `isFrom`: whether the
 * call that was paid with it was ordered from the address of whoever asks.
 */
export type RefundOptions = {
  readonly now: number
  readonly signal: AbortSignal
  isFree(key: string): Promise<boolean>
  isFrom(key: string): Promise<boolean>
}

/**
 * `no_gas`: the accounts that pay for settlements are low. `no_key`: other replicas hold every key. `clock`: the clock
 * of this process is not trusted. `newer_schema`: a newer version has upgraded the database, and this one cannot use
 * it. `storage`: the database file is damaged or cannot be flushed. `reason` is for the operator only.
 */
export type Closed = {
  readonly code: 'no_gas' | 'no_key' | 'clock' | 'newer_schema' | 'storage'
  readonly reason: string
}

/** A wallet's signature over a text, which proves its identity without paying. */
export type Proof = { readonly wallet: string; readonly message: string; readonly signature: string }

/**
 * The result of comparing a configuration with its chain. `problems` and `warnings` start with the name of the setting,
 * and contain no secret.
 */
export type CheckResult<Details = unknown> =
  | ({ readonly kind: 'ready'; readonly warnings: readonly string[] } & Details)
  /** The configuration does not match the chain; the gateway must not sell with it. */
  | { readonly kind: 'wrong'; readonly problems: readonly string[] }
  /** The node does not answer; try again. */
  | { readonly kind: 'unavailable'; readonly reason: string }

/** `charge` is given only for schemes that charge by use. */
export type SettleOptions = { readonly now: number; readonly signal: AbortSignal; readonly charge?: Usdc }

/** Questions about money on one network (decision 19), and about a wallet's identity and balance. */
export interface Chain {
  /** The families of the networks that it is paid on, preferred first. */
  readonly families: readonly ChainFamily[]
  /**
   * Balance of an address in the asset that is asked for. Rejects when it cannot be read, or when the address is
   * invalid.
   */
  balance?(address: string, at: { signal: AbortSignal }): Promise<Usdc>
  /**
   * Terms that it accepts, preferred first. Synchronous, from cache, never I/O. Empty until checked: no paid route
   * opens before.
   */
  terms(now: number): readonly Terms[]
  /** Why it does not sell although it was checked; undefined while it sells. Synchronous, like `terms`. */
  closed?(now: number): Closed | undefined
  /** Compares the configuration with the chain. When it passes, terms open and stay open. Moves nothing. */
  check?(at: { now: number }): Promise<CheckResult>
  /** Reads what offers and the check of gas need. Called every few seconds while the gateway runs. */
  refresh?(at: { now: number }): Promise<void>
  /**
   * Whether the wallet has signed the message in this chain's scheme. Absent when no client uses such proofs. Never
   * rejects.
   */
  proves?(proof: Proof): Promise<boolean>
  /**
   * The wallet, in its canonical spelling, when it has signed the message as accounts of this network sign texts: by
   * EIP-191 or, with code, by ERC-1271; by Ed25519 on Solana. Undefined when it has not, or for another network. Never
   * rejects.
   */
  hasSigned?(proof: Proof & { readonly network: string }, at: { signal: AbortSignal }): Promise<string | undefined>
  /**
   * Identifies the signer and the authorization's key; checks only signature, domain, asset and recipient. No I/O for
   * plain accounts. `now` dates authorizations that state no expiry.
   */
  identify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Identity>
  /** Whether it would pay now. Moves no money. */
  verify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Verdict>
  /**
   * Brings the deposit of a verified payment on chain, once, however often it is asked. It is asked before the work
   * begins. Absent where nothing is deposited.
   */
  secure?(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Securing>
  /**
   * Moves the offer's amount or, where the scheme charges by use (`chargesUse`), `charge`, which is at most that. A
   * call has one charge, however often it is tried. Without one the whole amount is charged.
   */
  settle(payment: Payment, offer: Offer, at: SettleOptions): Promise<Settlement>
  /**
   * How a prepaid authorization is settled by one change of a record, for a caller that stores it together with the
   * call. Undefined where it takes more than that. It asks nobody but storage, and writes nothing.
   */
  drawDown?(payment: Payment, offer: Offer, at: Omit<SettleOptions, 'signal'>): Promise<DrawDown | undefined>
  /**
   * The outcome of an authorization. `paid` requires our own transfer, and its receipt says what was moved; a `charge`
   * of zero is paid without one. `dead` means that it can never move money. Monotone: both are final. `expiresAt`, as
   * identify() first returned it, bounds the search on chains without nonces.
   */
  fate(payment: Payment, offer: Offer, at: SettleOptions & { expiresAt?: number }): Promise<Fate>
  /**
   * Sends deposited money back to the payer who asks for it, where no call that is under way needs it (decision 133).
   * Absent where nothing is deposited.
   */
  refund?(payment: Payment, offer: Offer, at: RefundOptions): Promise<Refunding>
  /** Payments by API keys. Absent where keys are off. */
  readonly apiKeys?: ChainKeys
}
