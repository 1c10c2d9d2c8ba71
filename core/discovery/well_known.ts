/**
 * The endpoint list for x402 indexers: the v2 metadata and the v1 list of resource URLs, in one document (contract
 * 19.1; decision 70).
 */
import { bazaarOf } from './bazaar.ts'
import { DESCRIPTION, type GatewayDescription } from './document_input.ts'
import { type Endpoint, isSold } from '../endpoint/mod.ts'
import { priceRange } from './price_list.ts'

export function wellKnown(
  endpoints: readonly Endpoint[],
  origin: string,
  { label, version, terms, offering }: GatewayDescription,
): Readonly<Record<string, unknown>> {
  const sold = endpoints.filter(isSold)
  const payment = terms().map(({ scheme, network, asset, payTo, extra }) => ({
    scheme,
    network,
    networkName: label,
    asset,
    payTo,
    extra,
  }))
  const urlOf = ({ path }: Endpoint) => origin + path.replaceAll('...}', '}')
  return {
    x402Version: 2,
    version: 1,
    name: 'Farebox',
    description: DESCRIPTION,
    instructions: `Every field, price and error: ${origin}/openapi.json. For people: ${origin}/docs.`,
    serviceVersion: version,
    resources: sold.map(urlOf),
    resource: { url: origin, description: DESCRIPTION, mimeType: 'application/json' },
    services: sold.map((endpoint) => ({
      name: endpoint.name,
      endpoint: urlOf(endpoint),
      method: endpoint.method,
      description: endpoint.summary,
      category: endpoint.tag,
      pricing: priceRange(endpoint, offering),
      payment,
      extensions: { bazaar: JSON.parse(bazaarOf(endpoint, offering)) as unknown },
    })),
  }
}
