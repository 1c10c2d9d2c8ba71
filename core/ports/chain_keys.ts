/** Payments by API keys, which pay from channels of their own (contract, area 23). */
import type { Usdc } from '../x402/money.ts'
import type { Offer, Payment } from '../x402/protocol.ts'
import type { Refunding, Securing } from './chain_outcomes.ts'

/** A key that was opened for one request. */
export type OpenedKey = {
  readonly address: string
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

export type KeyPayment = { readonly kind: 'payment'; readonly payment: Payment; readonly offer: Offer }

/** Outcome of a deposit that pays for no call. */
export type KeyDeposit =
  | { readonly kind: 'deposited'; readonly channel: KeyChannel; readonly transaction: string }
  | Exclude<Securing, { kind: 'secured' }>

/** `test` for keys of test networks, `live` for keys of real money. */
export type KeyMode = 'test' | 'live'

type At = { readonly now: number; readonly signal: AbortSignal }

/** Questions about API keys on the networks of a gateway. */
export interface ChainKeys {
  /** Keys of other modes pay nothing here. */
  readonly modes: readonly KeyMode[]
  /** Derives the key of a seed, which stays the caller's. */
  open(seed: Uint8Array): Promise<OpenedKey>
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
  /** Brings a deposit on chain that names a key, and makes the key known. */
  deposit(payment: Payment, at: At): Promise<KeyDeposit>
  /** Sends what is left back to the payer, once no call is open. */
  close(key: OpenedKey, network: string | undefined, at: At): Promise<Refunding | undefined>
  /** Ends the reservation of a call that failed, by the key of its authorization. */
  release(authorization: string, now: number): Promise<void>
}
