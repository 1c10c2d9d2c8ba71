/** Verify requests to facilitators, on any chain. */
import type { Refused, Unavailable } from '../../../core/ports/mod.ts'
import { type Offer, VERSION } from '../../../core/x402/protocol.ts'
import type { NamedApi } from './api.ts'
import { readVerifyReply } from './replies.ts'

type At = { readonly now: number; readonly timeoutMs: number; readonly signal: AbortSignal }

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
  at: At,
): Promise<{ kind: 'valid' } | Refused | Unavailable> {
  const troubles: string[] = []
  for (const { name, api } of apis) {
    const said = await api.ask('verify', { body, read: readVerifyReply, ...at })
    if (said.kind === 'trouble') {
      troubles.push(`${name}: ${said.reason}`)
      continue
    }
    const { value } = said
    return value.kind === 'valid'
      ? value
      : { kind: 'refused', code: value.code, reason: `${value.word}: the facilitator refused the payment` }
  }
  return { kind: 'unavailable', reason: troubles.join('; ') || 'no facilitator was checked yet' }
}
