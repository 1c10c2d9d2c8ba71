/** Parses the parameters of Solana RPC calls; refuses invalid ones with the messages of real nodes. */
import { type Address, assertIsAddress, getBase58Encoder } from '@solana/kit'
import { invalidParams } from './errors.ts'
import type { Commitment } from './ledger.ts'
import { parse, type Parsed } from './transaction.ts'
import { base64 } from './views.ts'

const LARGEST_TRANSACTION = 1232

/** The raw options of a call: only those that a method reads matter. */
type Config = {
  readonly commitment?: Commitment
  readonly minContextSlot?: number
  readonly encoding?: string
  readonly dataSlice?: { offset: number; length: number }
  readonly maxSupportedTransactionVersion?: number
  readonly [name: string]: unknown
}

export function configOf(config: unknown): Config {
  return typeof config === 'object' && config !== null ? (config as Config) : {}
}

/** Some methods accept the encoding in place of the options. */
export function encodingOf(config: unknown, otherwise: string): string {
  return typeof config === 'string' ? config : (configOf(config).encoding ?? otherwise)
}

export function addressOf(value: unknown): Address {
  try {
    assertIsAddress(String(value))
    return String(value) as Address
  } catch {
    throw invalidParams('Invalid param: Invalid')
  }
}

export function signatureOf(value: unknown): string {
  if (decoded(String(value))?.length !== 64) throw invalidParams('Invalid param: Invalid')
  return String(value)
}

export function listOf(value: unknown, max: number): readonly unknown[] {
  if (!Array.isArray(value)) throw invalidParams('Invalid params: invalid type, expected a sequence.')
  if (value.length > max) throw invalidParams(`Too many inputs provided; max ${max}`)
  return value as readonly unknown[]
}

export function bytesOf(text: unknown, encoding: string): Uint8Array {
  if (encoding !== 'base64' && encoding !== 'base58')
    throw invalidParams(`unsupported encoding: ${encoding}. Supported encodings: base58, base64`)
  const encoded = String(text)
  const bytes = encoding === 'base58' ? decoded(encoded) : new Uint8Array(Buffer.from(encoded, 'base64'))
  if (!bytes || (encoding === 'base64' && base64(bytes) !== encoded))
    throw invalidParams(`invalid ${encoding} encoding`)
  return bytes
}

function decoded(text: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(getBase58Encoder().encode(text))
  } catch {
    return undefined
  }
}

export function parsedFrom(wire: Uint8Array, what = 'VersionedTransaction'): Parsed {
  if (wire.length > LARGEST_TRANSACTION)
    throw invalidParams(`decoded ${what} too large: ${wire.length} bytes (max: ${LARGEST_TRANSACTION} bytes)`)
  try {
    return parse(wire)
  } catch {
    throw invalidParams(`failed to deserialize ${what}`)
  }
}

/** Wraps a message in an unsigned transaction. The number of signers follows the version, if there is one. */
export function unsigned(message: Uint8Array): Uint8Array {
  const signers = (message[0] ?? 0) >= 0x80 ? (message[1] ?? 0) : (message[0] ?? 0)
  return Uint8Array.from([signers, ...new Uint8Array(64 * signers), ...message])
}
