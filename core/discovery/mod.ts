/** The discovery documents of a gateway, derived from its endpoints and cached (decision 117). */
import { bazaarOf, briefBazaarOf } from './bazaar.ts'
import { type GatewayDescription, PLACEHOLDER_ORIGIN } from './document_input.ts'
import type { Endpoint, Free, Sold } from '../endpoint/mod.ts'
import { offeredIn } from '../endpoint/samples.ts'
import type { GatewayFacts } from '../endpoint/gateway_info.ts'
import type { Bazaar } from '../x402/challenge.ts'
import { priceList } from './price_list.ts'
import { wellKnown } from './well_known.ts'

export type Documents = {
  /** The endpoints that are available as the gateway is configured. */
  offered(): readonly Endpoint[]
  /** The OpenAPI document with a placeholder for the origin. The same object until the terms change. */
  described(): Promise<Readonly<Record<string, unknown>>>
  readonly documents: Pick<GatewayFacts, 'openapi' | 'wellKnown' | 'docs' | 'pricing' | 'llms' | 'llmsFull'>
  /** The `bazaar` extension of an endpoint; undefined for one that indexers must not call. */
  bazaar(endpoint: Sold | Free): Bazaar | undefined
}

export function documentsOf(endpoints: readonly Endpoint[], facts: GatewayDescription): Documents {
  const bazaarByName = new Map<string, Bazaar>()
  // Payment terms become available after the start and may change with the chain configuration, margins at any time.
  const key = () => `${facts.offering.prices?.version() ?? ''} ${JSON.stringify(facts.terms())}`
  // Rows and vendors do not change while a gateway runs.
  const offered = memoized(
    () => offeredIn(endpoints, facts.offering),
    () => '',
  )
  // Long, and needed by the first reader only.
  const describe = async (listed: readonly Endpoint[]) => {
    const { openapi } = await import('./openapi.ts')
    return await openapi(listed, facts, { origin: PLACEHOLDER_ORIGIN, offered: new Set(offered()) })
  }
  const described = memoized(() => describe(offered()), key)
  const written = memoized(async () => JSON.stringify(await described()), key)
  const everything = memoized(async () => JSON.stringify(await describe(endpoints)), key)
  const page = memoized(async () => {
    // Programs that embed the gateway load the page with the first reader.
    const { docsPage, ...rest } = await import('./reference_page.ts')
    const namespace = facts.offering.families?.[0]?.namespace ?? ''
    return { ...rest, text: docsPage(await described(), { ...facts, namespace, origin: PLACEHOLDER_ORIGIN }) }
  }, key)
  const listed = memoized(() => JSON.stringify(wellKnown(offered(), PLACEHOLDER_ORIGIN, facts)), key)
  // Few read them, so they are written for the first reader.
  const llms = memoized(async () => (await import('./llms.ts')).llmsText(offered(), PLACEHOLDER_ORIGIN, facts), key)
  const llmsFull = memoized(
    async () => (await import('./llms.ts')).llmsFullText(await described(), facts, PLACEHOLDER_ORIGIN),
    key,
  )
  const at = (origin: string) => (text: string) => text.replaceAll(PLACEHOLDER_ORIGIN, () => origin)
  const inJson = (origin: string) => JSON.stringify(origin).slice(1, -1)
  return {
    offered,
    described,
    documents: {
      openapi: async (origin, { all = false } = {}) =>
        (await (all ? everything() : written())).replaceAll(PLACEHOLDER_ORIGIN, () => inJson(origin)),
      async docs(origin) {
        const { text, escape, DOCS_POLICY } = await page()
        return { html: text.replaceAll(PLACEHOLDER_ORIGIN, () => escape(origin)), policy: DOCS_POLICY }
      },
      wellKnown: (origin) => listed().replaceAll(PLACEHOLDER_ORIGIN, () => inJson(origin)),
      llms: async (origin) => at(origin)(await llms()),
      llmsFull: async (origin) => at(origin)(await llmsFull()),
      pricing: () => priceList(offered(), facts),
    },
    bazaar(endpoint) {
      const known = bazaarByName.get(endpoint.name) ?? {
        whole: bazaarOf(endpoint, facts.offering),
        brief: briefBazaarOf(endpoint),
      }
      bazaarByName.set(endpoint.name, known)
      return known
    },
  }
}

/** Caches a value until its key changes. Failures are not cached. */
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
