/** Builds the ports of every gateway from the configuration. Only the files of this folder name concrete adapters. */
import { randomBytes, systemClock } from '../../adapters/local.ts'
import { offerSigner } from '../../adapters/offer_signer.ts'
import { diskObjects } from '../../adapters/objects/disk.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { s3FromUrl, s3Objects } from '../../adapters/objects/s3/mod.ts'
import { DatabaseError } from '../../adapters/storage/database_error.ts'
import type { OpenedStorage } from '../../adapters/storage/manifest.ts'
import { storageManifest } from '../../adapters/storage/manifests.ts'
import { limitVendors } from '../../adapters/http/vendor_slots.ts'
import { slotLimits } from '../request_pool.ts'
import { type SharedClock, sharedClock } from '../../adapters/shared_clock.ts'
import { textDigest } from '../../adapters/token_counter.ts'
import { SUBMIT_TIMEOUT_MS } from '../../adapters/providers/lib/video_provider.ts'
import {
  type Catalog,
  catalog,
  type Chain,
  type Clock,
  type Closed,
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
  type Storage,
  type Vendors,
} from '../../core/mod.ts'
import manifest from '../../package.json' with { type: 'json' }
import { type Controls, controls, newWalletsLimit } from '../../core/payment/mod.ts'
import type { Config } from '../config/mod.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import { isOwnPage } from '../http/cors.ts'
import type { ServerLog } from '../log.ts'
import { nodesOf } from '../config/rpc.ts'
import type { Metrics, Timed } from '../metrics.ts'
import type { Account } from '../operator/accounts.ts'
import type { LowAccount } from '../signals/conditions.ts'
import type { TelemetryConfig } from '../signals/otel_config.ts'
import type { Tracing } from '../signals/tracing.ts'
import { dollars, markupOf, roundUp } from '../../core/x402/mod.ts'
import { storageProbe } from '../../core/ports/mod.ts'
import { StartError } from '../start_error.ts'
import { chains, type WatchedAccounts } from './chains.ts'
import type { LocalSystem } from './devnet.ts'
import { devnetSigningKey } from '../config/keys/signing_key.ts'
import { affordable, tellWhyNoDeposits } from './services.ts'
import { ownProducts, ownProtocols } from './own_files.ts'
import { tokenThread } from './token_thread.ts'
import { untimed, vendorsOf } from './vendors.ts'

export const VERSION = manifest.version

export type Wired = {
  readonly gateways: readonly { readonly gateway: Gateway; readonly config: GatewayConfig }[]
  readonly storage: Storage
  readonly objects: Objects
  /** Where old ledger rows are moved; undefined where they are not. */
  readonly archive: Objects | undefined
  readonly clock: Clock
  readonly controls: Controls
  readonly workerId: string
  /** Accounts that pay for settlements and run low. */
  lowAccounts(): readonly LowAccount[]
  /** All accounts that pay for settlements. */
  accounts(): readonly Account[]
  /** Why the clock of this machine cannot be trusted. */
  clockTrouble(): string | undefined
  readonly devnet: LocalSystem | undefined
  /** Present when an operator's token allows access to them. */
  readonly metrics: Metrics | undefined
  /** Present where a collector is configured. */
  readonly tracing: Tracing | undefined
  /** Waits at most `ms` for background work. Resolves with the number of unfinished pieces. */
  drain(ms: number): Promise<number>
  close(): Promise<void>
}

/** Builds everything that the configuration names. Throws StartError, with nothing left running. */
export async function wire(config: Config, log: ServerLog): Promise<Wired> {
  const undo: (() => unknown)[] = []
  const close = async () => {
    for (const step of undo.splice(0).reverse()) await step()
  }
  try {
    return { ...(await build(config, log, undo)), close }
  } catch (error) {
    await close()
    throw error
  }
}

async function build(config: Config, log: ServerLog, undo: (() => unknown)[]): Promise<Omit<Wired, 'close'>> {
  await holdDatabase(config, undo)
  const isDevnet = config.gateways.length === 0
  const devnet = isDevnet
    ? await orRefuse('The devnet cannot start', async () => {
        const { startLocalSystem } = await import('./devnet.ts')
        return await startLocalSystem(config, { log, clock: systemClock, undo })
      })
    : undefined
  const { storage, shared } = await openDatabase(config, { isDevnet, log, undo })
  const clock = shared ?? systemClock
  const control = controls({ storage, clock })
  // Before anything is sold: a blocked wallet stays blocked over a restart.
  await orRefuse('DATABASE_URL', () => control.refresh())
  undo.push(refreshing(control, clock))

  const objects = await orRefuse('OBJECT_STORE', () => openObjects(config.objects))
  const archived = config.archive
  const archive = archived && (await orRefuse('RETENTION_ARCHIVE_STORE', () => openObjects(archived)))
  const workerId = crypto.randomUUID()
  const background = backgroundWork(log, clock)
  const meters =
    config.operator_token === undefined && !config.telemetry
      ? undefined
      : (await import('../metrics.ts')).metrics({ version: VERSION, clock })
  const telemetry = config.telemetry && (await openTelemetry(config.telemetry, { log, clock, undo, meters, workerId }))
  const accounts: WatchedAccounts[] = []
  const machine = { storage, shared, objects, clock, log, undo, workerId, control, background, meters, telemetry }
  const gateways = await openGateways(config, devnet, {
    ...machine,
    watchAccounts: (added) => void accounts.push(added),
  })
  await takeOver(gateways, storage, log)
  await tellOfRemoved(gateways, storage, log)
  meters?.watch({
    backgroundWork: background.count,
    relayerLeases: () => accounts.flatMap(({ leases }) => leases()),
    unresolved: () => unresolvedPayments(storage, clock),
    isStorageReachable: storageProbe(storage, clock),
    clockSkew: () => shared?.skew(),
  })
  return {
    gateways,
    storage,
    objects,
    archive,
    clock,
    controls: control,
    workerId,
    accounts: () => accounts.flatMap(({ all }) => all()),
    lowAccounts: () => accounts.flatMap(({ low }) => low()),
    clockTrouble: () => shared?.trouble(),
    devnet,
    metrics: meters,
    tracing: telemetry,
    drain: background.drain,
  }
}

/** Keeps other processes from a database that serves one. Throws StartError where another one has it. */
async function holdDatabase(config: Config, undo: (() => unknown)[]): Promise<void> {
  const { hold, name, pathOf } = storageManifest(config.database)
  if (!hold) return
  const lock = await orRefuse('DATABASE_URL', () => hold(config.database))
  if (!lock)
    throw new StartError(
      `Another Farebox is running on ${pathOf?.(config.database)}. ${name} serves one process: stop the other one, or set DATABASE_URL.`,
    )
  undo.push(() => lock.release())
}

/** The storage, and the clock of its database where it has one. */
async function openDatabase(
  config: Config,
  { isDevnet, log, undo }: { readonly isDevnet: boolean; readonly log: ServerLog; readonly undo: (() => unknown)[] },
): Promise<{ readonly storage: OpenedStorage; readonly shared: SharedClock | undefined }> {
  const storage = await orRefuse('DATABASE_URL', () => openStorage(config, isDevnet))
  undo.push(() => storage.close())
  const { now: askTime } = storage
  const leaseMs = config.lease_seconds * 1000
  const shared = askTime && (await orRefuse('DATABASE_URL', () => databaseClock(askTime, { log, undo, leaseMs })))
  return { storage, shared }
}

type BackgroundWork = {
  start(work: Promise<unknown>): void
  /** How much is unfinished. */
  count(): number
  /** Waits at most `ms`. Resolves with the number of unfinished pieces. */
  drain(ms: number): Promise<number>
}

function backgroundWork(log: ServerLog, clock: Clock): BackgroundWork {
  const pending = new Set<Promise<unknown>>()
  return {
    start(work) {
      pending.add(work)
      // The storage observer has reported the outage, so each piece of work does not report it again.
      const tell = (error: Error) =>
        error instanceof DatabaseError
          ? log.warn('background work failed because of a storage error', { error: error.message })
          : log.alert('background work failed', { error: error.stack })
      work.catch(tell).finally(() => pending.delete(work))
    },
    count: () => pending.size,
    async drain(ms) {
      const stop = new AbortController()
      const timeout = clock.wait(ms, stop.signal)
      while (pending.size > 0) {
        const isOver = await Promise.race([Promise.allSettled(pending).then(() => false), timeout.then(() => true)])
        if (isOver) break
      }
      stop.abort()
      return pending.size
    },
  }
}

/** What all gateways of a process share. */
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

async function openGateways(
  config: Config,
  devnet: LocalSystem | undefined,
  machine: Machine,
): Promise<Wired['gateways']> {
  const { storage, clock, log, undo, workerId, meters, telemetry, watchAccounts } = machine
  const isDevnet = devnet !== undefined
  const counting = tokenThread()
  undo.push(counting.close)
  const countTokens = memoized(counting.countTokens, { digest: textDigest })
  const metered = meters?.timed ?? untimed
  const timed: Timed = telemetry ? (name, vendor) => telemetry.timed(name, metered(name, vendor)) : metered
  const opening = { log, clock, undo, timed, isDevnet }
  const rows = devnet ? devnet.gateways : config.gateways
  const own = await ownProducts(config)
  const vendors = vendorsOf(config, {
    slots: limitVendors(clock, slotLimits(process.env, config.vendor_requests)),
    ...opening,
    own: await ownProtocols(config),
    countTokens,
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
  const gateways: Wired['gateways'][number][] = []
  for (const row of rows) gateways.push({ gateway: await openGateway(config, row, selling), config: row })
  return gateways
}

const buyersOf = ({ evm, solana }: LocalSystem): readonly string[] => [
  evm.buyer.address,
  ...(solana ? [solana.buyer.address] : []),
]

/** What gateways are opened with. */
type Selling = Machine & {
  readonly isDevnet: boolean
  readonly vendors: Vendors
  countTokens(text: string): Promise<number>
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

/** Fails the calls whose work was lost with the last process, where this one is the only one. */
async function takeOver(gateways: Wired['gateways'], storage: Storage, log: ServerLog): Promise<void> {
  const first = gateways.find(({ config }) => !config.retired)
  const lost = storage.isShared ? 0 : ((await first?.gateway.takeOver()) ?? 0)
  if (lost > 0) log.warn('calls whose work was lost with the last process were failed, uncharged', { calls: lost })
}

/** Tells of payments in doubt that no gateway settles any more. */
async function tellOfRemoved(gateways: Wired['gateways'], storage: Storage, log: ServerLog): Promise<void> {
  const served = new Set(gateways.flatMap(({ config }) => (config.retired ? [] : [config.name])))
  const left = (await storage.unsettled(Number.MAX_SAFE_INTEGER, 100)).filter(({ gateway }) => !served.has(gateway))
  if (left.length > 0)
    log.alert(
      'payments of removed gateways are in doubt; configure these gateways again until no payment is in doubt',
      {
        gateways: [...new Set(left.map(({ gateway }) => gateway))],
        calls: left.map(({ id }) => id),
      },
    )
}

/** How many payments have no known outcome, by gateway; counted up to a bound. */
async function unresolvedPayments(storage: Storage, clock: Clock): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = {}
  for (const { gateway } of await storage.unsettled(clock.now(), MAX_COUNTED))
    counts[gateway] = (counts[gateway] ?? 0) + 1
  return counts
}

/** Loaded only where a collector is configured. */
async function openTelemetry(
  config: TelemetryConfig,
  {
    log,
    clock,
    undo,
    meters,
    workerId,
  }: { log: ServerLog; clock: Clock; undo: (() => unknown)[]; meters: Metrics | undefined; workerId: string },
): Promise<Tracing> {
  const [{ exporter }, { tracing }, { otlpMetrics }] = await Promise.all([
    import('../signals/otlp.ts'),
    import('../signals/tracing.ts'),
    import('../signals/otlp_metrics.ts'),
  ])
  const startMs = clock.now()
  const made = exporter({
    ...config,
    version: VERSION,
    instance: workerId,
    clock,
    log,
    ...(meters && { metrics: () => otlpMetrics(meters, { startMs, nowMs: clock.now() }) }),
  })
  undo.push(made.close)
  return tracing({ ...config, exporter: made, clock })
}

const MAX_COUNTED = 1_000
const CONTROLS_EVERY_MS = 2_000

/** Reads the operator's controls every few seconds. While storage is away, those that were read last hold. */
function refreshing(control: Controls, clock: Clock): () => void {
  const stop = new AbortController()
  void (async () => {
    while (!stop.signal.aborted) {
      await clock.wait(CONTROLS_EVERY_MS, stop.signal)
      if (!stop.signal.aborted) await control.refresh().catch(() => {})
    }
  })()
  return () => stop.abort()
}

const MINUTE_MS = 60_000

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
    networks: row.paymentMethods.flatMap((paymentMethod) =>
      paymentMethod.kind === 'batched' ? paymentMethod.networks : [paymentMethod.network],
    ),
    // Contract 1.27: the Solana gateway reports in its 402 that the payment could not be verified.
    unverifiable: row.paymentMethods.some(({ kind }) => kind === 'solana') ? (402 as const) : (503 as const),
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

/** The database time, measured several times per lease. When the first measurement fails, it is soon repeated. */
async function databaseClock(
  ask: () => Promise<number>,
  { log, undo, leaseMs }: { log: ServerLog; undo: (() => unknown)[]; leaseMs: number },
): Promise<SharedClock> {
  const clock = sharedClock({
    localClock: systemClock,
    monotonic: () => performance.now(),
    readDatabaseTime: ask,
    log,
    leaseMs,
  })
  const stop = new AbortController()
  undo.push(() => stop.abort())
  // The first measurement includes the connection, the second does not.
  await clock.measure()
  await clock.measure()
  void (async () => {
    while (!stop.signal.aborted) {
      await systemClock.wait(Math.min(5_000, leaseMs / 6), stop.signal)
      if (!stop.signal.aborted) await clock.measure().catch(() => {})
    }
  })()
  return clock
}

type Reason = () => string | undefined
type Troubles = {
  /** Why the clock cannot be trusted. */
  readonly trouble?: Reason | undefined
  /** Why the database is of a version that this one cannot use. */
  readonly refusal?: Reason | undefined
  /** Why the file of the database can be used no more. */
  readonly failure?: Reason | undefined
}

/**
 * The same chain, which sells nothing while the clock cannot be trusted, or once the database cannot be used. Earlier
 * sales are settled all the same where they can be.
 */
export function timely(chain: Chain, { trouble, refusal, failure }: Troubles): Chain {
  const causes = [
    ['storage', failure],
    ['newer_schema', refusal],
    ['clock', trouble],
  ] as const
  function closed(): Closed | undefined {
    for (const [code, find] of causes) {
      const reason = find?.()
      if (reason !== undefined) return { code, reason }
    }
    return undefined
  }
  return {
    ...chain,
    terms: (now) => (closed() === undefined ? chain.terms(now) : []),
    closed: (now) => closed() ?? chain.closed?.(now),
  }
}

/** A remote database must answer before anything is sold. The ledger of a devnet serves no gateway that sells. */
async function openStorage({ database, database_check_mb }: Config, isDevnet: boolean): Promise<OpenedStorage> {
  const { devnetLedgers, open, pathOf } = storageManifest(database)
  const path = pathOf?.(database)
  if (!isDevnet && path !== undefined && (await devnetLedgers?.())?.isMarked(path))
    throw new StartError(
      `DATABASE_URL: ${path} is the ledger of a devnet, whose wallets paid with test money. Name another file.`,
    )
  return await open(database, { checkUpTo: database_check_mb * 1_000_000 })
}

/** Opens the object store and writes to it once; otherwise the first buyer would discover that it is read-only. */
async function openObjects(objects: Config['objects']): Promise<Objects> {
  const store = objectsOf(objects)
  await store.put('start/probe', new Uint8Array([0]), 'application/octet-stream')
  return store
}

export function objectsOf(objects: Config['objects']): Objects {
  if (objects.kind === 'memory') return memoryObjects()
  return objects.kind === 'file' ? diskObjects(objects.dir) : s3Objects(s3FromUrl(objects.url, objects.env))
}

/** Runs a step of the start. Its error becomes one line for the operator that names the setting. */
async function orRefuse<T>(setting: string, step: () => T | Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`${setting}: ${(error as Error).message}`)
  }
}
