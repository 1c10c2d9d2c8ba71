/** The table of schemes: every way to pay by every promise. A way that can be configured needs a row to build. */
import type { Chain, Clock, Offer, Payment, Storage } from '../../../core/mod.ts'
import type { WayToPay as Configured } from '../../../server/config/payment_methods.ts'

/** MPP comes with `exact` that we settle ourselves, and API keys with `batch-settlement`, whatever the network. */
export type WayToPay = Configured | 'evm/charge' | 'solana/charge' | 'evm/keys'

/** Promises of every way to pay. The tests of `promises.ts` have these names. */
export const PROMISES = {
  identity: 'a wallet is who has signed this payment',
  published: 'what the chain publishes reads nothing',
  drained: 'a wallet that is emptied takes no whole answer',
  drained_stream: 'a wallet that is emptied takes no more streams than a new wallet may have',
  parallel: 'the money for one buys one, however many are ordered at once',
  nonces: 'a payment buys once, whatever it is sent with',
  lists: 'lists of wallets hold for who signed, and cannot be used in the name of another',
  limits: 'a limit of spending holds, and is not used up by others',
  metering: 'every call is counted: opened, completed, settled',
  reports: 'reports of a wallet say what left it',
  receipts: 'a receipt names who paid, and what was charged',
  new_wallets: 'a wallet that has paid nothing has few calls open',
  gas: 'what a buyer can make the operator spend on gas is bounded',
  kill: 'a process that is killed charges once, and its successor delivers',
  pause: 'a node that does not answer charges nobody twice, and the answer is paid when it is back',
  clock: 'a replica with a wrong clock takes no payment that it should refuse',
  unreadable_balance: 'a wallet whose balance cannot be read has one open call',
  no_gas: 'without gas nothing is sold, and nothing that was signed is lost',
  refunds: 'money that was not charged stays with its owner, or returns to it',
} as const
export type PromiseName = keyof typeof PROMISES

export type Cell =
  /** The promise's own test, run for this way to pay. */
  | { readonly kind: 'run' }
  /** A test of this scheme alone: its file below test/, and its title as the source has it. */
  | { readonly kind: 'tested'; readonly file: string; readonly title: string }
  /** Why the promise cannot be broken, or has no meaning, for this way to pay. */
  | { readonly kind: 'reason'; readonly why: string }

export type Row = Readonly<Record<PromiseName, Cell>>
export type Table = Readonly<Record<WayToPay, Row>>

// ── what a promise is tried on ──────────────────────────────────────────────────────────────────────────────────────

/** A wallet, and the hands on its money. */
export type Buyer = {
  /** As receipts name it. */
  readonly address: string
  /** A good payment for the offer, another one each time: nonces, and salts where a scheme has them, are fresh. */
  pay(offer: Offer): Promise<Payment>
  /** Signs the next purchase of a client, by the receipt of the one before; `pay` unless it differs. */
  payNext?(offer: Offer, receipt: Readonly<Record<string, any>> | undefined): Promise<Payment>
  /** The money leaves the wallet, as its owner's own transfer would have it. */
  drain(): Promise<void>
}

/** One way to pay, with a chain of its own. */
export type Scheme = {
  readonly way: WayToPay
  /** The scheme of its offers. */
  readonly scheme: string
  readonly chain: Chain
  readonly clock: Clock
  /** A wallet that can pay for so many calls of this price at once, each by a payment of `pay`. */
  buyer(calls: number, price: bigint): Promise<Buyer>
  /** Payments in the name of a wallet by a stranger who has none of its keys, but money and everything public. */
  forged(victim: string, offers: readonly Offer[]): Promise<readonly Payment[]>
  /** The part of a 402 that a client reads, if not its offers of x402. */
  read?(offers: readonly Offer[], headers: Headers): readonly Offer[]
  /** The headers that pay, if not those of x402. */
  headers?(payment: Payment): Readonly<Record<string, string>>
  /** Balance of the seller: in its own account, and in contracts that pay nobody else without its word. */
  received(): Promise<bigint>
  /** The node, or the service that settles, does not answer; or does again. */
  outage(isOn: boolean): void
  /** Only where the operator sends transactions that may revert, and on a chain that charges gas for them. */
  readonly gas?: {
    /** The wallet is emptied between the last look at it and each transaction; `fill` gives the money back. */
    emptyBeforeSends(address: string): { fill(): Promise<void> }
    /** How many of the operator's transactions have reverted. */
    reverted(): Promise<number>
  }
  close(): Promise<void>
}

export type SchemeFactory = (storage: Storage) => Promise<Scheme>
