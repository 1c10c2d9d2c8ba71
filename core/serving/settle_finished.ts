/** Charges what a key has ordered and nobody has collected, when the key is closed (contract 23.11). */
import type { UpstreamJob } from '../endpoint/mod.ts'
import type { Engine } from '../engine.ts'
import { settledMsOf } from '../payment/retention.ts'
import { settleCall } from '../payment/settlement/settle.ts'
import type { Authorization, Call } from '../ports/mod.ts'
import type { Offer, Payment } from '../x402/protocol.ts'
import { isStillThere } from '../call/show.ts'

/** How long the record of a settlement names its payment. */
const LIFE_MS = 30 * 86_400_000

/**
 * Settles the call of an authorization if its result is there and unpaid, at whichever gateway of this process it was
 * ordered: the buyer collects it later as one that is paid. Anything else stays as it is.
 */
export async function settleFinished(
  serving: Engine,
  authorization: string,
  payFor: (offer: Offer) => Payment,
): Promise<void> {
  const found = await serving.ports.storage.callOf(authorization, serving.ports.clock.now())
  const engine = found && serving.gateways.get(found.gateway)
  const endpoint = engine?.products.sold.get(found?.endpoint ?? '')
  if (!found || !engine || !endpoint) return
  const { clock } = engine.ports
  const call = endpoint.delivery === 'upstream_job' ? await polled(engine, endpoint, found) : found
  if (call.workStatus !== 'completed' || call.paymentStatus !== 'verified') return
  if (!(await isStillThere(engine, endpoint, call))) return
  const { offer, payer } = call
  const now = clock.now()
  const offered: Authorization = { key: authorization, payer, payment: payFor(offer), offer, expiresAt: now + LIFE_MS }
  await settleCall(engine.money, call, offered, { retainUntil: now + settledMsOf(call, endpoint.retention) })
}

async function polled(engine: Engine, endpoint: UpstreamJob, found: Call): Promise<Call> {
  try {
    const { pollUpstream } = await import('../call/delivery/upstream_poll.ts')
    return (await pollUpstream(engine, endpoint, found)).call
  } catch (error) {
    engine.ports.log.warn('an upstream job could not be polled', { call: found.id, error: (error as Error).message })
    return found
  }
}
