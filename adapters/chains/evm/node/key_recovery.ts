/** Recovers secp256k1 public keys: natively where the optional package is installed, portably elsewhere. */
import { bytesToHex, hexToBytes } from '@noble/hashes/utils'
import type { Hex } from '../../lib/hex.ts'

export type KeyRecovery = {
  readonly kind: 'native' | 'portable'
  /**
   * Returns the uncompressed public key that signed this digest, as 65 bytes of hex, or undefined when there is none.
   * The caller has checked the form of the signature: 65 bytes, low s, v of 27 or 28.
   */
  recover(digest: Hex, signature: Hex): Promise<Hex | undefined>
}

/** The native recovery, or the portable one where the package is missing or has no library for this platform. */
export async function keyRecovery(): Promise<KeyRecovery> {
  return (await nativeRecovery()) ?? portableRecovery
}

/** libsecp256k1; undefined where it does not load. */
export async function nativeRecovery(): Promise<KeyRecovery | undefined> {
  try {
    const { default: library } = await import('secp256k1/bindings.js')
    return {
      kind: 'native',
      async recover(digest, signature) {
        const bytes = hexToBytes(signature.slice(2))
        const recovery = bytes[64] === 28 ? 1 : 0
        try {
          return `0x${bytesToHex(library.ecdsaRecover(bytes.subarray(0, 64), recovery, hexToBytes(digest.slice(2)), false))}`
        } catch {
          return undefined
        }
      },
    }
  } catch {
    return undefined // a library fails to load in as many ways as there are platforms, and the portable one serves them
  }
}

/** The same in JavaScript, loaded with the first signature. */
export const portableRecovery: KeyRecovery = {
  kind: 'portable',
  async recover(digest, signature) {
    const { recoverPortably } = await import('./portable_recovery.ts')
    return await recoverPortably(digest, signature)
  },
}
