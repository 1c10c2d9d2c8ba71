/** Solana's networks: the first 32 characters of the hash of their first block (CAIP-30). */
import type { NetworkFacts } from '../../../core/ports/mod.ts'

export const SOLANA_NETWORKS: Readonly<Record<string, NetworkFacts>> = {
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': {
    label: 'solana',
    title: 'Solana',
    usdc: { address: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v' },
    explorer: 'https://solscan.io/tx/',
    node: 'https://api.mainnet-beta.solana.com',
  },
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': {
    label: 'solana-devnet',
    title: 'Solana devnet',
    usdc: { address: '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU' },
    node: 'https://api.devnet.solana.com',
    isTest: true,
  },
  'solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z': { title: 'Solana testnet', isTest: true },
}
