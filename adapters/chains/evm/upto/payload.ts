/** Payloads of the scheme `upto` on EVM: one Permit2 signature, of which any part may be charged. */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { PaymentCode, Refused } from '../../../../core/ports/mod.ts'
import { type Offer, parseAtomic, type Payment, wrongField } from '../../../../core/x402/mod.ts'
import { Address, LAST_MS, LIFE_MS, maxLifetimeSeconds, Signature, Uint, UINT256_MAX } from '../exact/payload.ts'
import { type Hex, lower, word } from '../../lib/hex.ts'

/** The same on every EVM chain. */
export const PERMIT2: Hex = '0x000000000022d473030f116ddee9f6b43ac78ba3'
export const UPTO_PROXY: Hex = '0x4020a4f3b7b90cca423b9fabcc0ce57c6c240002'

export const UptoPayload = Type.Object({
  signature: Signature,
  permit2Authorization: Type.Object({
    from: Address,
    permitted: Type.Object({ token: Address, amount: Uint }),
    spender: Address,
    nonce: Uint,
    deadline: Uint,
    witness: Type.Object({ to: Address, facilitator: Address, validAfter: Uint }),
  }),
})
export type UptoPayload = Static<typeof UptoPayload>

const isUptoPayload = TypeCompiler.Compile(UptoPayload)

/** A well-formed payload that answers the offer. Hex is lower case; times are in seconds. */
export type Upto = {
  readonly kind: 'upto'
  readonly signature: Hex
  readonly from: Hex
  readonly token: Hex
  /** The most that may be charged. */
  readonly amount: bigint
  readonly to: Hex
  /** The account that must send it. */
  readonly facilitator: Hex
  readonly nonce: bigint
  readonly validAfter: bigint
  readonly deadline: bigint
  /** Unique on its chain: the owner and the nonce under Permit2. */
  readonly key: string
  /** `deadline` in milliseconds, capped at what a Date can hold. */
  readonly expiresAt: number
}

/**
 * Parses a payload for this offer. `checkUpto` checks amount and times. `facilitators` are accounts beside that of the
 * offer that may send it: another replica may have made the offer.
 */
export function parseUpto(payment: Payment, offer: Offer, facilitators: ReadonlySet<Hex> = new Set()): Upto | Refused {
  const { accepted, payload } = payment
  if (accepted.scheme !== 'upto' || offer.scheme !== 'upto')
    return mismatch('upto_evm_scheme', 'accepted.scheme', accepted.scheme, offer.scheme)
  if (accepted.network !== offer.network)
    return mismatch('upto_evm_network_mismatch', 'accepted.network', accepted.network, offer.network)
  if (lower(accepted.asset) !== lower(offer.asset))
    return mismatch('permit2_token_mismatch', 'accepted.asset', accepted.asset, offer.asset)
  if (!isUptoPayload.Check(payload)) {
    const first = isUptoPayload.Errors(payload).First()
    const text = `payload${first?.path ?? ''} is malformed: ${first ? wrongField(first) : 'unknown shape'}`
    return refusedUpto('PAYMENT_INVALID', 'upto_evm_payload', text)
  }
  const { signature, permit2Authorization } = payload
  const { from, permitted, spender, witness } = permit2Authorization
  const [amount, nonce, deadline, validAfter] = [
    BigInt(permitted.amount),
    BigInt(permit2Authorization.nonce),
    BigInt(permit2Authorization.deadline),
    BigInt(witness.validAfter),
  ]
  if ([amount, nonce, deadline, validAfter].some((number) => number > UINT256_MAX)) {
    const text = 'payload/permit2Authorization is malformed: a number is larger than a uint256'
    return refusedUpto('PAYMENT_INVALID', 'upto_evm_payload', text)
  }
  if (lower(spender) !== UPTO_PROXY)
    return mismatch('permit2_spender', 'permit2Authorization.spender', spender, UPTO_PROXY)
  if (lower(witness.to) !== lower(offer.payTo))
    return mismatch('permit2_recipient_mismatch', 'permit2Authorization.witness.to', witness.to, offer.payTo)
  const facilitator = offer.extra?.facilitatorAddress
  const isOffered = typeof facilitator === 'string' && lower(witness.facilitator) === lower(facilitator)
  if (!isOffered && !facilitators.has(lower(witness.facilitator)))
    return mismatch(
      'upto_facilitator_mismatch',
      'permit2Authorization.witness.facilitator',
      witness.facilitator,
      String(facilitator),
    )
  if (lower(permitted.token) !== lower(offer.asset))
    return mismatch('permit2_token_mismatch', 'permit2Authorization.permitted.token', permitted.token, offer.asset)
  const owner = lower(from)
  return {
    kind: 'upto',
    signature: lower(signature),
    from: owner,
    token: lower(permitted.token),
    amount,
    to: lower(witness.to),
    facilitator: lower(witness.facilitator),
    nonce,
    validAfter,
    deadline,
    key: `${offer.network}/${PERMIT2}/${owner}/0x${word(nonce)}`,
    expiresAt: Number(deadline * 1000n < LAST_MS ? deadline * 1000n : LAST_MS),
  }
}

/** The account that a payment was signed for; undefined for any other scheme. */
export function facilitatorOf({ payload }: Payment): Hex | undefined {
  const { witness } = (payload.permit2Authorization ?? {}) as { witness?: { facilitator?: unknown } }
  return typeof witness?.facilitator === 'string' ? lower(witness.facilitator) : undefined
}

/** Fields that are checked when it is charged. */
type Limits = Pick<Upto, 'amount' | 'deadline' | 'validAfter'>

/** Checks that it can be charged now, up to exactly the price. Undefined when it passes. */
export function checkUpto(upto: Limits, offer: Offer, now: number, lookbackSeconds?: number): Refused | undefined {
  const at = Math.ceil(now / 1000)
  if (upto.deadline * 1000n < BigInt(Math.ceil(now)) + LIFE_MS) {
    const text = `permit2Authorization.deadline is ${upto.deadline}; it must be at least 6 seconds after now, ${at}`
    return refusedUpto('PAYMENT_UNFUNDED', 'permit2_deadline_expired', text)
  }
  if (upto.validAfter * 1000n > BigInt(Math.ceil(now))) {
    const text = `permit2Authorization.witness.validAfter is ${upto.validAfter}; it must not be after now, ${at}`
    return refusedUpto('PAYMENT_UNFUNDED', 'permit2_not_yet_valid', text)
  }
  const life = maxLifetimeSeconds(offer, lookbackSeconds)
  const latest = BigInt(Math.floor(now / 1000) + life)
  if (upto.deadline > latest) {
    const text =
      `permit2Authorization.deadline is ${upto.deadline}; it must be at most ${latest}, ` +
      `which is ${life} seconds after now. Sign now + maxTimeoutSeconds`
    return refusedUpto('PAYMENT_INVALID', 'permit2_deadline', text)
  }
  return checkAmount(upto, offer)
}

/** Checks that the permitted amount is exactly the price: the most that may be charged. */
export function checkAmount(upto: Pick<Limits, 'amount'>, offer: Offer): Refused | undefined {
  if (upto.amount === parseAtomic(offer.amount)) return undefined
  const text = `permit2Authorization.permitted.amount is ${upto.amount} base units; the price is at most ${offer.amount}, and the permit must be exactly that`
  return refusedUpto('PAYMENT_INVALID', 'permit2_amount_mismatch', text)
}

/** A refusal whose reason starts with the protocol's error code. */
export function refusedUpto(code: PaymentCode, problem: string, text: string): Refused {
  return { kind: 'refused', code, reason: `invalid_${problem}: ${text}` }
}

function mismatch(problem: string, field: string, got: string, want: string): Refused {
  const text = `${field} is ${JSON.stringify(got.slice(0, 80))}; it must be ${JSON.stringify(want)}`
  return refusedUpto('PAYMENT_INVALID', problem, text)
}
