/** Opaque job ids, and poll URLs with a signed query. */
import { hmac } from '@noble/hashes/hmac'
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils'
import type { Clock } from './clock.ts'
import { newSha256 } from './hashes.ts'

/**
 * A job id: the second it is made in, in eight hex digits, then 96 random bits. Opaque and unguessable, because it is
 * part of a poll URL. The second comes first so that a storage appends to its indexes instead of writing all over them.
 */
export function newId(random: (bytes: number) => Uint8Array, now: number): string {
  const second = Math.floor(now / 1000) % 2 ** 32
  return `job_${second.toString(16).padStart(8, '0')}${newSecret(random).slice(8)}`
}

/** 128 random bits in hex, for secrets. */
export function newSecret(random: (bytes: number) => Uint8Array): string {
  return bytesToHex(random(16))
}

/** SHA-256 in hex: the fingerprint of a short request. */
export function fingerprint(method: string, path: string, body: string | Uint8Array): string {
  return bytesToHex(newSha256().update(`${method}\n${path}\n`).update(body).digest())
}

/** Characters that are hashed in one turn of the event loop: a few milliseconds' worth. */
const SLICE = 1 << 20

/** The first half of a pair, which must not be encoded without the second. */
const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff

/** The same fingerprint of a request of any length: others are answered while a long one is hashed. */
export async function bodyFingerprint(
  method: string,
  path: string,
  { body, clock }: { body: string; clock: Clock },
): Promise<string> {
  if (body.length <= SLICE) return fingerprint(method, path, body)
  const hash = newSha256().update(`${method}\n${path}\n`)
  for (let at = 0; at < body.length;) {
    const end = Math.min(at + SLICE, body.length)
    const cut = isHighSurrogate(body.charCodeAt(end - 1)) && end < body.length ? end - 1 : end
    await clock.wait(0)
    hash.update(body.slice(at, cut))
    at = cut
  }
  return bytesToHex(hash.digest())
}

/** Signs a path and its query: appends `sig`, an HMAC-SHA256 under the first (newest) key. */
export function signQuery(path: string, query: URLSearchParams, keys: readonly Uint8Array[]): string {
  const [key] = keys
  if (!key) throw new RangeError('signing needs a key')
  const signedQuery = new URLSearchParams(query)
  signedQuery.delete('sig')
  const sig = bytesToHex(mac(path, signedQuery, key))
  signedQuery.set('sig', sig)
  return `${path}?${signedQuery}`
}

/** Whether `sig` was made with one of the keys, newest first. Takes constant time in the signature. */
export function isSignedQuery(path: string, query: URLSearchParams, keys: readonly Uint8Array[]): boolean {
  const [sig = '', ...more] = query.getAll('sig')
  if (!/^[0-9a-f]{64}$/.test(sig) || more.length > 0) return false
  const unsigned = new URLSearchParams(query)
  unsigned.delete('sig')
  const given = hexToBytes(sig)
  let matches = 0
  for (const key of keys) matches += equal(mac(path, unsigned, key), given)
  return matches > 0
}

/** Compares two secrets in a time that reveals neither where they differ nor how long they are. */
export function isSameSecret(given: string, expected: string): boolean {
  return equal(sha256(utf8ToBytes(given)), sha256(utf8ToBytes(expected))) === 1
}

function mac(path: string, query: URLSearchParams, key: Uint8Array): Uint8Array {
  return hmac(sha256, key, utf8ToBytes(`${path}?${query}`))
}

function equal(a: Uint8Array, b: Uint8Array): number {
  let difference = a.length ^ b.length
  for (let i = 0; i < a.length; i++) difference |= (a[i] ?? 0) ^ (b[i] ?? 0)
  return difference === 0 ? 1 : 0
}

/** A name as unguessable as the id that it is derived from, and from which the id cannot be computed. */
export function idFrom(call: string, prefix: string): string {
  return `${prefix}${bytesToHex(sha256(utf8ToBytes(`${prefix} ${call}`))).slice(0, 32)}`
}
