/** Opens the gateways of a process, each with its own chain and all with the same storage and vendors. */
import { familyOfMethod } from '../config/payment_methods.ts'
import { randomBytes } from '../../adapters/machine.ts'
import { offerSigner } from '../../adapters/offer_signer.ts'
import type { OpenedStorage } from '../../adapters/storage/manifest.ts'
import { limitVendors } from '../../adapters/http/vendor_slots.ts'
import { slotLimits } from '../request_pool.ts'
import { type SharedClock } from '../../adapters/shared_clock.ts'
import { textDigest } from '../../adapters/token_counter.ts'
import { SUBMIT_TIMEOUT_MS } from '../../adapters/providers/lib/video_provider.ts'
import {
  type Catalog,
  catalog,
  type Clock,
  endpoints,
  type Gateway,
  gateway,
  hasModel,
  type Jwk,
  memoized,
  narrowed,
  type Objects,
  retiredGateway,
  SMALL,
  smallOf,
  type Vendors,
} from '../../core/mod.ts'
import manifest from '../../package.json' with { type: 'json' }
import { type Controls, newWalletsLimit } from '../../core/payment/mod.ts'
import type { Config } from '../config/mod.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import { isOwnPage } from '../http/cors.ts'
import type { ServerLog } from '../log.ts'
import { nodesOf } from '../config/rpc.ts'
import type { Metrics, Timed } from '../metrics.ts'
import type { Tracing } from '../signals/tracing.ts'
import { dollars, markupOf, roundUp } from '../../core/x402/mod.ts'
import { chains, type WatchedAccounts } from './chains.ts'
import type { LocalSystem } from './devnet.ts'
import { devnetSigningKey } from '../config/keys/signing_key.ts'
import { affordable, tellWhyNoDeposits } from './services.ts'
import { ownProducts, ownProtocols } from './own_files.ts'
import { tokenThread } from './token_thread.ts'
import { untimed, vendorsOf } from './vendors.ts'
import { orRefuse, StartError } from '../start_error.ts'
import type { BackgroundWork } from './background.ts'
import { timely } from './timely.ts'

export const VERSION = manifest.version

export type OpenGateway = { readonly gateway: Gateway; readonly config: GatewayConfig }

const MINUTE_MS = 60_000

/** Storage, clock and signals, shared by all gateways of a process. */
type Machine = {
  readonly storage: OpenedStorage
  readonly shared: SharedClock | undefined
  readonly objects: Objects
  readonly clock: Clock
  readonly log: ServerLog
  readonly undo: (() => unknown)[]
  readonly workerId: string
  readonly control: Controls
  readonly background: BackgroundWork
  readonly meters: Metrics | undefined
  readonly telemetry: Tracing | undefined
  readonly watchAccounts: (accounts: WatchedAccounts) => void
}

export async function openGateways(
  config: Config,
  devnet: LocalSystem | undefined,
  machine: Machine,
): Promise<readonly OpenGateway[]> {
  const { storage, clock, log, undo, workerId, meters, telemetry, watchAccounts } = machine
  const isDevnet = devnet !== undefined
  const counting = tokenThread()
  undo.push(counting.close)
  // To ask the thread costs ten times as much as to hash a short text, and each order comes twice.
  const countTokens = memoized(counting.countTokens, { digest: textDigest, shortest: 0 })
  const metered = meters?.timed ?? untimed
  const timed: Timed = telemetry ? (name, vendor) => telemetry.timed(name, metered(name, vendor)) : metered
  const opening = { log, clock, undo, timed, isDevnet }
  const rows = devnet ? devnet.gateways : config.gateways
  const own = await ownProducts(config)
  const vendors = vendorsOf(config, {
    slots: limitVendors(clock, slotLimits(process.env, config.vendor_requests)),
    ...opening,
    own: await ownProtocols(config),
    countTokens: async (text) => await countTokens(text),
    nodes: nodesOf(config, rows, { isDevnet }),
  })
  tellWhyNoDeposits(vendors, rows, log)
  if (config.environmentVendors.length > 0)
    log.info('vendors were found in the environment', { vendors: config.environmentVendors })
  const chainOf = chains({
    ...opening,
    storage,
    workerId: storage.isShared ? workerId : 'process',
    leaseMs: config.lease_seconds * 1000,
    meters,
    watchAccounts,
  })
  const selling: Selling = {
    ...machine,
    isDevnet,
    vendors,
    countTokens,
    chainOf,
    own,
    routes: new Map([...own, ...endpoints].map(({ name, path }) => [name, path] as const)),
    allowlists: { ...(devnet && { generate_content: buyersOf(devnet) }), ...allowlistsOf(config) },
    signingKey: config.signingKey ?? (devnet && devnetSigningKey(devnet.evm.relayerKey)),
    fullCatalog: catalog({
      images: config.images.rows,
      chat: config.chat.rows,
      video: config.videos.rows,
      audio: config.audio.rows,
      declared: config.declared,
    }),
  }
  const gateways: OpenGateway[] = []
  for (const row of rows) gateways.push({ gateway: await openGateway(config, row, selling), config: row })
  return gateways
}

const buyersOf = ({ evm, solana }: LocalSystem): readonly string[] => [
  evm.buyer.address,
  ...(solana ? [solana.buyer.address] : []),
]

/** Vendors, chains and catalog that gateways are opened with. */
type Selling = Machine & {
  readonly isDevnet: boolean
  readonly vendors: Vendors
  countTokens(text: string): number | Promise<number>
  readonly chainOf: ReturnType<typeof chains>
  /** Products of the operator's own files. */
  readonly own: Awaited<ReturnType<typeof ownProducts>>
  readonly routes: ReadonlyMap<string, string>
  readonly allowlists: Readonly<Record<string, readonly string[]>>
  readonly signingKey: Jwk | undefined
  readonly fullCatalog: Catalog
}

async function openGateway(config: Config, row: GatewayConfig, selling: Selling): Promise<Gateway> {
  if (row.retired) return retiredGateway(row.name)
  const { storage, objects, shared, clock, log, meters, telemetry, isDevnet, vendors, countTokens, own } = selling
  const { refusal, failure } = storage
  const opened = await selling.chainOf(row)
  const sound = shared || failure ? timely(opened, { trouble: shared?.trouble, refusal, failure }) : opened
  const offered = affordable(vendors, row, { isDevnet })
  if (vendors.phone && !offered.phone)
    log.info('phone calls and numbers are not sold for test money: this gateway answers 503 to them', {
      gateway: row.name,
    })
  const meter = meters?.meterOf(row.name)
  const ports = {
    storage,
    objects,
    chain: telemetry?.chain(sound, row.name) ?? sound,
    vendors: offered,
    clock,
    log,
    random: randomBytes,
    countTokens,
    background: selling.background.start,
    ...(meter && { meter: telemetry?.meter(row.name, meter, selling.routes) ?? meter }),
  }
  const { workerId, signingKey } = selling
  return await orRefuse(`Gateway ${row.name}`, () =>
    gateway({
      ports,
      allowlists: selling.allowlists,
      controls: selling.control,
      ...(own.length > 0 && { endpoints: [...own, ...endpoints] }),
      ...(isDevnet && { freeToOrigin: isOwnPage(config.public_origin) }),
      ...gatewaySettings(config, row, { workerId, catalog: catalogOf(row, selling.fullCatalog), signingKey }),
    }),
  )
}

/** Wallets by allowlist. Without a list, all or no wallets are allowed, as the endpoint defines. */
const allowlistsOf = ({ generate_content_payers, background_payers }: Config) => ({
  ...(generate_content_payers && { generate_content: generate_content_payers }),
  ...(background_payers && { background: background_payers }),
})

function gatewaySettings(
  config: Config,
  row: GatewayConfig,
  { workerId, catalog, signingKey }: { workerId: string; catalog: Catalog; signingKey: Jwk | undefined },
) {
  return {
    name: row.name,
    label: row.label,
    version: VERSION,
    catalog,
    hidden: row.hidden,
    mpp: row.mpp,
    networks: row.paymentMethods.flatMap((paymentMethod) =>
      paymentMethod.kind === 'batched' ? paymentMethod.networks : [paymentMethod.network],
    ),
    unverifiable: row.paymentMethods.some((method) => familyOfMethod(method)?.retriesByPaying)
      ? (402 as const)
      : (503 as const),
    workerId,
    maxBody: config.max_body_bytes,
    maxUpload: config.max_upload_bytes,
    maxBodies: config.body_memory_bytes,
    // Otherwise dead bodies would stay in memory until there are many more of them; this takes 10 to 100 ms for each 32
    // MiB.
    onBodiesFreed: () => void setImmediate(() => Bun.gc(true)),
    unpaidCharacters: config.unpaid_characters_per_minute,
    bareV1: config.bare_v1,
    featureFlags: { referenceMedia: config.reference_media },
    timeouts: {
      workLeaseMs: config.lease_seconds * 1000,
      receiptMs: config.chat_receipt_seconds * 1000,
      submitMs: longestSubmit(config),
    },
    markup: markupOf(config.transaction_fee_usd, config.media_margin_percent),
    newWallet: { calls: config.new_wallet_calls, worth: roundUp(dollars(config.new_wallet_usdc)) },
    newWallets: newWalletsLimit({
      gateway: config.new_wallets_usdc,
      address: config.new_wallets_usdc_per_address,
      streamed: config.new_wallets_streamed_usdc,
    }),
    retention: config.retention,
    freeTier: [
      { requests: config.free_per_minute, windowMs: MINUTE_MS },
      { requests: config.free_per_hour, windowMs: 60 * MINUTE_MS },
    ],
    ...(config.inline_window_seconds !== undefined && { inlineMs: config.inline_window_seconds * 1000 }),
    ...(config.contact !== undefined && { contact: config.contact }),
    ...(config.operator_token !== undefined && { operatorToken: config.operator_token }),
    ...(config.poll_keys && { pollKeys: config.poll_keys }),
    ...(signingKey && { signer: offerSigner(signingKey) }),
  }
}

/** The models that a gateway sells. An unknown model in its list is a configuration error. */
function catalogOf({ name, catalog: named }: GatewayConfig, full: Catalog): Catalog {
  if (named === 'full') return full
  if (named === 'small') return narrowed(full, [...SMALL, ...smallOf(full)])
  const stray = named.find((id) => !hasModel(full, id))
  if (stray !== undefined) throw new StartError(`Gateway ${name}: catalog names ${stray}, which is not in the catalog`)
  return narrowed(full, named)
}

/** No vendor call may time out before its own limit. */
const longestSubmit = ({ videos }: Config): number =>
  Math.max(SUBMIT_TIMEOUT_MS, ...[...videos.servings.values()].map(({ timeoutMs }) => timeoutMs))
