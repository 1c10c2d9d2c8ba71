/**
 * Parses Solana transactions, legacy and version 0, as strictly as a validator, and more strictly where it is lenient.
 */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex } from '@noble/hashes/utils'
import { type Address, address, getBase58Decoder, getBase58Encoder } from '@solana/kit'
import { fromBase64, toBase64 } from '../../../../core/lib/mod.ts'

export type Instruction = {
  readonly program: Address
  readonly accounts: readonly Address[]
  readonly data: Uint8Array
}

/**
 * A transaction that a validator would accept by its form. `signatures` belong to the first of `accounts`; 64 zeros
 * mean none.
 */
export type SolanaTransaction = {
  readonly signatures: readonly Uint8Array[]
  /** The signed bytes. */
  readonly message: Uint8Array
  /** SHA-256 of the message in hex: unlike the fee payer's signature, it cannot change. */
  readonly id: string
  readonly version: 'legacy' | 0
  /** The fee payer first; without duplicates. */
  readonly accounts: readonly Address[]
  readonly blockhash: string
  readonly instructions: readonly Instruction[]
}

/** Longest transaction: what fits in one packet. */
const MAX_BYTES = 1_232
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
const V0 = 0x80

/** Parses a base64 transaction; returns a string with what is wrong with it. Never throws. */
export function parseTransaction(base64: unknown): SolanaTransaction | string {
  if (typeof base64 !== 'string') return 'payload.transaction must be a string'
  if (base64.length > Math.ceil(MAX_BYTES / 3) * 4) return `it is longer than ${MAX_BYTES} bytes`
  if (!BASE64.test(base64) || base64 === '') return 'it is not base64'
  const bytes = fromBase64(base64)
  if (bytes.length > MAX_BYTES) return `it is longer than ${MAX_BYTES} bytes`
  try {
    return decode(bytes)
  } catch (error) {
    if (error instanceof Malformed) return error.message
    throw error
  }
}

/**
 * Serializes to base64, optionally with another first signature. Always re-encoded, because equal transactions have
 * many encodings.
 */
export function serializeTransaction(
  { signatures, message }: SolanaTransaction,
  first = signatures[0] ?? new Uint8Array(64),
): string {
  const bytes = new Uint8Array(1 + 64 * signatures.length + message.length)
  bytes[0] = signatures.length
  for (const [i, signature] of signatures.entries()) bytes.set(i === 0 ? first : signature, 1 + 64 * i)
  bytes.set(message, 1 + 64 * signatures.length)
  return toBase64(bytes)
}

/** A malformed transaction. */
class Malformed extends Error {}

function decode(bytes: Uint8Array): SolanaTransaction {
  const cursor = reader(bytes)
  const signatures = Array.from({ length: cursor.count('signatures', 64) }, () => cursor.take(64))
  const message = bytes.slice(cursor.offset())
  const isVersioned = (cursor.peek() & V0) !== 0
  if (isVersioned && cursor.byte() !== V0) throw new Malformed('its message is neither legacy nor version 0')
  const [signers, readonlySigners, readonlyOthers] = [cursor.byte(), cursor.byte(), cursor.byte()]
  const accounts = Array.from({ length: cursor.count('accounts', 32) }, () => encodeAddress(cursor.take(32)))
  const blockhash = encodeAddress(cursor.take(32))
  const compiled = Array.from({ length: cursor.count('instructions', 3) }, () => {
    return {
      program: cursor.byte(),
      indices: cursor.take(cursor.count('accounts of an instruction', 1)),
      data: cursor.take(cursor.count('bytes of data', 1)),
    }
  })
  if (isVersioned && cursor.count('lookup tables', 1) > 0)
    throw new Malformed('it uses address lookup tables, which are not accepted')
  if (cursor.left() > 0) throw new Malformed(`${cursor.left()} bytes follow its end`)

  if (signers === 0 || signers !== signatures.length)
    throw new Malformed(`its message needs ${signers} signatures; it has ${signatures.length}`)
  if (signers > accounts.length || readonlySigners >= signers || readonlyOthers > accounts.length - signers) {
    throw new Malformed('the header of its message does not fit its accounts')
  }
  if (new Set(accounts).size < accounts.length) throw new Malformed('it contains an account twice')
  const accountAt = (index: number): Address => {
    const found = accounts[index]
    if (found === undefined) throw new Malformed('an instruction refers to a missing account')
    return found
  }
  const instructions = compiled.map(({ program, indices, data }) => {
    if (program === 0) throw new Malformed('an instruction calls the fee payer')
    return { program: accountAt(program), accounts: [...indices].map(accountAt), data }
  })
  return {
    signatures,
    message,
    id: bytesToHex(sha256(message)),
    version: isVersioned ? 0 : 'legacy',
    accounts,
    blockhash,
    instructions,
  }
}

/** Reads bytes from the front; throws Malformed at the end. */
function reader(bytes: Uint8Array) {
  let offset = 0
  const take = (length: number): Uint8Array => {
    if (length > bytes.length - offset) throw new Malformed('it ends too early')
    offset += length
    return bytes.slice(offset - length, offset)
  }
  const byte = (): number => take(1)[0] as number
  return {
    take,
    byte,
    offset: () => offset,
    left: () => bytes.length - offset,
    peek(): number {
      if (offset >= bytes.length) throw new Malformed('it ends too early')
      return bytes[offset] as number
    },
    /** A compact-u16 in its shortest form. A count can never exceed the bytes that are left. */
    count(name: string, size: number): number {
      let value = 0
      for (let shift = 0; ; shift += 7) {
        const next = byte()
        value |= (next & 0x7f) << shift
        if (next === 0 && shift > 0) throw new Malformed(`its number of ${name} is not in the shortest form`)
        if (next < 0x80) break
        if (shift === 14) throw new Malformed(`its number of ${name} is not a compact-u16`)
      }
      if (value * size > bytes.length - offset) throw new Malformed(`it has fewer ${name} than it says`)
      return value
    },
  }
}

// ── base58 ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const decoder = getBase58Decoder()
const encoder = getBase58Encoder()

/** Encodes 32 bytes as an address. */
export function encodeAddress(bytes: Uint8Array): Address {
  return address(decoder.decode(bytes))
}

export const toBase58 = (bytes: Uint8Array): string => decoder.decode(bytes)

/** Decodes exactly `length` bytes; undefined for anything else. Each value has one encoding. */
export function fromBase58(text: string, length: number): Uint8Array | undefined {
  if (text.length > length * 1.4 + 1 || !/^[1-9A-HJ-NP-Za-km-z]+$/.test(text)) return undefined
  const bytes = new Uint8Array(encoder.encode(text))
  return bytes.length === length ? bytes : undefined
}

/** Validates an address; undefined for anything else. */
export function parseAddress(text: unknown): Address | undefined {
  return typeof text === 'string' && fromBase58(text, 32) ? (text as Address) : undefined
}
