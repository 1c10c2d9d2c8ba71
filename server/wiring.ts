/** From configuration to ports, per gateway. Nothing but this and `wiring_vendors.ts` names concrete adapters. */
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type EvmChain, evmChain } from '../adapters/chains/evm.ts'
import { facilitatorChain } from '../adapters/chains/facilitator.ts'
import { type LeasedChain, leasedChain } from '../adapters/chains/leased.ts'
import { randomBytes, systemClock } from '../adapters/machine.ts'
import { diskObjects } from '../adapters/objects/disk.ts'
import { memoryObjects } from '../adapters/objects/memory.ts'
import { s3FromUrl, s3Objects } from '../adapters/objects/s3.ts'
import { memoryStorage } from '../adapters/storage/memory.ts'
import { newestReceipt } from '../adapters/storage/newest_receipt.ts'
import { postgresStorage } from '../adapters/storage/postgres.ts'
import { holdAlone, sqliteStorage } from '../adapters/storage/sqlite.ts'
import { countTokens, warmTokenizer } from '../adapters/tokens.ts'
import { SUBMIT_TIMEOUT_MS } from '../adapters/vendors/mod.ts'
import { privateKeyToAddress } from 'viem/accounts'
import {
  type Catalog,
  catalog,
  type Chain,
  type Clock,
  type Gateway,
  gateway,
  memoized,
  type Objects,
  type Storage,
} from '../core/mod.ts'
import manifest from '../package.json' with { type: 'json' }
import type { Config } from './config.ts'
import type { GatewayConfig } from './config_gateways.ts'
import { type Devnet, resetDevnet, startDevnet } from './devnet/devnet.ts'
import type { ServerLog } from './log.ts'
import { type Metrics, metrics } from './metrics.ts'
import { type Opening, untimed, vendorsOf } from './wiring_vendors.ts'

export const VERSION = manifest.version

export type Wired = {
  readonly gateways: readonly { readonly gateway: Gateway; readonly hosts: readonly string[]; readonly config: GatewayConfig }[]
  readonly storage: Storage
  readonly clock: Clock
  readonly owner: string
  readonly devnet: Devnet | undefined
  /** Where somebody may read them: with an operator's token. */
  readonly metrics: Metrics | undefined
  /** Waits for work that no request waits for, at most `ms`. Resolves with how many pieces were left. */
  drain(ms: number): Promise<number>
  close(): Promise<void>
}

/** A reason not to start that the operator can do something about: printed as it is, without a stack. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

/** Builds everything that the configuration names. Throws StartError; then nothing is left running. */
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
  if (config.database.kind === 'sqlite') {
    const { path } = config.database
    const hold = await orRefuse('DATABASE_URL', () => holdAlone(path))
    if (!hold) throw new StartError(`Another Farebox is running on ${path}. SQLite serves one process: stop the other one, or set DATABASE_URL.`)
    undo.push(() => hold.release())
  }
  const isDevnet = config.gateways.length === 0
  const devnet = isDevnet ? await orRefuse('The local chain', () => startLocalChain(config, log)) : undefined
  if (devnet) undo.push(() => devnet.stop())
  const storage = await orRefuse('DATABASE_URL', () => openStorage(config))
  undo.push(() => storage.close())

  const objects = await orRefuse('OBJECT_STORE', () => openObjects(config))
  const clock = systemClock
  const owner = crypto.randomUUID()
  const pending = new Set<Promise<unknown>>()
  const counted = memoized(countTokens)
  const meters = config.operatorToken === undefined ? undefined : metrics({ version: VERSION, clock })
  const opening = { log, clock, undo, timed: meters?.timed ?? untimed }
  const vendors = vendorsOf(config, { ...opening, isDevnet, countTokens: counted })
  if (config.environmentVendors.length > 0) log.info('vendors were found in the environment', { vendors: config.environmentVendors })
  const shelf = catalog({ images: config.images.rows, chat: config.chat.rows, video: config.videos.rows, audio: config.audio.rows })
  const rows = devnet ? [devnetGateway(devnet)] : config.gateways
  const gateways = []
  for (const row of rows) {
    // Where there is one process only, the next one may take its key at once.
    const chain = chainOf(row, { isDevnet, storage, owner: config.database.kind === 'postgres' ? owner : 'process', leaseMs: config.leaseMs })
    undo.push(() => chain.close())
    await openChain(row, chain, { log, clock, undo })
    await keepKey(row, chain, { log, clock, undo, leaseMs: config.leaseMs })
    const ports = { storage, objects, chain, vendors, clock, log, random: randomBytes, countTokens: counted, background, ...(meters && { meter: meters.meterOf(row.name) }) }
    const guests = devnet ? { generate_content: [devnet.buyer.address], ...config.guests } : config.guests
    gateways.push({ gateway: gateway({ ports, guests, ...gatewaySettings(config, row, { owner, shelf }) }), hosts: row.hosts, config: row })
  }
  for (const { gateway } of gateways.slice(0, 1)) {
    const lost = config.database.kind === 'sqlite' ? await gateway.takeOver() : 0
    if (lost > 0) log.warn('calls whose work was lost with the last process were failed, uncharged', { calls: lost })
  }
  // Loading it takes a third of a second, which the first buyer should not wait.
  const isCounted = shelf.chat.all.some((row) => row.billing.mode === 'paid' && vendors.chat(row) !== undefined)
  if (isCounted) warmTokenizer().catch((error: Error) => log.warn('the tokenizer could not be loaded', { error: error.message }))
  return { gateways, storage, clock, owner, devnet, metrics: meters, drain }

  function background(work: Promise<unknown>): void {
    pending.add(work)
    work.catch((error: Error) => log.alert('background work failed', { error: error.stack })).finally(() => pending.delete(work))
  }

  async function drain(ms: number): Promise<number> {
    const stop = new AbortController()
    const timeout = clock.wait(ms, stop.signal)
    while (pending.size > 0) {
      const isOver = await Promise.race([Promise.allSettled(pending).then(() => false), timeout.then(() => true)])
      if (isOver) break
    }
    stop.abort()
    return pending.size
  }
}

const MINUTE_MS = 60_000

function gatewaySettings(config: Config, row: GatewayConfig, { owner, shelf }: { owner: string; shelf: Catalog }) {
  return {
    name: row.name,
    label: row.label,
    version: VERSION,
    catalog: shelf,
    owner,
    maxBody: config.maxBody,
    maxUpload: config.maxUpload,
    bareV1: config.bareV1,
    switches: config.switches,
    patience: { workLeaseMs: config.leaseMs, receiptMs: config.receiptMs, submitMs: longestSubmit(config) },
    freeTier: [
      { requests: config.freePerMinute, windowMs: MINUTE_MS },
      { requests: config.freePerHour, windowMs: 60 * MINUTE_MS },
    ],
    ...(config.inlineMs !== undefined && { inlineMs: config.inlineMs }),
    ...(config.operatorToken !== undefined && { operatorToken: config.operatorToken }),
    ...(config.pollKeys && { pollKeys: config.pollKeys }),
  }
}

/** No vendor is given up before its own time is over. */
const longestSubmit = ({ videos }: Config): number => Math.max(SUBMIT_TIMEOUT_MS, ...[...videos.servings.values()].map(({ timeoutMs }) => timeoutMs))

/** A database on another machine must answer before anything is sold. */
async function openStorage({ database }: Config): Promise<Storage> {
  if (database.kind === 'memory') return memoryStorage()
  if (database.kind === 'sqlite') return sqliteStorage(database.path)
  const storage = postgresStorage(database.url)
  await storage.ready().catch(async (error: Error) => {
    await storage.close()
    throw error
  })
  return storage
}

/** Opens the store and writes to it once: one that cannot be written to would be found out by the first buyer. */
async function openObjects({ objects }: Config): Promise<Objects> {
  const store = objectsOf(objects)
  await store.put('start/probe', new Uint8Array([0]), 'application/octet-stream')
  return store
}

function objectsOf(objects: Config['objects']): Objects {
  if (objects.kind === 'memory') return memoryObjects()
  return objects.kind === 'file' ? diskObjects(objects.dir) : s3Objects(s3FromUrl(objects.url, objects.env))
}

/** Runs a step of the start; what fails is the operator's to mend, so it is said in one line that names the setting. */
async function orRefuse<T>(setting: string, step: () => T | Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`${setting}: ${(error as Error).message}`)
  }
}

/** The local chain, and the ledger beside it. Where the chain is behind the ledger, both begin anew: paid must stay paid. */
async function startLocalChain({ database }: Config, log: ServerLog): Promise<Devnet> {
  const say = (line: string) => log.info(line)
  if (database.kind !== 'sqlite') return await startDevnet({ log: say })
  const { path } = database
  const dir = join(dirname(path), 'devnet')
  const devnet = await startDevnet({ dir, log: say })
  const newest = newestReceipt(path)
  if (!newest || (await isKnown(devnet.rpcUrl, newest.transaction))) return devnet
  log.warn('the local chain is behind the ledger: both were reset, and all play money with them', { missing: newest.transaction })
  await devnet.stop()
  await resetDevnet(dir)
  for (const end of ['', '-wal', '-shm']) await rm(path + end, { force: true })
  return await startDevnet({ dir, log: say })
}

async function isKnown(rpcUrl: string, transaction: string): Promise<boolean> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getTransactionReceipt', params: [transaction] })
  const response = await fetch(rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  const { result } = (await response.json()) as { result: unknown }
  return result !== null && result !== undefined
}

function devnetGateway(devnet: Devnet): GatewayConfig {
  const { network, asset, payTo, domain, rpcUrl, relayerKey } = devnet
  return { name: 'devnet', label: 'base-sepolia', hosts: [], network, asset, payTo, domain, rpcUrl, settles: { by: 'relayer', keys: [relayerKey] } }
}

/** What wiring asks of a chain beside the port. */
type ServedChain = Chain & Pick<EvmChain, 'close'> & { check(at: { now: number }): ReturnType<EvmChain['check']> } & Partial<Pick<LeasedChain, 'renew' | 'release'>>

type Chaining = { readonly isDevnet: boolean; readonly storage: Storage; readonly owner: string; readonly leaseMs: number }

/** A process says that it lives this many times per lease. */
export const RENEWALS = 6

/** Whoever settles, the chain is read by our own node. What only an adapter can judge, a URL or a key, is the operator's to mend. */
function chainOf({ name, network, rpcUrl, asset, payTo, domain, settles }: GatewayConfig, { isDevnet, storage, owner, leaseMs }: Chaining): ServedChain {
  // An idle local chain makes no blocks, so the clock of its latest one is minutes behind. And anvil never mines a transaction that
  // comes while the one before it is being mined: one at a time, each for up to fifty payments, is as fast.
  const row = { network, rpcUrl, asset, payTo, domain, ...(isDevnet && { readAt: 'pending' as const, maxInFlight: 1 }) }
  try {
    if (settles.by === 'facilitators') return facilitatorChain({ ...row, facilitators: settles.rows, random: randomBytes })
    return leasedChain({
      keys: settles.keys.map((key) => ({ name: `relayer:${network}:${privateKeyToAddress(key as `0x${string}`)}`, key })),
      build: (relayerKey) => evmChain({ ...row, relayerKey }),
      take: (key, at) => storage.lease(key, owner, at),
      leaseMs,
    })
  } catch (error) {
    throw new StartError(`Gateway ${name}: ${(error as Error).message}`)
  }
}

/** Keeps hold of a relayer key while the process lives, and tries for a free one while it has none. */
async function keepKey(row: GatewayConfig, chain: ServedChain, { log, clock, undo, leaseMs }: Opening & { readonly leaseMs: number }): Promise<void> {
  if (!chain.renew) return
  const stop = new AbortController()
  undo.push(async () => {
    stop.abort()
    await chain.release?.(clock.now())
  })
  let hasKey = true
  const renew = async () => {
    const has = await chain.renew?.(clock.now()).catch(() => false)
    if (has !== hasKey) log.warn(has ? 'a relayer key is held; the gateway is open' : 'no relayer key is free; the gateway answers 503 until one is', { gateway: row.name })
    hasKey = has ?? false
  }
  await renew()
  void (async () => {
    while (!stop.signal.aborted) {
      await clock.wait(leaseMs / RENEWALS, stop.signal)
      if (!stop.signal.aborted) await renew()
    }
  })()
}

/** Checks a chain before its offers open. A misconfiguration stops the start; a node that is away is asked again until it answers. */
async function openChain(row: GatewayConfig, chain: ServedChain, { log, clock, undo }: Opening): Promise<void> {
  const first = await chain.check({ now: clock.now() })
  if (first.kind === 'wrong') throw new StartError(`Gateway ${row.name} does not fit its chain:\n${first.problems.map((problem) => `  - ${problem}`).join('\n')}`)
  if (first.kind === 'ready') {
    for (const warning of first.warnings) log.warn(warning, { gateway: row.name })
    return
  }
  log.warn('a chain cannot be asked yet; its gateway answers 503 until it can', { gateway: row.name, reason: first.reason })
  const stop = new AbortController()
  undo.push(() => stop.abort())
  void retry()

  async function retry(): Promise<void> {
    for (;;) {
      await clock.wait(5_000, stop.signal)
      if (stop.signal.aborted) return
      const again = await chain.check({ now: clock.now() })
      if (again.kind === 'ready') return log.info('the chain answers; the gateway is open', { gateway: row.name })
      if (again.kind === 'wrong') log.alert('a gateway does not fit its chain and stays closed', { gateway: row.name, problems: again.problems })
    }
  }
}
