/** Whether the storage answers: for `/readyz`, which anyone may request as often as they like. */
import type { Clock } from '../lib/clock.ts'
import type { CallStorage } from './storage/mod.ts'

/** How long an outcome is reused. */
const FRESH_MS = 1_000
/** A storage that takes longer is treated as unreachable; load balancers wait two to five seconds for a probe. */
const TIMEOUT_MS = 1_500

/** Reads one row, at most once a second however many ask. Resolves with false when that fails or takes too long. */
export function storageProbe(storage: Pick<CallStorage, 'getCall'>, clock: Clock): () => Promise<boolean> {
  let requestedAt = Number.NEGATIVE_INFINITY
  let outcome: Promise<boolean> = Promise.resolve(true)

  async function ask(): Promise<boolean> {
    const answered = new AbortController()
    const late = clock.wait(TIMEOUT_MS, answered.signal).then(() => false)
    const read = storage.getCall('readyz').then(
      () => true,
      () => false,
    )
    return await Promise.race([read, late]).finally(() => answered.abort())
  }

  return () => {
    const now = clock.now()
    if (now - requestedAt < FRESH_MS && now >= requestedAt) return outcome
    requestedAt = now
    return (outcome = ask())
  }
}
