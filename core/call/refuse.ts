/** The replies of an order for which no call is opened. */
import type { Engine } from '../engine.ts'
import { problemOf } from '../endpoint/charging.ts'
import * as demands from '../endpoint/demands.ts'
import { credentialIn } from '../endpoint/request_context.ts'
import type { Reply } from '../http/reply.ts'
import { silent } from '../ports/meter.ts'
import type { Problem } from '../mpp/problem.ts'
import type { Corrected, PaymentCode } from '../ports/mod.ts'
import { withCorrected } from '../x402/offer.ts'
import type { Offer } from '../x402/protocol.ts'
import type { Offered, Signed } from './order.ts'
import { demand } from './payment_required.ts'
import { keyNotCovered } from './pay_with_key.ts'
import { repeatOf } from './repeat.ts'

/** Why no call is opened, with an error code. */
export type Refused = {
  readonly kind: 'refused'
  readonly code: PaymentCode
  readonly reason: string
  readonly more?: demands.Body
  /** A corrected offer, in place of this one. */
  readonly corrected?: Corrected
  readonly offer?: Offer
  readonly retryAfterSeconds?: number
  /** In the words of MPP, if not by the code. */
  readonly problem?: Problem
}

/** The payment would not cover the call, or this wallet may not order now. */
export const unfunded = (reason: string, more: demands.Body = {}): Refused => ({
  kind: 'refused',
  code: 'PAYMENT_UNFUNDED',
  reason,
  more,
})

/** The same order may have room later. */
export const later = (reason: string, retryAfterSeconds: number): Refused => ({
  ...unfunded(reason, { retryAfterSeconds }),
  retryAfterSeconds,
})

export function reject(engine: Engine, order: Offered, refused: Refused): Reply {
  const { meter = silent, clock } = engine.ports
  const { offers, price, requestContext } = order
  const { code, reason, more, corrected, offer, retryAfterSeconds } = refused
  const { payment: presented } = requestContext
  meter.judged(code)
  if (requestContext.apiKey) throw keyNotCovered(reason)
  const made = demand(engine, order, {
    offers: corrected && offer ? withCorrected(offers, { offer, extra: corrected.extra }) : offers,
    price,
    why: { ...demands.verificationFailed(code, reason), ...(corrected && { error: corrected.error }), ...more },
    ...(corrected && { error: corrected.error }),
    problem: refused.problem ?? problemOf(presented, { code, offers, now: clock.now() }),
  })
  // Clients of MPP pay a challenge of a 402 at once, and this payment may have moved money.
  const reply = code === 'PAYMENT_REPLAY' && credentialIn(presented) ? demands.withoutChallenge(made) : made
  if (retryAfterSeconds === undefined) return reply
  return { ...reply, headers: { ...reply.headers, 'retry-after': String(retryAfterSeconds) } }
}

/** Refuses, unless a concurrent request with the same payment identifier has opened a call in the meantime. */
export async function refuse(engine: Engine, signed: Signed, refused: Refused): Promise<Reply> {
  const { payer, offer } = signed
  const repeated = await repeatOf(engine, signed)
  return repeated ?? reject(engine, signed, { offer, ...refused, more: { payer, ...refused.more } })
}

/** No call is opened: the same signed request can be sent again (contract 1.27). */
export function unverified(engine: Engine, order: Offered, reason: string): Reply {
  if (engine.settings.unverifiable === 402 && !order.requestContext.apiKey)
    return reject(engine, order, {
      kind: 'refused',
      code: 'PAYMENT_VERIFICATION_UNAVAILABLE',
      reason: `the payment could not be verified just now (${reason}); send the same signed request again`,
    })
  const { meter = silent } = engine.ports
  meter.judged('unavailable')
  throw demands.cannotVerify(reason)
}
