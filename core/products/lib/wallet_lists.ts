/** Shared by the public lists of a wallet: address parsing and rate limits. */
import type { GatewayFacts } from '../../endpoint/gateway_info.ts'
import { checksummed } from '../../lib/checksum.ts'
import { clip } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Context } from '../../endpoint/mod.ts'

const MINUTE_MS = 60_000

/** The rate limit that all wallet lists share (contract 13.7). */
export const WALLET_LISTS = { requests: 20, windowMs: 60 * MINUTE_MS, bucket: 'wallet_lists' }

/**
 * Normalizes an address to the form in which payers are stored. Throws a 400 for one that is invalid on this gateway's
 * networks.
 */
export function walletOf(given: string, { terms }: Pick<GatewayFacts, 'terms'>): string {
  const namespaces = terms().map(({ network }) => network.split(':', 1)[0])
  const isEvm = namespaces.length === 0 || namespaces.includes('eip155')
  if (isEvm && /^0x[0-9a-fA-F]{40}$/.test(given)) return checksummed(given)
  const isSolana = namespaces.length === 0 || namespaces.includes('solana')
  if (isSolana && /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(given)) return given
  const form = isEvm ? '0x and 40 hex digits' : 'a base58 public key'
  throw refused('address', given === '' ? `must be ${form}; it is missing` : `must be ${form}, got ${clip(given)}`)
}

/** An example wallet of the gateway's network, for the documentation. */
export function sampleWallet({ networks = [] }: Pick<Context, 'networks'>): string {
  return networks.some((network) => network.startsWith('solana:'))
    ? '7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU'
    : '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
}
