/** `farebox wallet`: the wallet that `farebox proxy` and `farebox buy` pay from. Never prints a key. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createPublicClient, erc20Abi, http } from 'viem'
import { privateKeyToAddress } from 'viem/accounts'
import { inUsdc } from '../buyer/budget.ts'
import { allChannels } from '../buyer/channel_files.ts'
import { journalPath, openJournal, testJournalPath } from '../buyer/journal.ts'
import { type Money, readWallet, walletPath, writeWallet } from '../buyer/wallet_file.ts'
import { networksOf } from '../proxy/demand.ts'
import { networkFacts } from '../../adapters/chains/families.ts'
import { findWallet, usd } from './buy/gateway.ts'
import { isLocal } from './lib/buyer_options.ts'
import { type Command, CommandError, type Io, readOptions, UsageError } from './command.ts'
import { newEvmKey } from './lib/evm_key.ts'
import { refuseExisting } from './lib/new_key.ts'

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const options = { test: flag, rpc: text, url: text }
type Values = { readonly test?: boolean; readonly rpc?: string; readonly url?: string }

export const command: Command = {
  name: 'wallet',
  summary: 'make and show the wallet that farebox proxy pays from',
  help: `Makes and shows the wallet that farebox proxy pays from. Its key is in a file that only you can read, and is
never printed. Real money and test money have a file each: ~/.farebox/wallet.json and ~/.farebox/test_wallet.json.

Usage: farebox wallet [show] [--test] [--url URL] [--rpc URL]
       farebox wallet new [--test]
       farebox wallet fund [--test]
       farebox wallet close --url URL [--test] [--rpc URL]

Verbs:
  show   the address, its balance, what was spent today, and the open channels
  new    make a wallet; an existing one is never overwritten
  fund   say where to send USDC, and on which networks
  close  have what is left in the channel with a gateway sent back to the wallet

Options:
  --test   the wallet of test money
  --rpc    URL of a node of the chain (default: that of the devnet at --url, or public nodes of the networks)
  --url    close: the gateway of the channel; show: a devnet

Environment:
  FAREBOX_BUYER_KEY  private key of another wallet, in place of the file; not read by new

Examples:
  farebox wallet new
  farebox wallet close --url https://ai.example.com`,
  async run(args, io) {
    const { values, positionals } = readOptions(args, options, 1)
    const [verb = 'show'] = positionals
    if (values.url !== undefined && !['show', 'close'].includes(verb))
      throw new UsageError('--url goes with farebox wallet show or close')
    const money = values.test ? 'test' : 'real'
    if (verb === 'new') return create(io, money)
    if (verb === 'fund') return fund(io, money)
    if (verb === 'show') return await show(io, { money, values })
    if (verb === 'close') return await close(io, { money, values })
    throw new UsageError(`wallet takes show, new, fund or close; not ${verb}`)
  },
}

const homeOf = ({ env }: Io): string => env.HOME ?? homedir()

function create(io: Io, money: Money): number {
  const path = walletPath(homeOf(io), money)
  refuseExisting(path)
  const wallet = newEvmKey()
  writeWallet(path, wallet)
  io.out(wallet.address)
  io.err(`The key is in ${path}. Keep a copy of that file: who loses it loses the money.`)
  return 0
}

async function opened(io: Io, money: Money): Promise<{ readonly address: string; readonly key: string }> {
  const key = io.env.FAREBOX_BUYER_KEY
  if (key) {
    if (!/^0x[0-9a-fA-F]{64}$/.test(key)) throw new CommandError('FAREBOX_BUYER_KEY is not a key of an EVM network.')
    return { address: privateKeyToAddress(key as `0x${string}`), key }
  }
  try {
    const wallet = readWallet(walletPath(homeOf(io), money))
    if (wallet) return wallet
  } catch (error) {
    throw new CommandError((error as Error).message)
  }
  throw new CommandError(
    `There is no wallet for ${money} money. Run farebox wallet new${money === 'test' ? ' --test' : ''}.`,
  )
}

async function fund(io: Io, money: Money): Promise<number> {
  const { address } = await opened(io, money)
  io.out(`Send USDC to ${address} on:`)
  for (const { network, title, asset } of evmNetworks(money)) io.out(`  ${title} (${network}), token ${asset}`)
  io.out('Send no more than you would carry in a purse, and no other token. Calls need no coin for gas.')
  return 0
}

type Given = { readonly money: Money; readonly values: Values }

async function show(io: Io, { money, values }: Given): Promise<number> {
  const { address } = await opened(io, money)
  io.out(`wallet    ${address}, ${money} money`)
  for (const { rpc, title } of await nodesOf({ money, values })) {
    const reading = balanceOf(address, { money, rpc })
    io.out(`balance   ${values.rpc === undefined ? await reading.catch(() => unreadable(title)) : await reading}`)
  }
  const journal = openJournal(money === 'test' ? testJournalPath(homeOf(io)) : journalPath(homeOf(io)), Date.now)
  io.out(`today     ${inUsdc(journal.today())} USDC spent or signed`)
  journal.close()
  const networks = evmNetworks(money).map(({ network }) => network)
  for (const { id, origin, network, config, context } of allChannels(join(homeOf(io), '.farebox/channels'))) {
    if (!networks.includes(network) || config.payer.toLowerCase() !== address.toLowerCase()) continue
    const [deposited, charged] = [BigInt(context.balance ?? 0), BigInt(context.chargedCumulativeAmount ?? 0)]
    io.out(`channel   ${id} with ${origin}: ${usd(deposited - charged)} of ${usd(deposited)} USDC left`)
  }
  return 0
}

/** The node of --rpc, that of the devnet at --url, or a public one of each network of this money. */
async function nodesOf({ money, values: { rpc, url } }: Given): Promise<readonly { rpc: string; title: string }[]> {
  const named = rpc ?? (await devnetNode(url))
  if (named !== undefined) return [{ rpc: named, title: '' }]
  return evmNetworks(money).flatMap(({ network, title }) => {
    const { node } = networkFacts(network) ?? {}
    return node === undefined ? [] : [{ rpc: node, title }]
  })
}

const unreadable = (title: string): string =>
  `unknown on ${title}: its public node does not answer; name one with --rpc`

async function devnetNode(url: string | undefined): Promise<string | undefined> {
  if (url === undefined || !isLocal(url)) return undefined
  const found = await findWallet({ origin: url.replace(/\/+$/, ''), rpc: undefined, key: undefined }).catch(
    () => undefined,
  )
  return found?.rpcUrl
}

async function balanceOf(address: string, { money, rpc }: { readonly money: Money; readonly rpc: string }) {
  const client = createPublicClient({ transport: http(rpc, { timeout: 5_000, retryCount: 1 }) })
  try {
    const network = `eip155:${await client.getChainId()}`
    const found = evmNetworks(money).find((each) => each.network === network)
    if (!found) throw new CommandError(`The node of --rpc is of ${network}, where no ${money} money is paid.`)
    const call = { address: found.asset, abi: erc20Abi, functionName: 'balanceOf', args: [address] }
    const balance = await client.readContract(call as never)
    return `${usd(balance as bigint)} USDC on ${found.title}`
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new CommandError('The node of --rpc does not answer as it should.')
  }
}

const evmNetworks = (money: Money) => networksOf(money).filter(({ network }) => network.startsWith('eip155:'))

async function close(io: Io, { money, values }: Given): Promise<number> {
  if (values.url === undefined) throw new UsageError('close needs --url: the gateway of the channel')
  const { key } = await opened(io, money)
  const { closeChannel } = await import('./buy/channel.ts')
  const channel = { deposit: undefined, directory: join(homeOf(io), '.farebox/channels') }
  const rpc = values.rpc ?? (await devnetNode(values.url))
  await closeChannel({ origin: values.url.replace(/\/+$/, ''), rpc, key, channel })
  return 0
}
