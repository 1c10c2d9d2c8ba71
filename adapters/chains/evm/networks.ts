/** EVM networks that are known by name (decision 67). */
import type { NetworkFacts } from '../../../core/ports/mod.ts'

export const EVM_NETWORKS: Readonly<Record<string, NetworkFacts>> = {
  'eip155:8453': {
    label: 'base',
    title: 'Base',
    usdc: { address: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', name: 'USD Coin' },
    explorer: 'https://basescan.org/tx/',
    node: 'https://mainnet.base.org',
  },
  'eip155:84532': {
    label: 'base-sepolia',
    title: 'Base Sepolia',
    usdc: { address: '0x036CbD53842c5426634e7929541eC2318f3dCF7e', name: 'USDC' },
    explorer: 'https://sepolia.basescan.org/tx/',
    node: 'https://sepolia.base.org',
    isTest: true,
  },
  'eip155:11155111': { title: 'Ethereum Sepolia', isTest: true },
  'eip155:80002': { title: 'Polygon Amoy', isTest: true },
  'eip155:421614': { title: 'Arbitrum Sepolia', isTest: true },
  'eip155:11155420': { title: 'OP Sepolia', isTest: true },
  'eip155:43113': { title: 'Avalanche Fuji', isTest: true },
}
