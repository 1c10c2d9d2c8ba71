/** Step 5: the authorization already serves a call, or the request itself was sent before. */
import type { Engine } from '../engine.ts'
import type { Reply } from '../http/reply.ts'
import { wasHandedOut } from '../identity/proofs.ts'
import type { Call, Unavailable } from '../ports/mod.ts'
import { isCumulative } from '../x402/offer.ts'
import { recovery } from './poll_payment_required.ts'
import type { Signed } from './order.ts'
import { type Refused, refuse, unverified } from './refuse.ts'
import { repeatOf, resend } from './repeat.ts'

/** How long a request waits for the one before it on the same channel, in milliseconds. */
const MAX_HOLD_MS = 3_000

/** The order itself where it is new. */
export async function replay(engine: Engine, signed: Signed): Promise<Signed | Reply> {
  const repeated = await repeatOf(engine, signed)
  if (repeated) return repeated
  const known = await engine.ports.storage.callOf(signed.key, engine.ports.clock.now())
  return known ? await replayOf(engine, signed, known) : signed
}

/**
 * The reply to an order whose authorization serves this call. Before the authorization is first sent, only the wallet
 * can have it. Afterwards it is public, so the caller must be the one who placed the order (contract 1.41).
 */
export async function replayOf(engine: Engine, signed: Signed, call: Call): Promise<Reply> {
  const { endpoint, requestContext } = signed
  const isSame = call.fingerprint === signed.fingerprint
  const isKnown = !wasHandedOut(call) || (await engine.identity.pollUrls.isFrom(call, requestContext.ip))
  const isRightful = isKnown && (isSame || !wasHandedOut(call))
  const resent = isSame && isRightful ? await resend(engine, signed, call) : undefined
  if (resent) return resent
  const corrected = await correction(engine, signed, call)
  if (corrected?.kind === 'unavailable') return unverified(engine, signed, corrected.reason)
  if (corrected) return await refuse(engine, signed, corrected)
  const worded = endpoint.replayError === undefined ? {} : { error: endpoint.replayError }
  return await refuse(engine, signed, {
    kind: 'refused',
    code: 'PAYMENT_REPLAY',
    reason: 'the payment authorization was already used',
    more: { ...worded, ...(isKnown && (await recovery(engine, call, isRightful))) },
  })
}

/**
 * A buyer of a channel who signed from an earlier state than ours, such as after a stream, whose charge no header says:
 * it learns the state and signs again (contract 1.84). While the call before it is under way it waits for its charge.
 * The identical request is not a mistake: it asks for the result, as long as that is sent again.
 */
async function correction(engine: Engine, signed: Signed, call: Call): Promise<Refused | Unavailable | undefined> {
  const { payment, offer } = signed
  if (!isCumulative(offer)) return undefined
  const { storage, clock } = engine.ports
  const { resendMs } = engine.settings.timeouts
  const isSame = call.fingerprint === signed.fingerprint
  const giveUpAt = clock.now() + MAX_HOLD_MS
  for (let pause = 10, current: Call | undefined = call; current; current = await storage.getCall(call.id)) {
    if (isSame && !(current.endedAt !== null && clock.now() > current.endedAt + resendMs)) return undefined
    const verdict = await engine.offers.verify(payment, offer)
    if (verdict.kind === 'refused' && verdict.corrected) return verdict
    // Without its state the buyer would take the call before this one for the one that it ordered.
    if (verdict.kind === 'unavailable') return verdict
    const isOver = current.workStatus === 'failed' || current.paymentStatus === 'settled'
    if (isOver || clock.now() >= giveUpAt) return undefined
    await clock.wait(pause)
    pause = Math.min(pause * 2, 200)
  }
  return undefined
}
