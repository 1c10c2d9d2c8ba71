/** The demand of a 402, read with limits, and the offer that this wallet may take. */
import { fieldsOf, isFields, objectsOf } from '../../core/lib/mod.ts'
import { decodeObject } from '../../core/x402/mod.ts'
import type { Offer } from '../buyer/signed_payment.ts'
import type { Money } from '../buyer/wallet_file.ts'
import { leastValidityOf } from '../../adapters/chains/families.ts'
import { NETWORKS } from '../../adapters/chains/networks.ts'

export type Demand = {
  /** As the seller sent them: `offerFor` checks the one that it returns. */
  readonly accepts: readonly Offer[]
  readonly resource: unknown
  readonly extensions: Readonly<Record<string, unknown>>
}

/** The longest body of a 402 that is read, in bytes, and the longest time that it may take. */
const MAX_BODY = 256 * 1024
const BODY_MS = 10_000

/** Networks on which this money is paid, with their USDC. */
export const networksOf = (money: Money) =>
  Object.entries(NETWORKS).flatMap(([network, { title, usdc, isTest = false }]) =>
    usdc && isTest === (money === 'test') ? [{ network, title, asset: usdc.address }] : [],
  )

/** Reads the demand of a 402 from its body or, without one there, its header. Undefined where neither has any. */
export async function readDemand(response: Response): Promise<Demand | undefined> {
  const text = await limitedText(response)
  let body: unknown
  try {
    body = JSON.parse(text ?? '')
  } catch {
    body = undefined
  }
  const header = decodeObject(response.headers.get('payment-required') ?? '')
  const found = [body, header].find((each) => isFields(each) && Array.isArray(each.accepts) && each.x402Version === 2)
  if (found === undefined) return undefined
  const { accepts, resource, extensions } = fieldsOf(found)
  return {
    accepts: objectsOf(accepts) as readonly unknown[] as readonly Offer[],
    resource,
    extensions: fieldsOf(extensions),
  }
}

/** Undefined if the body is longer or slower than the limits. */
export async function limitedText(response: Response): Promise<string | undefined> {
  const reader = response.body?.getReader()
  if (!reader) return ''
  const chunks: Uint8Array[] = []
  let size = 0
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    void reader.cancel().catch(() => {})
  }, BODY_MS)
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return isLate ? undefined : Buffer.concat(chunks).toString()
      size += value.length
      if (size > MAX_BODY) {
        void reader.cancel().catch(() => {})
        return undefined
      }
      chunks.push(value)
    }
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
  }
}

function isOffer(value: unknown): value is Offer {
  const { scheme, amount, asset, network, payTo, maxTimeoutSeconds } = fieldsOf(value)
  const areTexts = [scheme, amount, asset, network, payTo].every((each) => typeof each === 'string')
  const isAddress = /^(0x[0-9a-fA-F]{40}|[1-9A-HJ-NP-Za-km-z]{32,44})$/.test(String(payTo))
  const isTime = Number.isSafeInteger(maxTimeoutSeconds) && Number(maxTimeoutSeconds) > 0
  return areTexts && isAddress && /^\d{1,15}$/.test(String(amount)) && isTime
}

/** How long the signature for an offer can be spent, in seconds. */
export function validSecondsOf({ network, maxTimeoutSeconds = Number.POSITIVE_INFINITY }: Offer): number {
  return Math.max(maxTimeoutSeconds, leastValidityOf(network))
}

/** The first offer of these schemes that is in USDC on a network of this money. */
export function offerFor(
  { accepts }: Pick<Demand, 'accepts'>,
  { money, schemes }: { readonly money: Money; readonly schemes: readonly string[] },
): Offer | undefined {
  const networks = networksOf(money)
  const isOurs = ({ network, asset }: Offer) =>
    networks.some((each) => each.network === network && each.asset.toLowerCase() === asset.toLowerCase())
  const isSimple = ({ scheme, extra }: Offer) =>
    scheme === 'upto' || [undefined, 'eip3009'].includes(extra?.assetTransferMethod as undefined)
  for (const scheme of schemes) {
    const found = accepts.find((offer) => isOffer(offer) && offer.scheme === scheme && isOurs(offer) && isSimple(offer))
    if (found) return found
  }
  return undefined
}
