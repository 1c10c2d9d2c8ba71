/** Recovers public keys in JavaScript. Loaded with the first signature, and with no more of viem than this. */
import { recoverPublicKey } from 'viem/utils'
import type { Hex } from '../../lib/hex.ts'

/** The uncompressed public key that signed this digest, or undefined when there is none. */
export async function recoverPortably(hash: Hex, signature: Hex): Promise<Hex | undefined> {
  return await recoverPublicKey({ hash, signature }).catch(() => undefined)
}
