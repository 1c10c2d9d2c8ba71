/**
 * The call context: what work may do on behalf of its call, beside asking vendors, and the effects of a sale beyond its
 * reply.
 */
import { ApiError } from '../http/errors.ts'
import type { Window } from '../http/rate_limit.ts'
import type { Clock } from '../lib/clock.ts'
import type { CallStorage, Log, PaymentCode, RecordStorage } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import type { Vendors } from '../ports/vendors/mod.ts'
import type { Payment, Receipt } from '../x402/protocol.ts'
import type { Usdc } from '../x402/money.ts'

/** Small records beside the calls, and read access to the calls that they came from. */
export type Records = RecordStorage & Pick<CallStorage, 'getCall'>

/** The context of one paid call while its work runs in this process. */
export type CallContext = {
  /** `base`, `base-sepolia`, ... (contract 1.13). */
  readonly label: string
  /** Origin under which the gateway was called. */
  readonly origin: string
  /** The caller's IP address, for vendors that require it. */
  readonly ip: string
  /** The same for every call that this authorization opens: work that began under it is found again after a crash. */
  readonly order: string
  readonly records: Records
  /**
   * A name for a resource that is public to anyone who knows it. It cannot be derived from the call's id, which is no
   * secret.
   */
  secretName(prefix: string): Promise<string>
  /** Where the paying wallet collects another of its calls. */
  pollUrl(id: string): Promise<string>
  /** Counts against the rate limits of the address and of the wallet. Throws TOO_MANY_REQUESTS. */
  permit(name: string, windows: { readonly address: Window; readonly wallet: Window }): Promise<void>
  /**
   * Checks a second authorization that is part of the work: signed by the same wallet, paid to somebody else. Moves
   * nothing yet. Throws when the chain is unreachable.
   */
  secondaryPayment(payment: Payment, to: To): Promise<SecondaryPayment>
}

/** Throws when there is no paid call: such work is not available for free. */
export function callContextIn({ call }: { readonly call?: CallContext }): CallContext {
  if (!call) throw new RangeError('this work needs the call that pays for it')
  return call
}

/** 403 with a machine-readable reason, for a paying caller who has not been charged. */
export function forbidden(reason: string, message: string, more: Readonly<Record<string, Json>> = {}): ApiError {
  return new ApiError('NOT_ALLOWED', { error: 'Forbidden', message, fields: { reason, ...more } })
}

/** A maintenance task. One replica runs it at a time. */
export type MaintenanceTask = {
  readonly everyMs: number
  /**
   * Whether this gateway can run it. Absent: every gateway that sells the endpoint can. One that cannot must not hold
   * the lease of those who can.
   */
  can?(vendors: Vendors): boolean
  do(at: {
    readonly records: Records
    readonly vendors: Vendors
    readonly clock: Clock
    readonly log: Log
    readonly signal: AbortSignal
  }): Promise<void>
}

/** Effects of a sale beyond its reply. */
export type Effects = {
  /**
   * It costs the operator, or reaches somebody, whether or not it is paid for. When the payment is refused, the wallet
   * owes it.
   */
  readonly costsOperator?: true
  /** Reply headers derived from the result. */
  headers?(made: Json): Readonly<Record<string, string>>
  /**
   * Replaces `Nothing was charged.` for failed jobs and refused payments, where something may have happened already.
   */
  readonly failed?: string
  /** Runs periodically, whether or not anybody calls. */
  readonly maintenanceTask?: MaintenanceTask
}

/** Recipient, amount, and the name in the ledger. */
export type To = {
  readonly name: string
  readonly payTo: string
  readonly amount: Usdc
  readonly maxTimeoutSeconds: number
}

/**
 * The authorization serves another call, or its money was moved by somebody else; `transaction` is given when it is
 * ours and known.
 */
export type Used = { readonly kind: 'used'; readonly transaction: string | null }

export type Refused = { readonly kind: 'refused'; readonly code: PaymentCode; readonly reason: string }

export type SecondaryPayment =
  /**
   * `settle` resolves once the outcome is known, however long that takes. Refused: the money has not moved and will not
   * be sent again.
   */
  | {
      readonly kind: 'ready'
      settle(): Promise<{ readonly kind: 'settled'; readonly receipt: Receipt } | Refused | Used>
    }
  | Refused
  | Used
