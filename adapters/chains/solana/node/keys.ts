/** Ed25519 verification as Solana's validators do it, and the keys that pay fees. */
import { type Address, createKeyPairFromBytes } from '@solana/kit'
import { fromBase64 } from '../../../../core/lib/mod.ts'
import type { Proof } from '../../../../core/ports/mod.ts'
import { encodeAddress, parseAddress, fromBase58 } from './transaction.ts'

/** Pays fees. Its signatures are deterministic, so one names the transaction before it is sent. */
export type FeePayer = {
  readonly address: Address
  /** Rejects, without quoting the key, when the halves of the key do not match. */
  sign(message: Uint8Array): Promise<Uint8Array>
}

/**
 * y coordinates of the eight points of small order, without the sign of x; the last two are non-canonical 0 and 1.
 * Validators refuse such keys and such R (`verify_strict`), WebCrypto does not: with them anyone can sign anything, or
 * a buyer can sign a payment that verifies here and can never land.
 */
const SMALL_ORDER = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
])

function isSmallOrder(point: Uint8Array): boolean {
  return SMALL_ORDER.has(
    [...point].map((byte, i) => (i === 31 ? byte & 0x7f : byte).toString(16).padStart(2, '0')).join(''),
  )
}

/** Whether a validator would accept the signature. Never rejects. */
export async function isSignedBy(signer: Address, signature: Uint8Array, message: Uint8Array): Promise<boolean> {
  const key = fromBase58(signer, 32)
  if (!key || signature.length !== 64 || isSmallOrder(key) || isSmallOrder(signature.subarray(0, 32))) return false
  try {
    const imported = await crypto.subtle.importKey('raw', key as Uint8Array<ArrayBuffer>, 'Ed25519', false, ['verify'])
    return await crypto.subtle.verify(
      'Ed25519',
      imported,
      signature as Uint8Array<ArrayBuffer>,
      message as Uint8Array<ArrayBuffer>,
    )
  } catch {
    return false
  }
}

/** Longest message that is verified, in characters. */
const MAX_MESSAGE = 4_096

/** Whether a wallet signed a message. The signature is base58, as wallets show it, or base64. Never rejects. */
export async function isValidProof({ wallet, message, signature }: Proof): Promise<boolean> {
  const signer = parseAddress(wallet)
  if (!signer || typeof message !== 'string' || message.length > MAX_MESSAGE || typeof signature !== 'string')
    return false
  const bytes = new TextEncoder().encode(message)
  for (const candidate of [fromBase58(signature, 64), decodeBase64(signature)])
    if (candidate && (await isSignedBy(signer, candidate, bytes))) return true
  return false
}

/** The wallet when it has signed the text; undefined for other networks. */
export const signedOn =
  (network: string) =>
  async (proof: Proof & { readonly network: string }): Promise<string | undefined> =>
    proof.network === network && (await isValidProof(proof)) ? proof.wallet : undefined

function decodeBase64(text: string): Uint8Array | undefined {
  const plain = text.replaceAll('-', '+').replaceAll('_', '/').replace(/=+$/, '')
  return /^[A-Za-z0-9+/]{86}$/.test(plain) ? fromBase64(`${plain}==`) : undefined
}

/** Parses base58 or a JSON array of 64 bytes, secret half first. Throws a RangeError that does not quote the key. */
export function parseFeePayer(secret: string): FeePayer {
  const bytes = parseSecret(secret.trim())
  if (!bytes) throw new RangeError('must be the 64 bytes of an Ed25519 key pair, in base58 or as a JSON array')
  let pair: Promise<CryptoKey> | undefined
  return {
    address: encodeAddress(bytes.subarray(32)),
    async sign(message) {
      pair ??= importPrivateKey(bytes)
      return new Uint8Array(await crypto.subtle.sign('Ed25519', await pair, message as Uint8Array<ArrayBuffer>))
    },
  }
}

function importPrivateKey(bytes: Uint8Array): Promise<CryptoKey> {
  const pair = createKeyPairFromBytes(bytes).then(({ privateKey }) => privateKey)
  return pair.catch(() => {
    throw new RangeError('the public half does not belong to the secret half')
  })
}

function parseSecret(secret: string): Uint8Array | undefined {
  if (!secret.startsWith('[')) return fromBase58(secret, 64)
  try {
    const numbers: unknown = JSON.parse(secret)
    const isBytes =
      Array.isArray(numbers) &&
      numbers.length === 64 &&
      numbers.every((byte) => Number.isInteger(byte) && byte >= 0 && byte <= 255)
    return isBytes ? Uint8Array.from(numbers as number[]) : undefined
  } catch {
    return undefined
  }
}
