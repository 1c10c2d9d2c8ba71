/** Step 4: who signed the payment of an order, and for which offer. */
import type { Engine } from '../engine.ts'
import { payingFor } from '../endpoint/charging.ts'
import { credentialIn } from '../endpoint/request_context.ts'
import type { Reply } from '../http/reply.ts'
import { bodyFingerprint } from '../lib/ids.ts'
import { identifierOf, PURCHASE_FIELD, purchaseOf, tagOf } from '../payment/calls/identified_calls.ts'
import { balanceKeyOf } from '../payment/offers.ts'
import type { Offered, Signed } from './order.ts'
import { pauseIfLarge } from './read.ts'
import { payWithKey } from './pay_with_key.ts'
import { reject, unverified } from './refuse.ts'

export async function identify(engine: Engine, order: Offered): Promise<Signed | Reply> {
  const { requestContext } = order
  const paying = await payWithKey(engine, order)
  const offers = paying ? [paying.offer] : order.offers
  const decoded = paying ? { ok: true as const, payment: paying.payment } : requestContext.payment
  if (!decoded?.ok) {
    const reason = decoded?.reason ?? 'there is no payment header'
    return reject(engine, order, { kind: 'refused', code: 'PAYMENT_INVALID', reason })
  }
  const wrong = await engine.charges?.problem(requestContext)
  if (wrong) return reject(engine, order, { kind: 'refused', code: 'PAYMENT_INVALID', ...wrong })
  const { payment } = decoded
  const { apiKey } = requestContext
  const named = apiKey ? purchaseOf(requestContext.request) : identifierOf(payment)
  // An Idempotency-Key may be guessed, and a mined authorization be sent by x402: only a credential finds its call.
  const id = named !== undefined && credentialIn(decoded) ? `credential/${named}` : named
  const identified = await engine.offers.identify(payment, offers)
  if (identified.kind === 'refused') return reject(engine, order, identified)
  if (identified.kind === 'unavailable') return unverified(engine, order, identified.reason)
  const { payer, otherAddress, signer, key, expiresAt, offer } = identified
  const fingerprint = await fingerprintOf(engine, order)
  const tagFor = (wallet: string | undefined, field?: string) =>
    id !== undefined && wallet !== undefined
      ? tagOf({ gateway: engine.gateway.name, payer: wallet, id, fingerprint, field })
      : undefined
  return {
    ...order,
    payment: payingFor(payment, requestContext.payment, offer),
    payer,
    otherAddress,
    key,
    expiresAt,
    offer,
    asset: balanceKeyOf(identified),
    fingerprint,
    // One key may pay from channels of several payers, and what it has bought is its alone.
    tag: apiKey ? tagFor(apiKey.address, PURCHASE_FIELD) : tagFor(payer),
    signerTag: apiKey ? undefined : tagFor(signer),
  }
}

/** Requests are the same where their method, path and body are. */
async function fingerprintOf(engine: Engine, { requestContext, body, given }: Offered): Promise<string> {
  await pauseIfLarge(engine, body)
  const text = typeof body === 'string' ? body : JSON.stringify(given)
  const { request, path } = requestContext
  return await bodyFingerprint(request.method, path, { body: text, clock: engine.ports.clock })
}
