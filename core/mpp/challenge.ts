/**
 * The challenges of MPP (`draft-httpauth-payment-00`) and how `WWW-Authenticate` has them; `evm/charge` of an offer,
 * paid by an EIP-3009 authorization (`draft-evm-charge-00`).
 */
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { checksummed } from '../lib/checksum.ts'
import { hmacSha256 } from '../lib/hmac.ts'
import { isSameSecret } from '../lib/ids.ts'
import type { Offer } from '../x402/protocol.ts'
import { canonicalJson, encodeBytes, encodeUrl } from './codec.ts'

/** Parameters of a challenge as they are sent. `request` and `opaque` are base64url of canonical JSON. */
export type Challenge = {
  readonly id: string
  /** Public host of the seller, without a port. */
  readonly realm: string
  readonly method: string
  readonly intent: string
  readonly request: string
  /** RFC 3339; the text is part of the id. */
  readonly expires?: string
  readonly digest?: string
  readonly description?: string
  /** Header field that carries the credential, if not `Authorization`. */
  readonly header?: string
  readonly opaque?: string
}

export const CHARGE = { method: 'evm', intent: 'charge' } as const
/** Where a credential goes if the request has an `Authorization` of its own. */
export const OTHER_HEADER = 'Payment-Authorization'
const USDC_DECIMALS = 6
/** In the order in which they are written. */
const PARAMETERS = [
  'id',
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

/**
 * Whether an offer can be paid by `evm/charge`: by an authorization of the token itself. Clients know the domain of the
 * token, and of no other contract.
 */
export function isChargeable({ scheme, network, extra }: Pick<Offer, 'scheme' | 'network' | 'extra'>): boolean {
  const isToken = typeof extra?.name === 'string' && extra.verifyingContract === undefined
  return scheme === 'exact' && network.startsWith('eip155:') && isToken
}

const requests = new WeakMap<Offer, string>()

/** The `request` of an offer. */
export function chargeRequest(offer: Offer): string {
  const known = requests.get(offer)
  if (known !== undefined) return known
  const { network, amount, asset, payTo } = offer
  const methodDetails = {
    chainId: Number(network.slice('eip155:'.length)),
    credentialTypes: ['authorization'],
    decimals: USDC_DECIMALS,
  }
  const made = encodeUrl(
    canonicalJson({ amount, currency: checksummed(asset), methodDetails, recipient: checksummed(payTo) }),
  )
  requests.set(offer, made)
  return made
}

/** The bytes that the id of a challenge is a keyed hash of. */
export function boundText(slots: Omit<Challenge, 'id'>): string {
  const { realm, method, intent, request, expires = '', digest = '', header, opaque = '' } = slots
  const named = header === undefined || header.toLowerCase() === 'authorization' ? [] : [header]
  return [realm, method, intent, request, expires, digest, ...named, opaque].join('|')
}

/** The nonce that a challenge prescribes for its authorization. */
export const nonceOf = ({ id, realm }: Pick<Challenge, 'id' | 'realm'>): string =>
  `0x${bytesToHex(keccak_256(utf8ToBytes(id + realm)))}`

/** Seconds since 1970 at which a challenge and its payment end; undefined without a valid `expires`. */
export function endOf({ expires = '' }: Pick<Challenge, 'expires'>): number | undefined {
  const end = Math.floor(Date.parse(expires) / 1000)
  return Number.isFinite(end) ? end : undefined
}

export type ChargeFor = {
  readonly realm: string
  readonly header?: string | undefined
}

/** Makes challenges, and knows them again without having stored them. */
export type Issuer = {
  /** A challenge that no other equals: its authorization must have a nonce of its own. `now` in milliseconds. */
  challenge(offer: Offer, at: ChargeFor & { readonly now: number }): Challenge
  /** Whether the challenge is ours, under any of the secrets. Takes constant time. */
  isIssued(challenge: Challenge): boolean
}

/** Signs with the first secret and accepts all of them. */
export function issuer(secrets: readonly Uint8Array[], random: (bytes: number) => Uint8Array): Issuer {
  const keyed = secrets.map(hmacSha256)
  const [newest] = keyed
  if (!newest) throw new RangeError('challenges need a secret')
  const idUnder = (mac: typeof newest, slots: Omit<Challenge, 'id'>) => encodeBytes(mac(boundText(slots)))
  return {
    challenge(offer, { realm, header, now }) {
      const slots = {
        realm,
        ...CHARGE,
        request: chargeRequest(offer),
        expires: textOfTime(now + offer.maxTimeoutSeconds * 1000),
        ...(header !== undefined && { header }),
        opaque: encodeUrl(canonicalJson({ n: encodeBytes(random(8)) })),
      }
      return { id: idUnder(newest, slots), ...slots }
    },
    isIssued(challenge) {
      const same = keyed.filter((mac) => isSameSecret(challenge.id, idUnder(mac, challenge)))
      return same.length > 0
    },
  }
}

/** To the second: some clients read no fraction. */
const textOfTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`

/** A challenge as `WWW-Authenticate` has it. */
export function writeChallenge(challenge: Challenge): string {
  const parameters = PARAMETERS.flatMap((name) => {
    const value = challenge[name]
    return value === undefined ? [] : [`${name}="${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`]
  })
  return `Payment ${parameters.join(', ')}`
}

/** Bytes that the challenge of an offer takes in `WWW-Authenticate`, its separator included. */
export function chargeSize(offer: Offer, { realm, header }: ChargeFor): number {
  if (!isChargeable(offer)) return 0
  const [id, opaque] = ['x'.repeat(43), 'x'.repeat(23)]
  const request = chargeRequest(offer)
  const challenge = { id, realm, ...CHARGE, request, expires: '2030-01-01T00:00:00Z', opaque }
  return writeChallenge({ ...challenge, ...(header !== undefined && { header }) }).length + 2
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
