/** Builds the context that one call hands to its work. */
import type { CallContext } from '../../endpoint/call_context.ts'
import { anyCallUrl } from '../../endpoint/replies.ts'
import type { Engine } from '../../engine.ts'
import { addressKey } from '../../http/caller_address.ts'
import { windowSpent } from '../../http/rate_limit.ts'
import { fingerprint } from '../../lib/ids.ts'
import type { OpenedCall } from './opened_call.ts'

export function callContext(engine: Engine, { call, requestContext }: OpenedCall, signal: AbortSignal): CallContext {
  const { ports, gateway, limits } = engine
  const { label, basePath } = gateway
  const { pollUrls } = engine.identity
  return {
    label,
    origin: requestContext.origin,
    ip: requestContext.ip,
    order: fingerprint('order', '', call.authorization).slice(0, 32),
    records: ports.storage,
    secretName: (prefix) => pollUrls.secretName(call.id, prefix),
    pollUrl: async (id) => anyCallUrl(id, { key: await pollUrls.keyOf(id), basePath }),
    async secondaryPayment(payment, to) {
      const { paySecondary } = await import('../../payment/settlement/secondary_payment.ts')
      return await paySecondary(engine, call, { ...to, payment, signal })
    },
    async permit(name, { address, wallet }) {
      const now = ports.clock.now()
      for (const [caller, window] of [
        [addressKey(requestContext.ip), address],
        [call.payer, wallet],
      ] as const) {
        const { granted, resetAt } = await limits.windows.take(name, caller, window, now)
        if (!granted) throw windowSpent(window, resetAt, now)
      }
    },
  }
}
