/** Payments by API keys, which pay from channels of their own (contract, area 23). */
import type { KeyMode } from '../x402/api_key.ts'
import type { Usdc } from '../x402/money.ts'
import type { Offer, Payment } from '../x402/protocol.ts'
import type { Refunding, Securing } from './chain_outcomes.ts'

/** A key that was opened for one request. */
export type OpenedKey = {
  readonly address: string
  /** It spends a part of another key's deposit (contract 23.14). */
  readonly isChild: boolean
  /** Wipes the key, unless a call that it pays for is open: then the end of that call does. */
  end(): void
}

/** Balance of a key in one channel. Amounts are in base units. */
export type KeyChannel = {
  readonly network: string
  readonly channelId: string
  /** The wallet that gets every refund. */
  readonly payer: string
  /** Everything that was deposited and not paid back. */
  readonly deposited: Usdc
  readonly charged: Usdc
  readonly claimed: Usdc
  /** Of calls that are open. */
  readonly reserved: Usdc
  readonly withdrawing: Usdc
  /** Largest charge of a next call. */
  readonly available: Usdc
}

/** A channel of a key, for the operator. */
export type ListedKey = KeyChannel & {
  /** Of the key, in lower case. */
  readonly address: string
  /** Charged, and not claimed yet. */
  readonly unclaimed: Usdc
  /** Gas that the gateway has paid since the last refund, in base units. */
  readonly gasSpent: Usdc
  /** The same since the first deposit, with its part of claims. */
  readonly gasPaid: Usdc
  /** When it was charged or topped up last, in milliseconds. */
  readonly usedAt?: number | undefined
}

/**
 * A call that a key orders. `name` is unique. `isLate`: the voucher is signed when the call is charged, by this
 * process; otherwise now, for a ceiling. `until`: when the reservation ends if nobody ends it, in milliseconds.
 */
export type KeyOrder = {
  readonly offers: readonly Offer[]
  readonly name: string
  readonly isLate: boolean
  readonly until: number
}

/** A key that spends a part of another key's deposit. Amounts are in base units. */
export type ChildKey = {
  readonly address: string
  /** As its parent calls it. */
  readonly name: string
  /** Models that it may buy; empty for all. */
  readonly models: readonly string[]
  /** Calls in a minute; undefined for no limit of its own. */
  readonly perMinute?: number | undefined
  /** When it ends, in milliseconds. */
  readonly until: number
  readonly status: 'active' | 'revoked' | 'expired'
  readonly cap: Usdc
  /** Undefined once it has ended: the ledger knows. */
  readonly charged?: Usdc
  /** Of calls that are open. */
  readonly reserved: Usdc
  /** Largest charge of a next call. */
  readonly available: Usdc
}

/** A child that is to be made, by the address of its key. */
export type Lending = Pick<ChildKey, 'address' | 'name' | 'models' | 'perMinute' | 'until' | 'cap'>

export type Lent = { readonly kind: 'lent'; readonly child: ChildKey } | Exclude<Securing, { kind: 'secured' }>

/** The address of the key, with the key itself, or the wallet that has asked in its place. */
export type KeyClosing = { readonly address: string; readonly key?: OpenedKey; readonly payer?: string }

export type KeyPayment = { readonly kind: 'payment'; readonly payment: Payment; readonly offer: Offer }

/** Outcome of a deposit that pays for no call. */
export type KeyDeposit =
  | { readonly kind: 'deposited'; readonly channel: KeyChannel; readonly transaction: string }
  | Exclude<Securing, { kind: 'secured' }>

type At = { readonly now: number; readonly signal: AbortSignal }

/** `requireListed`: throws where nothing is sold to this payer or key. Asked once both have signed. */
export type KeyDepositOptions = At & { requireListed?(payer: string, key: string): void }

/** `settleFinished`: charges the call of an authorization if its result is there and unpaid. */
export type KeyClosingOptions = At & {
  settleFinished(authorization: string, payFor: (offer: Offer) => Payment): Promise<void>
}

/** Questions about API keys on the networks of a gateway. */
export interface ChainKeys {
  /** Keys of other modes pay nothing here. */
  readonly modes: readonly KeyMode[]
  /** Derives the key of a seed, which stays the caller's. */
  open(seed: Uint8Array, as?: { readonly isChild: boolean }): Promise<OpenedKey>
  /**
   * The payment of a new call, from the first channel that has enough; undefined without a channel. Verified and
   * settled like every other payment, by the process that made it. Its `secure` reserves.
   */
  pay(key: OpenedKey, order: KeyOrder, at: At): Promise<KeyPayment | undefined>
  /** The payment of a call that is open, by the key of its authorization; undefined where another key pays for it. */
  payAgain(
    key: OpenedKey,
    authorization: { readonly key: string; readonly offer: Offer },
    at: At,
  ): Promise<KeyPayment | undefined>
  /** The channels of an address, at most four. */
  channels(address: string, at: At): Promise<readonly KeyChannel[]>
  /** A page of the channels of all keys, by address: those after `after`, of at most `limit` addresses. */
  list(at: { readonly now: number; readonly after: string; readonly limit: number }): Promise<readonly ListedKey[]>
  /** Brings a deposit on chain that names a key, and makes the key known. */
  deposit(payment: Payment, at: KeyDepositOptions): Promise<KeyDeposit>
  /**
   * Sends back to the payer what is neither charged nor reserved by calls that are open. Whoever asks has shown the key
   * or, with `payer`, that wallet: then only channels of that payer are closed.
   */
  close(key: KeyClosing, at: KeyClosingOptions): Promise<Refunding | undefined>
  /** Reserves the cap of a child in the channel of its parent, and signs for it. Undefined without a channel. */
  lend(key: OpenedKey, child: Lending, at: At): Promise<Lent | undefined>
  /** A child by its address; undefined for one that is not known here. */
  child(address: string, at: At): Promise<ChildKey | undefined>
  /** The children of a key, at most a hundred, ended ones of the last thirty days too. */
  children(address: string, at: At): Promise<readonly ChildKey[]>
  /** Ends a child of this key: what is left of its cap is its parent's again. False for one that it does not have. */
  revoke(lender: string, child: string, at: At): Promise<boolean>
  /** Ends the reservation of a call that failed, by the key of its authorization. */
  release(authorization: string, now: number): Promise<void>
  /** The ledger has the charge of this authorization. Until then the channel remembers it. */
  recorded(authorization: string): void
}
