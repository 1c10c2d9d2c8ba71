/** Every family of networks that Farebox can be paid on. A new one is a folder, and a name here. */
import type { ChainFamily, NetworkFacts } from '../../core/ports/mod.ts'
import { evmFamily } from './evm/family.ts'
import { solanaFamily } from './solana/family.ts'

export { evmFamily, solanaFamily }

export const families: readonly ChainFamily[] = [evmFamily, solanaFamily]

/** Facts of a network, by its CAIP-2 id. */
export const networkFacts = (network: string | undefined): NetworkFacts | undefined =>
  network === undefined
    ? undefined
    : families.flatMap(({ networks }) => (Object.hasOwn(networks, network) ? [networks[network]] : []))[0]

const anyOf = (patterns: readonly string[]): string => `^(${patterns.join('|')})$`
/** Regular expressions of what configuration takes: a network in CAIP-2, an address. */
export const NETWORK_PATTERN = anyOf(families.map(({ networkPattern }) => networkPattern))
export const ADDRESS_PATTERN = anyOf(families.map(({ addressPattern }) => addressPattern))
export const EVM_NETWORK_PATTERN = `^${evmFamily.networkPattern}$`
