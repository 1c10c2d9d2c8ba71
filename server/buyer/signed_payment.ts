/** Checks a signed payment against the offer that was within the caps, before it is sent. */
import { fieldsOf } from '../../core/lib/mod.ts'
import { decodeObject } from '../../core/x402/mod.ts'
import { MAX_VALIDITY_S } from './budget.ts'
import type { Signature } from './journal.ts'

/** The offer of an x402 seller, as it stands in `accepts`. */
export type Offer = {
  readonly scheme: string
  readonly amount: string
  readonly asset: string
  readonly network: string
  readonly payTo: string
  readonly maxTimeoutSeconds?: number
  readonly extra?: Readonly<Record<string, unknown>>
}

/**
 * Returns the signature in a payment if a chain can tell whether it was spent, undefined if none can, and the reason if
 * the payment is for something else than the offer: the headers of a seller may ask for more than its body.
 *
 * @param now in milliseconds since 1970
 */
export function signatureOf(
  payment: string,
  { offer, now, takesUpto = false }: { readonly offer: Offer; readonly now: number; readonly takesUpto?: boolean },
): Signature | string | undefined {
  const decoded = decodeObject(payment)
  const [accepted, payload] = [fieldsOf(decoded?.accepted), fieldsOf(decoded?.payload)]
  for (const name of ['scheme', 'network', 'asset', 'amount', 'payTo', 'maxTimeoutSeconds'] as const)
    if (accepted[name] !== offer[name]) return `The gateway asks for two payments: their ${name} differs.`
  if (takesUpto && offer.scheme === 'upto') return permitProblem(payload, { offer, now })
  if (offer.scheme !== 'exact') return `The gateway asks for a payment by ${offer.scheme}, not exact.`
  const { network, asset } = offer
  const { from: payer, to, nonce, value, validBefore } = fieldsOf(payload.authorization)
  if (payer === undefined) return undefined
  const isBounded =
    String(value) === offer.amount &&
    String(to).toLowerCase() === offer.payTo.toLowerCase() &&
    Number(validBefore) <= now / 1000 + MAX_VALIDITY_S
  if (!isBounded) return OTHER
  return { network, asset, payer: String(payer), nonce: String(nonce), validBefore: Number(validBefore) }
}

/** Why an authorization by Permit2 is for something else than the offer: its seller may charge the whole amount. */
function permitProblem(
  payload: Readonly<Record<string, unknown>>,
  { offer, now }: { readonly offer: Offer; readonly now: number },
): string | undefined {
  const { permitted, witness, deadline } = fieldsOf(payload.permit2Authorization)
  const [{ token, amount }, { to }] = [fieldsOf(permitted), fieldsOf(witness)]
  const isBounded =
    String(amount) === offer.amount &&
    String(token).toLowerCase() === offer.asset.toLowerCase() &&
    String(to).toLowerCase() === offer.payTo.toLowerCase() &&
    Number(deadline) <= now / 1000 + MAX_VALIDITY_S
  return isBounded ? undefined : OTHER
}

const OTHER = 'The wallet signed something else than the offer of the gateway.'
