/** What work may do in the name of its call, beside asking vendors; and what a sale does beyond its reply. */
import { ApiError } from '../http/errors.ts'
import type { Window } from '../http/rate_limit.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log, Storage, PaymentCode } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import type { Vendors } from '../ports/vendors/mod.ts'
import type { Payment, Receipt } from '../x402/protocol.ts'
import type { Usdc } from '../x402/money.ts'

/** Small records beside the calls, and the calls that they came from. */
export type Records = Pick<Storage, 'putRecord' | 'getRecord' | 'moveRecord' | 'listRecords' | 'getCall'>

/** The hands of one call that somebody pays for, while its work runs in this process. */
export type CallContext = {
  /** `base`, `base-sepolia`, ... (contract 1.13). */
  readonly label: string
  /** Under which the gateway was called. */
  readonly origin: string
  /** Where the caller calls from, for vendors that must be told. */
  readonly ip: string
  /** The same for every call that this authorization opens: what was begun under it is found again after a crash. */
  readonly order: string
  readonly records: Records
  /** A name for what everybody may read who knows it: it cannot be made from the id of the call, which is no secret. */
  secretName(prefix: string): Promise<string>
  /** Where the wallet that pays collects another call of its own. */
  pollUrl(id: string): Promise<string>
  /** Counts against the windows of the address and of the wallet. Throws TOO_MANY_REQUESTS. */
  permit(name: string, windows: { readonly address: Window; readonly wallet: Window }): Promise<void>
  /**
   * Looks at a second authorization that is part of the work, by the same wallet and to somebody else. Moves nothing
   * yet. Throws where the chain is away.
   */
  secondaryPayment(payment: Payment, to: To): Promise<SecondaryPayment>
}

/** Throws where nobody pays: such work is sold to nobody. */
export function callContextIn({ call }: { readonly call?: CallContext }): CallContext {
  if (!call) throw new RangeError('this work needs the call that pays for it')
  return call
}

/** 403 with a reason for programs, told to whoever pays and has not been charged. */
export function forbidden(reason: string, message: string, more: Readonly<Record<string, Json>> = {}): ApiError {
  return new ApiError('NOT_ALLOWED', { error: 'Forbidden', message, fields: { reason, ...more } })
}

/** What a chore may use. It is done by one replica at a time. */
export type MaintenanceTask = {
  readonly everyMs: number
  /** Absent: whoever sells the endpoint can do it. One that cannot must not hold the lease of those who can. */
  can?(vendors: Vendors): boolean
  do(at: {
    readonly records: Records
    readonly vendors: Vendors
    readonly clock: Clock
    readonly log: Log
    readonly signal: AbortSignal
  }): Promise<void>
}

/** What a sale does beyond its reply. */
export type Effects = {
  /**
   * It costs the operator, or reaches somebody, whether or not it is paid for: where the payment is refused, its wallet
   * owes it.
   */
  readonly costsOperator?: true
  /** Headers of a reply that shows what was made. */
  headers?(made: Json): Readonly<Record<string, string>>
  /**
   * What a failed job and a refused payment say instead of `Nothing was charged.`, where more than nothing may have
   * happened.
   */
  readonly failed?: string
  /** Seen to every so often, whoever calls. */
  readonly maintenanceTask?: MaintenanceTask
}

/** Who is paid, how much, and under which name the ledger has it. */
export type To = {
  readonly name: string
  readonly payTo: string
  readonly amount: Usdc
  readonly maxTimeoutSeconds: number
}

/** It serves another call, or moved its money without us; `transaction` is told where it is ours and known. */
export type Used = { readonly kind: 'used'; readonly transaction: string | null }

export type Refused = { readonly kind: 'refused'; readonly code: PaymentCode; readonly reason: string }

export type SecondaryPayment =
  /**
   * `settle` ends when the fate of the money is known, however long that takes. Refused: it has not moved, and nobody
   * sends it any more.
   */
  | {
      readonly kind: 'ready'
      settle(): Promise<{ readonly kind: 'settled'; readonly receipt: Receipt } | Refused | Used>
    }
  | Refused
  | Used
