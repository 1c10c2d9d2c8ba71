/** The rows of the ledger, and the part of them that decisions read. */
import type { Call, CallNotes, LedgerEntry } from '../../ports/mod.ts'
import type { BindingStatus } from './exposure.ts'

/** Binds an authorization to the one call that it may pay for. `key` is unique across the calls of all gateways. */
export type AuthorizationBinding = {
  readonly key: string
  /** Id of the call, and its payer: exposure is looked up by payer. */
  readonly call: string
  readonly payer: string
  /** 0 for the authorization that opened the call; later ones count up. Lower positions are resolved first. */
  readonly position: number
  readonly status: BindingStatus
  /** When the authorization expires, in milliseconds since 1970. It moves no money after that. */
  readonly expiresAt: number
}

/** The settlement claim of a call: columns that the storage port does not return. */
export type ClaimFields = {
  /** The last claim token issued; 0 before the first claim. */
  readonly claimToken: number
  /** When the last claim expires, or when it ended; null before the first. `unsettled` is ordered by it. */
  readonly claimExpiresAt: number | null
  /** Key of the authorization that is being settled; null once the claim has ended, which makes its token stale. */
  readonly claimKey: string | null
  /** That authorization was never sent before this claim, so a refusal proves that nothing was sent. */
  readonly claimFresh: boolean
  /** Request and result were deleted; the ledger columns remain. */
  readonly emptied: boolean
}

export type Row = Call & ClaimFields & CallNotes

export type RowPatch = Partial<Omit<Row, 'id'>>

/** The part of a row that decisions read. A whole row is assignable to it. */
export type Head = Pick<
  Row,
  | 'id'
  | 'payer'
  | 'workStatus'
  | 'paymentStatus'
  | 'workerId'
  | 'leaseExpiresAt'
  | 'startedAt'
  | 'error'
  | 'receipt'
  | 'expiresAt'
  | 'charge'
  | keyof ClaimFields
>

/** The claim columns of a new row. */
export const UNCLAIMED: ClaimFields = {
  claimToken: 0,
  claimExpiresAt: null,
  claimKey: null,
  claimFresh: false,
  emptied: false,
}

/** The notes of a row of which nothing is known. */
export const NO_NOTES: CallNotes = {
  quotedAt: null,
  verifiedAt: null,
  settlingAt: null,
  vendorError: null,
  paymentError: null,
  paymentErrorAt: null,
  settledBy: null,
}

/** The columns of a ledger entry. */
export const ENTRY_FIELDS = [
  'id',
  'gateway',
  'endpoint',
  'model',
  'payer',
  'asset',
  'quote',
  'charge',
  'offer',
  'authorization',
  'createdAt',
  'workStatus',
  'paymentStatus',
  'startedAt',
  'endedAt',
  'error',
  'usage',
  'receipt',
  'settledAt',
  'expiresAt',
  'emptied',
  'quotedAt',
  'verifiedAt',
  'settlingAt',
  'vendorError',
  'paymentError',
  'paymentErrorAt',
  'settledBy',
] as const satisfies readonly (keyof LedgerEntry)[]
