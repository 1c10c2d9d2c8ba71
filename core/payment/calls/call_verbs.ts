/** The verbs of calls, and what an API key gets back when a call fails. */
import type { Clock } from '../../lib/clock.ts'
import type { CallStorage, ChainKeys, Coordination } from '../../ports/mod.ts'

/** The verbs of calls. A new one compiles when each file of this folder has decided about it. */
export type CallVerbs = CallStorage & Pick<Coordination, 'renew'>

/** A call that is moved to `failed` frees what its API key has reserved for it (decision 151). */
export function releasing(
  verbs: CallVerbs,
  { apiKeys, clock }: { apiKeys: ChainKeys | undefined; clock: Clock },
): CallVerbs {
  if (!apiKeys) return verbs
  const { openCall, recordPaid, getCall, callOf, claimSettlement, finishSettlement, renew } = verbs
  async function moveCall(...[id, from, patch]: Parameters<CallVerbs['moveCall']>): Promise<boolean> {
    const isMoved = await verbs.moveCall(id, from, patch)
    const ended = patch.workStatus === 'failed' ? await getCall(id) : undefined
    // Others may have taken it for lost before, or it was charged and storage lost the answer: its key is over as well.
    const isOver = ended?.workStatus === 'failed' || ended?.paymentStatus === 'settled'
    if (ended && isOver) await apiKeys?.release(ended.authorization, clock.now())
    return isMoved
  }
  return { openCall, recordPaid, getCall, callOf, moveCall, claimSettlement, finishSettlement, renew }
}
