/** Tells the operator which providers are configured, and what the others need. */
import { isSecret, requiredBy, type Service, usedBy } from '../../../adapters/providers/manifest.ts'
import { type Candidate, candidatesFor, products, PRODUCTS, type Services, startedBy } from './products.ts'
import { enumerated, variableOf } from './settings.ts'

/** Providers that the operator pays for or is responsible for, by account name, with the variable of their key. */
export function keyedServices({ services }: Services): ReadonlyMap<string, string> {
  const keyed = products.flatMap((product) =>
    (services[product] ?? []).flatMap(({ manifest, offer, by, settings }) => {
      const secret = usedBy(manifest, offer).find((name) => isSecret(manifest.settings[name]) && settings[name])
      const variable = secret && variableOf(manifest, secret)
      return variable ? [[offer.account ?? by, variable] as const] : []
    }),
  )
  return new Map(keyed)
}

/** The variables of the secrets that providers of a product need. */
export function secretsOf(product: Service): readonly string[] {
  return candidatesFor(product).flatMap(({ manifest, offer }) =>
    usedBy(manifest, offer).flatMap((name) =>
      isSecret(manifest.settings[name]) ? (variableOf(manifest, name) ?? []) : [],
    ),
  )
}

/**
 * Products that are off because nothing is configured, each with the settings that would turn it on: for the operator's
 * log.
 */
export function offByDefault({ services }: Services): readonly string[] {
  return products.flatMap((product) => {
    const ways = services[product] ? [] : candidatesFor(product).flatMap((each) => wayOf(product, each))
    return ways.length > 0 ? [`${product}: needs ${ways.join(' or ')}`] : []
  })
}

/** The requirements of a product's provider, by the name that rows use. */
export function neededFor(product: Service, name: string): string | undefined {
  return candidatesFor(product).flatMap((each) => (each.by === name ? wayOf(product, each) : []))[0]
}

/** The settings that make this provider serve a product. */
function wayOf(product: Service, each: Candidate): readonly string[] {
  const { manifest, offer, by } = each
  const name = PRODUCTS[product]?.setting
  const keys = enumerated(
    [...requiredBy(manifest, offer)].map((key) => variableOf(manifest, key) ?? key),
    'and',
  )
  const others = Object.keys(offer.requires ?? {})
  if (offer.isSample || (!name && !keys)) return []
  const isStarted = startedBy(each).length > 0 && !PRODUCTS[product]?.isNamedOnly
  const all = isStarted
    ? [
        keys ||
          startedBy(each)
            .map((key) => variableOf(manifest, key))
            .join(' and '),
      ]
    : []
  const configured = `${name} = "${by}" (${name?.toUpperCase()})`
  return [[...(isStarted ? all : [configured, keys]), ...others].filter(Boolean).join(', ')]
}
