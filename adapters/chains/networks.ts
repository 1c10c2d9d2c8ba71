/** Every network that is known by name, by its CAIP-2 id: data alone, which pages load. */
import type { NetworkFacts } from '../../core/ports/mod.ts'
import { EVM_NETWORKS } from './evm/networks.ts'
import { SOLANA_NETWORKS } from './solana/networks.ts'

export const NETWORKS: Readonly<Record<string, NetworkFacts>> = { ...EVM_NETWORKS, ...SOLANA_NETWORKS }
