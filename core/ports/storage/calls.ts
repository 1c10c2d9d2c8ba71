/**
 * The calls of buyers. Times are milliseconds since 1970 and come in as arguments; no adapter reads a clock to decide
 * something. The answer of each method is atomic; no transaction, row or handle crosses the interface.
 */
import type { Json } from '../../lib/json.ts'
import type { Usdc } from '../../x402/money.ts'
import type { Offer, Payment, Receipt } from '../../x402/protocol.ts'
import type { RecordMove } from './records.ts'

/** queued -> in_progress -> completed | failed. */
export type WorkStatus = 'queued' | 'in_progress' | 'completed' | 'failed'

/** verified -> settling -> settled | refused | unresolved; refused and unresolved may still settle later. */
export type PaymentStatus = 'verified' | 'settling' | 'settled' | 'refused' | 'unresolved'

/** Tokens that a call used: all input and all output. */
export type Usage = { readonly input: number; readonly output: number }

/** One row per paid call (decision 12). */
export type Call = {
  readonly id: string
  /** Name of the gateway that accepted it. */
  readonly gateway: string
  /** Name of the endpoint. */
  readonly endpoint: string
  /** Catalog id, for the ledger; null where the product has none. */
  readonly model: string | null
  /** Wallet that signed, in the chain's canonical spelling. */
  readonly payer: string
  /** `<network>/<asset>`, canonical; a payer's exposure is summed over it. */
  readonly asset: string
  readonly quote: Usdc
  /**
   * Amount charged. Known once the result is made if the offer is charged by use, otherwise from the receipt; null
   * until then, and where the receipt states none: the quote then counts.
   */
  readonly charge: Usdc | null
  /** The price and the recipient. It holds even when the configuration changes. */
  readonly offer: Offer
  /** Key of the authorization that opened it. */
  readonly authorization: string
  /** SHA-256 of method, path and body. A form is hashed by its fields, because its boundary is new each time. */
  readonly fingerprint: string
  /** The request fields that the endpoint stores. */
  readonly request: Json
  readonly createdAt: number
  readonly workStatus: WorkStatus
  readonly paymentStatus: PaymentStatus
  /** The process that does the work. Its lease lasts until `leaseExpiresAt` unless it is renewed. */
  readonly workerId: string
  readonly leaseExpiresAt: number
  readonly startedAt: number | null
  readonly endedAt: number | null
  /** The result; present exactly when `workStatus` is completed (and the call is not yet pruned). */
  readonly result: Json
  /** Why it failed, as the buyer may read it; present exactly when `workStatus` is failed. */
  readonly error: string | null
  /** Known when it completes, and never deleted. Null where the product has no tokens, or its vendor reported none. */
  readonly usage: Usage | null
  readonly receipt: Receipt | null
  readonly settledAt: number | null
  /** When `prune` may delete the result: the end of the claim window, or of the retention of a settled call. */
  readonly expiresAt: number
}

/** Who had a payment settled: the reply to the order, a poll, or maintenance after a reply that could not. */
export type SettledBy = 'reply' | 'poll' | 'maintenance'

/** Notes for the operator's timeline of a call. Nothing is decided by them; null if unknown. */
export type CallNotes = {
  /** When the signed request had been priced, and when its payment had been verified. */
  readonly quotedAt: number | null
  readonly verifiedAt: number | null
  /** When the first attempt to settle began. */
  readonly settlingAt: number | null
  /** The vendor's message when the work failed. For the operator, never for the buyer. */
  readonly vendorError: string | null
  /** Why the last attempt to settle moved no money, and when. */
  readonly paymentError: string | null
  readonly paymentErrorAt: number | null
  readonly settledBy: SettledBy | null
}

/** Argument of `openCall`, which adds the statuses queued and verified, and nulls. */
export type NewCall = Partial<Pick<CallNotes, 'quotedAt' | 'verifiedAt'>> &
  Omit<
    Call,
    | 'workStatus'
    | 'paymentStatus'
    | 'leaseExpiresAt'
    | 'startedAt'
    | 'endedAt'
    | 'result'
    | 'error'
    | 'usage'
    | 'charge'
    | 'receipt'
    | 'settledAt'
    | 'authorization'
  >

/** A signed payment authorization, bound to exactly one call across all gateways. */
export type Authorization = {
  /** Unique on its chain, for example `eip155:8453/0x8335…/0xpayer/0xnonce`. */
  readonly key: string
  readonly payer: string
  readonly payment: Payment
  /** The offer that it was verified against, so that it can be sent again after the configuration has changed. */
  readonly offer: Offer
  /** When it expires by its own terms. It moves no money after that. */
  readonly expiresAt: number
}

export type CallPatch = Partial<
  Pick<
    Call,
    | 'workStatus'
    | 'workerId'
    | 'leaseExpiresAt'
    | 'startedAt'
    | 'endedAt'
    | 'result'
    | 'error'
    | 'usage'
    | 'charge'
    | 'expiresAt'
  > &
    Pick<CallNotes, 'vendorError'>
>

/** The limit of a payer's open calls (contract 1.47, 1.46; decision 18). */
export type Cap = {
  /** Its balance in base units. Absent where it could not be read: the payer then has one open call at a time. */
  readonly observed?: Usdc
  /** When the balance was read, and in which block or slot where known. Settlements up to that block are in it. */
  readonly asOf: number
  readonly block?: number
  /** For a call that is served before it is paid for. */
  readonly newWallet?: NewWalletLimit
  /** For a call that costs the operator something before it is paid for. */
  readonly newWallets?: NewWalletsCap
}

/**
 * A wallet counts as new where it has paid nothing in this asset, or less than `paid` with its newest settled calls.
 * `isFull`: new wallets have as much open and unpaid as they may have together.
 */
export type NewWalletsCap = { readonly paid: Usdc; readonly isFull: boolean }

/**
 * How many calls of these endpoints, and worth how much in total, a wallet that never settled one in this asset may
 * have open.
 */
export type NewWalletLimit = { readonly calls: number; readonly worth: Usdc; readonly endpoints: readonly string[] }

/** Why a cap refuses, other than a low balance. */
export type OverWhy = 'unreadable' | 'new_wallet' | 'new_wallets'

export type Opened =
  /**
   * `atLimit`: the wallet has not paid enough here yet to have this much open unpaid (`cap.newWallet`). `isNew`: it
   * counts as new (`cap.newWallets`).
   */
  | { kind: 'opened'; call: Call; atLimit?: true; isNew?: true }
  /** The authorization already serves this call. */
  | { kind: 'replayed'; call: Call }
  /** With this call, the payer's open calls would total `sum`, above the cap. */
  | { kind: 'over'; sum: Usdc; why?: OverWhy }

/** Work that was done and paid before its call is stored: paying only moves a record of what its payer has left. */
export type PaidWork = {
  readonly result: Json
  readonly usage: Usage | null
  readonly receipt: Receipt
  /** When the result is deleted. */
  readonly expiresAt: number
  readonly spent: RecordMove
}

export type Recorded =
  | { kind: 'recorded' }
  /** The authorization already serves this call. */
  | { kind: 'replayed'; call: Call }
  /** The record has other data by now. */
  | { kind: 'moved' }

export type Claim =
  /** Send the offered authorization. It was never sent before. `charge` is the stored one of the call, where known. */
  | { kind: 'yours'; token: number; charge?: Usdc }
  /** Resolve this earlier authorization first. `sent`: it may have been broadcast already. */
  | { kind: 'retry'; token: number; authorization: Authorization; sent: boolean; charge?: Usdc }
  /** Another process has the claim until then. */
  | { kind: 'taken'; until: number }
  | { kind: 'settled'; receipt: Receipt }
  /** The offered authorization serves another call. */
  | { kind: 'replayed'; call: Call }
  /**
   * There is nothing to settle: no such call, or it is not completed, or (with no authorization offered) none is
   * spendable.
   */
  | { kind: 'nothing' }

export type Outcome =
  /** Money moved. Recorded even with a stale token. */
  | { kind: 'paid'; receipt: Receipt }
  /** Money may have moved, or still may: the authorization stays bound and counts as sent. */
  | { kind: 'unknown' }
  /**
   * This attempt sent nothing. An original authorization stays bound; a later one is freed, unless it was sent before.
   */
  | { kind: 'refused' }
  /** The authorization can never move money. */
  | { kind: 'dead' }
  /** The outcome could not be found out in time; an operator must check. */
  | { kind: 'unresolved' }

/** Opens, moves and settles calls. */
export interface CallStorage {
  /**
   * Binds the authorization, checks the payer's exposure and inserts the call with a lease until `until`, in one step.
   * An authorization is free again when its call failed with payment status verified, or when the lease of its
   * unfinished, verified call has expired; that call is failed in the same step. `lostBy` is the time that leases are
   * compared with, where it is not `now`. Rejects, and writes nothing, when a call with this id exists.
   */
  openCall(
    call: NewCall,
    authorization: Authorization,
    at: { now: number; until: number; lostBy?: number; cap?: Cap },
  ): Promise<Opened>
  /**
   * Stores a call that is completed and settled, binds its authorization and moves the record that paid for it, in one
   * step. Writes nothing when the authorization serves another call or the record has other data. Rejects, and writes
   * nothing, when a call with this id exists.
   */
  recordPaid(
    call: NewCall,
    authorization: Authorization,
    at: { paid: PaidWork; now: number; lostBy?: number },
  ): Promise<Recorded>
  getCall(id: string): Promise<Call | undefined>
  /** The call that an authorization is bound to, unless the authorization is free again at `now`. */
  callOf(authorization: string, now: number): Promise<Call | undefined>
  /** Compare and set: true when the call matched `from` and is now patched. Of several callers, one wins. */
  moveCall(
    id: string,
    from: { workStatus: readonly WorkStatus[]; workerId?: string; paymentStatus?: PaymentStatus },
    patch: CallPatch,
  ): Promise<boolean>
  /**
   * Claims the right to settle a completed call until `until`. With `result`, completes the call in the same step, with
   * its `usage`, `charge` and `expiresAt`; with `workerId` too, even where that worker's call was declared lost
   * meanwhile. The claim must outlive the deadline given to `settle`.
   */
  claimSettlement(
    id: string,
    authorization: Authorization | undefined,
    at: {
      now: number
      until: number
      lostBy?: number
      workerId?: string
      result?: { result: Json; expiresAt: number; usage?: Usage | null; charge?: Usdc }
    },
  ): Promise<Claim>
  /**
   * Ends a claim. False, and nothing written, when the token is stale, except for `paid`, which is always recorded.
   * `by` and `reason` are noted for the operator.
   */
  finishSettlement(
    id: string,
    token: number,
    outcome: Outcome,
    at: { now: number; expiresAt?: number; by?: SettledBy; reason?: string },
  ): Promise<boolean>
}
