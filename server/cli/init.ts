/** `farebox init`: writes a commented farebox.toml, by asking or by options, and a file for the secrets. */
import { dirname, join } from 'node:path'
import { makers } from '../config/providers.ts'
import { checkedConfig } from '../config/mod.ts'
import { type Command, CommandError, type Io, readOptions, UsageError } from './command.ts'
import { newKey, refuseExisting, writeNew, writeSecret } from './lib/new_key.ts'

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const options = {
  yes: flag,
  payee: text,
  network: text,
  'rpc-url': text,
  facilitator: text,
  vendor: { type: 'string', multiple: true },
  origin: text,
  config: text,
  secrets: text,
  'no-secrets': flag,
} as const

type Network = { readonly id: string; readonly rpcUrl: string; readonly title: string }

/** Networks whose USDC is built in, with a public node of each. */
const NETWORKS: Readonly<Record<string, Network>> = {
  base: { id: 'eip155:8453', rpcUrl: 'https://mainnet.base.org', title: 'Base, real USDC' },
  'base-sepolia': { id: 'eip155:84532', rpcUrl: 'https://sepolia.base.org', title: 'Base Sepolia, test USDC' },
  solana: {
    id: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    rpcUrl: 'https://api.mainnet-beta.solana.com',
    title: 'Solana, real USDC',
  },
  'solana-devnet': {
    id: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
    rpcUrl: 'https://api.devnet.solana.com',
    title: 'Solana devnet, test USDC',
  },
}

/** Makers of models by the name of their provider, with the variable of the key. */
const vendors: ReadonlyMap<string, string> = new Map(
  [...makers.values()].flatMap(({ manifest, key }) => {
    const variable = Object.keys(manifest.environment).find((each) => manifest.environment[each] === key)
    return variable === undefined ? [] : [[manifest.name, variable] as const]
  }),
)

export const command: Command = {
  name: 'init',
  summary: 'write a farebox.toml, and a file for its secrets, to sell for real',
  help: `Writes a commented farebox.toml, and a file for its secrets that only you can read. Asks on a terminal for
what the options do not say. Never overwrites a file.

Usage: farebox init [options]

Options:
  --payee ADDRESS    the wallet that receives the payments
  --network NAME     ${Object.keys(NETWORKS).join(', ')} (default: base-sepolia)
  --rpc-url URL      a node of the network (default: a public one; write one with a key into the file yourself)
  --facilitator URL  a facilitator that settles, in place of a key of your own
  --vendor NAME      a maker of models whose key you have; may be repeated:
                     ${[...vendors.keys()].join(', ')}
  --origin URL       where buyers reach the gateway, such as https://ai.example.com
  --config FILE      the file to write (FAREBOX_CONFIG; default: farebox.toml)
  --secrets FILE     the file for secrets (default: farebox.env beside it)
  --no-secrets       write no file for secrets, and no new key
  --yes              ask nothing

Examples:
  farebox init
  farebox init --yes --network base --payee 0x209693Bc6afc0C5328bA36FaF03C514EF312287C --vendor openai
  farebox init --yes --payee 0x209693Bc6afc0C5328bA36FaF03C514EF312287C --facilitator https://x402.org/facilitator`,
  async run(args, io) {
    const { values } = readOptions(args, options, 0)
    const file = values.config ?? io.env.FAREBOX_CONFIG ?? 'farebox.toml'
    const secretsFile = values['no-secrets'] ? undefined : (values.secrets ?? join(dirname(file), 'farebox.env'))
    refuseExisting(file, ...(secretsFile === undefined ? [] : [secretsFile]))
    const answers = await answersOf(values, io)
    const variables = variablesOf(answers)
    const created = secretsFile !== undefined && variables.key ? await newKey(answers.network.id) : undefined
    const toml = configuration(answers, variables)
    // Keys that do not exist yet are not an error in the file.
    const stand = { ...(variables.key && { [variables.key]: (created ?? (await newKey(answers.network.id))).key }) }
    const read = checkedConfig(toml, stand, file)
    if (!read.ok) throw new CommandError(`Nothing was written:\n${read.mistakes.map((each) => `  ${each}`).join('\n')}`)
    if (secretsFile !== undefined) writeSecret(secretsFile, secrets(variables, created?.key))
    writeNew(file, toml)
    io.out(file)
    if (secretsFile !== undefined) io.out(secretsFile)
    for (const line of nextSteps({ answers, variables, secretsFile, file, address: created?.address })) io.err(line)
    return 0
  },
}

type Answers = {
  readonly network: Network
  readonly payee: string
  readonly rpcUrl: string
  readonly facilitator: string | undefined
  readonly vendors: readonly string[]
  readonly origin: string | undefined
}
type Values = {
  readonly [Name in 'payee' | 'network' | 'rpc-url' | 'facilitator' | 'origin']?: string | undefined
} & { readonly yes?: boolean | undefined; readonly vendor?: readonly string[] | undefined }

async function answersOf(values: Values, io: Io): Promise<Answers> {
  const ask = values.yes ? undefined : io.ask
  const networkName =
    values.network ??
    ((await ask?.(`Network (${Object.keys(NETWORKS).join(', ')}) [base-sepolia]: `)) || 'base-sepolia')
  const network = NETWORKS[networkName]
  if (!network) throw new UsageError(`--network is one of ${Object.keys(NETWORKS).join(', ')}; not ${networkName}`)
  const payee = values.payee ?? (await ask?.(`Your wallet on ${network.title}, which receives the payments: `)) ?? ''
  if (payee === '') throw new UsageError('--payee is needed: the wallet that receives the payments')
  const origin =
    values.origin ?? ((await ask?.('Where buyers reach you, such as https://ai.example.com [none]: ')) || undefined)
  const named =
    values.vendor ??
    ((await ask?.(`Makers whose API keys you have (${[...vendors.keys()].join(', ')}) [none]: `)) || '')
      .split(/[\s,]+/)
      .filter((name) => name !== '')
  const stranger = named.find((name) => !vendors.has(name))
  if (stranger !== undefined)
    throw new UsageError(`--vendor is one of ${[...vendors.keys()].join(', ')}; not ${stranger}`)
  const { facilitator, 'rpc-url': rpcUrl = network.rpcUrl } = values
  return { network, payee, rpcUrl, facilitator, vendors: named, origin }
}

/** The variables that the configuration needs: the one of a key that pays for settlements, and those of vendors. */
type Variables = { readonly key: string | undefined; readonly vendors: readonly string[] }

function variablesOf({ network, facilitator, vendors: named }: Answers): Variables {
  const own = network.id.startsWith('solana:') ? 'FEE_PAYER_KEY' : 'RELAYER_KEY'
  return { key: facilitator === undefined ? own : undefined, vendors: named.map((name) => vendors.get(name) ?? '') }
}

function configuration(
  { network, payee, rpcUrl, facilitator, origin }: Answers,
  { key, vendors: keys }: Variables,
): string {
  const value = (text: string) => JSON.stringify(text)
  const label = Object.keys(NETWORKS).find((name) => NETWORKS[name] === network) ?? ''
  const isSolana = network.id.startsWith('solana:')
  const settles =
    key === undefined
      ? `# Verifies and settles the payments.\nfacilitators = [{ url = ${value(facilitator ?? '')} }]`
      : `# The environment variable with the key that ${isSolana ? 'pays fees, with a little SOL' : 'pays gas, with a little ETH'}. A key never stands in this file.
${isSolana ? 'fee_payer_key_env' : 'relayer_key_env'} = ${value(key)}`
  return `# The configuration of Farebox. All settings: /docs/guide/configuration on a running gateway.
# Find mistakes with: farebox check

${origin === undefined ? '# Where buyers reach the gateway. Needed behind a proxy.\n# public_origin = "https://ai.example.com"' : `# Where buyers reach the gateway.\npublic_origin = ${value(origin)}`}

# Calls and payments. SQLite serves one process; postgres://... serves any number.
database_url = "sqlite:.farebox/farebox.db"

# Images, clips and sounds: a folder, or s3://bucket/prefix?region=...
object_store = "file:.farebox/media"

# Set OPERATOR_TOKEN in the environment, at least 16 characters, for /metrics and the operator's routes.

[[gateways]]
name = ${value(label)}
# ${network.title}
network = ${value(network.id)}
# The wallet that receives the payments.${isSolana ? ' It must have a USDC account.' : ''}
pay_to = ${value(payee)}
# A node of the network. Public nodes limit requests: for real sales use one of your own, and, if its URL holds a key,
# rpc_url_env with the name of a variable.
rpc_url = ${value(rpcUrl)}
${settles}

# Models are sold for makers whose API keys are set in the environment${keys.length === 0 ? ', such as OPENAI_API_KEY' : `: ${keys.join(', ')}`}.
`
}

function secrets({ key, vendors: keys }: Variables, value: string | undefined): string {
  return `# Secrets of Farebox. Only you can read this file; do not commit it.
${key === undefined ? '' : `# Pays for settlements. Whoever has it can spend what its account holds, so keep little there.\n${key}=${value}\n`}${keys.map((name) => `${name}=\n`).join('')}# OPERATOR_TOKEN=
`
}

function nextSteps({
  answers: { network },
  variables,
  secretsFile,
  file,
  address,
}: {
  readonly answers: Answers
  readonly variables: Variables
  readonly secretsFile: string | undefined
  readonly file: string
  readonly address: string | undefined
}): readonly string[] {
  const isSolana = network.id.startsWith('solana:')
  const config = file === 'farebox.toml' ? '' : ` --config ${file}`
  const secret = secretsFile === undefined ? '' : ` --env-file ${secretsFile}`
  const where = secretsFile === undefined ? 'in the environment' : `in ${secretsFile}`
  return [
    '',
    ...(address === undefined
      ? []
      : [
          `Send a little ${isSolana ? 'SOL' : 'ETH'} on ${network.title.split(',')[0]} to ${address}: it pays for settlements.`,
        ]),
    ...(variables.vendors.length === 0 ? [] : [`Set ${variables.vendors.join(', ')} ${where}.`]),
    `Next: farebox check${config}${secret}`,
    `Then: farebox start${config}${secret}`,
  ]
}
