/** The key pair of an API key: derived from its seed, natively where the optional package secp256k1 is installed. */
import { sha256 } from '@noble/hashes/sha2'
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex, hexToBytes } from '@noble/hashes/utils'
import { privateKeyToAccount } from 'viem/accounts'
import { boundedMap } from '../../../../../core/lib/mod.ts'
import { privateKeyOf } from '../../../../../core/x402/mod.ts'
import type { Hex } from '../../../lib/hex.ts'
import { randomBytes } from '../../../../machine.ts'

/** Signs digests as one address, until it is closed. */
export type KeySigner = {
  readonly address: Hex
  /** The 65 bytes of a signature, as contracts take it. Rejects once it is closed. */
  sign(digest: Hex): Promise<Hex>
  /** Wipes the private key. */
  close(): void
}

/** The addresses of seeds that were used here, by a hash with a secret of this process: no seed is in it. */
const addresses = boundedMap<Hex>(10_000)
/** Made when it is first needed: Workers have no random bytes before their first request. */
let secret: Uint8Array | undefined

/** Deriving a public key costs as much as a signature, so the address of a seed is derived once. */
function knownAddressOf(seed: Uint8Array, key: Uint8Array, curve: Curve): Hex {
  secret ??= randomBytes(32)
  const name = bytesToHex(sha256.create().update(secret).update(seed).digest())
  const address = addresses.get(name) ?? addressOf(key, curve)
  addresses.set(name, address)
  return address
}

const addressOf = (key: Uint8Array, curve: Curve): Hex =>
  `0x${bytesToHex(keccak_256(curve.publicKey(key).subarray(1))).slice(24)}`

/** The signer of a seed. The seed is wiped by whoever has it. */
export async function keySigner(seed: Uint8Array, given?: Curve): Promise<KeySigner> {
  const key = privateKeyOf(seed)
  const curve = given ?? (await (loaded ??= nativeCurve().then((found) => found ?? portableCurve)))
  const address = given ? addressOf(key, given) : knownAddressOf(seed, key, curve)
  let isClosed = false
  return {
    address,
    async sign(digest) {
      if (isClosed) throw new Error('the API key is closed')
      const { signature, recid } = await curve.sign(hexToBytes(digest.slice(2)), key)
      return `0x${bytesToHex(signature)}${recid === 1 ? '1c' : '1b'}`
    },
    close() {
      isClosed = true
      key.fill(0)
    },
  }
}

type Curve = {
  /** Uncompressed: 65 bytes. */
  publicKey(key: Uint8Array): Uint8Array
  /** With a low s. */
  sign(digest: Uint8Array, key: Uint8Array): Signed | Promise<Signed>
}

type Signed = { readonly signature: Uint8Array; readonly recid: number }

let loaded: Promise<Curve> | undefined

/** libsecp256k1; undefined where it does not load. */
export async function nativeCurve(): Promise<Curve | undefined> {
  try {
    const { default: library } = await import('secp256k1/bindings.js')
    return {
      publicKey: (key) => library.publicKeyCreate(key, false),
      sign: (digest, key) => library.ecdsaSign(digest, key),
    }
  } catch {
    return undefined // a library fails to load in as many ways as there are platforms, and the portable one serves them
  }
}

/** The same in JavaScript, which copies the key into text that cannot be wiped. */
export const portableCurve: Curve = {
  publicKey: (key) => hexToBytes(accountOf(key).publicKey.slice(2)),
  async sign(digest, key) {
    const signed = hexToBytes((await accountOf(key).sign({ hash: `0x${bytesToHex(digest)}` })).slice(2))
    return { signature: signed.subarray(0, 64), recid: signed[64] === 28 ? 1 : 0 }
  },
}

const accountOf = (key: Uint8Array) => privateKeyToAccount(`0x${bytesToHex(key)}`)
