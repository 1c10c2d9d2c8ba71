/**
 * Every question that core asks of its storage.
 * Times are milliseconds since 1970 and come in as arguments; no adapter reads a clock to decide something.
 * Each verb's *answer* is atomic; no transaction, row or handle crosses a port.
 */
import type { Usdc } from '../x402/money.ts'
import type { Offer, Receipt, Payment } from '../x402/protocol.ts'
import type { Json } from '../lib/json.ts'

/** queued -> in_progress -> completed | failed. */
export type WorkStatus = 'queued' | 'in_progress' | 'completed' | 'failed'

/** verified -> settling -> settled | refused | unresolved; refused and unresolved may still settle later. */
export type PaymentStatus = 'verified' | 'settling' | 'settled' | 'refused' | 'unresolved'

/** Tokens that a call used, all that was read and all that was written. */
export type Usage = { readonly input: number; readonly output: number }

/** One row per paid call (decision 12). */
export type Call = {
  readonly id: string
  /** Name of the gateway row that took it. */
  readonly gateway: string
  /** Name of the endpoint on the menu. */
  readonly endpoint: string
  /** Catalog id, for the ledger; null where the product has none. */
  readonly model: string | null
  /** Wallet that signed, in the chain's canonical spelling. */
  readonly payer: string
  /** `<network>/<asset>`, canonical; a payer's exposure is summed over it. */
  readonly asset: string
  readonly quote: Usdc
  /** What it was sold for and to whom it is paid; stands even when the configuration changes. */
  readonly offer: Offer
  /** Key of the authorization that opened it. */
  readonly authorization: string
  /** SHA-256 of method, path and body; a form counts by what it says, for its boundary is new each time. */
  readonly fingerprint: string
  /** What the endpoint remembers of the request. */
  readonly request: Json
  readonly createdAt: number
  readonly workStatus: WorkStatus
  readonly paymentStatus: PaymentStatus
  /** Process that does the work, and until when it has promised to be alive. */
  readonly workerId: string
  readonly leaseExpiresAt: number
  readonly startedAt: number | null
  readonly endedAt: number | null
  /** What the work made; present exactly when `work` is completed (and not yet pruned). */
  readonly result: Json
  /** Why it failed, as the buyer may read it; present exactly when `work` is failed. */
  readonly error: string | null
  /** Known when it completes, and kept for good; null where the product has no tokens, or its vendor told none. */
  readonly usage: Usage | null
  readonly receipt: Receipt | null
  readonly settledAt: number | null
  /** When the row may be forgotten: an unsettled result's claim window, a settled one's shelf life. */
  readonly expiresAt: number
}

/** What `openCall` is given; it adds queued, verified and the empty rest. */
export type NewCall = Omit<
  Call,
  | 'workStatus'
  | 'paymentStatus'
  | 'leaseExpiresAt'
  | 'startedAt'
  | 'endedAt'
  | 'result'
  | 'error'
  | 'usage'
  | 'receipt'
  | 'settledAt'
  | 'authorization'
>

/** A signed promise to pay, bound to exactly one call across all gateways. */
export type Authorization = {
  /** Unique on its chain, for example `eip155:8453/0x8335…/0xpayer/0xnonce`. */
  readonly key: string
  readonly payer: string
  readonly payment: Payment
  /** The offer that it was judged against, so that it can be sent again after the configuration has changed. */
  readonly offer: Offer
  /** When it can no longer move money, by its own terms. */
  readonly expiresAt: number
}

export type CallPatch = Partial<
  Pick<
    Call,
    'workStatus' | 'workerId' | 'leaseExpiresAt' | 'startedAt' | 'endedAt' | 'result' | 'error' | 'usage' | 'expiresAt'
  >
>

/** What a wallet has paid for one model of one product. */
export type Spend = Pick<Call, 'gateway' | 'endpoint' | 'model' | 'asset'> & {
  readonly calls: number
  /** What left the wallet by the receipts, which is not always what was quoted. */
  readonly spent: Usdc
  readonly inputTokens: number
  readonly outputTokens: number
  /** When the last of them settled. */
  readonly lastAt: number
}

/** A small record beside the calls, of one wallet; `kind` and `id` name it. */
export type StoredRecord = {
  readonly kind: string
  readonly id: string
  readonly owner: string
  readonly data: Json
  /** From then on it is as if it had never been. */
  readonly expiresAt: number
}

/** What a payer can be held to (contract 1.47, 1.46; decision 18). */
export type Cap = {
  /** Base units that it holds. Absent where nobody could tell: it then has one open call at a time. */
  readonly observed?: Usdc
  /** When that was read, and in which block or slot, where known: what was settled up to that block is in it. */
  readonly asOf: number
  readonly block?: number
  /** For a call that is served before it is paid for. */
  readonly newWallet?: NewWalletLimit
}

/** What a wallet that has never settled a call in this asset may have open of these endpoints together. */
export type NewWalletLimit = { readonly calls: number; readonly worth: Usdc; readonly endpoints: readonly string[] }

/** Why a cap refuses, where it is not that the wallet holds too little. */
export type OverWhy = 'unreadable' | 'new_wallet'

export type Opened =
  /** `atLimit`: a wallet that never paid could not open another one like it (`cap.newWallet`). */
  | { kind: 'opened'; call: Call; atLimit?: true }
  /** The authorization already serves this call. */
  | { kind: 'replayed'; call: Call }
  /** The payer's open calls, this one included, would come to `sum`, above the cap. */
  | { kind: 'over'; sum: Usdc; why?: OverWhy }

export type Claim =
  /** Send the offered authorization, which was never sent before. */
  | { kind: 'yours'; token: number }
  /** Resolve this earlier authorization first; `sent` says that it may have been broadcast already. */
  | { kind: 'retry'; token: number; authorization: Authorization; sent: boolean }
  /** Somebody else is settling until then. */
  | { kind: 'taken'; until: number }
  | { kind: 'settled'; receipt: Receipt }
  /** The offered authorization serves another call. */
  | { kind: 'replayed'; call: Call }
  /**
   * There is nothing to settle: no such call, or it is not completed, or (with no authorization offered) none is alive.
   */
  | { kind: 'nothing' }

export type Outcome =
  /** Money moved. Recorded whatever the token says. */
  | { kind: 'paid'; receipt: Receipt }
  /** It may have moved, or still may: the authorization stays the call's and counts as sent. */
  | { kind: 'unknown' }
  /**
   * This attempt sent nothing. An original authorization stays bound; a later one is freed, unless it was sent before.
   */
  | { kind: 'refused' }
  /** The authorization can never move money. */
  | { kind: 'dead' }
  /** Nobody could find out in time; a person has to look. */
  | { kind: 'unresolved' }

export interface Storage {
  /** Whether several processes may use this database at the same time. Absent: it belongs to one process. */
  readonly isShared?: boolean
  /** The time of the database, where that is another machine's. Absent where this process's own time is its time. */
  now?(): Promise<number>
  /**
   * Binds the authorization, checks the payer's exposure and inserts the call, in one step. An authorization is free
   * again when its call failed with `money` verified, or when its call's `until` passed unfinished with `money`
   * verified; that call is then failed in the same step; `lostBy` is the time that counts for that, where it is not
   * `now`. Rejects, and writes nothing, when there is a call of this id.
   */
  openCall(
    call: NewCall,
    authorization: Authorization,
    at: { now: number; until: number; lostBy?: number; cap?: Cap },
  ): Promise<Opened>
  getCall(id: string): Promise<Call | undefined>
  /** The call that an authorization serves, unless the authorization is free again at `now`. */
  callOf(authorization: string, now: number): Promise<Call | undefined>
  /**
   * Compare and set: true when `work` was one of `from` (and `owner` the one given) and is now patched. Winning it once
   * is the point.
   */
  moveCall(
    id: string,
    from: { workStatus: readonly WorkStatus[]; workerId?: string; paymentStatus?: PaymentStatus },
    patch: CallPatch,
  ): Promise<boolean>
  /**
   * Promises that `owner` works on these of its calls until then, and answers with those that it may go on with: its
   * unfinished ones, and those that were declared lost while their authorization has served no other call since, which
   * are unfinished again. Each call is one atomic step.
   */
  renew(owner: string, ids: readonly string[], until: number): Promise<readonly string[]>
  /** Unfinished calls whose owner's promise has passed, longest first, then by id. */
  lostCalls(now: number, limit: number): Promise<readonly Call[]>
  /**
   * Unfinished calls of an owner on one gateway, by id; only those whose id comes behind `after`, an id or the empty
   * text.
   */
  unfinishedCalls(owner: string, at: { gateway: string; after: string; limit: number }): Promise<readonly Call[]>

  /**
   * The right to settle a completed call. With `result`, completes the call in the same step; its `usage` is kept with
   * it, and its `expiresAt` moves the end of the shelf life; with `owner` as well where that owner's call was declared
   * lost meanwhile. The lease must outlive the deadline given to `settle`.
   */
  claimSettlement(
    id: string,
    authorization: Authorization | undefined,
    at: {
      now: number
      until: number
      lostBy?: number
      workerId?: string
      result?: { result: Json; expiresAt: number; usage?: Usage | null }
    },
  ): Promise<Claim>
  /** Ends a claim. False, and nothing written, when the token is stale, except for `paid`, which always holds. */
  finishSettlement(
    id: string,
    token: number,
    outcome: Outcome,
    at: { now: number; expiresAt?: number },
  ): Promise<boolean>
  /**
   * Calls left in `settling` whose claim ran out at or before then, longest first, then by id; of one gateway, where it
   * is named.
   */
  unsettled(before: number, limit: number, gateway?: string): Promise<readonly Call[]>
  /**
   * Calls of a wallet, as it is stored, that settled at or after then, summed by gateway, endpoint, model and asset;
   * dearest first.
   */
  spendByModel(payer: string, since: number): Promise<readonly Spend[]>

  /** Keeps a record; false, and nothing written, while one of its kind and id lives. */
  putRecord(record: StoredRecord, now: number): Promise<boolean>
  getRecord(kind: string, id: string, now: number): Promise<StoredRecord | undefined>
  /**
   * Compare and set: true when the living record of this kind, id and owner had the data `from`, and is now this one.
   */
  moveRecord(record: StoredRecord, from: Json, now: number): Promise<boolean>
  /** Living records of a kind and owner, at most `limit`, in no order that means anything. */
  listRecords(kind: string, owner: string, at: { now: number; limit: number }): Promise<readonly StoredRecord[]>

  /** Takes or extends a named lease; false while another owner holds it. */
  lease(name: string, owner: string, at: { now: number; until: number }): Promise<boolean>
  /** Takes up to `take` permits from a fixed window; grants what is left of it. */
  hit(bucket: Bucket, take: number, now: number): Promise<{ granted: number; resetAt: number }>

  /**
   * Forgets what is past its life: unsettled rows, results of settled ones, old windows, leases and records. The ledger
   * stays.
   */
  prune(now: number): Promise<number>
  close(): Promise<void>
}

export type Bucket = { readonly key: string; readonly limit: number; readonly windowMs: number }
