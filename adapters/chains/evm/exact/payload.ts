import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Offer, parseAtomic, type Payment, wrongField } from '../../../../core/x402/mod.ts'
import type { PaymentCode, Refused } from '../../../../core/ports/mod.ts'
import { type Hex, lower } from '../../lib/hex.ts'

/** Least remaining lifetime of an authorization when its work begins: six seconds (decision 67). */
export const LIFE_MS = 6_000n

/** How far before an authorization's likely signing its event is searched for (`fate.ts`): one day (decision 28). */
export const LOOKBACK_SECONDS = 86_400

/** Largest accepted difference between the chain's clock and ours, in seconds. */
const CLOCK_SECONDS = 600

/**
 * The longest remaining lifetime, in seconds, that an authorization may have when it is verified. The search for its
 * event starts `maxTimeoutSeconds` plus the lookback before its end, so this limit makes every search reach back to
 * before verification, and find even an authorization canceled right after it.
 */
export function maxLifetimeSeconds({ maxTimeoutSeconds }: Offer, lookbackSeconds = LOOKBACK_SECONDS): number {
  return Math.floor(maxTimeoutSeconds) + Math.max(lookbackSeconds - CLOCK_SECONDS, 0)
}

/** The last millisecond that a Date can hold; `validBefore` is a uint256 and may be far beyond it. */
export const LAST_MS = 8_640_000_000_000_000n

export const UINT256_MAX = 2n ** 256n - 1n

export const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$', description: 'an address: 0x and 40 hex digits' })
export const Uint = Type.String({
  pattern: '^(0|[1-9][0-9]{0,77})$',
  description: 'a whole number in decimal digits, as text, without a sign or leading zeros',
})

/** 65 bytes from a private key, or up to 4 KiB for a contract wallet to interpret. */
export const Signature = Type.String({
  pattern: '^0x([0-9a-fA-F]{2})+$',
  maxLength: 2 + 2 * 4096,
  description: '0x and the hex digits of 1 to 4096 bytes',
})

/**
 * Payload of scheme `exact` on EVM: an EIP-3009 TransferWithAuthorization and its signature (x402 v2, exact on EVM).
 */
export const ExactPayload = Type.Object({
  signature: Signature,
  authorization: Type.Object({
    from: Address,
    to: Address,
    value: Uint,
    validAfter: Uint,
    validBefore: Uint,
    nonce: Type.String({ pattern: '^0x[0-9a-fA-F]{64}$', description: '32 random bytes: 0x and 64 hex digits' }),
  }),
})
export type ExactPayload = Static<typeof ExactPayload>

const isExactPayload = TypeCompiler.Compile(ExactPayload)

/** A well-formed payload that answers the offer. Hex is lower case; times are the payer's own, in seconds. */
export type Exact = {
  readonly kind: 'exact'
  readonly signature: Hex
  readonly from: Hex
  readonly to: Hex
  readonly value: bigint
  readonly validAfter: bigint
  readonly validBefore: bigint
  readonly nonce: Hex
  /** Unique on its chain, whatever the letter case of the addresses. */
  readonly key: string
  /** `validBefore` in milliseconds, capped at what a Date can hold. */
  readonly expiresAt: number
}

/** Parses a payload for this offer: shape, scheme, network, asset, recipient. `checkExact` checks value and times. */
export function parseExact(payment: Payment, offer: Offer): Exact | Refused {
  const { accepted, payload } = payment
  if (accepted.scheme !== offer.scheme) return invalid('scheme', 'accepted.scheme', accepted.scheme, offer.scheme)
  if (accepted.network !== offer.network)
    return invalid('network_mismatch', 'accepted.network', accepted.network, offer.network)
  if (lower(accepted.asset) !== lower(offer.asset))
    return invalid('asset_mismatch', 'accepted.asset', accepted.asset, offer.asset)
  if (!isExactPayload.Check(payload)) {
    const first = isExactPayload.Errors(payload).First()
    return refused(
      'PAYMENT_INVALID',
      'payload',
      `payload${first?.path ?? ''} is malformed: ${first ? wrongField(first) : 'unknown shape'}`,
    )
  }
  const { authorization } = payload
  const [value, validAfter, validBefore] = [
    BigInt(authorization.value),
    BigInt(authorization.validAfter),
    BigInt(authorization.validBefore),
  ]
  if (value > UINT256_MAX || validAfter > UINT256_MAX || validBefore > UINT256_MAX) {
    return refused(
      'PAYMENT_INVALID',
      'payload',
      'payload/authorization is malformed: a number is larger than a uint256',
    )
  }
  if (lower(authorization.to) !== lower(offer.payTo))
    return invalid('recipient_mismatch', 'authorization.to', authorization.to, offer.payTo)
  const [from, nonce] = [lower(authorization.from), lower(authorization.nonce)]
  return {
    kind: 'exact',
    signature: lower(payload.signature),
    from,
    to: lower(authorization.to),
    value,
    validAfter,
    validBefore,
    nonce,
    key: exactKey(offer, from, nonce),
    expiresAt: Number(validBefore * 1000n < LAST_MS ? validBefore * 1000n : LAST_MS),
  }
}

/** The key of an authorization of EIP-3009. */
export function exactKey({ network, asset }: Pick<Offer, 'network' | 'asset'>, payer: string, nonce: string): string {
  return `${network}/${lower(asset)}/${lower(payer)}/${lower(nonce)}`
}

/**
 * Checks that an authorization can be spent now, for exactly this price, and can be found on chain until it expires.
 * Checks run in the order of decision 67. Returns undefined when it passes.
 */
export function checkExact(exact: Exact, offer: Offer, now: number, lookbackSeconds?: number): Refused | undefined {
  const at = BigInt(Math.ceil(now))
  if (exact.validBefore * 1000n < at + LIFE_MS) {
    return refused(
      'PAYMENT_UNFUNDED',
      'payload_authorization_valid_before',
      `authorization.validBefore is ${exact.validBefore}; it must be at least 6 seconds after now, ${seconds(now)}`,
    )
  }
  if (exact.validAfter * 1000n > at) {
    return refused(
      'PAYMENT_UNFUNDED',
      'payload_authorization_valid_after',
      `authorization.validAfter is ${exact.validAfter}; it must not be after now, ${seconds(now)}`,
    )
  }
  const life = maxLifetimeSeconds(offer, lookbackSeconds)
  const latest = BigInt(Math.floor(now / 1000)) + BigInt(life)
  if (exact.validBefore > latest) {
    return refused(
      'PAYMENT_INVALID',
      'payload_authorization_valid_before',
      `authorization.validBefore is ${exact.validBefore}; it must be at most ${latest}, ` +
        `which is ${life} seconds after now. Sign now + maxTimeoutSeconds`,
    )
  }
  return checkValue(exact, offer)
}

/** Checks that the value is exactly the price; a higher value is refused too. Returns undefined when it passes. */
export function checkValue(exact: Exact, offer: Offer): Refused | undefined {
  if (exact.value === parseAtomic(offer.amount)) return undefined
  return refused(
    'PAYMENT_INVALID',
    'payload_authorization_value_mismatch',
    `authorization.value is ${exact.value} base units; the price is exactly ${offer.amount}`,
  )
}

/** A refusal whose reason starts with the protocol's error code (decision 67). */
export function refused(code: PaymentCode, word: string, text: string): Refused {
  return { kind: 'refused', code, reason: `invalid_exact_evm_${word}: ${text}` }
}

function invalid(word: string, field: string, got: string, want: string): Refused {
  return refused(
    'PAYMENT_INVALID',
    word,
    `${field} is ${JSON.stringify(got.slice(0, 80))}; it must be ${JSON.stringify(want)}`,
  )
}

function seconds(now: number): number {
  return Math.ceil(now / 1000)
}
