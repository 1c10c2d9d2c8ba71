import { NETWORKS } from '../../../../adapters/chains/networks.ts'

/** A network as people know it, by its label (in the price list) or its CAIP-2 id (in offers); else unchanged. */
export function networkName(network: string): string {
  const facts = NETWORKS[network] ?? Object.values(NETWORKS).find(({ label }) => label === network)
  return facts?.title ?? network
}

/** Whether money on the network is worth nothing. */
export const isTestNetwork = (network: string): boolean => NETWORKS[network]?.isTest ?? false

/** The page about a transaction; undefined where none is known. */
export function explorerOf(network: string, transaction: string): string | undefined {
  const page = NETWORKS[network]?.explorer
  return page && transaction ? page + transaction : undefined
}
