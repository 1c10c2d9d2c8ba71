/** Verify requests to facilitators, on any chain (decision 63). */
import type { Refused, Unavailable } from '../../../core/ports/mod.ts'
import { type Offer, VERSION } from '../../../core/x402/mod.ts'
import type { NamedApi } from './api.ts'
import { parseVerifyReply } from './replies.ts'

type RequestOptions = { readonly now: number; readonly timeoutMs: number; readonly signal: AbortSignal }

/**
 * Contains our own offer twice and what was signed, but nothing else that the buyer sent: that could change a verdict,
 * or fail at a facilitator that compares `accepted` with the requirements.
 */
export function requestOf(payload: object, offer: Offer): object {
  return {
    x402Version: VERSION,
    paymentPayload: { x402Version: VERSION, accepted: offer, payload },
    paymentRequirements: offer,
  }
}

/**
 * Returns the verdict of the first facilitator that gives one. Verifying moves nothing, so another may be asked after a
 * failure.
 */
export async function firstVerdict(
  apis: readonly NamedApi[],
  body: object,
  at: RequestOptions,
): Promise<{ kind: 'valid' } | Refused | Unavailable> {
  const failures: string[] = []
  for (const { name, api } of apis) {
    const response = await api.request('verify', { body, read: parseVerifyReply, ...at })
    if (response.kind === 'failure') {
      failures.push(`${name}: ${response.reason}`)
      continue
    }
    const { value } = response
    return value.kind === 'valid'
      ? value
      : { kind: 'refused', code: value.code, reason: `${value.reason}: the facilitator refused the payment` }
  }
  return { kind: 'unavailable', reason: failures.join('; ') || 'no facilitator was checked yet' }
}
