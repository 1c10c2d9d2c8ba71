/** Records beside the calls. */
import type { Storage, StoredRecord, Call } from '../ports/mod.ts'
import { ApiError } from '../http/errors.ts'

/**
 * Keeps a record for its owner; one that it has already stays as it is. Throws NOT_ALLOWED where another wallet has it.
 */
export async function storeRecords(
  storage: Pick<Storage, 'putRecord' | 'getRecord'>,
  record: StoredRecord,
  now: number,
): Promise<void> {
  if (await storage.putRecord(record, now)) return
  const stored = await storage.getRecord(record.kind, record.id, now)
  if (stored?.owner !== record.owner) throw ofAnother()
}

/** What another wallet has enrolled is not to be added to. */
export function ofAnother(): ApiError {
  return new ApiError('NOT_ALLOWED', { message: 'Another wallet has enrolled this. Nothing was charged.' })
}

/** Past its claim window; or settled, and past its shelf life. */
export function isForgotten(call: Call, now: number): boolean {
  if (call.paymentStatus === 'settled') return call.result === null
  return call.expiresAt <= now && call.paymentStatus !== 'settling' && call.paymentStatus !== 'unresolved'
}

/** It came to nothing, or nothing is left of it: whoever asks for it again has to start afresh. */
export function isOver(call: Call, now: number): boolean {
  return call.workStatus === 'failed' || isForgotten(call, now)
}
