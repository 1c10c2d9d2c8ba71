/**
 * The used part of the optional package secp256k1, which has no types: its native library, without the JavaScript
 * substitute.
 */
declare module 'secp256k1/bindings.js' {
  const library: {
    /** The public key of a private one: 65 bytes where it is not `compressed`. */
    publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array
    /** With a low s. `recid`: 0 or 1. */
    ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
    /** Throws when no key made the signature. */
    ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: boolean): Uint8Array
  }
  export default library
}
