/** Builds the providers that serve whole products from the configuration. All gateways of a process share them. */
import { cdpBearer } from '../../adapters/chains/facilitator/cdp_auth.ts'
import { randomBytes } from '../../adapters/machine.ts'
import { cachedMarket } from '../../adapters/providers/lib/market_cache.ts'
import { firstOf } from '../../adapters/providers/lib/search_provider.ts'
import {
  createVendor,
  type ProviderPorts,
  type Service,
  type ServiceVendors,
} from '../../adapters/providers/manifest.ts'
import type { Clock, Log, Vendors } from '../../core/mod.ts'
import type { Config } from '../config/mod.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import { familyOfMethod, isPlayMoney } from '../config/payment_methods.ts'
import type { RpcNodes } from '../config/rpc.ts'
import { candidatesFor, type Choice, isByRow, products, type Services } from '../config/services/products.ts'
import { neededFor, offByDefault } from '../config/services/reports.ts'
import type { Timed } from '../metrics.ts'

type Wiring = {
  readonly clock: Clock
  readonly log: Log
  readonly timed: Timed
  readonly isDevnet: boolean
  /** Shutdown steps, run in reverse order. */
  readonly undo: (() => unknown)[]
  readonly nodes: RpcNodes
}

export function serviceVendors(
  { services, audio, declared }: Services & Pick<Config, 'audio' | 'declared'>,
  { timed, isDevnet, undo, nodes, clock, log }: Wiring,
): Pick<Vendors, Service> {
  const ports: ProviderPorts = {
    clock,
    log,
    random: randomBytes,
    cdpBearer: (key) => cdpBearer(key, randomBytes),
    onClose: (step) => void undo.push(step),
  }
  const built = <Product extends Service>(product: Product, choices = services[product] ?? []) =>
    choices.flatMap(({ by, manifest, settings }) => {
      const vendor = createVendor({ manifest, product, settings }, ports)
      return vendor ? [timed(by, vendor)] : []
    })
  const one = <Product extends Service>(product: Product): { readonly [Name in Product]?: ServiceVendors[Product] } => {
    const [vendor] = built(product)
    return vendor ? ({ [product]: vendor } as { [Name in Product]?: ServiceVendors[Product] }) : {}
  }
  const [search, ...others] = built('search')
  const { market } = one('market')
  const isSample = services.market?.some(({ offer }) => offer.isSample) ?? false
  tellWhatIsOff({ services }, log)
  if (!isDevnet) warnOfSamples({ services }, log)
  return {
    ...Object.fromEntries(
      products
        .filter((product) => !isByRow(product) && !COMPOSED.includes(product))
        .flatMap((product) => Object.entries(one(product))),
    ),
    ...(search && { search: others.reduce(firstOf, search) }),
    // Price feeds block frequent callers, so one cache is shared.
    ...(market && { market: isSample ? market : cachedMarket(market, { clock, log }) }),
    ...rpcVendor(),
    ...Object.fromEntries([...declared].map(([kind, rows]) => [kind, rowVendors(kind as Service, rows)])),
    audio: rowVendors('audio', audio.rows),
  }

  function rowVendors<Product extends Service>(product: Product, rows: readonly VendorName[]) {
    const speaking = { product, rows, choices: services[product] ?? [], isDevnet, log }
    return vendorsByRow(speaking, (choice) => built(product, [choice]).at(0))
  }

  /** The nodes of gateways are included, and only known here. */
  function rpcVendor(): Pick<Vendors, 'rpc'> {
    const choices = candidatesFor('rpc').map((each) => ({ ...each, settings: { rpc: nodes } }))
    const [rpc] = Object.keys(nodes).length > 0 ? built('rpc', choices) : []
    return rpc ? { rpc } : {}
  }
}

/** Products that consist of more than one provider. */
const COMPOSED: readonly Service[] = ['search', 'market', 'rpc']

function tellWhatIsOff(services: Services, log: Log): void {
  const missing = offByDefault(services)
  if (missing.length > 0) log.info('off: these products are not configured, and their paths answer 503', { missing })
}

function warnOfSamples({ services }: Services, log: Log): void {
  const made = Object.entries(services).flatMap(([product, choices]) =>
    choices.some(({ offer }) => offer.isSample) ? [product] : [],
  )
  if (made.length > 0) log.warn('samples are sold for real money', { made })
}

/** The vendor of a row. */
type VendorName = { readonly id: string; readonly vendor: string }

type RowServices = {
  readonly product: Service
  readonly rows: readonly VendorName[]
  readonly choices: readonly Choice[]
  readonly isDevnet: boolean
  readonly log: Log
}

/** A row is served by the provider that it names; on devnet the demo replaces providers that are not configured. */
function vendorsByRow<Vendor>(
  { product, rows, choices, isDevnet, log }: RowServices,
  build: (choice: Choice) => Vendor | undefined,
): (row: VendorName) => Vendor | undefined {
  const byName = new Map(choices.map((choice) => [choice.by, build(choice)]))
  const demo = choices.find(({ offer }) => offer.isOnDevnet)?.by ?? ''
  const missing = new Set(rows.map(({ vendor }) => vendor).filter((vendor) => !byName.get(vendor)))
  for (const vendor of isDevnet ? [] : missing)
    log.info(`${product} models are off: their vendor is not configured`, {
      vendor,
      setting: neededFor(product, vendor) ?? `another vendor in [[${product}]]`,
    })
  for (const { id } of isDevnet ? [] : rows.filter(({ vendor }) => vendor === demo))
    log.warn(`this model is served by the embedded ${product} vendor, for real money`, { model: id })
  return ({ vendor }) => byName.get(vendor) ?? (isDevnet ? byName.get(demo) : undefined)
}

/**
 * The vendors that a gateway may use. Test money buys no phone calls and no numbers, except on devnet, where only the
 * operator can buy; deposits need a plain transfer on an EVM chain.
 */
export function affordable(
  vendors: Vendors,
  { paymentMethods }: Pick<GatewayConfig, 'paymentMethods'>,
  { isDevnet }: { isDevnet: boolean },
): Vendors {
  const { voice, phone, bridge, ...rest } = vendors
  const isMoney = isDevnet || !paymentMethods.some(isPlayMoney)
  const transfers = paymentMethods.some((method) => familyOfMethod(method)?.signsTransfers)
  return {
    ...rest,
    ...(isMoney && voice && { voice }),
    ...(isMoney && phone && { phone }),
    ...(transfers && bridge && { bridge }),
  }
}

/**
 * Logs why deposits are off although a bridge is configured: it accepts none of the networks that gateways are paid on.
 */
export function tellWhyNoDeposits(
  { bridge }: Pick<Vendors, 'bridge'>,
  gateways: readonly Pick<GatewayConfig, 'name' | 'paymentMethods'>[],
  log: Log,
): void {
  if (!bridge) return
  const paidOn = gateways.flatMap(({ paymentMethods }) =>
    paymentMethods.flatMap((method) =>
      method.kind !== 'batched' && familyOfMethod(method)?.signsTransfers ? [method.network] : [],
    ),
  )
  if (paidOn.some((network) => bridge.networks.includes(network))) return
  log.warn('off: Polymarket funding, because its bridge accepts no deposits on the networks of the gateways', {
    bridge: bridge.networks,
    gateways: [...new Set(paidOn)],
  })
}
