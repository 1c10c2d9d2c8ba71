/** The challenges of MPP (`draft-httpauth-payment-00`), how `WWW-Authenticate` has them, and who makes them. */
import { toBase64Url } from '../lib/base64.ts'
import { hmacSha256 } from '../lib/hashes.ts'
import { isSameSecret } from '../lib/ids.ts'
import type { Offer } from '../x402/protocol.ts'
import { type Challenge, type ChargeMethod, INTENT, methodOf } from './method.ts'

/** Where a credential goes if the request has an `Authorization` of its own. */
export const OTHER_HEADER = 'Payment-Authorization'
/** Random bytes by which each challenge differs from all others. */
const UNIQUE_BYTES = 12
/** In the order in which they are written, after `id`. */
const PARAMETERS = [
  'realm',
  'method',
  'intent',
  'request',
  'description',
  'digest',
  'expires',
  'header',
  'opaque',
] as const

/** The bytes that the id of a challenge is a keyed hash of. */
export function boundText(slots: Omit<Challenge, 'id'>): string {
  const { realm, method, intent, request, expires = '', digest = '', header, opaque = '' } = slots
  const named = header === undefined || header.toLowerCase() === 'authorization' ? '' : `${header}|`
  return `${realm}|${method}|${intent}|${request}|${expires}|${digest}|${named}${opaque}`
}

/** Seconds since 1970 at which a challenge and its payment end; undefined without a valid `expires`. */
export function endOf({ expires = '' }: Pick<Challenge, 'expires'>): number | undefined {
  const end = Math.floor(Date.parse(expires) / 1000)
  return Number.isFinite(end) ? end : undefined
}

export type ChargeFor = {
  readonly realm: string
  readonly header?: string | undefined
  /** Those that the gateway takes and the client accepts. */
  readonly methods: readonly ChargeMethod[]
}

/** Makes challenges, and knows them again without having stored them. */
export type Issuer = {
  /** A challenge that no other equals: its authorization is unlike any other. Undefined for an offer without one. */
  challenge(offer: Offer, at: ChargeFor & { readonly now: number }): Challenge | undefined
  /** Whether the challenge is ours, under any of the secrets. Takes constant time. */
  isIssued(challenge: Challenge): boolean
}

/** Signs with the first secret and accepts all of them. */
export function issuer(secrets: readonly Uint8Array[], random: (bytes: number) => Uint8Array): Issuer {
  const keyed = secrets.map(hmacSha256)
  const [newest] = keyed
  if (!newest) throw new RangeError('challenges need a secret')
  const timeOf = timeTexts()
  const idUnder = (mac: typeof newest, slots: Omit<Challenge, 'id'>) => mac(boundText(slots))
  return {
    challenge(offer, at) {
      const expires = timeOf(Math.floor(at.now / 1000) + offer.maxTimeoutSeconds)
      const slots = slotsOf(offer, at, { expires, unique: toBase64Url(random(UNIQUE_BYTES)) })
      return slots && { ...slots, id: idUnder(newest, slots) }
    },
    isIssued(challenge) {
      const same = keyed.filter((mac) => isSameSecret(challenge.id, idUnder(mac, challenge)))
      return same.length > 0
    },
  }
}

function slotsOf(
  offer: Offer,
  { realm, header, methods }: ChargeFor,
  { expires, unique }: { readonly expires: string; readonly unique: string },
): Omit<Challenge, 'id'> | undefined {
  const method = methodOf(methods, offer)
  if (!method) return undefined
  const { request, opaque } = method.write(offer, unique)
  return { realm, method: method.name, intent: INTENT, request, expires, header, opaque }
}

/** Seconds since 1970 as text, to the second, since some clients read no fraction. Keeps the last text. */
function timeTexts(): (seconds: number) => string {
  let [last, text] = [Number.NaN, '']
  return (seconds) => {
    if (seconds !== last) text = `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`
    last = seconds
    return text
  }
}

/** A challenge as `WWW-Authenticate` has it. */
export function writeChallenge(challenge: Challenge): string {
  let written = `Payment id="${challenge.id}"`
  for (const name of PARAMETERS) {
    const value = challenge[name]
    if (value === undefined) continue
    written += `, ${name}="${QUOTED.test(value) ? value.replaceAll(/["\\]/g, String.raw`\$&`) : value}"`
  }
  return written
}
const QUOTED = /["\\]/

/** Bytes that the challenge of an offer takes in `WWW-Authenticate`, its separator included; 0 without one. */
export function chargeSize(offer: Offer, at: ChargeFor): number {
  const unique = 'x'.repeat(Math.ceil((UNIQUE_BYTES * 4) / 3))
  const slots = slotsOf(offer, at, { expires: '2030-01-01T00:00:00Z', unique })
  return slots ? writeChallenge({ id: 'x'.repeat(43), ...slots }).length + 2 : 0
}

/**
 * The parameters of each `Payment` challenge in `WWW-Authenticate`; one with a repeated parameter is left out, and so
 * are other schemes.
 */
export function readChallenges(header: string): readonly Readonly<Record<string, string>>[] {
  const found: Record<string, string>[] = []
  const invalid = new Set<object>()
  let current: Record<string, string> | undefined
  const part = /([\w-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]+)|([A-Za-z][\w-]*)(?=\s|$)/g
  for (const [, name, value = '', scheme] of header.matchAll(part)) {
    if (scheme !== undefined) {
      current = scheme.toLowerCase() === 'payment' ? {} : undefined
      if (current) found.push(current)
    } else if (current && name !== undefined) {
      if (Object.hasOwn(current, name)) invalid.add(current)
      current[name] = value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value
    }
  }
  return found.filter((each) => !invalid.has(each))
}
