/** Pending settlement retries of a gateway, with their delays and what was logged. */
import { type BoundedMap, boundedMap } from '../../lib/bounded_map.ts'

type Retry = { reason: string; pauseMs: number; nextAt: number }

export type Retries = BoundedMap<Retry>

export const MIN_PAUSE_MS = 1_000
export const MAX_PAUSE_MS = 60_000
const MAX_RETRIES = 10_000

export const noRetries = (): Retries => boundedMap<Retry>(MAX_RETRIES)

export function retryOf(retries: Retries, id: string): Retry {
  const retry = retries.get(id) ?? { reason: '', pauseMs: MIN_PAUSE_MS, nextAt: 0 }
  retries.set(id, retry)
  return retry
}
