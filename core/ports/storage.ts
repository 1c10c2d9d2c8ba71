/**
 * The storage interface. Times are milliseconds since 1970 and come in as arguments; no adapter reads a clock to decide
 * something. The answer of each method is atomic; no transaction, row or handle crosses the interface.
 */
import type { Usdc } from '../x402/money.ts'
import type { Offer, Receipt, Payment } from '../x402/protocol.ts'
import type { Json } from '../lib/json.ts'

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

/** A call as the ledger lists it: without its request and its result, which may be large and are the buyer's. */
export type LedgerEntry = Omit<Call, 'fingerprint' | 'request' | 'result' | 'workerId' | 'leaseExpiresAt'> &
  CallNotes & {
    /** The result was deleted at the end of its retention. */
    readonly emptied: boolean
  }

/** An authorization that a call is bound to. `position` 0 opened the call. */
export type LedgerAuthorization = {
  readonly key: string
  readonly call: string
  readonly position: number
  readonly status: 'open' | 'sent' | 'dead' | 'paid'
  readonly expiresAt: number
}

/** A place in a listing: the entry that was listed last. */
export type LedgerCursor = { readonly at: number; readonly id: string }

/** How many characters at the end of a nonce or a transaction the ledger is searched by. */
export const LOOKUP_CHARACTERS = 16

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

/** Payments of a wallet for one model of one product. */
export type Spend = Pick<Call, 'gateway' | 'endpoint' | 'model' | 'asset'> & {
  readonly calls: number
  /** The sum of the receipts, which is not always the sum of the quotes. */
  readonly spent: Usdc
  readonly inputTokens: number
  readonly outputTokens: number
  /** When the last of them settled. */
  readonly lastAt: number
}

/** Query for sums of calls: whole hours or days that begin at or after `since` and before `until`. */
export type CallTotalsQuery = {
  readonly unit: 'hour' | 'day'
  readonly since: number
  readonly until: number
  /** A sum for each gateway, endpoint or model; without it, one for all. */
  readonly by?: 'gateway' | 'endpoint' | 'model'
  readonly gateway?: string
  readonly endpoint?: string
  readonly model?: string
}

/**
 * A sum of calls of an hour or a day. Work counts when it ends, as completed or failed; a payment counts when it
 * settles, is refused, or ends unresolved.
 */
export type CallTotal = {
  /** When the hour or the day begins, in UTC. */
  readonly at: number
  /** The value that `by` groups on; null without `by`, and for calls without a model. */
  readonly name: string | null
  readonly outcome: 'completed' | 'failed' | 'settled' | 'refused' | 'unresolved'
  /** Completed calls took at most so many milliseconds from order to result; 0 for other outcomes. */
  readonly upToMs: number
  readonly calls: number
  /** Sum that settled calls paid. */
  readonly spent: Usdc
}

/** A small record beside the calls, of one owner. `kind` and `id` identify it. */
export type StoredRecord = {
  readonly kind: string
  readonly id: string
  readonly owner: string
  readonly data: Json
  /** Expired records are treated as absent. */
  readonly expiresAt: number
}

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

/** A record in place of the one that has the data `from`. */
export type RecordMove = { readonly record: StoredRecord; readonly from: Json }

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

export interface Storage {
  /** Whether several processes may use this database at the same time. Absent: it belongs to one process. */
  readonly isShared?: boolean
  /** The time of the database, where it runs on another machine. Absent where it is the time of this process. */
  now?(): Promise<number>
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
   * Extends the leases of a worker's calls to `until`, and returns the ids of those that it may continue: its
   * unfinished ones, and those that were declared lost while their authorization has served no other call since, which
   * are unfinished again. Each call is one atomic step.
   */
  renew(workerId: string, ids: readonly string[], until: number): Promise<readonly string[]>
  /** Unfinished calls whose lease has expired, oldest first, then by id. */
  lostCalls(now: number, limit: number): Promise<readonly Call[]>
  /** Unfinished calls of a worker on one gateway, by id; only ids after `after`, which is an id or the empty string. */
  unfinishedCalls(workerId: string, at: { gateway: string; after: string; limit: number }): Promise<readonly Call[]>

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
  /**
   * Calls in `settling` whose claim expired at or before `before`, oldest first, then by id; of one gateway, where it
   * is given.
   */
  unsettled(before: number, limit: number, gateway?: string): Promise<readonly Call[]>
  /**
   * Calls of a wallet that settled at or after `since`, summed by gateway, endpoint, model and asset; most expensive
   * first.
   */
  spendByModel(payer: string, since: number): Promise<readonly Spend[]>

  /**
   * Ledger entries that were opened at or after `since` and before `until`, newest first, then by id, highest first; of
   * one wallet, where it is given. `after` continues behind the entry that was listed last.
   */
  listCalls(at: {
    payer?: string
    since: number
    until: number
    after?: LedgerCursor
    limit: number
  }): Promise<readonly LedgerEntry[]>
  /**
   * Ledger entries that settled at or after `since`, oldest first, then by id. `after` continues behind the entry that
   * was listed last.
   */
  listSettled(at: { since: number; after?: LedgerCursor; limit: number }): Promise<readonly LedgerEntry[]>
  /**
   * Ledger entries with this call id, this key of an authorization, or this transaction, or with an authorization that
   * ends in `/` and this nonce; newest first, at most `limit`. An index on the last characters is used.
   */
  findCalls(name: string, limit: number): Promise<readonly LedgerEntry[]>
  /**
   * Sums of calls by hour or day, in the order of time and name, from sums that are kept, never from a scan of calls.
   * They outlive the calls. Sums by hour are kept for 60 days.
   */
  callTotals(query: CallTotalsQuery): Promise<readonly CallTotal[]>
  /** How many wallets had a call settled, by day in UTC; by the names that the query has. */
  buyersByDay(query: Omit<CallTotalsQuery, 'unit' | 'by'>): Promise<readonly { at: number; buyers: number }[]>
  /**
   * Ledger entries whose work is unfinished, or whose payment is settling or unresolved, oldest first, then by id: at
   * most `limit` of each, of unfinished ones those whose lease ends first.
   */
  listOpen(limit: number): Promise<readonly LedgerEntry[]>
  /** The authorizations of a call, by position. */
  listAuthorizations(call: string): Promise<readonly LedgerAuthorization[]>

  /** Stores a record. False, and nothing written, while an unexpired one of its kind and id exists. */
  putRecord(record: StoredRecord, now: number): Promise<boolean>
  getRecord(kind: string, id: string, now: number): Promise<StoredRecord | undefined>
  /**
   * Compare and set: true when the unexpired record of this kind and id had the data `from`, and is now this one. It
   * may name another owner.
   */
  moveRecord(record: StoredRecord, from: Json, now: number): Promise<boolean>
  /** Unexpired records of a kind and owner, at most `limit`, by id; only ids after `after`, where it is given. */
  listRecords(
    kind: string,
    owner: string,
    at: { now: number; after?: string; limit: number },
  ): Promise<readonly StoredRecord[]>

  /** Takes or extends a named lease. False while another worker has it. */
  lease(name: string, workerId: string, at: { now: number; until: number }): Promise<boolean>
  /** Takes up to `take` permits from a fixed rate window; grants at most what is left. */
  hit(bucket: Bucket, take: number, now: number): Promise<{ granted: number; resetAt: number }>

  /**
   * Deletes what has expired: unsettled calls, results of settled ones, rate windows, leases and records. Returns how
   * many rows it changed. The ledger stays.
   */
  prune(now: number): Promise<number>
  /**
   * Deletes ledger rows: settled calls whose result `prune` has deleted, that settled at or before `before`, and whose
   * authorizations have all expired at `now`. Returns how many.
   */
  pruneLedger(before: number, now: number): Promise<number>
  /** Rows that `pruneLedger` would delete, oldest settlement first, then by id. */
  ledgerRows(before: number, now: number, limit: number): Promise<readonly Call[]>
  /**
   * Deletes settled calls whose result `prune` has deleted, with their authorizations. What they paid is still counted
   * by `spendByModel`, as of `day`, in days since 1970. Returns how many there were.
   */
  archiveCalls(ids: readonly string[], day: number): Promise<number>
  close(): Promise<void>
}

/** Verbs that the operator's listings use. */
export type LedgerReads = Pick<
  Storage,
  | 'listCalls'
  | 'listSettled'
  | 'findCalls'
  | 'listAuthorizations'
  | 'spendByModel'
  | 'callTotals'
  | 'buyersByDay'
  | 'listOpen'
  | 'getRecord'
>

export type Bucket = { readonly key: string; readonly limit: number; readonly windowMs: number }
