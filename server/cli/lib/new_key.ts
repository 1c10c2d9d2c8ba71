/** New keys that pay for settlements. They are written to files that only their owner can read, and never printed. */
import { existsSync, writeFileSync } from 'node:fs'
import { CommandError } from '../command.ts'

/** A private key as its environment variable holds it, and its address. */
export type NewKey = { readonly key: string; readonly address: string }

/** A key of secp256k1, or a Solana keypair in base58. */
export async function newKey(network: string): Promise<NewKey> {
  if (!network.startsWith('solana:')) {
    const { generatePrivateKey, privateKeyToAddress } = await import('viem/accounts')
    const key = generatePrivateKey()
    return { key, address: privateKeyToAddress(key) }
  }
  const { createKeyPairSignerFromBytes, getBase58Decoder } = await import('@solana/kit')
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

/** Throws CommandError when one of these files exists. */
export function refuseExisting(...paths: readonly string[]): void {
  for (const path of paths)
    if (existsSync(path)) throw new CommandError(`${path} exists, and nothing is overwritten. Choose another file.`)
}

/** Writes a new file that only its owner can read. Throws CommandError when it exists or cannot be written. */
export function writeSecret(path: string, text: string): void {
  writeNew(path, text, 0o600)
}

/** Writes a new file. Throws CommandError when it exists or cannot be written. */
export function writeNew(path: string, text: string, mode = 0o644): void {
  try {
    writeFileSync(path, text, { flag: 'wx', mode })
  } catch (error) {
    refuseExisting(path)
    throw new CommandError(`${path}: cannot be written (${(error as { code?: string }).code})`)
  }
}
