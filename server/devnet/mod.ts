/**
 * The embedded default: a local chain that a public x402 client cannot tell from Base Sepolia (chain id, asset, domain), with a relayer that
 * has gas and a buyer who has money. All of it is play money: anyone may mint.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { encodeFunctionData, parseAbi, parseEther, toHex, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { CHAIN_ID, holderOf, replaceFile, rpc, startAnvil, type Anvil, type Exit } from './anvil.ts'
import contracts from './contracts.json' with { type: 'json' }

export const DEVNET_NETWORK = `eip155:${CHAIN_ID}` as const
/** Circle's USDC on Base Sepolia: public clients refuse any other asset on this chain id. */
export const DEVNET_ASSET = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
/** Where Multicall3 stands on every public chain. */
export const DEVNET_MULTICALL = '0xcA11bde05977b3631167028862bE2a173976CA11'
/** What a new buyer gets, in micro-USDC: one million. */
export const BUYER_FUNDS = 1_000_000_000_000n

export type Devnet = {
  readonly network: typeof DEVNET_NETWORK
  readonly chainId: number
  /** Changes with every start, unless a port was given. */
  readonly rpcUrl: string
  readonly asset: Hex
  readonly domain: { readonly name: 'USDC'; readonly version: '2' }
  readonly payTo: Hex
  readonly relayerKey: Hex
  readonly buyer: { readonly address: Hex; readonly privateKey: Hex }
  /** The chain began with this start: a ledger that remembers payments on an older one should be reset too. */
  readonly isFresh: boolean
  /** Settles when the node has ended; `asked` is false when it died by itself, and payments are then impossible. */
  readonly exited: Promise<Exit>
  stop(): Promise<void>
}

export type DevnetOptions = {
  /** Directory for keys and chain; absent: both are forgotten at the end. */
  readonly dir?: string | undefined
  readonly port?: number
  readonly log?: ((line: string) => void) | undefined
}

type Keys = { relayerKey: Hex; buyerKey: Hex; sellerKey: Hex }

const ABI = parseAbi(['function mint(address to, uint256 value)'])
const RELAYER_GAS = parseEther('1000')
/** For the buyer's own transactions (cancel, approve); paying needs none. */
const BUYER_GAS = parseEther('1')
/** From here on each block takes tens of milliseconds and the node over 500 MB. */
const MANY_BLOCKS = 50_000

/**
 * Starts the chain, or the kept one of `dir` again, and puts in place what is missing. A state file that the node cannot read is set
 * aside (`chain.json.broken`), said through `log`, and answered with a fresh chain: `isFresh` tells the caller.
 */
export async function startDevnet({ dir, port = 0, log = () => {} }: DevnetOptions = {}): Promise<Devnet> {
  const { keys, areNew } = await loadKeys(dir)
  const node = await startOrBeginAnew({ statePath: dir && statePathOf(dir), port, log })
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
    if (blocks > MANY_BLOCKS) log(`the local chain has ${blocks} blocks and grows slow; a reset would begin a new one`)
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
 * Forgets the chain kept in `dir`; the keys stay, so a configured buyer stays valid. The caller resets the ledger with it: every nonce is
 * unused again. Throws while a node runs on it.
 */
export async function resetDevnet(dir: string): Promise<void> {
  const state = statePathOf(dir)
  const holder = holderOf(state)
  if (holder)
    throw new Error(`the local chain in ${dir} is in use by process ${holder.owner}; stop it before the reset`)
  await Promise.all(['', '.next', '.tmp', '.pid', '.broken'].map((end) => rm(state + end, { force: true })))
}

function statePathOf(dir: string): string {
  return join(dir, 'chain.json')
}

/**
 * Random keys, kept in `dir/devnet.json` (0600). Not the well-known test keys: bots empty those on public chains within seconds, and
 * someone will one day import the buyer's key into a real wallet.
 */
async function loadKeys(dir: string | undefined): Promise<{ keys: Keys; areNew: boolean }> {
  const path = dir && join(dir, 'devnet.json')
  if (path && existsSync(path)) return { keys: parseKeys(path, await readFile(path, 'utf8')), areNew: false }
  const keys: Keys = { relayerKey: randomKey(), buyerKey: randomKey(), sellerKey: randomKey() }
  if (dir && path) {
    await mkdir(dir, { recursive: true, mode: 0o700 })
    await replaceFile(
      path,
      `${JSON.stringify({ about: 'play money of the local chain, worth nothing elsewhere', ...keys }, null, 2)}\n`,
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
    // not JSON: as useless as JSON without keys
  }
  throw new Error(
    `${path} does not hold the local chain's three keys; delete it to get new ones (the old play money is then out of reach)`,
  )
}

function asKey(value: unknown): Hex | undefined {
  return typeof value === 'string' && /^0x[0-9a-f]{64}$/i.test(value) ? (value as Hex) : undefined
}

function randomKey(): Hex {
  return `0x${randomBytes(32).toString('hex')}`
}

/** Only a start that works without the state file proves that the file was the fault; otherwise the file goes back to its place. */
async function startOrBeginAnew(options: {
  statePath: string | undefined
  port: number
  log: (line: string) => void
}): Promise<Anvil> {
  const { statePath, log } = options
  try {
    return await startAnvil(options)
  } catch (error) {
    if (!statePath || !existsSync(statePath) || holderOf(statePath)) throw error
    const aside = `${statePath}.broken`
    await rename(statePath, aside)
    const node = await startAnvil(options).catch(async () => {
      await rename(aside, statePath)
      throw error
    })
    log(
      `the local chain's state could not be read and was set aside as ${aside}; a new chain begins, so reset the ledger too. ${String(error)}`,
    )
    return node
  }
}

/** True when the token was not there, so the chain is new. Newer code replaces older: its storage layout never changes. */
async function install(url: string): Promise<boolean> {
  const places = [
    [DEVNET_ASSET, contracts.TestUsdc.runtime],
    [DEVNET_MULTICALL, contracts.Multicall.runtime],
  ] as const
  const found = await Promise.all(places.map(([address]) => rpc<Hex>(url, 'eth_getCode', [address, 'latest'])))
  await Promise.all(places.filter(([, code], i) => found[i] !== code).map((place) => rpc(url, 'anvil_setCode', place)))
  return found[0] === '0x'
}

/** At least half of `wei`, so that a kept chain is not topped up at each start. */
async function fund(url: string, address: Hex, wei: bigint): Promise<void> {
  const balance = BigInt(await rpc<Hex>(url, 'eth_getBalance', [address, 'latest']))
  if (balance < wei / 2n) await rpc(url, 'anvil_setBalance', [address, toHex(wei)])
}

/** The buyer mints its own money, so that the chain holds an ordinary transaction and a Transfer for it. */
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
  if (receipt.status !== '0x1') throw new Error('the local chain refused to mint the buyer its money')
}
