/** `farebox key`: API keys that pay from a channel, for tools that have a field for a key and none for a wallet. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { keyFiles } from '../buyer/key_files.ts'
import { TOOL_LINES } from '../buyer/tool_lines.ts'
import { listenUrl } from '../config/mod.ts'
import { gatewayUrl } from './buy/gateway.ts'
import { type Command, CommandError, type Io, overridden, readOptions, UsageError } from './command.ts'
import { isLocal } from './lib/buyer_options.ts'
import type { KeyCommand } from './key/command.ts'

const HELP = `Makes an API key that pays from money of yours: one deposit in USDC, and any tool with a base URL and a field
for an API key can buy. What is left goes back to your wallet whenever you ask, and can be withdrawn from the contract
without the gateway. The gateway that gets the key could take what is deposited and not yet used, and no more, and the
chain would show it: deposit what you would prepay. To trust it with less, use farebox proxy.

Usage: farebox key new [--deposit USDC] [--url URL] [--tool NAME] [--model ID] [--test] [--rpc URL]
       farebox key show [--url URL]
       farebox key topup [--deposit USDC] [--url URL] [--test] [--rpc URL]
       farebox key close [--address 0x...] [--url URL] [--test]

Verbs:
  new    deposit, and print the new key, once: it is written nowhere
  show   the balance of the key in FAREBOX_KEY; without it, the keys that were made here
  topup  deposit more for the key in FAREBOX_KEY
  close  have what is left sent back to the wallet: by the key in FAREBOX_KEY, or by the wallet for a key that is lost

Options:
  --url      URL of the gateway (FAREBOX_URL; default: where farebox.toml and PORT let it listen on this machine)
  --config   the configuration file of that gateway (FAREBOX_CONFIG; default: farebox.toml)
  --gateway  name of a devnet gateway
  --deposit  how much to deposit, in USDC (with test money: the gateway's smallest deposit)
  --tool     new: print the lines of one tool: ${Object.keys(TOOL_LINES).join(', ')} (default: of all)
  --model    new: the model in these lines (default: the first chat model of the gateway)
  --address  close: address of the key, as farebox key show lists it
  --test     pay with test money, from the test wallet; a devnet on this machine implies it
  --rpc      URL of a node of the chain: the wallet's balance is checked first (devnet: its own)

Environment:
  FAREBOX_KEY        the key, for show, topup and close
  FAREBOX_BUYER_KEY  private key of the wallet (default: the file of farebox wallet new)

Examples:
  farebox key new
  farebox key new --url https://ai.example.com --deposit 5 --tool claude
  FAREBOX_KEY=sk-fbx-... farebox key close --url https://ai.example.com`

const text = { type: 'string' } as const
const options = {
  url: text,
  config: text,
  gateway: text,
  deposit: text,
  tool: text,
  model: text,
  address: text,
  rpc: text,
  test: { type: 'boolean' },
} as const
type Values = ReturnType<typeof readOptions<typeof options>>['values']

/** Which verbs take an option. */
const VERBS: Readonly<Record<string, readonly (keyof Values)[]>> = {
  new: ['deposit', 'tool', 'model', 'test', 'rpc'],
  show: [],
  topup: ['deposit', 'test', 'rpc'],
  close: ['address', 'test', 'rpc'],
}
const EVERYWHERE = ['url', 'config', 'gateway']

export const command: Command = {
  name: 'key',
  summary: 'make an API key that pays from a deposit; show, top up and close it',
  help: HELP,
  async run(args, io) {
    const { values, positionals } = readOptions(args, options, 1)
    const [verb = ''] = positionals
    const allowed = VERBS[verb]
    if (!allowed) throw new UsageError(`key takes ${Object.keys(VERBS).join(', ')}${verb && `; not ${verb}`}`)
    for (const name of Object.keys(values) as (keyof Values)[])
      if (!EVERYWHERE.includes(name) && !allowed.includes(name))
        throw new UsageError(`--${name} does not go with farebox key ${verb}`)
    const directory = join(io.env.HOME ?? homedir(), '.farebox/keys')
    if (verb === 'show' && !io.env.FAREBOX_KEY) return list(io, directory)
    const given = { io, directory, origin: await originOf(io, values), key: io.env.FAREBOX_KEY || undefined, values }
    await run(verb, given)
    return 0
  },
}

async function run(verb: string, given: KeyCommand): Promise<void> {
  if (verb === 'new') return await (await import('./key/new.ts')).newKey(given)
  const { showKey, topUpKey, closeKey } = await import('./key/existing.ts')
  if (verb === 'show') return await showKey(given)
  if (verb === 'topup') return await topUpKey(given)
  return await closeKey(given)
}

async function originOf(io: Io, { url, config, gateway }: Values): Promise<string> {
  const local = () => listenUrl(overridden(io.env, { FAREBOX_CONFIG: config }))
  const given = (url ?? io.env.FAREBOX_URL ?? local()).replace(/\/+$/, '')
  if (!/^https?:\/\//.test(given) || !URL.canParse(given))
    throw new UsageError(`--url must be an http or https URL, got ${JSON.stringify(given)}`)
  if (given.startsWith('http:') && !isLocal(given))
    throw new UsageError('--url must be an https URL: over plain HTTP others could read the key')
  return gateway === undefined ? given : await gatewayUrl(given, gateway)
}

function list(io: Io, directory: string): number {
  const files = keyFiles(directory)
  if (files.length === 0) throw new CommandError('No key was made here. Make one with farebox key new.')
  for (const { address, origin, network, createdAt } of files)
    io.out(`key       ${address} for ${origin} on ${network}, made ${createdAt.slice(0, 10)}`)
  io.err('Set FAREBOX_KEY to a key to see its balance.')
  return 0
}
