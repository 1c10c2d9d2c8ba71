/** The embedded default: a local chain of every kind, and a gateway on each. All of it is test money. */
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { newestReceipt } from '../../adapters/storage/newest_receipt.ts'
import type { Config } from '../config/mod.ts'
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
  const evm = await startEvm(config, log)
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
 * Resets the local chain and the ledger beside it when the chain is behind the ledger, because paid calls must stay
 * paid.
 */
async function startEvm({ database }: Config, log: Opening['log']): Promise<Devnet> {
  const say = (line: string) => log.info(line)
  if (database.kind !== 'sqlite') return await startDevnet({ log: say })
  const { path } = database
  const dir = join(dirname(path), 'devnet')
  const devnet = await startDevnet({ dir, log: say })
  const newest = newestReceipt(path)
  if (!newest || (await isKnown(devnet.rpcUrl, newest.transaction))) return devnet
  log.warn('the local chain is behind the ledger: both were reset, including all test money', {
    missing: newest.transaction,
  })
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
    channels: { key: relayerKey, minDeposit: 2_000_000, claimAbove: 100_000 },
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
  const usual = { hosts: [], catalog: 'full', hidden: [], retired: false } as const
  return [
    { ...usual, name: 'devnet', label: 'base-sepolia', paymentMethods: [plain] },
    ...(onSolana
      ? [{ ...usual, name: 'solana', label: 'solana-devnet', port: behind(1), paymentMethods: [onSolana] }]
      : []),
    { ...usual, name: 'nano', label: 'base-sepolia', port: behind(2), paymentMethods: [plain, inBatches] },
    { ...usual, name: 'testnet', label: 'base-sepolia', port: behind(3), catalog: 'small', paymentMethods: [plain] },
  ]
}
