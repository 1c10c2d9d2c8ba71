/** Deposits in Circle Gateway as a way to be paid: the service settles, so no account of ours pays. */
import type { ChainManifest } from '../../lib/manifest.ts'
import type { BatchedMethod } from './settings.ts'

export const batchedManifest: ChainManifest<BatchedMethod> = {
  async open({ url, networks, payTo }, { alert }) {
    const { batchedChain } = await import('./mod.ts')
    return Object.assign(batchedChain({ apiUrl: url, networks, payTo, alert }), { accounts: () => [] })
  },
  accounts: async () => [],
}
