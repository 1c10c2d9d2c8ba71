/** New keys that pay for settlements. They are written to files that only their owner can read, and never printed. */
import { existsSync, writeFileSync } from 'node:fs'
import { CommandError } from '../command.ts'

/** A private key as its environment variable holds it, and its address. */
type NewKey = { readonly key: string; readonly address: string }

/** A key of secp256k1, or a Solana keypair in base58. */
export async function newKey(network: string): Promise<NewKey> {
  if (network.startsWith('solana:')) {
    const { newSolanaKey } = await import('./solana_key.ts')
    return await newSolanaKey()
  }
  const { newEvmKey } = await import('./evm_key.ts')
  return newEvmKey()
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
