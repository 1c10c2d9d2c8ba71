/** A new keypair of Solana. */
import { createKeyPairSignerFromBytes, getBase58Decoder } from '@solana/kit'

/** The keypair of 64 bytes in base58, and its address. */
export async function newSolanaKey() {
  const { privateKey, publicKey } = (await crypto.subtle.generateKey('Ed25519', true, [
    'sign',
    'verify',
  ])) as CryptoKeyPair
  // PKCS #8 of Ed25519 ends with the 32 bytes of the seed.
  const seed = new Uint8Array(await crypto.subtle.exportKey('pkcs8', privateKey)).slice(-32)
  const bytes = new Uint8Array([...seed, ...new Uint8Array(await crypto.subtle.exportKey('raw', publicKey))])
  const { address } = await createKeyPairSignerFromBytes(bytes)
  return { key: getBase58Decoder().decode(bytes), address }
}
