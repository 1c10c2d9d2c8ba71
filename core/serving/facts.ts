/** Facts that a gateway shows of itself, and that its routes without a call may use. */
import { type Documents, documentsOf } from '../discovery/mod.ts'
import { type Endpoint, type FreeCalls, isSold } from '../endpoint/mod.ts'
import type { GatewayFacts, HealthStatus } from '../endpoint/gateway_info.ts'
import { isForgotten } from '../endpoint/records.ts'
import { anyCallUrl } from '../endpoint/replies.ts'
import type { Engine } from '../engine.ts'
import { storageProbe } from '../ports/storage_probe.ts'
import { withoutHints } from '../x402/offer.ts'
import { didDocument, type OfferSigner } from '../x402/offer_receipt.ts'
import type { Serving } from './serving.ts'

/** Facts for its documents that the engine does not know. */
export type Described = {
  readonly endpoints: readonly Endpoint[]
  readonly version: string
  readonly contact?: string | undefined
  readonly changes: Parameters<typeof documentsOf>[1]['changes']
  readonly signer?: OfferSigner | undefined
  readonly healthStatus: HealthStatus
  isDraining(): boolean
}

export function describe(
  engine: Engine,
  described: Described,
): Pick<Serving, 'documents' | 'offering' | 'freeContext'> {
  const { gateway, ports, products, settings } = engine
  const { label, basePath, documents: explaining } = gateway
  const { families } = ports.chain
  const { prices } = products.context
  const offering = { ...products.context, families, allowlists: settings.allowlists }
  const documents = documentsOf(described.endpoints, {
    label,
    version: described.version,
    basePath,
    documents: explaining,
    terms: () => termsOf(engine),
    charges: engine.charges?.methods ?? [],
    changes: described.changes,
    offering,
    pause: () => ports.clock.wait(0),
    ...(described.contact !== undefined && { contact: described.contact }),
  })
  const { objects, vendors, countTokens, clock, log, chain, storage, random } = ports
  const freeContext = {
    catalog: products.catalog,
    prices,
    objects,
    vendors,
    countTokens,
    clock,
    log,
    gateway: factsOf(engine, described, documents),
    calls: freeCalls(engine),
    chain,
    ledger: storage,
    records: storage,
    random,
    requireListed: (payer: string, otherAddress: string) => engine.limits.controls?.requireListed(payer, otherAddress),
    signIns: engine.identity.signIns,
  }
  return { documents, offering, freeContext }
}

function factsOf(engine: Engine, described: Described, { documents }: Documents): GatewayFacts {
  const { name, label, basePath } = engine.gateway
  const { chain, storage, clock } = engine.ports
  const { signer, version, healthStatus, isDraining } = described
  return {
    name,
    label,
    version,
    basePath,
    startedAt: clock.now(),
    isDraining,
    isStorageReachable: storageProbe(storage, clock),
    families: chain.families,
    isReady: () => termsOf(engine).length > 0,
    closed: () => chain.closed?.(clock.now()),
    terms: () => termsOf(engine),
    healthStatus,
    sellerOf: (kind) =>
      described.endpoints.find((endpoint) => isSold(endpoint) && endpoint.rows?.kind === kind) ?? {
        name: kind,
        tag: kind,
      },
    did: (origin) => signer && JSON.stringify(didDocument(signer, origin)),
    ...documents,
  }
}

const termsOf = ({ ports: { chain, clock } }: Engine) => withoutHints(chain.terms(clock.now()))

function freeCalls(engine: Engine): FreeCalls {
  const { storage, clock } = engine.ports
  const { name, basePath } = engine.gateway
  const { pollUrls } = engine.identity
  return {
    async find(id, key) {
      const call = (await pollUrls.isKey(id, key)) ? await storage.getCall(id) : undefined
      return call?.gateway === name && !isForgotten(call, clock.now()) ? call : undefined
    },
    cancel: async (id, why) => (await import('../call/delivery/background.ts')).cancelCall(engine, id, why),
    async settleFinished(authorization, payFor) {
      const { settleFinished } = await import('./settle_finished.ts')
      await settleFinished(engine, authorization, payFor)
    },
    pollUrl: async (id) => anyCallUrl(id, { key: await pollUrls.keyOf(id), basePath }),
  }
}
