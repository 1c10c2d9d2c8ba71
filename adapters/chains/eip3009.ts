/** EIP-712 signatures over EIP-3009 transfers. */
import { keccak256, recoverAddress, stringToHex } from 'viem'
import { checksummed } from '../../core/lib/checksum.ts'
import type { Exact, ExactPayload } from './exact.ts'
import { type Hex, lower, word } from './hex.ts'

/** Name and version of an EIP-712 domain; chain id and contract complete it. */
export type Domain = { readonly name: string; readonly version: string }

const DOMAIN_TYPE = keccak256(
  stringToHex('EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)'),
)
const TRANSFER_TYPE: Hex = '0x7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267'

/** Half the order of secp256k1. A larger s mirrors a valid signature, and tokens refuse it (EIP-2). */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

export function domainSeparator(domain: Domain, chainId: number, asset: string): Hex {
  const [name, version] = [keccak256(stringToHex(domain.name)), keccak256(stringToHex(domain.version))]
  return keccak256(`0x${[DOMAIN_TYPE, name, version, BigInt(chainId), asset].map((part) => word(part)).join('')}`)
}

/** The EIP-712 digest that `from` signs. */
export function digestOf(exact: Exact, separator: Hex): Hex {
  const { from, to, value, validAfter, validBefore, nonce } = exact
  const content = keccak256(
    `0x${[TRANSFER_TYPE, from, to, value, validAfter, validBefore, nonce].map((part) => word(part)).join('')}`,
  )
  return keccak256(`0x1901${separator.slice(2)}${content.slice(2)}`)
}

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

/** Recovers the address whose key signed, in lower case; undefined when the signature is malformed. */
export async function recoverSigner(digest: Hex, signature: Hex): Promise<Hex | undefined> {
  if (signatureProblem(signature) !== undefined) return undefined
  try {
    return lower(await recoverAddress({ hash: digest, signature }))
  } catch {
    return undefined
  }
}

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
