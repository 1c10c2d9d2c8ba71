/**
 * Every question that core asks of the outside world, on one page.
 * Times are milliseconds since 1970 and come in as arguments; no adapter reads a clock to decide something.
 * Each verb's *answer* is atomic; no transaction, row or handle crosses a port.
 */
import type { Meter } from './meter.ts'
import type { Usdc } from '../x402/money.ts'
import type { Vendors } from './vendors.ts'
import type { Offer, Payment, Receipt } from '../x402/protocol.ts'

// ── a paid call, as stored ──────────────────────────────────────────────────────────────────────────────────────────

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

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
  readonly work: WorkStatus
  readonly money: PaymentStatus
  /** Process that does the work, and until when it has promised to be alive. */
  readonly owner: string
  readonly until: number
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
  | 'work'
  | 'money'
  | 'until'
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
  Pick<Call, 'work' | 'owner' | 'until' | 'startedAt' | 'endedAt' | 'result' | 'error' | 'usage' | 'expiresAt'>
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

// ── storage ─────────────────────────────────────────────────────────────────────────────────────────────────────────

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
  /** There is nothing to settle: no such call, or it is not completed, or (with no authorization offered) none is alive. */
  | { kind: 'nothing' }

export type Outcome =
  /** Money moved. Recorded whatever the token says. */
  | { kind: 'paid'; receipt: Receipt }
  /** It may have moved, or still may: the authorization stays the call's and counts as sent. */
  | { kind: 'unknown' }
  /** This attempt sent nothing. An original authorization stays bound; a later one is freed, unless it was sent before. */
  | { kind: 'refused' }
  /** The authorization can never move money. */
  | { kind: 'dead' }
  /** Nobody could find out in time; a person has to look. */
  | { kind: 'unresolved' }

export interface Storage {
  /** The time of the database, where that is another machine's. Absent where this process's own time is its time. */
  now?(): Promise<number>
  /**
   * Binds the authorization, checks the payer's exposure and inserts the call, in one step. An authorization is free again
   * when its call failed with `money` verified, or when its call's `until` passed unfinished with `money` verified; that
   * call is then failed in the same step; `lostBy` is the time that counts for that, where it is not `now`. Rejects, and writes nothing, when there is a call of this id.
   */
  openCall(
    call: NewCall,
    authorization: Authorization,
    at: { now: number; until: number; lostBy?: number; cap?: Cap },
  ): Promise<Opened>
  getCall(id: string): Promise<Call | undefined>
  /** The call that an authorization serves, unless the authorization is free again at `now`. */
  callOf(authorization: string, now: number): Promise<Call | undefined>
  /** Compare and set: true when `work` was one of `from` (and `owner` the one given) and is now patched. Winning it once is the point. */
  moveCall(
    id: string,
    from: { work: readonly WorkStatus[]; owner?: string; money?: PaymentStatus },
    patch: CallPatch,
  ): Promise<boolean>
  /**
   * Promises that `owner` works on these of its calls until then, and answers with those that it may go on with: its unfinished ones, and those that
   * were declared lost while their authorization has served no other call since, which are unfinished again. Each call is one atomic step.
   */
  renew(owner: string, ids: readonly string[], until: number): Promise<readonly string[]>
  /** Unfinished calls whose owner's promise has passed, longest first, then by id. */
  lostCalls(now: number, limit: number): Promise<readonly Call[]>
  /** Unfinished calls of an owner on one gateway, by id; only those whose id comes behind `after`, an id or the empty text. */
  unfinishedCalls(owner: string, at: { gateway: string; after: string; limit: number }): Promise<readonly Call[]>

  /**
   * The right to settle a completed call. With `result`, completes the call in the same step; its `usage` is kept with it, and its
   * `expiresAt` moves the end of the shelf life; with `owner` as well where that owner's call was declared lost meanwhile. The lease must outlive the deadline given to `settle`.
   */
  claimSettlement(
    id: string,
    authorization: Authorization | undefined,
    at: {
      now: number
      until: number
      lostBy?: number
      owner?: string
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
  /** Calls left in `settling` whose claim ran out at or before then, longest first, then by id; of one gateway, where it is named. */
  unsettled(before: number, limit: number, gateway?: string): Promise<readonly Call[]>
  /** Calls of a wallet, as it is stored, that settled at or after then, summed by gateway, endpoint, model and asset; dearest first. */
  spendByModel(payer: string, since: number): Promise<readonly Spend[]>

  /** Keeps a record; false, and nothing written, while one of its kind and id lives. */
  putOwned(record: StoredRecord, now: number): Promise<boolean>
  getOwned(kind: string, id: string, now: number): Promise<StoredRecord | undefined>
  /** Compare and set: true when the living record of this kind, id and owner had the data `from`, and is now this one. */
  moveOwned(record: StoredRecord, from: Json, now: number): Promise<boolean>
  /** Living records of a kind and owner, at most `limit`, in no order that means anything. */
  listOwned(kind: string, owner: string, at: { now: number; limit: number }): Promise<readonly StoredRecord[]>

  /** Takes or extends a named lease; false while another owner holds it. */
  lease(name: string, owner: string, at: { now: number; until: number }): Promise<boolean>
  /** Takes up to `take` permits from a fixed window; grants what is left of it. */
  hit(bucket: Bucket, take: number, now: number): Promise<{ granted: number; resetAt: number }>

  /** Forgets what is past its life: unsettled rows, results of settled ones, old windows, leases and records. The ledger stays. */
  prune(now: number): Promise<number>
  close(): Promise<void>
}

export type Bucket = { readonly key: string; readonly limit: number; readonly windowMs: number }

// ── chains ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * What an offer needs beyond price and time. `minValiditySeconds` is the life that an authorization must still have when it settles: an
 * offer asks for so much more than its work takes.
 */
export type Terms = Pick<Offer, 'scheme' | 'network' | 'asset' | 'payTo'> & {
  extra: Record<string, unknown>
  minValiditySeconds?: number
}

export type PaymentCode =
  | 'PAYMENT_INVALID'
  | 'PAYMENT_UNFUNDED'
  | 'PAYMENT_REPLAY'
  | 'PAYMENT_BLOCKHASH_STALE'
  | 'PAYMENT_VERIFICATION_UNAVAILABLE'
export type Refused = { kind: 'refused'; code: PaymentCode; reason: string }
export type Unavailable = { kind: 'unavailable'; reason: string }

/** `purse` names what it is paid from, where that is not the payer's own balance of the asset: exposure is summed over it. */
export type Identity =
  | { kind: 'known'; payer: string; key: string; expiresAt: number; purse?: string }
  | Refused
  | Unavailable
/** `block` is the block or slot that the balance was read in, by the count that receipts of the same chain use. */
export type Verdict = { kind: 'valid'; balance?: Usdc; asOf: number; block?: number } | Refused | Unavailable
export type Settlement =
  | { kind: 'settled'; receipt: Receipt }
  /** Promises that this call sent nothing, or that the authorization is dead. With a code, a fresh signature is what helps. */
  | { kind: 'refused'; reason: string; code?: PaymentCode }
  /** This call sent nothing, for a reason that is ours to mend, such as a relayer without gas. The authorization is as good as before. */
  | Unavailable
  | { kind: 'unknown'; reason: string }
export type Fate =
  | { kind: 'paid'; receipt: Receipt }
  | { kind: 'open' }
  | { kind: 'dead'; code?: PaymentCode }
  | { kind: 'unknown'; reason: string }

/** `no_gas`: the accounts that pay for settlements hold too little. `no_key`: other replicas hold every key. `clock`: this process does not know the time well enough. `reason` is for the operator only. */
export type Closed = { readonly code: 'no_gas' | 'no_key' | 'clock'; readonly reason: string }

/** A wallet's signature over a text, which proves who asks and pays nothing. */
export type Proof = { readonly wallet: string; readonly message: string; readonly signature: string }

/** Five questions about money on one network (decision 19), and two about who somebody is and what he holds. */
export interface Chain {
  /** What an address holds of the asset that is asked for. Rejects where it cannot be read, or is no address there. */
  balance?(address: string, at: { signal: AbortSignal }): Promise<Usdc>
  /** What it can be paid in, preferred first. Synchronous, from cache, never I/O. Empty until checked: no paid route opens before. */
  terms(now: number): readonly Terms[]
  /** Why it does not sell although it was checked; undefined while it sells. Synchronous, like `terms`. */
  closed?(now: number): Closed | undefined
  /** Whether the wallet has signed the message, in this chain's way. Absent where no client proves itself so. Never rejects. */
  proves?(proof: Proof): Promise<boolean>
  /** Who signed, under which key; looks at signature, domain, asset and recipient only. No I/O for plain accounts. `now` dates what names no end itself. */
  identify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Identity>
  /** Would it pay now? Moves no money. */
  verify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Verdict>
  settle(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Settlement>
  /**
   * What became of it; `paid` needs our own transfer, `dead` means it can never move money. Monotone: paid and dead are final. `expiresAt`, as
   * identify() told it first, spares a chain without nonces from looking further back than it can have moved any.
   */
  fate(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal; expiresAt?: number }): Promise<Fate>
}

// ── objects ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Bytes of an object, both ends included. A negative `first` counts from the end; `last` may lie beyond it. */
export type ByteRange = { readonly first: number; readonly last?: number }

export type StoredObject = {
  readonly body: Uint8Array | ReadableStream<Uint8Array>
  /** Of the whole object. */
  readonly size: number
  readonly type: string
  /** What `body` is of it, where a range was asked for; null, with no body, where no byte lies within. Absent: it is the whole. */
  readonly part?: { readonly first: number; readonly last: number } | null
}

/** Media bytes under keys such as `images/2026-11-20/<id>-0.png`. What is put is never changed. */
export interface Objects {
  put(key: string, bytes: Uint8Array, type: string): Promise<void>
  /**
   * Puts a stream without ever holding it whole. What breaks off leaves nothing under the key. Lets go of a body that it does not read
   * to its end; `size` is what then lies under the key.
   */
  putStream?(key: string, body: ReadableStream<Uint8Array>, type: string): Promise<{ readonly size: number }>
  /** A store that knows no ranges answers with the whole. */
  get(key: string, range?: ByteRange): Promise<StoredObject | undefined>
  /** Where anybody may fetch the object without the gateway; undefined, or absent, where only the gateway can serve it. */
  url?(key: string): string | undefined
}

// ── the machine ─────────────────────────────────────────────────────────────────────────────────────────────────────

export interface Clock {
  now(): number
  /** Resolves after `ms`, or at once when `signal` aborts. Never rejects. */
  wait(ms: number, signal?: AbortSignal): Promise<void>
}

export interface Log {
  info(message: string, fields?: Record<string, unknown>): void
  warn(message: string, fields?: Record<string, unknown>): void
  /** Something that a person must look at. */
  alert(message: string, fields?: Record<string, unknown>): void
}

/** Everything that one gateway is wired to. */
export type Ports = {
  readonly storage: Storage
  readonly objects: Objects
  readonly chain: Chain
  readonly vendors: Vendors
  readonly clock: Clock
  readonly log: Log
  /** Counts what is done; nobody counts where there is none. */
  readonly meter?: Meter
  /** Cryptographically strong bytes. */
  random(bytes: number): Uint8Array
  /** About how many tokens a text is. Linear in its length whatever the text, and lets other work run between slices. */
  countTokens(text: string): Promise<number>
  /** Keeps work alive that no request waits for. */
  background(work: Promise<unknown>): void
}
