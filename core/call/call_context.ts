/** Builds the context that one call hands to its work. */
import type { Engine } from '../engine.ts'
import type { OpenedCall } from './order.ts'
import type { CallContext } from '../endpoint/call_context.ts'
import { secondaryPayments } from '../payment/settlement/secondary_payment.ts'
import { fingerprint } from '../lib/ids.ts'
import { anyCallUrl } from '../endpoint/replies.ts'
import { addressKey } from '../http/caller_address.ts'
import { windowSpent } from '../http/rate_limit.ts'

export function callContextOf(engine: Engine): (working: OpenedCall, signal: AbortSignal) => CallContext {
  const { ports } = engine
  const { label, basePath } = engine.gateway
  const { windows } = engine.limits
  const { pollUrls } = engine.identity
  const pay = secondaryPayments(engine)
  return ({ call, requestContext }, signal) => ({
    label,
    origin: requestContext.origin,
    ip: requestContext.ip,
    order: fingerprint('order', '', call.authorization).slice(0, 32),
    records: ports.storage,
    secretName: (prefix) => pollUrls.secretName(call.id, prefix),
    pollUrl: async (id) => anyCallUrl(id, { key: await pollUrls.keyOf(id), basePath }),
    secondaryPayment: (payment, to) => pay(call, payment, { ...to, signal }),
    async permit(name, { address, wallet }) {
      const now = ports.clock.now()
      for (const [caller, window] of [
        [addressKey(requestContext.ip), address],
        [call.payer, wallet],
      ] as const) {
        const { granted, resetAt } = await windows.take(name, caller, window, now)
        if (!granted) throw windowSpent(window, resetAt, now)
      }
    },
  })
}
