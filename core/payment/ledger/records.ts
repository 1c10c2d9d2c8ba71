/** Compares and sets records. */
import type { StoredRecord } from '../../ports/mod.ts'
import type { Json } from '../../lib/json.ts'

/** The record, unless it has expired at `now`. Expired records are treated as absent. */
export function unexpired<Record extends Pick<StoredRecord, 'expiresAt'>>(
  stored: Record | undefined,
  now: number,
): Record | undefined {
  return stored && stored.expiresAt > now ? stored : undefined
}

/** Whether a compare-and-set on a record applies. */
export function mayMoveRecord(
  stored: StoredRecord | undefined,
  change: { record: StoredRecord; from: Json; now: number },
): boolean {
  const current = unexpired(stored, change.now)
  return current !== undefined && isSame(current.data, change.from)
}

/** Whether two values are equal as JSON, whatever the order of keys: a database may reorder them. */
function isSame(one: Json, other: Json): boolean {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one) !== Array.isArray(other)) return false
  const [left, right] = [one as Readonly<Record<string, Json>>, other as Readonly<Record<string, Json>>]
  const keys = Object.keys(left)
  if (keys.length !== Object.keys(right).length) return false
  for (const key of keys) if (!Object.hasOwn(right, key) || !isSame(left[key] as Json, right[key] as Json)) return false
  return true
}
