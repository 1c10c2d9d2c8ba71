/** Networks by the names that people know. The price list has labels, and offers have CAIP-2 ids. */
const NAMES: Readonly<Record<string, string>> = {
  base: 'Base',
  'eip155:8453': 'Base',
  'base-sepolia': 'Base Sepolia',
  'eip155:84532': 'Base Sepolia',
  solana: 'Solana',
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'Solana',
  'solana-devnet': 'Solana devnet',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': 'Solana devnet',
}

/** A network that has no name here keeps its id. */
export const networkName = (network: string): string => NAMES[network] ?? network
