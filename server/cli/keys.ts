/** `farebox keys`: the accounts of the configuration and what they hold, and new keys. Never prints a secret. */
import { createHash } from 'node:crypto'
import { readConfig, type Config } from '../config/mod.ts'
import type { payingAccounts } from '../wiring/chains.ts'
import { type Command, CommandError, type Io, overridden, readOptions, UsageError } from './command.ts'
import { newKey, refuseExisting, writeSecret } from './lib/new_key.ts'

const options = {
  config: { type: 'string' },
  json: { type: 'boolean' },
  offline: { type: 'boolean' },
  network: { type: 'string' },
  out: { type: 'string' },
  name: { type: 'string' },
  'from-block': { type: 'string' },
} as const

export const command: Command = {
  name: 'keys',
  summary: 'list the accounts that are paid and that pay for settlements; make a new key',
  help: `Lists the accounts of the configuration: payees, and the relayers and fee payers that pay for settlements,
with their balances. Or writes a new key into a file that only you can read. No key is ever printed.

Usage: farebox keys [--config FILE] [--offline] [--json]
       farebox keys new --out FILE [--network evm|solana] [--name VARIABLE]
       farebox keys recover --from-block N [--network ID] [--config FILE]

recover is for the loss of the database: it finds the channels of buyers' API keys in the logs of the chain, so that
these keys work again. What was charged and not claimed is lost; child keys end, and their money is their parents'.

Options:
  --config FILE    the configuration file (FAREBOX_CONFIG; default: farebox.toml)
  --offline        do not read balances
  --json           print one JSON object: accounts (gateway, role, network, address, balance, unit, problem), poll_keys
  --out FILE       new: the file to write, which must not exist
  --network KIND   new: evm or solana (default: evm); recover: one network, such as eip155:8453 (default: all)
  --from-block N   recover: the block before the first deposit of a key
  --name VARIABLE  new: the variable in the file (default: RELAYER_KEY, or FEE_PAYER_KEY on Solana)

Exit codes: 0 done, 1 an account cannot pay for settlements or a file cannot be written, 2 wrong usage.

Examples:
  farebox keys
  farebox keys new --out relayer2.env --name RELAYER_KEY_2
  farebox keys recover --from-block 38000000`,
  async run(args, io) {
    const { values, positionals } = readOptions(args, options, 1)
    const [verb] = positionals
    if (verb !== undefined && verb !== 'new' && verb !== 'recover')
      throw new UsageError(`keys takes new, recover, or nothing; not ${verb}`)
    if (verb === 'recover') return await recover(values, io)
    if (values['from-block'] !== undefined) throw new UsageError('--from-block goes with farebox keys recover')
    if (verb === 'new') {
      io.out(await create(values))
      io.err(
        `The key is in ${values.out}. Name its variable in relayer_key_env or fee_payer_key_env, and fund its address.`,
      )
      return 0
    }
    for (const name of ['out', 'network', 'name'] as const)
      if (values[name] !== undefined) throw new UsageError(`--${name} goes with farebox keys new`)
    const read = readConfig(overridden(io.env, { FAREBOX_CONFIG: values.config }))
    if (!read.ok) throw new CommandError(read.mistakes.join('\n'))
    const accounts = await accountsOf(read.config, { isOffline: values.offline ?? false })
    const pollKeys = (read.config.poll_keys ?? []).map(fingerprint)
    if (values.json) io.out(JSON.stringify({ accounts, poll_keys: pollKeys }, null, 2))
    else {
      for (const { gateway, role, network, address, balance, unit, problem } of accounts)
        io.out(
          [gateway, role, network, address, ...(balance === undefined ? [] : [`${balance} ${unit}`])].join('  ') +
            (problem === undefined ? '' : `  PROBLEM: ${problem}`),
        )
      for (const name of pollKeys) io.out(`poll key  ${name}`)
      if (accounts.length === 0) io.err('There is no gateway: a devnet makes its own keys.')
    }
    return accounts.some(({ problem }) => problem !== undefined) ? 1 : 0
  },
}

async function recover(
  { config, network, 'from-block': from }: { config?: string; network?: string; 'from-block'?: string },
  io: Io,
): Promise<number> {
  if (from === undefined || !/^\d{1,12}$/.test(from))
    throw new UsageError('recover needs --from-block N: the number of the block before the first deposit of a key')
  const read = readConfig(overridden(io.env, { FAREBOX_CONFIG: config }))
  if (!read.ok) throw new CommandError(read.mistakes.join('\n'))
  const { recoverKeys } = await import('../wiring/key_recovery.ts')
  const found = await recoverKeys(read.config, { fromBlock: Number(from), network }).catch((error: Error) => {
    throw new CommandError(error.message)
  })
  if (found.length === 0) throw new CommandError('No network of the configuration takes API keys.')
  for (const each of found)
    io.out(`${each.network}  ${each.channels} channels of keys written, up to block ${each.toBlock}`)
  return 0
}

async function create({
  out,
  network = 'evm',
  name = network === 'solana' ? 'FEE_PAYER_KEY' : 'RELAYER_KEY',
}: {
  readonly out?: string | undefined
  readonly network?: string | undefined
  readonly name?: string | undefined
}): Promise<string> {
  if (out === undefined) throw new UsageError('new needs --out FILE: a key is never printed')
  if (!['evm', 'solana'].includes(network)) throw new UsageError(`--network is evm or solana; not ${network}`)
  if (!/^[A-Z_][A-Z0-9_]{0,49}$/.test(name))
    throw new UsageError('--name is the name of a variable: capital letters, digits and _')
  refuseExisting(out)
  const { key, address } = await newKey(`${network}:`)
  writeSecret(out, `# ${address}\n${name}=${key}\n`)
  return address
}

type PayingAccount = Awaited<ReturnType<typeof payingAccounts>>[number]
type Account = Omit<PayingAccount, 'role' | 'balance' | 'unit'> & {
  readonly gateway: string
  readonly role: PayingAccount['role'] | 'payee'
  readonly balance: string | undefined
  readonly unit: PayingAccount['unit'] | undefined
}

async function accountsOf(config: Config, { isOffline }: { readonly isOffline: boolean }): Promise<readonly Account[]> {
  const { payingAccounts } = await import('../wiring/chains.ts')
  const rows = config.gateways.flatMap(({ name, paymentMethods }) =>
    paymentMethods.map((method) => ({ gateway: name, method })),
  )
  const found = await Promise.all(
    rows.map(async ({ gateway, method }) => [
      {
        gateway,
        role: 'payee' as const,
        network: method.kind === 'batched' ? method.networks.join(',') : method.network,
        address: method.payTo,
        balance: undefined,
        unit: undefined,
        problem: undefined,
      },
      ...(await payingAccounts(method, { isOffline })).map((account) => ({
        gateway,
        ...account,
        balance: account.balance?.toString(),
      })),
    ]),
  )
  return found.flat()
}

/** Names a poll key without telling it. */
const fingerprint = (hex: string): string => createHash('sha256').update(hex.toLowerCase()).digest('hex').slice(0, 12)
