/** Deposits in Circle Gateway as a way to be paid: the service settles, so no account of ours pays. */
import type { ChainManifest } from '../../lib/manifest.ts'

/** Empty `networks`: all that the service supports. */
export type BatchedMethod = { readonly url: string; readonly networks: readonly string[]; readonly payTo: string }

export const batchedManifest: ChainManifest<BatchedMethod> = {
  async open({ url, networks, payTo }, { alert }) {
    const { batchedChain } = await import('./mod.ts')
    return Object.assign(batchedChain({ apiUrl: url, networks, payTo, alert }), { accounts: () => [] })
  },
  accounts: async () => [],
}
