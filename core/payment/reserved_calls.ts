/** Ends the reservations of calls that fail (decision 151). */
import type { Clock } from '../lib/clock.ts'
import { decorated, OTHER_VERBS } from '../ports/decorated_storage.ts'
import type { ChainKeys, Storage } from '../ports/mod.ts'

/** The same storage: a call that is moved to `failed` frees what its API key has reserved for it. */
export function withReleases(
  storage: Storage,
  { apiKeys, clock }: { readonly apiKeys: ChainKeys | undefined; readonly clock: Clock },
): Storage {
  if (!apiKeys) return storage
  return decorated(storage, {
    ...OTHER_VERBS,
    async moveCall(id, from, patch) {
      const isMoved = await storage.moveCall(id, from, patch)
      const failed = isMoved && patch.workStatus === 'failed' ? await storage.getCall(id) : undefined
      if (failed) await apiKeys.release(failed.authorization, clock.now())
      return isMoved
    },
    openCall: 'same',
    getCall: 'same',
    callOf: 'same',
    claimSettlement: 'same',
    recordPaid: 'same',
    renew: 'same',
    finishSettlement: 'same',
    prune: 'same',
    pruneLedger: 'same',
    archiveCalls: 'same',
  })
}
