/** Shared by the public lists of a wallet: address parsing and rate limits. */
import type { GatewayFacts } from '../../endpoint/gateway_info.ts'
import { clip } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Context } from '../../endpoint/mod.ts'
import { addressIn } from '../../ports/chain_family.ts'

const MINUTE_MS = 60_000

/** The rate limit that all wallet lists share (contract 13.7). */
export const WALLET_LISTS = { requests: 20, windowMs: 60 * MINUTE_MS, bucket: 'wallet_lists' }

/**
 * Normalizes an address to the form in which payers are stored. Throws a 400 for one that is invalid on this gateway's
 * networks.
 */
export function walletOf(given: string, { families }: Pick<GatewayFacts, 'families'>): string {
  const address = addressIn(families, given)
  if (address !== undefined) return address
  const form = families.map(({ addressForm }) => addressForm).join(', or ')
  throw refused('address', given === '' ? `must be ${form}; it is missing` : `must be ${form}, got ${clip(given)}`)
}

/** An example wallet of the gateway's network, for the documentation. */
export const sampleWallet = ({ families = [] }: Pick<Context, 'families'>): string => families[0]?.sampleAddress ?? ''
