/** Reads the state of a channel on chain. */
import type { Unavailable } from '../../../../core/ports/mod.ts'
import type { Hex } from '../../lib/hex.ts'
import { unavailable } from '../../lib/results.ts'
import type { Reads } from '../node/reads.ts'
import { mirrorCalls, mirrorIn } from './contract.ts'
import type { Mirror } from './state.ts'

/** Three views of the settlement contract, in one request where the node has multicall. */
export async function readMirror(
  { reads, lagSeconds }: { readonly reads: Pick<Reads, 'view'>; readonly lagSeconds: number },
  channelId: Hex,
  signal?: AbortSignal,
): Promise<Mirror | Unavailable> {
  const seen = await reads.view(mirrorCalls(channelId), { lagSeconds, ...(signal && { signal }) })
  if (seen.kind === 'failure') return unavailable(seen.reason)
  return mirrorIn(seen.results) ?? unavailable('the settlement contract does not answer on this network')
}
