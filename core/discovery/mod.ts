/** Everything that a gateway tells of itself for free, derived from its menu and written once. */
import { bazaarOf } from './bazaar.ts'
import type { GatewayDescription } from './described.ts'
import { DOCS_POLICY, docsPage, escape } from './reference_page.ts'
import type { Endpoint, Free, Sold } from '../endpoint/mod.ts'
import type { GatewayFacts } from '../endpoint/gateway_info.ts'
import { openapi } from './openapi.ts'
import { priceList } from './price_list.ts'
import { wellKnown } from './well_known.ts'

export type Documents = {
  readonly shown: Pick<GatewayFacts, 'openapi' | 'wellKnown' | 'docs' | 'pricing'>
  /** The `bazaar` extension of what is sold, as JSON; nothing for what no indexer is to call. */
  bazaar(endpoint: Sold | Free): string | undefined
}

/** Where the origin stands in documents that are written once; no host has this name (RFC 6761). */
const PLACEHOLDER_ORIGIN = 'https://gateway.invalid'

export function documentsOf(endpoints: readonly Endpoint[], facts: GatewayDescription): Documents {
  const bazaarByName = new Map<string, string>()
  // The terms open late, and may change with the configuration of the chain.
  const key = () => JSON.stringify(facts.terms())
  const described = memoized(() => openapi(endpoints, PLACEHOLDER_ORIGIN, facts), key)
  const written = memoized(async () => JSON.stringify(await described()), key)
  const page = memoized(
    async () => docsPage(await described(), { origin: PLACEHOLDER_ORIGIN, label: facts.label, changes: facts.changes }),
    key,
  )
  const listed = memoized(() => JSON.stringify(wellKnown(endpoints, PLACEHOLDER_ORIGIN, facts)), key)
  const inJson = (origin: string) => JSON.stringify(origin).slice(1, -1)
  return {
    shown: {
      openapi: async (origin) => (await written()).replaceAll(PLACEHOLDER_ORIGIN, () => inJson(origin)),
      docs: async (origin) => ({
        html: (await page()).replaceAll(PLACEHOLDER_ORIGIN, () => escape(origin)),
        policy: DOCS_POLICY,
      }),
      wellKnown: (origin) => listed().replaceAll(PLACEHOLDER_ORIGIN, () => inJson(origin)),
      pricing: () => priceList(endpoints, facts.offering),
    },
    bazaar(endpoint) {
      const known = bazaarByName.get(endpoint.name) ?? bazaarOf(endpoint, facts.offering)
      bazaarByName.set(endpoint.name, known)
      return known
    },
  }
}

/** Makes a thing once, until its key changes; what fails is made again. */
function memoized<T>(make: () => T, keyOf: () => string): () => T {
  let known: { readonly key: string; readonly thing: T } | undefined
  return () => {
    const key = keyOf()
    if (known?.key === key) return known.thing
    const fresh = { key, thing: make() }
    known = fresh
    if (fresh.thing instanceof Promise) fresh.thing.catch(() => (known = known === fresh ? undefined : known))
    return fresh.thing
  }
}
