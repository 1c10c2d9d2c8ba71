/**
 * The used part of the optional package secp256k1, which has no types: its native library, without the JavaScript
 * substitute.
 */
declare module 'secp256k1/bindings.js' {
  const library: {
    /** Throws when no key made the signature. */
    ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: boolean): Uint8Array
  }
  export default library
}
