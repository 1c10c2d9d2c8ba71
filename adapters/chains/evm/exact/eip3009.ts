/** EIP-712 signatures over EIP-3009 transfers. */
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils'
import { boundedMap, checksummed } from '../../../../core/lib/mod.ts'
import type { Exact, ExactPayload } from './payload.ts'
import { type Hex, word } from '../../lib/hex.ts'
import { keccak as fastKeccak, type Keccak, portableKeccak } from '../node/keccak.ts'
import { keyRecovery, type KeyRecovery } from '../node/key_recovery.ts'

/** Name and version of an EIP-712 domain; chain id and contract complete it. */
export type Domain = { readonly name: string; readonly version: string }

const DOMAIN_TYPE = keccak(
  utf8ToBytes('EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)'),
  portableKeccak,
)
const TRANSFER_TYPE: Hex = '0x7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267'
const RECEIVE_TYPE: Hex = '0xd099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8'

/** Half the order of secp256k1. A larger s mirrors a valid signature, and tokens refuse it (EIP-2). */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

export function domainSeparator(domain: Domain, chainId: number, asset: string): Hex {
  const [name, version] = [domain.name, domain.version].map((text) => keccak(utf8ToBytes(text), portableKeccak))
  return `0x${keccakOfWords([DOMAIN_TYPE, name ?? '', version ?? '', BigInt(chainId), asset])}`
}

type Transfer = Pick<Exact, 'from' | 'to' | 'value' | 'validAfter' | 'validBefore' | 'nonce'>

/** A payment is identified, verified, settled and polled within minutes; this many may be under way at once. */
const MAX_DIGESTS = 5_000

/**
 * Computes EIP-712 digests of transfers with a cache, so that a payment is hashed once. A digest depends only on its
 * transfer and separator, so a cached one is as good as a new one.
 */
export function transferDigests(
  hash: (bytes: Uint8Array) => string = keccak,
  type: Hex = TRANSFER_TYPE,
): (of: Transfer, separator: Hex) => Hex {
  const known = boundedMap<Hex>(MAX_DIGESTS)
  return ({ from, to, value, validAfter, validBefore, nonce }, separator) => {
    const words = [type, from, to, value, validAfter, validBefore, nonce].map((part) => word(part)).join('')
    const key = separator + words
    const before = known.get(key)
    if (before !== undefined) return before
    const digest: Hex = `0x${hash(hexToBytes(`1901${separator.slice(2)}${hash(hexToBytes(words))}`))}`
    known.set(key, digest)
    return digest
  }
}

/** The EIP-712 digest that `from` signs. All chains of a process share the digests that are kept. */
export const digestOf = transferDigests()

/** The same for a transfer that only its recipient may carry out: `ReceiveWithAuthorization`. */
export const receiveDigestOf = transferDigests(keccak, RECEIVE_TYPE)

/**
 * Returns what is wrong with the form of a private key's signature, or undefined. It must have 65 bytes, a low s and a
 * v of 27 or 28: FiatToken's ECRecover takes nothing else (0 and 1 would pass here and revert there).
 */
export function signatureProblem(signature: Hex): string | undefined {
  if (signature.length !== 132) return `the signature has ${(signature.length - 2) / 2} bytes; it must have 65`
  const v = Number.parseInt(signature.slice(130), 16)
  if (v !== 27 && v !== 28) return `v is ${v}; it must be 27 or 28`
  if (BigInt(`0x${signature.slice(66, 130)}`) > HALF_ORDER)
    return 's is in the upper half of the curve order; it must be in the lower half (EIP-2)'
  return undefined
}

/** Digest that an account signs for a text (EIP-191). */
export function textDigest(text: string): Hex {
  const bytes = utf8ToBytes(text)
  return `0x${keccak(concatBytes(utf8ToBytes(`\x19Ethereum Signed Message:\n${bytes.length}`), bytes))}`
}

/** A cache of recovered signers, because a poll sends the payment of its call again. */
const MAX_SIGNERS = 5_000

/** Creates a `recoverSigner`: with the native library where it is installed, or with the given recovery. */
export function signerRecovery(
  load: () => Promise<KeyRecovery> = keyRecovery,
): (digest: Hex, signature: Hex) => Promise<Hex | undefined> {
  const known = boundedMap<Hex | null>(MAX_SIGNERS)
  let loaded: Promise<KeyRecovery> | undefined
  return async (digest, signature) => {
    if (signatureProblem(signature) !== undefined) return undefined
    const key = digest + signature
    const before = known.get(key)
    if (before !== undefined) return before ?? undefined
    loaded ??= load()
    const publicKey = await (await loaded).recover(digest, signature)
    const signer: Hex | undefined = publicKey && `0x${keccak(hexToBytes(publicKey.slice(4))).slice(24)}`
    known.set(key, signer ?? null)
    return signer
  }
}

/** Recovers the address whose key signed, in lower case; undefined when the signature is malformed. */
export const recoverSigner = signerRecovery()

/** An authorization and its signature as signed, without anything that was sent beside them. */
export function payloadOf({ from, to, value, validAfter, validBefore, nonce, signature }: Exact): ExactPayload {
  const times = { validAfter: String(validAfter), validBefore: String(validBefore) }
  return {
    signature,
    authorization: { from: checksummed(from), to: checksummed(to), value: String(value), ...times, nonce },
  }
}

/** Returns the chain id of a CAIP-2 network. Throws RangeError for anything else. */
export function chainIdOf(network: string): number {
  const digits = /^eip155:([1-9]\d{0,14})$/.exec(network)?.[1]
  if (!digits) throw new RangeError(`network must be eip155:<chain id>, got ${JSON.stringify(network.slice(0, 40))}`)
  return Number(digits)
}

/** Keccak-256 as hex digits without 0x. */
/** A start hashes portably, so that it loads no optional package. */
function keccak(bytes: Uint8Array, hash: Keccak = fastKeccak): string {
  return bytesToHex(hash(bytes))
}

function keccakOfWords(parts: readonly (string | bigint)[]): string {
  return keccak(hexToBytes(parts.map((part) => word(part)).join('')), portableKeccak)
}
