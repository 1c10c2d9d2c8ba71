/** Accounts of the simulation, with real keys. What was signed once is remembered, because runs sign the same again. */
import { drainMicrotasks } from 'bun:jsc'
import type secp256k1 from 'secp256k1/bindings.js'
import { peek } from 'bun'
import { keccak256, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { bytesToHex, hexToBytes } from '@noble/hashes/utils'
import { recoverSigner } from '../../../adapters/chains/evm/exact/eip3009.ts'
import { type Hex, lower } from '../../../adapters/chains/lib/hex.ts'

export type Signer = { readonly address: Hex; sign(digest: Hex): Hex }

type Library = typeof secp256k1

/** The native library signs in a twentieth of the time, and the same bytes; undefined where it does not load. */
let library: Library | undefined

/** Of each signature, the digest and the address whose key made it. */
const made = new Map<Hex, { readonly digest: Hex; readonly address: Hex }>()
const signers = new Map<string, Signer>()

export function signerOf(name: string): Signer {
  const known = signers.get(name)
  if (known) return known
  const key = keccak256(toHex(name))
  const account = privateKeyToAccount(key)
  const address = lower(account.address)
  const signatures = new Map<Hex, Hex>()
  const signer: Signer = {
    address,
    sign(digest) {
      const before = signatures.get(digest)
      if (before) return before
      const signature = library ? signedBy(library, { digest, key }) : portably(account, digest)
      signatures.set(digest, signature)
      made.set(signature, { digest, address })
      return signature
    },
  }
  signers.set(name, signer)
  return signer
}

function portably(account: PrivateKeyAccount, hash: Hex): Hex {
  const pending = account.sign({ hash })
  drainMicrotasks()
  return peek(pending) as Hex
}

function signedBy({ ecdsaSign }: Library, { digest, key }: { readonly digest: Hex; readonly key: Hex }): Hex {
  const { signature, recid } = ecdsaSign(hexToBytes(digest.slice(2)), hexToBytes(key.slice(2)))
  return `0x${bytesToHex(signature)}${recid === 1 ? '1c' : '1b'}`
}

/** Signs claims. */
export const AUTHORIZER = signerOf('the seller signs claims')

/** Whether this key signed this digest. Only keys of the simulation sign. */
export function hasSigned(address: Hex, digest: Hex, signature: Hex): boolean {
  const found = made.get(signature)
  return found?.address === address && found.digest === digest
}

/** Loads what signs and recovers signers, which takes an import; runs cannot wait for one. */
export async function warmUp(): Promise<void> {
  library ??= await import('secp256k1/bindings.js').then(
    (loaded) => loaded.default,
    () => undefined,
  )
  const { address, sign } = signerOf('nobody')
  const digest = keccak256(toHex('a first digest'))
  if ((await recoverSigner(digest, sign(digest))) !== address) throw new Error('a signer cannot be recovered')
}
