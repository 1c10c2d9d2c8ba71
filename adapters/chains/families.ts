/** Every family of networks that Farebox can be paid on. A new one is a folder, and a name here. */
import { type ChainFamily, familyOf, type NetworkFacts } from '../../core/ports/mod.ts'
import { evmFamily } from './evm/family.ts'
import { NETWORKS } from './networks.ts'
import { solanaFamily } from './solana/family.ts'

export { evmFamily }

export const families: readonly ChainFamily[] = [evmFamily, solanaFamily]

/** How long a signed payment can be sent at least, in seconds, whatever its offer says. */
export const leastValidityOf = (network: string): number => familyOf(families, network)?.leastValiditySeconds ?? 0

/** Facts of a network, by its CAIP-2 id. */
export const networkFacts = (network: string | undefined): NetworkFacts | undefined =>
  network !== undefined && Object.hasOwn(NETWORKS, network) ? NETWORKS[network] : undefined

const anyOf = (patterns: readonly string[]): string => `^(${patterns.join('|')})$`
/** Regular expressions of what configuration takes: a network in CAIP-2, an address. */
export const NETWORK_PATTERN = anyOf(families.map(({ networkPattern }) => networkPattern))
export const ADDRESS_PATTERN = anyOf(families.map(({ addressPattern }) => addressPattern))
export const EVM_NETWORK_PATTERN = `^${evmFamily.networkPattern}$`

/** The patterns in words, for errors of configuration. */
export const PATTERN_WORDS: Readonly<Record<string, string>> = {
  [NETWORK_PATTERN]: `a network in CAIP-2: ${families.map(({ networkForm }) => networkForm).join(', or ')}`,
  [ADDRESS_PATTERN]: `an address: ${families.map(({ addressWords }) => addressWords).join(', or ')}`,
  [EVM_NETWORK_PATTERN]: 'an EVM network such as eip155:8453',
}
/** The address of a wallet of any family, in words. */
export const WALLET_FORM = families.map(({ walletForm }) => walletForm).join(' or ')
