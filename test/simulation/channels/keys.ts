/** Accounts of the simulation, with real keys. What was signed once is remembered, because runs sign the same again. */
import { drainMicrotasks } from 'bun:jsc'
import { peek } from 'bun'
import { keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { recoverSigner } from '../../../adapters/chains/eip3009.ts'
import { type Hex, lower } from '../../../adapters/chains/hex.ts'

export type Signer = { readonly address: Hex; sign(digest: Hex): Hex }

/** Of each signature, the digest and the address whose key made it. */
const made = new Map<Hex, { readonly digest: Hex; readonly address: Hex }>()
const signers = new Map<string, Signer>()

export function signerOf(name: string): Signer {
  const known = signers.get(name)
  if (known) return known
  const account = privateKeyToAccount(keccak256(toHex(name)))
  const address = lower(account.address)
  const signatures = new Map<Hex, Hex>()
  const signer: Signer = {
    address,
    sign(digest) {
      const before = signatures.get(digest)
      if (before) return before
      const pending = account.sign({ hash: digest })
      drainMicrotasks()
      const signature = peek(pending) as Hex
      signatures.set(digest, signature)
      made.set(signature, { digest, address })
      return signature
    },
  }
  signers.set(name, signer)
  return signer
}

/** Signs claims. */
export const AUTHORIZER = signerOf('the seller signs claims')

/** Whether this key signed this digest. Only keys of the simulation sign. */
export function hasSigned(address: Hex, digest: Hex, signature: Hex): boolean {
  const found = made.get(signature)
  return found?.address === address && found.digest === digest
}

/** Loads what recovers signers, which takes an import; runs cannot wait for one. */
export async function warmUp(): Promise<void> {
  const { address, sign } = signerOf('nobody')
  const digest = keccak256(toHex('a first digest'))
  if ((await recoverSigner(digest, sign(digest))) !== address) throw new Error('a signer cannot be recovered')
}
