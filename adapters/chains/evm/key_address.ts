/** The address of a private key. On its own, because a bundler gives whoever imports a package later all of it. */
import { privateKeyToAddress } from 'viem/accounts'
import type { Hex } from '../lib/hex.ts'

export function addressOfKey(key: Hex): Hex {
  return privateKeyToAddress(key)
}
