/** A new key of secp256k1. */
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import type { NewKey } from './new_key.ts'

/** The key in hex, and its address. */
export function newEvmKey(): NewKey {
  const key = generatePrivateKey()
  return { key, address: privateKeyToAddress(key) }
}
