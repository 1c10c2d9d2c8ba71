/** What is listed for a wallet, to anybody who asks: how it is named, and how often. */
import type { GatewayFacts } from '../../endpoint/gateway_info.ts'
import { checksummed } from '../../lib/checksum.ts'
import { clip } from '../../lib/text.ts'
import { ApiError } from '../../http/errors.ts'
import type { Context } from '../../endpoint/mod.ts'

const MINUTE_MS = 60_000

/** Shared by all lists of what a wallet has (contract 13.7). */
export const WALLET_LISTS = { requests: 20, windowMs: 60 * MINUTE_MS, bucket: 'wallet_lists' }

/** An address as payers are stored. Throws a 400 for what is none on the networks of this gateway. */
export function walletOf(given: string, { terms }: Pick<GatewayFacts, 'terms'>): string {
  const namespaces = terms().map(({ network }) => network.split(':', 1)[0])
  const isEvm = namespaces.length === 0 || namespaces.includes('eip155')
  if (isEvm && /^0x[0-9a-fA-F]{40}$/.test(given)) return checksummed(given)
  const isSolana = namespaces.length === 0 || namespaces.includes('solana')
  if (isSolana && /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(given)) return given
  const message = `address: must be ${isEvm ? '0x and 40 hex digits' : 'a base58 public key'}, got ${clip(given)}`
  throw new ApiError('INVALID_PARAMETER', { message, param: 'address', details: [{ path: 'address', message }] })
}

/** A wallet of the network that a gateway is paid on, for documents. */
export function sampleWallet({ networks = [] }: Pick<Context, 'networks'>): string {
  return networks.some((network) => network.startsWith('solana:'))
    ? '7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU'
    : '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
}
