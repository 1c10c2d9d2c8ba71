/** Step 6: would the payment be settled? */
import type { Engine } from '../engine.ts'
import { isChargeOver } from '../endpoint/charging.ts'
import { SIGN_AFRESH } from '../endpoint/demands.ts'
import type { Reply } from '../http/reply.ts'
import { EXPIRED } from '../mpp/credential.ts'
import { isNotedHandedOut } from '../payment/settlement/sent_authorizations.ts'
import { isCumulative } from '../x402/offer.ts'
import type { Signed, Verified } from './order.ts'
import { refuse, unfunded, unverified } from './refuse.ts'
import { replayOf } from './replay.ts'

export async function verify(engine: Engine, signed: Signed): Promise<Verified | Reply> {
  const { storage, clock } = engine.ports
  const { payment, offer, key, requestContext } = signed
  // A signature may outlive its challenge, and its price.
  if (isChargeOver(requestContext.payment, clock.now())) return await refuse(engine, signed, unfunded(EXPIRED))
  const [verdict, isPublic] = await Promise.all([
    engine.offers.verify(payment, offer),
    isCumulative(offer) ? false : isNotedHandedOut(storage, key, clock.now()),
  ])
  if (verdict.kind === 'unavailable') return unverified(engine, signed, verdict.reason)
  if (isPublic) return await refuse(engine, signed, { kind: 'refused', code: 'PAYMENT_REPLAY', reason: SIGN_AFRESH })
  if (verdict.kind === 'valid') return { ...signed, verdict, verifiedAt: clock.now() }
  // Another request with the same authorization may have won since.
  const winner = await storage.callOf(key, clock.now())
  return winner ? await replayOf(engine, signed, winner) : await refuse(engine, signed, verdict)
}
