/** Builds the ports of every gateway from the configuration. Only the files of this folder name concrete adapters. */
import { systemClock } from '../../adapters/local.ts'
import { diskObjects } from '../../adapters/objects/disk.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { s3FromUrl, s3Objects } from '../../adapters/objects/s3/mod.ts'
import type { OpenedStorage } from '../../adapters/storage/manifest.ts'
import { storageManifest } from '../../adapters/storage/manifests.ts'
import { type SharedClock, sharedClock } from '../../adapters/shared_clock.ts'
import { type Clock, type Objects, type Storage } from '../../core/mod.ts'
import { type Controls, controls } from '../../core/payment/mod.ts'
import type { Config } from '../config/mod.ts'
import type { ServerLog } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Account } from '../operator/accounts.ts'
import type { LowAccount } from '../signals/conditions.ts'
import type { TelemetryConfig } from '../signals/otel_config.ts'
import type { Tracing } from '../signals/tracing.ts'
import { type ChainKeys, storageProbe } from '../../core/ports/mod.ts'
import { type WatchedAccounts } from './chains.ts'
import type { LocalSystem } from './devnet.ts'
import { orRefuse, StartError } from '../start_error.ts'
import { backgroundWork } from './background.ts'
import { openGateways, type OpenGateway, VERSION } from './gateways.ts'

export type Wired = {
  readonly gateways: readonly OpenGateway[]
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
  /** API keys on each network that takes them. */
  apiKeys(): readonly ChainKeys[]
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
    apiKeys: () => accounts.flatMap(({ apiKeys }) => apiKeys ?? []),
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

/** Fails the calls whose work was lost with the last process, where this one is the only one. */
async function takeOver(gateways: readonly OpenGateway[], storage: Storage, log: ServerLog): Promise<void> {
  const first = gateways.find(({ config }) => !config.retired)
  const lost = storage.isShared ? 0 : ((await first?.gateway.takeOver()) ?? 0)
  if (lost > 0) log.warn('calls whose work was lost with the last process were failed, uncharged', { calls: lost })
}

/** Tells of payments in doubt that no gateway settles any more. */
async function tellOfRemoved(gateways: readonly OpenGateway[], storage: Storage, log: ServerLog): Promise<void> {
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
