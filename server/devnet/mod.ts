/**
 * The EVM devnet: a local chain with the chain id, asset and signing domain of Base Sepolia, so that public x402
 * clients work with it unchanged. It has a relayer with gas and a funded buyer. All of it is test money, which anyone
 * may mint.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { encodeFunctionData, parseAbi, parseEther, toHex, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import {
  BATCH_SETTLEMENT,
  ERC3009_COLLECTOR,
  PERMIT2,
  PERMIT2_COLLECTOR,
  UPTO_PROXY,
} from '../../adapters/chains/evm/node/x402_contracts.ts'
import { CHAIN_ID, holderOf, replaceFile, rpc, startAnvil, type Anvil, type Exit } from './anvil.ts'
import contracts from './contracts.json' with { type: 'json' }

export const DEVNET_NETWORK = `eip155:${CHAIN_ID}` as const
/** Circle's USDC on Base Sepolia. Public clients reject any other asset on this chain id. */
export const DEVNET_ASSET = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
/** The address of Multicall3 on every public chain. */
export const DEVNET_MULTICALL = '0xcA11bde05977b3631167028862bE2a173976CA11'
/** Every contract of the local chain: its address, and the code that is placed there. The token is the first. */
export const CONTRACTS = [
  [DEVNET_ASSET, contracts.TestUsdc.runtime],
  [DEVNET_MULTICALL, contracts.Multicall.runtime],
  [PERMIT2, contracts.Permit2.runtime],
  [UPTO_PROXY, contracts.UptoPermit2Proxy.runtime],
  [BATCH_SETTLEMENT, contracts.BatchSettlement.runtime],
  [ERC3009_COLLECTOR, contracts.ERC3009DepositCollector.runtime],
  [PERMIT2_COLLECTOR, contracts.Permit2DepositCollector.runtime],
] as const
/** Initial funds of the buyer in micro-USDC: one million USDC. */
export const BUYER_FUNDS = 1_000_000_000_000n

export type Devnet = {
  readonly network: typeof DEVNET_NETWORK
  readonly chainId: number
  /** Has another port at each start, unless one was configured. */
  readonly rpcUrl: string
  readonly asset: Hex
  readonly domain: { readonly name: 'USDC'; readonly version: '2' }
  readonly payTo: Hex
  readonly relayerKey: Hex
  readonly buyer: { readonly address: Hex; readonly privateKey: Hex }
  /** The chain is new: a ledger with payments of an older chain must be reset too. */
  readonly isFresh: boolean
  /** Resolves when the node has ended. If `isExpected` is false it crashed, and no payment is possible. */
  readonly exited: Promise<Exit>
  stop(): Promise<void>
}

type DevnetOptions = {
  /** Directory for keys and chain. Without it nothing is saved. */
  readonly dir?: string | undefined
  readonly port?: number
  readonly log?: ((line: string) => void) | undefined
}

type Keys = { relayerKey: Hex; buyerKey: Hex; sellerKey: Hex }

const ABI = parseAbi(['function mint(address to, uint256 value)'])
const RELAYER_GAS = parseEther('1000')
/** For the buyer's own transactions, such as cancel and approve. Paying needs no gas. */
const BUYER_GAS = parseEther('1')
/** Beyond this, each block takes tens of milliseconds and the node over 500 MB. */
const MANY_BLOCKS = 50_000

/**
 * Starts the chain saved in `dir`, or a new one, and installs the contracts and funds that are missing. A state file
 * that the node cannot read is renamed to `chain.json.broken` and logged, and a new chain is started (`isFresh`).
 */
export async function startDevnet({ dir, port = 0, log = () => {} }: DevnetOptions = {}): Promise<Devnet> {
  const { keys, areNew } = await loadKeys(dir)
  const node = await startOrReplace({ statePath: dir && statePathOf(dir), port, log })
  try {
    const buyer = privateKeyToAccount(keys.buyerKey)
    const isFresh = await install(node.url)
    await fund(node.url, privateKeyToAccount(keys.relayerKey).address, RELAYER_GAS)
    if (isFresh || areNew) {
      await fund(node.url, buyer.address, BUYER_GAS)
      await mintTo(node.url, keys.buyerKey)
      await node.save()
    }
    const blocks = Number(await rpc(node.url, 'eth_blockNumber', []))
    if (blocks > MANY_BLOCKS)
      log(`the local chain has ${blocks} blocks and becomes slow; reset the devnet to start a new chain`)
    return {
      network: DEVNET_NETWORK,
      chainId: CHAIN_ID,
      rpcUrl: node.url,
      asset: DEVNET_ASSET,
      domain: { name: 'USDC', version: '2' },
      payTo: privateKeyToAccount(keys.sellerKey).address,
      relayerKey: keys.relayerKey,
      buyer: { address: buyer.address, privateKey: keys.buyerKey },
      isFresh,
      exited: node.exited,
      stop: node.stop,
    }
  } catch (error) {
    await node.stop()
    throw error
  }
}

/**
 * Moves the chain saved in `dir` aside, but not the keys, so a configured buyer stays valid. The caller must move the
 * ledger aside too, because every nonce is unused again. Throws while a node uses the chain.
 *
 * @param aside what is added to the names of its files
 */
export async function resetDevnet(dir: string, aside = `before-reset-${Date.now()}`): Promise<void> {
  const state = statePathOf(dir)
  const holder = holderOf(state)
  if (holder)
    throw new Error(`the local chain in ${dir} is in use by process ${holder.owner}; stop it before the reset`)
  if (existsSync(`${state}.${aside}`)) throw new Error(`${state}.${aside} exists; move it away first`)
  if (existsSync(state)) await rename(state, `${state}.${aside}`)
  // A dump that did not end, and the lock of a process that is gone.
  await Promise.all(['.next', '.tmp', '.pid'].map((end) => rm(state + end, { force: true })))
}

function statePathOf(dir: string): string {
  return join(dir, 'chain.json')
}

/**
 * Random keys, saved in `dir/devnet.json` (mode 0600). Well-known test keys would be dangerous: somebody may import the
 * buyer's key into a real wallet, and bots empty known keys on public chains within seconds.
 */
async function loadKeys(dir: string | undefined): Promise<{ keys: Keys; areNew: boolean }> {
  const path = dir && join(dir, 'devnet.json')
  if (path && existsSync(path)) return { keys: parseKeys(path, await readFile(path, 'utf8')), areNew: false }
  const keys: Keys = { relayerKey: randomKey(), buyerKey: randomKey(), sellerKey: randomKey() }
  if (dir && path) {
    await mkdir(dir, { recursive: true, mode: 0o700 })
    await replaceFile(
      path,
      `${JSON.stringify({ about: 'keys of the local chain: test money, worthless elsewhere', ...keys }, null, 2)}\n`,
    )
  }
  return { keys, areNew: true }
}

function parseKeys(path: string, text: string): Keys {
  try {
    const keys = JSON.parse(text) as Record<keyof Keys, unknown>
    const [relayerKey, buyerKey, sellerKey] = [keys.relayerKey, keys.buyerKey, keys.sellerKey].map(asKey)
    if (relayerKey && buyerKey && sellerKey) return { relayerKey, buyerKey, sellerKey }
  } catch {
    // Invalid JSON is reported like missing keys.
  }
  throw new Error(
    `${path} does not contain the local chain's three keys; move it away to get new ones (and lose the old test money)`,
  )
}

function asKey(value: unknown): Hex | undefined {
  return typeof value === 'string' && /^0x[0-9a-f]{64}$/i.test(value) ? (value as Hex) : undefined
}

function randomKey(): Hex {
  return `0x${randomBytes(32).toString('hex')}`
}

/** Starts without the state file if it fails with it. If that fails too, the file was not the cause and is restored. */
async function startOrReplace(options: {
  statePath: string | undefined
  port: number
  log: (line: string) => void
}): Promise<Anvil> {
  const { statePath, log } = options
  try {
    return await startAnvil(options)
  } catch (error) {
    if (!statePath || !existsSync(statePath) || holderOf(statePath)) throw error
    const brokenPath = `${statePath}.broken${existsSync(`${statePath}.broken`) ? `-${Date.now()}` : ''}`
    await rename(statePath, brokenPath)
    const node = await startAnvil(options).catch(async () => {
      await rename(brokenPath, statePath)
      throw error
    })
    log(
      `the local chain's state could not be read and was renamed to ${brokenPath}; ` +
        `a new chain was started, so reset the ledger too. ${String(error)}`,
    )
    return node
  }
}

/**
 * Installs the contracts, replacing older code; their storage layout never changes. Returns true if the token was
 * missing, which means that the chain is new.
 */
async function install(url: string): Promise<boolean> {
  const found = await Promise.all(CONTRACTS.map(([address]) => rpc<Hex>(url, 'eth_getCode', [address, 'latest'])))
  await Promise.all(
    CONTRACTS.filter(([, code], i) => found[i] !== code).map((install) => rpc(url, 'anvil_setCode', install)),
  )
  return found[0] === '0x'
}

/** Sets the balance to `wei` if it is below half of that, so that a saved chain is not topped up at each start. */
async function fund(url: string, address: Hex, wei: bigint): Promise<void> {
  const balance = BigInt(await rpc<Hex>(url, 'eth_getBalance', [address, 'latest']))
  if (balance < wei / 2n) await rpc(url, 'anvil_setBalance', [address, toHex(wei)])
}

/** Mints with a transaction of the buyer, so that the chain has an ordinary Transfer event for the funds. */
async function mintTo(url: string, key: Hex): Promise<void> {
  const account = privateKeyToAccount(key)
  const transaction = await account.signTransaction({
    chainId: CHAIN_ID,
    nonce: Number(await rpc<Hex>(url, 'eth_getTransactionCount', [account.address, 'pending'])),
    to: DEVNET_ASSET,
    data: encodeFunctionData({ abi: ABI, functionName: 'mint', args: [account.address, BUYER_FUNDS] }),
    gas: 200_000n,
    maxFeePerGas: 10_000_000_000n,
    maxPriorityFeePerGas: 0n,
  })
  const receipt = await rpc<{ status: Hex }>(url, 'eth_sendRawTransactionSync', [transaction])
  if (receipt.status !== '0x1') throw new Error("minting the buyer's funds on the local chain failed")
}
