/** Solana's networks as a way to be paid: by keys of our own, which all replicas share, or by facilitators. */
import type { ChainManifest, PayingAccount } from '../lib/manifest.ts'
import type { SolanaMethod } from './settings.ts'

export const solanaManifest: ChainManifest<SolanaMethod> = {
  async open({ network, rpcUrl, asset: mint, payTo, settles }, { random }) {
    const row = { network, rpcUrl, mint, payTo }
    if (settles.by === 'facilitators') {
      const { solanaFacilitator } = await import('./facilitator.ts')
      const chain = await solanaFacilitator({ ...row, facilitators: settles.rows, random })
      return Object.assign(chain, { accounts: () => [] })
    }
    const { solanaChain } = await import('./mod.ts')
    const { keys: feePayerKeys, maxFeeLamports, priorityLamports, feePayerFloorLamports } = settles
    const chain = await solanaChain({
      ...row,
      feePayerKeys,
      ...(maxFeeLamports !== undefined && { maxFeeLamports }),
      ...(priorityLamports !== undefined && { priorityLamportsPerToken: priorityLamports }),
      ...(feePayerFloorLamports !== undefined && { feePayerFloor: feePayerFloorLamports }),
    })
    const accounts = () =>
      chain.feePayers().map(({ address, balance, low }) => ({
        unit: 'lamports' as const,
        address,
        balance: balance === undefined ? undefined : BigInt(balance),
        low,
      }))
    return Object.assign(chain, { accounts })
  },

  async accounts({ network, rpcUrl, asset: mint, payTo, settles }, { now, isOffline }) {
    if (settles.by === 'facilitators') return []
    const { solanaChain } = await import('./mod.ts')
    const { keys: feePayerKeys, feePayerFloorLamports: floor } = settles
    const row = { network, rpcUrl, mint, payTo, feePayerKeys }
    const chain = await solanaChain({ ...row, ...(floor !== undefined && { feePayerFloor: floor }) })
    if (!isOffline) await chain.check({ now })
    if (!isOffline) await chain.refresh({ now })
    const found = chain.feePayers().map(({ address, balance, low }): PayingAccount => ({
      role: 'fee payer',
      network,
      address,
      balance: balance === undefined ? undefined : BigInt(balance),
      unit: 'lamports',
      problem: low ?? (balance === undefined && !isOffline ? `the balance of ${address} cannot be read` : undefined),
    }))
    chain.close()
    return found
  },
}
