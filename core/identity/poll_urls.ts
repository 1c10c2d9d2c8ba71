/**
 * Signed poll URLs (decision 51). Each carries an unguessable `key` of its call (contract 2.4); those of video also
 * carry a signed query with an expiry (contract 12.42).
 */
import { hkdf } from '@noble/hashes/hkdf'
import { hmac } from '@noble/hashes/hmac'
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils'
import { Type } from '@sinclair/typebox'
import type { Paid, Polled, Sold } from '../endpoint/mod.ts'
import { recordKind } from '../endpoint/record_kind.ts'
import { addressKey } from '../http/caller_address.ts'
import { ApiError } from '../http/errors.ts'
import type { Call, Ports } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import { isSameSecret, isSignedQuery, signQuery } from '../lib/ids.ts'
import { KEY } from '../endpoint/replies.ts'

/** The field in which a call stores a keyed hash of the caller's address. */
const FROM = '_from'
/** 128 bits in hex. */
const KEY_CHARACTERS = 32

export type PollUrls = {
  /** The stored request fields, with the poll URL when it is signed. */
  signed(
    endpoint: Sold,
    request: Readonly<Record<string, Json>>,
    at: { id: string; expiresAt: number },
  ): Promise<Readonly<Record<string, Json>>>
  /** Throws INVALID_JOB_ID when the query is not signed by us or has expired. */
  check(poll: Polled, endpoint: Sold, at: { id: string; query: URLSearchParams; now: number }): Promise<void>
  /** The poll key of a call. Only replies to the buyer contain it; no payment and no chain does. */
  keyOf(id: string): Promise<string>
  /** Whether this is the poll key of the call under any of our secrets. Takes constant time. */
  isKey(id: string, given: string): Promise<boolean>
  /** A keyed hash of the caller's address, to be stored with the call; empty when the address is unknown. */
  from(id: string, ip: string): Promise<Readonly<Record<string, string>>>
  /** Whether the call was ordered from this address, or from this /64 of IPv6. */
  isFrom(call: Pick<Call, 'id' | 'request'>, ip: string): Promise<boolean>
  /** A name that cannot be derived from the call's id, for resources that are public to anyone who knows the name. */
  secretName(id: string, prefix: string): Promise<string>
  /** Secrets for another purpose, one from each of ours, newest first. */
  derived(label: string): Promise<readonly Uint8Array[]>
}

/** The poll key in the query; '' when it is absent or repeated. */
export function keyIn(query: URLSearchParams): string {
  const [key = '', ...more] = query.getAll(KEY)
  return more.length > 0 ? '' : key
}

const SECRET = recordKind({
  kind: 'poll_secret',
  version: 1,
  schema: Type.Object({ key: Type.String({ pattern: '^[0-9a-f]{64}$' }) }),
})
const OURS = { id: 'poll', owner: 'gateway' } as const
const FOREVER = Number.MAX_SAFE_INTEGER

/**
 * Signs with the first of the given hex keys and accepts all of them: put a new key in front to rotate. Without keys,
 * the replicas of a storage share one that the first of them creates and stores. Throws for an invalid key.
 */
export function pollUrls(
  { storage, clock, random }: Pick<Ports, 'storage' | 'clock' | 'random'>,
  given: readonly string[] = [],
): PollUrls {
  const own = given.map(keyOf)
  let shared: Promise<readonly Uint8Array[]> | undefined

  return {
    async signed(endpoint, request, { id, expiresAt }) {
      const query = endpoint.job.query?.(request)
      if (!query) return request
      const all = new URLSearchParams({ ...query, exp: String(Math.ceil(expiresAt / 1000)) })
      return { ...request, _poll: signQuery(pathOf(endpoint, id), all, await known()) }
    },

    async check({ signedQuery }, endpoint, { id, query: given, now }) {
      if (!signedQuery) return
      const query = new URLSearchParams(given)
      query.delete(KEY)
      const isOurs = isSignedQuery(pathOf(endpoint, id), query, await known())
      if (isOurs && Number(given.get('exp')) * 1000 > now) return
      throw new ApiError('INVALID_JOB_ID', {
        message: 'Use poll_url as it was given: its query is signed, and ends with the job.',
      })
    },

    keyOf: (id) => signedText(keyText(id)),
    isKey: (id, given) => isSigned(keyText(id), given),
    from: async (id, ip) => (ip === '' ? {} : { [FROM]: await signedText(fromText(id, ip)) }),

    async isFrom({ id, request }, ip) {
      const stored = (request as { readonly [FROM]?: unknown } | null)?.[FROM]
      return ip !== '' && typeof stored === 'string' && (await isSigned(fromText(id, ip), stored))
    },

    secretName: async (id, prefix) => prefix + (await signedText(`name:${prefix}:${id}`)),
    derived: async (label) => (await known()).map((secret) => hkdf(sha256, secret, undefined, utf8ToBytes(label), 32)),
  }

  async function signedText(text: string): Promise<string> {
    const [newest] = await known()
    if (!newest) throw new RangeError('a poll key needs a secret')
    return shortMac(newest, text)
  }

  /** Tries every secret, so the time does not reveal which one matched. */
  async function isSigned(text: string, given: string): Promise<boolean> {
    const matches = (await known()).filter((secret) => isSameSecret(given, shortMac(secret, text)))
    return matches.length > 0
  }

  function known(): Promise<readonly Uint8Array[]> {
    if (own.length > 0) return Promise.resolve(own)
    shared ??= stored()
    shared.catch(() => (shared = undefined))
    return shared
  }

  async function stored(): Promise<readonly Uint8Array[]> {
    const now = clock.now()
    await SECRET.put(storage, { ...OURS, data: { key: bytesToHex(random(32)) }, expiresAt: FOREVER }, now)
    const stored = await SECRET.get(storage, OURS.id, now)
    if (!stored) throw new Error('the key that signs poll URLs could not be stored')
    return [hexToBytes(stored.data.key)]
  }
}

/** The error never contains the key. */
function keyOf(hex: string, index: number): Uint8Array {
  if (/^([0-9a-f]{2}){16,}$/i.test(hex)) return hexToBytes(hex)
  throw new RangeError(`poll key ${index + 1} must be at least 16 bytes in hex`)
}

const pathOf = ({ job }: Pick<Paid, 'job'>, id: string): string => job.poll.replace('{id}', id)
/** The poll key of a call under one secret. */
export const pollKey = (secret: Uint8Array, id: string): string => shortMac(secret, keyText(id))

const keyText = (id: string): string => `poll-key:${id}`
const fromText = (id: string, ip: string): string => `from:${id}:${addressKey(ip)}`
const shortMac = (secret: Uint8Array, text: string): string =>
  bytesToHex(hmac(sha256, secret, utf8ToBytes(text))).slice(0, KEY_CHARACTERS)
