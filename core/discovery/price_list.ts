/**
 * The price of one call of each endpoint, computed by the code that quotes it, the operator's margin included (decision
 * 3).
 */
import { type Endpoint, type Offering, type Sold, isSold, methodsOf, quotedRange } from '../endpoint/mod.ts'
import type { Priced, PriceRange } from '../endpoint/gateway_info.ts'
import { print } from '../x402/money.ts'

export function priceRange(endpoint: Sold, offering: Offering): PriceRange {
  const { min, max } = quotedRange(endpoint, offering)
  if (min === max) return { mode: 'fixed', currency: 'USD', amount: print(min) }
  return { mode: 'dynamic', currency: 'USD', min: print(min), max: print(max) }
}

/** Every endpoint that a caller may use directly; helpers of other endpoints are left out. */
export function priceList(
  endpoints: readonly Endpoint[],
  { offering, basePath }: { readonly offering: Offering; readonly basePath: string },
): readonly Priced[] {
  return endpoints
    .filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden)
    .map((endpoint) => {
      const { name, path, tag, summary } = endpoint
      return {
        name,
        methods: methodsOf(endpoint),
        path: basePath + path.replaceAll('...}', '}'),
        tag,
        summary,
        price: isSold(endpoint) ? priceRange(endpoint, offering) : 'free',
      }
    })
}
