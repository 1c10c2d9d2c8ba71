/**
 * Networks with JSON-RPC nodes, by the names that callers use (decision 62). Operators may add nodes of others
 * (contract 15.9).
 */
type NetworkRow = { readonly slug: string; readonly name: string; readonly aliases: readonly string[] }

const network = (slug: string, name: string, ...aliases: readonly string[]): NetworkRow => ({ slug, name, aliases })

/**
 * The networks that the JSON-RPC product knows by name.
 *
 * @example
 * const slugs = networkRows.map(({ slug }) => slug)
 */
export const networkRows: readonly NetworkRow[] = [
  network('ethereum-mainnet', 'Ethereum', 'ethereum', 'eth', 'eth-mainnet', 'mainnet'),
  network('ethereum-sepolia', 'Ethereum Sepolia', 'sepolia', 'eth-sepolia'),
  network('base-mainnet', 'Base', 'base'),
  network('base-sepolia', 'Base Sepolia'),
  network('arbitrum-mainnet', 'Arbitrum One', 'arbitrum', 'arb', 'arbitrum-one', 'arb-mainnet'),
  network('arbitrum-nova', 'Arbitrum Nova', 'nova'),
  network('optimism-mainnet', 'OP Mainnet', 'optimism', 'op', 'op-mainnet', 'opt-mainnet'),
  network('polygon-mainnet', 'Polygon', 'polygon', 'matic', 'pol', 'matic-mainnet'),
  network('polygon-zkevm', 'Polygon zkEVM', 'zkevm', 'polygonzkevm-mainnet'),
  network('bsc-mainnet', 'BNB Smart Chain', 'bsc', 'bnb', 'bnb-mainnet', 'binance'),
  network('opbnb-mainnet', 'opBNB', 'opbnb'),
  network('avalanche-mainnet', 'Avalanche C-Chain', 'avalanche', 'avax', 'avax-mainnet'),
  network('solana-mainnet', 'Solana', 'solana', 'sol', 'mainnet-beta'),
  network('solana-devnet', 'Solana devnet'),
  network('gnosis-mainnet', 'Gnosis', 'gnosis', 'xdai'),
  network('linea-mainnet', 'Linea', 'linea'),
  network('scroll-mainnet', 'Scroll', 'scroll'),
  network('zksync-mainnet', 'ZKsync Era', 'zksync', 'zksync-era'),
  network('mantle-mainnet', 'Mantle', 'mantle'),
  network('blast-mainnet', 'Blast', 'blast'),
  network('mode-mainnet', 'Mode', 'mode'),
  network('unichain-mainnet', 'Unichain', 'unichain'),
  network('worldchain-mainnet', 'World Chain', 'worldchain', 'world'),
  network('celo-mainnet', 'Celo', 'celo'),
  network('fantom-mainnet', 'Fantom', 'fantom', 'ftm'),
  network('sonic-mainnet', 'Sonic', 'sonic'),
  network('moonbeam-mainnet', 'Moonbeam', 'moonbeam', 'glmr'),
  network('cronos-mainnet', 'Cronos', 'cronos', 'cro'),
  network('kaia-mainnet', 'Kaia', 'kaia', 'klaytn'),
  network('berachain-mainnet', 'Berachain', 'berachain', 'bera'),
  network('sei-mainnet', 'Sei', 'sei'),
  network('ink-mainnet', 'Ink', 'ink'),
  network('abstract-mainnet', 'Abstract', 'abstract'),
  network('soneium-mainnet', 'Soneium', 'soneium'),
  network('taiko-mainnet', 'Taiko', 'taiko'),
  network('zora-mainnet', 'Zora', 'zora'),
  network('metis-mainnet', 'Metis', 'metis'),
  network('hyperevm-mainnet', 'HyperEVM', 'hyperevm', 'hyperliquid'),
  network('monad-mainnet', 'Monad', 'monad'),
  network('arc-mainnet', 'Arc', 'arc'),
]

const byName = new Map(
  networkRows.flatMap((row) => [row.slug, ...row.aliases].map((name) => [name, row.slug] as const)),
)

/** Resolves a name to one of `served`: by slug, by alias, or without `-mainnet`; undefined if none matches. */
export function networkNamed(name: string, served: readonly string[]): string | undefined {
  const requested = name.toLowerCase()
  return [requested, byName.get(requested) ?? '', `${requested}-mainnet`].find((slug) => served.includes(slug))
}

/**
 * The slug of the gateway's payment network, if it has an RPC name.
 *
 * @example
 * const slug = networkOf('eip155:8453')
 */
export function networkOf(caip: string): string | undefined {
  return slugs[caip]
}
const slugs: Readonly<Record<string, string>> = {
  'eip155:8453': 'base-mainnet',
  'eip155:84532': 'base-sepolia',
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': 'solana-mainnet',
  'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1': 'solana-devnet',
}
