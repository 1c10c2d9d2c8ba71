/** The ledger as the operator and wallets read it. Nothing here is written. */
import type { Usdc } from '../../x402/money.ts'
import type { Call, CallNotes } from './calls.ts'
import type { RecordStorage } from './records.ts'

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

/** Reads of listings and reports. */
export interface LedgerReads extends Pick<RecordStorage, 'getRecord'> {
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
   * Ledger entries whose work is unfinished, or whose payment is settling or unresolved, oldest first, then by id: at
   * most `limit` of each, of unfinished ones those whose lease ends first.
   */
  listOpen(limit: number): Promise<readonly LedgerEntry[]>
  /** The authorizations of a call, by position. */
  listAuthorizations(call: string): Promise<readonly LedgerAuthorization[]>
  /**
   * Calls of a wallet that settled at or after `since`, summed by gateway, endpoint, model and asset; most expensive
   * first.
   */
  spendByModel(payer: string, since: number): Promise<readonly Spend[]>
  /**
   * Sums of calls by hour or day, in the order of time and name, from sums that are kept, never from a scan of calls.
   * They outlive the calls. Sums by hour are kept for 60 days.
   */
  callTotals(query: CallTotalsQuery): Promise<readonly CallTotal[]>
  /** How many wallets had a call settled, by day in UTC; by the names that the query has. */
  buyersByDay(query: Omit<CallTotalsQuery, 'unit' | 'by'>): Promise<readonly { at: number; buyers: number }[]>
}
