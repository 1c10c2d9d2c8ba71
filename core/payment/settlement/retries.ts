/** Pending settlement retries of this process. */
import { type BoundedMap, boundedMap } from '../../lib/bounded_map.ts'
import { sharedBy } from '../../lib/per_process.ts'
import type { CallStorage } from '../../ports/mod.ts'

type Retry = { reason: string; pauseMs: number; nextAt: number }

export const MIN_PAUSE_MS = 1_000
export const MAX_PAUSE_MS = 60_000
const MAX_RETRIES = 10_000

/** Pending settlement retries of this process, with their delays and what was logged. */
export const retries = (storage: CallStorage): BoundedMap<Retry> =>
  sharedBy(storage, 'settlement retries', () => boundedMap<Retry>(MAX_RETRIES))

export function retryOf(storage: CallStorage, id: string): Retry {
  const all = retries(storage)
  const retry = all.get(id) ?? { reason: '', pauseMs: MIN_PAUSE_MS, nextAt: 0 }
  all.set(id, retry)
  return retry
}
