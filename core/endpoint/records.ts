/** Records beside the calls. */
import type { Call, RecordStorage, StoredRecord } from '../ports/mod.ts'
import { ApiError } from '../http/errors.ts'

/**
 * Stores a record for its owner; one that the owner already has is left unchanged. Throws NOT_ALLOWED when another
 * wallet has it.
 */
export async function storeRecords(
  storage: Pick<RecordStorage, 'putRecord' | 'getRecord'>,
  record: StoredRecord,
  now: number,
): Promise<void> {
  if (await storage.putRecord(record, now)) return
  const stored = await storage.getRecord(record.kind, record.id, now)
  if (stored?.owner !== record.owner) throw ofAnother()
}

/** The error for a record that belongs to another wallet. */
export function ofAnother(): ApiError {
  return new ApiError('NOT_ALLOWED', { message: 'Another wallet has enrolled this. Nothing was charged.' })
}

/** Unsettled past its claim window, or settled past its retention. */
export function isForgotten(call: Call, now: number): boolean {
  if (call.paymentStatus === 'settled') return call.result === null
  return call.expiresAt <= now && call.paymentStatus !== 'settling' && call.paymentStatus !== 'unresolved'
}

/** The call failed, or its result has been deleted: the caller has to order again. */
export function isOver(call: Call, now: number): boolean {
  return call.workStatus === 'failed' || isForgotten(call, now)
}
