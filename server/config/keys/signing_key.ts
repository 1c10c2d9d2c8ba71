/** The key that signs offers and receipts, as an operator writes it: PEM, JWK, or an Ed25519 seed in hex. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import type { Jwk } from '../../../core/mod.ts'

/** PKCS #8 prefix of the 32 bytes of an Ed25519 seed. */
const SEED_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** Undefined for anything but a private Ed25519 or P-256 key. */
export function readSigningKey(text: string): Jwk | undefined {
  try {
    return supported(privateKeyIn(text.trim()))
  } catch {
    return undefined
  }
}

function privateKeyIn(text: string): KeyObject {
  if (text.startsWith('{')) return createPrivateKey({ key: JSON.parse(text), format: 'jwk' })
  if (/^(0x)?[0-9a-fA-F]{64}$/.test(text)) return seedKey(Buffer.from(text.slice(-64), 'hex'))
  // A variable of a .env file has its line breaks as \n.
  return createPrivateKey(text.replaceAll('\\n', '\n'))
}

const seedKey = (seed: Buffer): KeyObject =>
  createPrivateKey({ key: Buffer.concat([SEED_PREFIX, seed]), format: 'der', type: 'pkcs8' })

/** The public key in a PEM, a JWK or a private key. Undefined for anything but Ed25519 and P-256. */
export function readPublicKey(text: string): Jwk | undefined {
  try {
    const key = text.trim()
    return supported(
      key.startsWith('{') ? createPublicKey({ key: JSON.parse(key), format: 'jwk' }) : createPublicKey(key),
    )
  } catch {
    return undefined
  }
}

/** The key of a devnet: the same as long as its wallet is. */
export function devnetSigningKey(wallet: string): Jwk | undefined {
  const seed = createHash('sha256').update(`farebox devnet offers and receipts ${wallet}`).digest()
  return supported(seedKey(seed))
}

function supported(key: KeyObject): Jwk | undefined {
  const jwk = key.export({ format: 'jwk' }) as Record<string, string>
  return jwk.crv === 'Ed25519' || jwk.crv === 'P-256' ? jwk : undefined
}
