/** A new key of secp256k1. */
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'

/** The key in hex, and its address. */
export function newEvmKey() {
  const key = generatePrivateKey()
  return { key, address: privateKeyToAddress(key) }
}
