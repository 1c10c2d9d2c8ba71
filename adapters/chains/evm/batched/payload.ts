/**
 * A payment from a Gateway deposit: shaped like EIP-3009 but signed over the wallet contract's domain (decision 69).
 */
import { chainIdOf, digestOf, domainSeparator, signatureProblem, payloadOf, recoverSigner } from '../exact/eip3009.ts'
import type { PaymentCode, Refused } from '../../../../core/ports/mod.ts'
import { type Offer, type Payment, VERSION } from '../../../../core/x402/mod.ts'
import { BATCHED, MIN_VALIDITY_SECONDS } from './api.ts'
import { type Exact, checkValue, parseExact } from '../exact/payload.ts'
import { type Hex, lower } from '../../lib/hex.ts'

/** A payment that matches an offer, with the EIP-712 digest its payer had to sign. */
export type BatchedPayment = {
  readonly exact: Exact
  readonly digest: Hex
  /** The wallet contract, in lower case. */
  readonly wallet: Hex
  /**
   * Unique over network, wallet contract, payer and nonce; a wallet contract is not a token, so it never equals an
   * EIP-3009 key.
   */
  readonly key: string
  /** When the API stops accepting it, in milliseconds: long before `validBefore`. */
  readonly endsAt: number
}

/** Least remaining lifetime when work begins, beyond what the API requires. */
const MIN_REMAINING_MS = 6_000

/** How much longer than offered an authorization may live; its call is stored until its end. */
const MAX_EXTRA_SECONDS = 31 * 86_400

/** Parses payments for offers under the Gateway's domain, including offers that are no longer made. */
export function batchedPayments(minValidity: (network: string) => number | undefined) {
  const separators = new Map<string, Hex>()

  function parse(payment: Payment, offer: Offer): BatchedPayment | Refused {
    const { name, version, verifyingContract } = offer.extra ?? {}
    if (name !== BATCHED.name || version !== BATCHED.version || typeof verifyingContract !== 'string') {
      return refused('PAYMENT_INVALID', 'unsupported_domain', 'the offer is not for batched payments')
    }
    const exact = parseExact(payment, offer)
    if (exact.kind === 'refused') return exact
    const wallet = lower(verifyingContract)
    const reserve = minValidity(offer.network) ?? MIN_VALIDITY_SECONDS
    return {
      exact,
      wallet,
      digest: digestOf(exact, separatorOf(offer.network, wallet)),
      key: `${offer.network}/${wallet}/${exact.from}/${exact.nonce}`,
      endsAt: Math.max(0, exact.expiresAt - reserve * 1000),
    }
  }

  /** Offers are our own, so there are few domains. */
  function separatorOf(network: string, wallet: Hex): Hex {
    const id = `${network}/${wallet}`
    const known = separators.get(id)
    if (known) return known
    const separator = domainSeparator(BATCHED, chainIdOf(network), wallet)
    if (separators.size < 100) separators.set(id, separator)
    return separator
  }

  return { parse }
}

/** Returns a refusal unless the payer's key signed. The API accepts no contract wallets. */
export async function checkSignature({ exact, digest }: BatchedPayment): Promise<Refused | undefined> {
  const { signature, from } = exact
  const signer = await recoverSigner(digest, signature)
  if (signer === from) return undefined
  const problem = signatureProblem(signature)
  const detail =
    problem ?? `in the domain of ${BATCHED.name} it was signed by ${signer ?? 'an unknown key'}, not by ${from}`
  return refused('PAYMENT_INVALID', 'invalid_signature', `${detail}; contract wallets cannot pay here`)
}

/**
 * Checks that it can be settled now, for exactly this price, until its work is done. Uses the API's error codes where
 * it has them.
 */
export function checkAuthorization({ exact, endsAt }: BatchedPayment, offer: Offer, now: number): Refused | undefined {
  const { validAfter, validBefore, from, to } = exact
  const at = BigInt(Math.ceil(now))
  const nowSeconds = Math.ceil(now / 1000)
  if (validBefore * 1000n <= at)
    return refused('PAYMENT_UNFUNDED', 'authorization_expired', `validBefore is ${validBefore}, now is ${nowSeconds}`)
  if (endsAt < now + MIN_REMAINING_MS) {
    const remaining = `${validBefore - BigInt(nowSeconds)} seconds after now`
    const advice = `sign now + maxTimeoutSeconds, which is ${offer.maxTimeoutSeconds}`
    const detail = `validBefore is ${validBefore}, ${remaining}; ${advice}`
    return refused('PAYMENT_UNFUNDED', 'authorization_validity_too_short', detail)
  }
  if (validAfter * 1000n > at) {
    return refused(
      'PAYMENT_UNFUNDED',
      'authorization_not_yet_valid',
      `validAfter is ${validAfter}; it must not be after now, ${nowSeconds}`,
    )
  }
  const latest = BigInt(nowSeconds + Math.floor(offer.maxTimeoutSeconds) + MAX_EXTRA_SECONDS)
  if (validBefore > latest) {
    return refused(
      'PAYMENT_INVALID',
      'invalid_payload',
      `validBefore is ${validBefore}; it must be at most ${latest}. Sign now + maxTimeoutSeconds`,
    )
  }
  if (from === to) return refused('PAYMENT_INVALID', 'self_transfer', `the payer ${from} is the recipient`)
  return checkValue(exact, offer)
}

export function refused(code: PaymentCode, errorCode: string, detail: string): Refused {
  return { kind: 'refused', code, reason: `${errorCode}: ${detail}` }
}

/**
 * Contains our own offer twice and the authorization, but nothing else that the buyer sent. The API requires a
 * resource and ignores what it says.
 */
export function settleRequest(exact: Exact, offer: Offer, resource: string): object {
  const paid = { url: resource, description: 'one call', mimeType: 'application/json' }
  return {
    paymentPayload: { x402Version: VERSION, resource: paid, accepted: offer, payload: payloadOf(exact) },
    paymentRequirements: offer,
  }
}
