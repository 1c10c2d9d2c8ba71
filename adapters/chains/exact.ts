import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { parseAtomic } from '../../core/x402/money.ts'
import type { PaymentCode, Refused } from '../../core/ports/mod.ts'
import type { Offer, Payment } from '../../core/x402/protocol.ts'
import { type Hex, lower } from './evm/hex.ts'

/** What an authorization must still have to live when its work begins: six seconds (decision 67). */
const LIFE_MS = 6_000n

/** How long before an authorization's likely signing its event is still searched for (`evm_reads`): a day. */
export const LOOKBACK_SECONDS = 86_400

/** How far the chain's clock may be from ours. */
const CLOCK_SECONDS = 600

/**
 * The longest life in seconds that an authorization may have when it is verified. The search for its event begins `maxTimeoutSeconds` and
 * the lookback before its end: it then always reaches back to before it was verified, and finds even what was canceled right after that.
 */
export function longestLife({ maxTimeoutSeconds }: Offer, lookbackSeconds = LOOKBACK_SECONDS): number {
  return Math.floor(maxTimeoutSeconds) + Math.max(lookbackSeconds - CLOCK_SECONDS, 0)
}

/** The last millisecond that a Date can hold: `validBefore` is a uint256, and most of those are not a time at all. */
const LAST_MS = 8_640_000_000_000_000n

const UINT256_MAX = 2n ** 256n - 1n

const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' })
const isAddress = TypeCompiler.Compile(Address)
const Uint = Type.String({ pattern: '^(0|[1-9][0-9]{0,77})$' })

/** The payload of `exact` on EVM: one EIP-3009 TransferWithAuthorization and its signature (x402 v2 specification, scheme exact on EVM). */
export const ExactPayload = Type.Object({
  /** 65 bytes of a key, or whatever a contract wallet understands, up to 4 KiB. */
  signature: Type.String({ pattern: '^0x([0-9a-fA-F]{2})+$', maxLength: 2 + 2 * 4096 }),
  authorization: Type.Object({
    from: Address,
    to: Address,
    value: Uint,
    validAfter: Uint,
    validBefore: Uint,
    nonce: Type.String({ pattern: '^0x[0-9a-fA-F]{64}$' }),
  }),
})
export type ExactPayload = Static<typeof ExactPayload>

const isExactPayload = TypeCompiler.Compile(ExactPayload)

/** An address in lower case, which is how it is asked about. Throws for what is none. */
export function addressOf(text: string): Hex {
  if (isAddress.Check(text)) return lower(text)
  throw new RangeError('not an address: 0x and 40 hex digits')
}

/** A payload that has the right shape and answers the offer. Hex is lower case; times are the payer's own, in seconds. */
export type Exact = {
  readonly kind: 'exact'
  readonly signature: Hex
  readonly from: Hex
  readonly to: Hex
  readonly value: bigint
  readonly validAfter: bigint
  readonly validBefore: bigint
  readonly nonce: Hex
  /** Unique on its chain, whoever spells the addresses how. */
  readonly key: string
  /** `validBefore` in milliseconds, never past what a Date can hold. */
  readonly expiresAt: number
}

/** Reads a payload for this offer: shape, scheme, network, asset, recipient. Neither value nor time: `judgeExact` looks at those. */
export function readExact(payment: Payment, offer: Offer): Exact | Refused {
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
      `payload${first?.path ?? ''} is malformed: ${first?.message ?? 'unknown shape'}`,
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
    key: `${offer.network}/${lower(offer.asset)}/${from}/${nonce}`,
    expiresAt: Number(validBefore * 1000n < LAST_MS ? validBefore * 1000n : LAST_MS),
  }
}

/**
 * Can it be spent now, for exactly this price, and found again on chain until its end? In the order of decision 67.
 * Undefined when it can.
 */
export function judgeExact(exact: Exact, offer: Offer, now: number, lookbackSeconds?: number): Refused | undefined {
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
  const life = longestLife(offer, lookbackSeconds)
  const latest = BigInt(Math.floor(now / 1000)) + BigInt(life)
  if (exact.validBefore > latest) {
    return refused(
      'PAYMENT_INVALID',
      'payload_authorization_valid_before',
      `authorization.validBefore is ${exact.validBefore}; it must be at most ${latest}, which is ${life} seconds after now. Sign now + maxTimeoutSeconds`,
    )
  }
  return judgeValue(exact, offer)
}

/** Exactly the price: too much is refused as well. Undefined when it is. */
export function judgeValue(exact: Exact, offer: Offer): Refused | undefined {
  if (exact.value === parseAtomic(offer.amount)) return undefined
  return refused(
    'PAYMENT_INVALID',
    'payload_authorization_value_mismatch',
    `authorization.value is ${exact.value} base units; the price is exactly ${offer.amount}`,
  )
}

/** A refusal that begins with the protocol's own word for it (decision 67). */
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
