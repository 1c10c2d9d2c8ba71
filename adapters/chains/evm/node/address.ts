/** Checks of configured EVM addresses. */
import { checksummed } from '../../../../core/lib/mod.ts'
import { type Hex, lower } from '../../lib/hex.ts'

export const ZERO_ADDRESS: Hex = `0x${'0'.repeat(40)}`

/** Problems with a configured address that its text alone shows. */
export function addressProblem(setting: string, address: string): readonly string[] {
  if (!/^0x[0-9a-fA-F]{40}$/.test(address))
    return [`${setting}: ${JSON.stringify(address.slice(0, 60))} is not an address; it must be 0x and 40 hex digits`]
  if (address === ZERO_ADDRESS) return [`${setting}: must not be the zero address`]
  const isMixed = /[a-f]/.test(address.slice(2)) && /[A-F]/.test(address.slice(2))
  if (isMixed && checksummed(address) !== address)
    return [`${setting}: the checksum of ${address} does not match its capitals; a digit may be wrong`]
  return []
}

/** Validates an address and returns it in lower case. Throws RangeError for anything else. */
export function parseAddress(text: string): Hex {
  if (/^0x[0-9a-fA-F]{40}$/.test(text)) return lower(text)
  throw new RangeError('not an address: must be 0x and 40 hex digits')
}
