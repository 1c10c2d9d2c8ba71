/** EIP-55 checksums of 0x addresses: the spelling that chains return and the ledger stores. */
import { boundedMap } from './bounded_map.ts'
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'

/** A call spells the address of its wallet several times, and wallets call again. */
const MAX_KNOWN = 4_096
const known = boundedMap<string>(MAX_KNOWN)

/** Converts 0x and 40 hex digits in any case to the EIP-55 spelling. */
export function checksummed<Address extends string>(address: Address): Address {
  const digits = address.slice(2).toLowerCase()
  const spelt = known.get(digits) ?? spell(digits)
  known.set(digits, spelt)
  return spelt as Address
}

function spell(digits: string): string {
  const hash = bytesToHex(keccak_256(utf8ToBytes(digits)))
  const isLower = (at: number) => Number.parseInt(hash[at] ?? '0', 16) < 8
  const mixed = digits.replace(/[a-f]/g, (letter, at: number) => (isLower(at) ? letter : letter.toUpperCase()))
  return `0x${mixed}`
}
