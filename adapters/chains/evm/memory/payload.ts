/** Payments of a chain in memory, by either scheme. */
import type { Refused } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import { word } from '../../lib/hex.ts'
import { checkExact, checkValue, type Exact, parseExact } from '../exact/payload.ts'
import { checkAmount, checkUpto, parseUpto, type UptoPayload } from '../upto/payload.ts'

/** Parses a payload as the token would: with its own recipient, whatever was offered. */
export function parseAsSigned(payment: Payment): Authorized {
  if (payment.accepted.scheme === 'upto') {
    const { witness } = payment.payload.permit2Authorization as UptoPayload['permit2Authorization']
    const upto = parsePayment(payment, { ...payment.accepted, payTo: witness.to })
    if (upto.kind === 'refused') throw new TypeError(upto.reason)
    return upto
  }
  const to = (payment.payload.authorization as { to?: unknown } | undefined)?.to
  const exact = parseExact(payment, { ...payment.accepted, payTo: String(to) })
  if (exact.kind === 'refused') throw new TypeError(exact.reason)
  return exact
}

/** A transfer that was signed, by either scheme. An `upto` one may move less than its value. */
export type Authorized = Omit<Exact, 'kind'> & { readonly kind: 'exact' | 'upto' }

export function parsePayment(payment: Payment, offer: Offer): Authorized | Refused {
  if (offer.scheme !== 'upto') return parseExact(payment, offer)
  const upto = parseUpto(payment, offer)
  if (upto.kind === 'refused') return upto
  const { amount, deadline, nonce, ...rest } = upto
  return { ...rest, value: amount, validBefore: deadline, nonce: `0x${word(nonce)}` }
}

const uptoOf = ({ value: amount, validBefore: deadline, validAfter }: Authorized) => ({ amount, deadline, validAfter })

export const checkPayment = (exact: Authorized, offer: Offer, now: number): Refused | undefined =>
  exact.kind === 'upto' ? checkUpto(uptoOf(exact), offer, now) : checkExact({ ...exact, kind: 'exact' }, offer, now)

export const checkPrice = (exact: Authorized, offer: Offer): Refused | undefined =>
  exact.kind === 'upto' ? checkAmount(uptoOf(exact), offer) : checkValue({ ...exact, kind: 'exact' }, offer)
