/** 0x addresses as EIP-55 spells them, which is how chains tell payers and the ledger keeps them. */
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'

/** Of 0x and 40 hex digits in any case: one spelling, whose upper case letters are a check. */
export function checksummed<Address extends string>(address: Address): Address {
  const digits = address.slice(2).toLowerCase()
  const hash = bytesToHex(keccak_256(utf8ToBytes(digits)))
  const isLower = (at: number) => Number.parseInt(hash[at] ?? '0', 16) < 8
  const mixed = digits.replace(/[a-f]/g, (letter, at: number) => (isLower(at) ? letter : letter.toUpperCase()))
  return `0x${mixed}` as Address
}
