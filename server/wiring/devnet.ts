/** The embedded default: a local chain of every kind, and a gateway on each. All of it is test money. */
import { cpSync, existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import type { DevnetLedgers } from '../../adapters/storage/manifest.ts'
import { storageManifest } from '../../adapters/storage/manifests.ts'
import { type Config, DEFAULT_DIR, DEVNET_DIR } from '../config/mod.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import { type BatchedStandIn, startBatchedApi } from '../devnet/batched_api.ts'
import { type Devnet, resetDevnet, startDevnet } from '../devnet/mod.ts'
import { type SolanaDevnet, startSolanaDevnet } from '../devnet/solana/mod.ts'
import type { Opening } from './vendors.ts'

export type LocalSystem = {
  readonly evm: Devnet
  /** Undefined when this machine has no program for it. */
  readonly solana: SolanaDevnet | undefined
  readonly batched: BatchedStandIn
  readonly gateways: readonly GatewayConfig[]
}

/**
 * Starts the local chains; `undo` stops them. The EVM chain is stored beside a SQLite ledger, the others start empty
 * each time.
 */
export async function startLocalSystem(config: Config, { log, clock, undo }: Opening): Promise<LocalSystem> {
  const say = (line: string) => log.info(line)
  const evm = await startEvm(config, { log, clock })
  undo.push(() => evm.stop())
  const solana = await startSolanaDevnet({ clock, log: say }).catch((error: Error) => {
    log.warn('no local Solana chain: its program does not run on this machine', { error: error.message })
    return undefined
  })
  undo.push(() => solana?.stop())
  const batched = startBatchedApi({ clock, network: evm.network, asset: evm.asset, stepMs: 5_000 })
  undo.push(() => batched.stop())
  batched.deposit(evm.buyer.address, DEPOSIT)
  return { evm, solana, batched, gateways: gatewaysOn(config, { evm, solana, batched }) }
}

/** The buyer's deposit in the batched gateway, in micro-USDC: ten thousand USDC. */
const DEPOSIT = 10_000_000_000n

/**
 * Starts the chain that belongs to the ledger. When it is behind the ledger, both are moved aside and begin anew,
 * because paid calls must stay paid. Throws when the ledger is not that of a devnet.
 */
async function startEvm({ database, devnetDir: dir }: Config, { log, clock }: Omit<Opening, 'undo'>): Promise<Devnet> {
  const say = (line: string) => log.info(line)
  const { capabilities, devnetLedgers, pathOf } = storageManifest(database)
  if (!capabilities.hasDevnet)
    throw new Error('the ledger of a devnet is a file or in memory: set DATABASE_URL to sqlite:PATH or memory:')
  if (!devnetLedgers || !pathOf) return await startDevnet({ dir, log: say })
  const [ledgers, path] = [await devnetLedgers(), pathOf(database)]
  if (existsSync(path)) ledgers.claim(path)
  const devnet = await startDevnet({ dir, log: say })
  if (!existsSync(path)) {
    await takeOverFormer({ ledgers, path, dir }, devnet.rpcUrl, log).catch(async (error) => {
      await devnet.stop()
      throw error
    })
    ledgers.claim(path)
  }
  const missing = ledgers.originOf(path)?.newestTransaction
  if (!dir || missing === undefined || (await isKnown(devnet.rpcUrl, missing))) return devnet
  await devnet.stop()
  const aside = `before-reset-${new Date(clock.now()).toISOString().replace(/[:.]/g, '-')}`
  await resetDevnet(dir, aside)
  ledgers.moveAside(path, `${path}.${aside}`)
  ledgers.claim(path)
  log.warn('the local chain is behind the ledger: both were moved aside, with all test money, and begin anew', {
    missing,
    ledger: `${path}.${aside}`,
  })
  return await startDevnet({ dir, log: say })
}

/** Where older versions kept the ledger and the media of a devnet: where a gateway that sells keeps its own. */
const FORMER = { ledger: join(DEFAULT_DIR, 'farebox.db'), media: join(DEFAULT_DIR, 'media') }
const DEVNET_GATEWAYS = ['devnet', 'solana', 'nano', 'testnet']

/**
 * Copies the ledger of a devnet from its former place, if all calls in it are of a devnet and its newest payment is on
 * this local chain. What is there stays as it is.
 */
async function takeOverFormer(
  { ledgers, path, dir }: { ledgers: DevnetLedgers; path: string; dir: string | undefined },
  rpcUrl: string,
  log: Opening['log'],
): Promise<void> {
  if (dir !== DEVNET_DIR || path !== join(DEVNET_DIR, 'farebox.db') || !existsSync(FORMER.ledger)) return
  const former = `sqlite:${FORMER.ledger}`
  const { backup, hold: holdOf } = storageManifest(former)
  const hold = holdOf?.(former)
  if (!hold) return
  try {
    const { gateways = [], newestTransaction } = ledgers.originOf(FORMER.ledger) ?? {}
    const isOurs = gateways.every((name) => DEVNET_GATEWAYS.includes(name))
    if (!isOurs || newestTransaction === undefined || !(await isKnown(rpcUrl, newestTransaction))) return
    const copy = `${path}.copy-${process.pid}`
    await backup(former, copy)
    ledgers.mark(copy)
    const media = join(DEVNET_DIR, 'media')
    if (existsSync(FORMER.media) && !existsSync(media)) cpSync(FORMER.media, media, { recursive: true })
    renameSync(copy, path)
    log.warn('the ledger of the devnet was copied to a folder of its own; the former files were left as they are', {
      from: FORMER.ledger,
      to: path,
    })
  } finally {
    hold.release()
  }
}

async function isKnown(rpcUrl: string, transaction: string): Promise<boolean> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getTransactionReceipt', params: [transaction] })
  const response = await fetch(rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  const { result } = (await response.json()) as { result: unknown }
  return result !== null && result !== undefined
}

/** One gateway per payment method, the plain one first; the others listen on the following ports. */
function gatewaysOn(
  { port }: Config,
  { evm, solana, batched }: Omit<LocalSystem, 'gateways'>,
): readonly GatewayConfig[] {
  const { network, asset, payTo, domain, rpcUrl, relayerKey } = evm
  const plain = {
    kind: 'evm',
    network,
    asset,
    payTo,
    domain,
    rpcUrl,
    schemes: ['exact', 'upto', 'batch-settlement'],
    // The local relayer's key: nobody else can use the money of this chain anyway.
    channels: { key: relayerKey, channelMinDeposit: 2_000_000, channelClaimAbove: 100_000, keys: true },
    settles: { by: 'relayer', keys: [relayerKey] },
  } as const
  const onSolana =
    solana &&
    ({
      kind: 'solana',
      network: solana.network,
      asset: solana.mint,
      payTo: solana.payTo,
      rpcUrl: solana.rpcUrl,
      settles: { by: 'fee_payer', keys: [solana.feePayerKey] },
    } as const)
  const inBatches = { kind: 'batched', url: batched.url, networks: [network], payTo } as const
  const behind = (steps: number): number => (port === 0 ? 0 : port + steps)
  const usual = { hosts: [], catalog: 'full', hidden: [], mpp: true, retired: false } as const
  return [
    { ...usual, name: 'devnet', label: 'base-sepolia', paymentMethods: [plain] },
    ...(onSolana
      ? [{ ...usual, name: 'solana', label: 'solana-devnet', port: behind(1), paymentMethods: [onSolana] }]
      : []),
    { ...usual, name: 'nano', label: 'base-sepolia', port: behind(2), paymentMethods: [plain, inBatches] },
    { ...usual, name: 'testnet', label: 'base-sepolia', port: behind(3), catalog: 'small', paymentMethods: [plain] },
  ]
}
