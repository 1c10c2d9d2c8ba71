/**
 * API keys that pay from a channel of `batch-settlement`: their text, which is `sk-fbx-`, a letter, a version, the seed
 * in base62 and a checksum, and what follows from a seed (contract 23.1).
 */
import { hkdf } from '@noble/hashes/hkdf'
import { sha256 } from '@noble/hashes/sha256'
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils'

/** `test` for keys of test networks, `live` for keys of real money. */
export type KeyMode = 'test' | 'live'

/** A text that was read as a key. Whoever gets the seed wipes it. */
type KeyText =
  | { readonly kind: 'none' }
  | { readonly kind: 'mistyped' }
  | { readonly kind: 'key'; readonly mode: KeyMode; readonly seed: Uint8Array }
  /** A key that spends a part of another one's deposit. */
  | { readonly kind: 'child'; readonly seed: Uint8Array }

export const KEY_PREFIX = 'sk-fbx-'
/** A key anywhere in a text. */
export const KEY_PATTERN = /\bsk-fbx-[tlc]1[0-9A-Za-z]{49}\b/
/** A key or most of one, whatever stands around it. */
const LIKE_KEY = /sk-fbx-[0-9A-Za-z]{16,}/g
export const SEED_BYTES = 32

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const BASE = BigInt(DIGITS.length)
const VERSION = '1'
const SEED_DIGITS = 43
const CHECK_DIGITS = 6
const LETTERS = { test: 't', live: 'l', child: 'c' } as const satisfies Record<KeyMode | 'child', string>
const KEY_LENGTH = KEY_PREFIX.length + 2 + SEED_DIGITS + CHECK_DIGITS
const WHOLE = new RegExp(`^${KEY_PREFIX}[tlc]${VERSION}[0-9A-Za-z]{${SEED_DIGITS + CHECK_DIGITS}}$`)

/**
 * Writes a key for a seed of 32 random bytes. Throws RangeError for a seed of another length.
 *
 * @example
 * const key = keyText(crypto.getRandomValues(new Uint8Array(32)), 'test')
 */
export function keyText(seed: Uint8Array, mode: KeyMode | 'child'): string {
  if (seed.length !== SEED_BYTES) throw new RangeError(`the seed has ${seed.length} bytes; it must have ${SEED_BYTES}`)
  const unchecked = `${KEY_PREFIX}${LETTERS[mode]}${VERSION}${base62(numberOf(seed), SEED_DIGITS)}`
  return unchecked + checksum(unchecked)
}

/** Reads a text that may be a key. Its checksum is compared before anything is derived or looked up. */
export function readKey(text: string): KeyText {
  if (!text.startsWith(KEY_PREFIX)) return { kind: 'none' }
  if (!WHOLE.test(text)) return { kind: 'mistyped' }
  const end = text.length - CHECK_DIGITS
  if (text.slice(end) !== checksum(text.slice(0, end))) return { kind: 'mistyped' }
  let number = 0n
  for (const digit of text.slice(end - SEED_DIGITS, end)) number = number * BASE + BigInt(DIGITS.indexOf(digit))
  if (number >> BigInt(8 * SEED_BYTES) > 0n) return { kind: 'mistyped' }
  const letter = text[KEY_PREFIX.length]
  if (letter === LETTERS.child) return { kind: 'child', seed: bytesOf(number) }
  return { kind: 'key', mode: letter === LETTERS.live ? 'live' : 'test', seed: bytesOf(number) }
}

/** Whether a text contains a key, with its checksum right, whatever stands around it. */
export function containsKey(text: string): boolean {
  if (!text.includes(KEY_PREFIX)) return false
  for (const [found] of text.matchAll(LIKE_KEY)) {
    const key = readKey(found.slice(0, KEY_LENGTH))
    if (key.kind === 'none' || key.kind === 'mistyped') continue
    key.seed.fill(0)
    return true
  }
  return false
}

/** The text with everything that may be a key left out, for logs and errors. */
export const withoutKeys = (text: string): string =>
  text.includes(KEY_PREFIX) ? text.replace(LIKE_KEY, `${KEY_PREFIX}...`) : text

function numberOf(bytes: Uint8Array): bigint {
  let number = 0n
  for (const byte of bytes) number = (number << 8n) | BigInt(byte)
  return number
}

function bytesOf(number: bigint): Uint8Array {
  const bytes = new Uint8Array(SEED_BYTES)
  for (let at = SEED_BYTES - 1, rest = number; at >= 0; at--, rest >>= 8n) bytes[at] = Number(rest & 0xffn)
  return bytes
}

function base62(number: bigint, length: number): string {
  let text = ''
  for (let rest = number; text.length < length; rest /= BASE) text = (DIGITS[Number(rest % BASE)] ?? '') + text
  return text
}

const checksum = (text: string): string => base62(BigInt(crc32(text)), CHECK_DIGITS)

/** CRC-32 of IEEE 802.3, of ASCII text. */
export function crc32(text: string): number {
  let crc = 0xffffffff
  for (let at = 0; at < text.length; at++) {
    crc ^= text.charCodeAt(at)
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0)
  }
  return (crc ^ 0xffffffff) >>> 0
}

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const INFO = 'farebox api key v1'

/** The private key of a seed, 32 bytes. A wallet's key used as a seed gives another address, which owns nothing. */
export function privateKeyOf(seed: Uint8Array): Uint8Array {
  const wide = hkdf(sha256, seed, new Uint8Array(0), utf8ToBytes(INFO), 48)
  const key = (BigInt(`0x${bytesToHex(wide)}`) % (ORDER - 1n)) + 1n
  wide.fill(0)
  return hexToBytes(key.toString(16).padStart(64, '0'))
}

/** The salt of the channel of a key, by the key's address in hex: with the payer known, its id follows. */
export const keySalt = (address: `0x${string}`): `0x${string}` =>
  `0x${bytesToHex(keccak_256(concatBytes(utf8ToBytes('farebox key v1'), hexToBytes(address.slice(2)))))}`
