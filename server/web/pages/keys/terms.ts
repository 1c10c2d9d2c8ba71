/** Whether keys are sold here, and on what terms. */
import { getJson, type PriceList } from '../lib/api.ts'
import { type Offer, readDemand } from '../lib/x402.ts'

/** `least` is the smallest deposit, in millionths of a USDC; `delaySeconds` is how long a withdrawal waits. */
export type Terms = { readonly offer: Offer; readonly least: bigint; readonly delaySeconds: number }

const MAX_PROBES = 20

/** Undefined where no keys are taken. */
export async function readTerms(): Promise<Terms | undefined> {
  const { api_keys: isOn } = await getJson<PriceList>('/api/pricing')
  if (!isOn) return undefined
  const { resources } = await getJson<{ readonly resources: readonly string[] }>('/.well-known/x402')
  for (const url of resources.slice(0, MAX_PROBES)) {
    // Links of this gateway are followed where the page is, so that no other origin is asked.
    const { pathname, search } = new URL(url, location.href)
    const reply = await fetch(pathname + search)
    if (reply.status !== 402) {
      await reply.body?.cancel()
      continue
    }
    const { accepts } = await readDemand(reply)
    const offer = accepts.find(({ scheme }) => scheme === 'batch-settlement')
    if (offer) return termsOf(offer)
  }
  throw new Error('The gateway takes keys, and none of its routes offers a deposit just now. Reload the page.')
}

function termsOf(offer: Offer): Terms {
  const { minDeposit, withdrawDelay } = offer.extra ?? {}
  const least = typeof minDeposit === 'string' && /^\d{1,30}$/.test(minDeposit) ? BigInt(minDeposit) : 0n
  return { offer, least, delaySeconds: typeof withdrawDelay === 'number' ? withdrawDelay : 0 }
}

/** A time in the largest unit that it fills: `15 minutes`, `1 day`. */
export function timeText(seconds: number): string {
  const units = [
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
  ] as const
  const [name, size] = units.find(([, each]) => seconds >= each) ?? (['second', 1] as const)
  const count = Math.round(seconds / size)
  return `${count} ${name}${count === 1 ? '' : 's'}`
}
