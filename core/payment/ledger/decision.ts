/** A decision of the ledger: its answer, and the writes that belong to it (decision 108). */
import type { Usdc } from '../../x402/money.ts'
import type { Authorization, Call, CallNotes, StoredRecord, Usage } from '../../ports/mod.ts'
import type { Json } from '../../lib/json.ts'
import type { BindingStatus } from './exposure.ts'
import type { AuthorizationBinding, RowPatch, Head } from './rows.ts'
import { LOST, isLost } from './states.ts'

export type Write =
  /** A new row, UNCLAIMED. */
  | { readonly kind: 'insert'; readonly call: Call; readonly notes: CallNotes }
  | { readonly kind: 'patch'; readonly id: string; readonly patch: RowPatch }
  /** Inserts the binding, or replaces the one with this key. What will never be sent need not be stored. */
  | { readonly kind: 'bind'; readonly binding: AuthorizationBinding; readonly authorization: Authorization | null }
  | { readonly kind: 'mark'; readonly key: string; readonly status: BindingStatus }
  /** Deletes the binding: its authorization serves no call. */
  | { readonly kind: 'free'; readonly key: string }
  /** Stores the record, in place of the one of its kind and id. */
  | { readonly kind: 'record'; readonly record: StoredRecord }

export type Decision<Answer> = { readonly answer: Answer; readonly writes: readonly Write[] }

export function withoutWrites<Answer>(answer: Answer): Decision<Answer> {
  return { answer, writes: [] }
}

/**
 * Fails a lost call whose authorization is about to serve another call. A call that has failed already needs no write.
 */
export function failLost(call: Head | undefined, now: number): readonly Write[] {
  if (!call || !isLost(call, now)) return []
  return [{ kind: 'patch', id: call.id, patch: { workStatus: 'failed', error: LOST, endedAt: now } }]
}

export function bindingOf(
  authorization: Authorization,
  call: Pick<Call, 'id' | 'payer'>,
): Omit<AuthorizationBinding, 'position' | 'status'> {
  return { key: authorization.key, call: call.id, payer: call.payer, expiresAt: authorization.expiresAt }
}

export type Made = {
  readonly result: Json
  readonly expiresAt: number
  readonly usage?: Usage | null
  readonly charge?: Usdc
}

export function completed({ result, expiresAt, usage, charge }: Made, now: number): RowPatch {
  return {
    workStatus: 'completed',
    endedAt: now,
    result,
    expiresAt,
    ...(usage && { usage }),
    ...(charge !== undefined && { charge }),
  }
}
