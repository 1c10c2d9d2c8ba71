/** The gateway that is attacked: a process with a chain of its own, and a vendor that counts its answers. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Hex, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { rpc } from '../../../server/devnet/anvil.ts'
import { startDevnet } from '../../../server/devnet/mod.ts'
import { solanaNode, type SolanaNode } from '../../../server/devnet/solana/node.ts'
import { MINT } from '../../../server/devnet/solana/tokens.ts'
import { NETWORK as SOLANA, newKey } from '../../adapters/chains/solana/solana_kit.ts'
import { holdingNode } from '../holding_node.ts'
import { balancer, type Fleet, type Ledger, sqliteLedger } from './ledgers.ts'
import { farebox, type FareboxProcess } from './process.ts'
import { type Vendor, vendor } from './vendor.ts'

/** The operator's token, which no attacker has. */
export const TOKEN = 'a-token-of-the-operator-under-attack'
/** After so long every replica knows a change of the operator's controls, on a busy machine too. */
const CONTROLS_MS = 5_000
export const CHAT_MODEL = 'vendor-h/chat-under-attack'
/** The same, charged by what an answer has used where the way to pay allows that. */
export const BY_USE_MODEL = 'vendor-h/chat-by-use'

/** Another gateway of the target, paid on a Solana of its own. */
type SolanaTarget = { readonly node: SolanaNode; readonly feePayer: string }

export type Target = {
  readonly origin: string
  readonly dir: string
  readonly payTo: Hex
  readonly asset: Hex
  readonly relayers: readonly Hex[]
  readonly vendor: Vendor
  readonly ledger: Ledger
  /** Processes behind `origin`, each of which counts for itself what it keeps in memory. */
  readonly replicas: number
  /** The gateway, or the first of its replicas. */
  readonly process: FareboxProcess
  readonly solana: SolanaTarget | undefined
  /** Settings of the process, for another one beside it or a command of the operator. */
  readonly environment: Readonly<Record<string, string>>
  /** From now on the node takes transactions and answers none; resolves at the first. Ends with `restart`. */
  hold(): Promise<void>
  /** Kills it without warning. */
  crash(): Promise<void>
  /** Starts it again in its folder; `origin` and `process` are then those of the new one. */
  restart(): Promise<void>
  /** One call of the chain's node, as its owner, who may do anything. */
  chain<T>(method: string, params: readonly unknown[]): Promise<T>
  /** The operator's API; throws when it refuses. */
  operator(method: string, path: string, body?: unknown): Promise<any>
  stop(): Promise<void>
}

/**
 * `row`: settings of its first gateway. `database`: the path of its ledger, in its folder. `hasSolana`: it has a
 * gateway on Solana as well.
 */
export type TargetOptions = {
  readonly settings?: string
  readonly row?: string
  readonly env?: Readonly<Record<string, string>>
  readonly database?: string
  readonly hasSolana?: boolean
}

/** The host names of the second gateway, and of the one on Solana. */
export const [SECOND, ON_SOLANA] = ['two.example', 'solana.example']

/**
 * The local chain's gas costs about a gwei. At this price of its coin a transaction costs what it does on Base on a
 * busy day: 0.05 gwei, with ether at 4,000.
 */
export const COIN_PRICE = 200

/** The variables with the relayer keys of a gateway: one for each replica. */
const relayersOf = (name: string, keys: readonly Hex[]) =>
  Object.fromEntries(keys.map((key, at) => [`RELAYER_${name.toUpperCase()}_${at}`, key]))

const rowOf = (
  name: string,
  payTo: Hex,
  { relayers, more }: { relayers: readonly string[]; more: string },
) => `[[gateways]]
name = "${name}"
network = "eip155:84532"
pay_to = "${payTo}"
rpc_url_env = "RPC_URL"
relayer_key_env = ${JSON.stringify(relayers)}
schemes = ["exact", "upto", "batch-settlement"]
channel_key_env = "CHANNEL_KEY"
coin_price = ${COIN_PRICE}
${more}
`

const solanaRow = (payTo: string) => `[[gateways]]
name = "solana"
hosts = ["${ON_SOLANA}"]
network = "${SOLANA}"
asset = "${MINT}"
pay_to = "${payTo}"
rpc_url_env = "SOLANA_URL"
fee_payer_key_env = "FEE_PAYER"
`

/** The operator pays as much for its answers as the buyers: an unpaid answer is a loss. */
const toml = ({
  payTo,
  vendorUrl,
  settings,
  row,
  more,
  relayers,
}: Record<'vendorUrl' | 'settings' | 'row' | 'more', string> & {
  payTo: Hex
  relayers: Record<'one' | 'two', Readonly<Record<string, Hex>>>
}) => `
object_store = "file:media"
trusted_proxies = ["127.0.0.0/8"]
${settings}

[vendors.vendor-a]
protocol = "demo"

[vendors.vendor-e]
video = "demo"

[vendors.stand-in]
chat = "openai-chat"
base_url = "${vendorUrl}/v1"

[[chat]]
id = "${CHAT_MODEL}"
name = "Chat under attack"
description = "Answers of a stand-in."
vendor = "stand-in"
upstream = "attacked"
context_window = 131072
max_output = 16384
flat = "0.02"

[[chat]]
id = "${BY_USE_MODEL}"
name = "Chat by use"
description = "Answers of a stand-in."
vendor = "stand-in"
upstream = "attacked"
context_window = 131072
max_output = 16384
input = "10"
output = "100"

${rowOf('one', payTo, { relayers: Object.keys(relayers.one), more: `keys = true\n${row}` })}
${rowOf('two', payTo, { relayers: Object.keys(relayers.two), more: `hosts = ["${SECOND}"]` })}
${more}`

/** Started on a free port in a new directory, which `stop` removes; with a fleet, as many replicas as it has. */
export async function startTarget(
  { settings = '', row = '', env = {}, database = 'target.db', hasSolana = false }: TargetOptions = {},
  fleet?: Fleet,
): Promise<Target> {
  const undo: (() => unknown)[] = []
  const stop = async () => {
    for (const step of undo.splice(0).toReversed()) await step()
  }
  try {
    const dir = mkdtempSync(join(tmpdir(), 'farebox-attacks-'))
    undo.push(() => rmSync(dir, { recursive: true, force: true }))
    const devnet = await startDevnet()
    undo.push(() => devnet.stop())
    const upstream = vendor()
    undo.push(() => upstream.stop())
    // Each replica uses one at a time.
    const keys = () => Array.from({ length: fleet?.size ?? 1 }, () => generatePrivateKey())
    const relayers = { one: relayersOf('one', keys()), two: relayersOf('two', keys()) }
    const relayerEnv = { ...relayers.one, ...relayers.two }
    for (const key of Object.values(relayerEnv))
      await rpc(devnet.rpcUrl, 'anvil_setBalance', [privateKeyToAddress(key), toHex(10n ** 21n)])
    mkdirSync(join(dir, 'media'))
    const solana = hasSolana ? await startSolana() : undefined
    undo.push(() => solana?.node.stop())
    const more = solana ? solanaRow(solana.payTo) : ''
    writeFileSync(
      join(dir, 'farebox.toml'),
      toml({ payTo: devnet.payTo, vendorUrl: upstream.origin, settings, row, more, relayers }),
    )
    const node = holdingNode(devnet.rpcUrl)
    undo.push(() => node.stop())
    const ledger = (await fleet?.fresh()) ?? sqliteLedger(join(dir, database))
    const settingsOfProcess = {
      PORT: '0',
      // Others take over from a replica that was killed after so long, and clients wait for thirty seconds.
      ...(fleet && { LEASE_SECONDS: '10' }),
      DATABASE_URL: ledger.url,
      RPC_URL: node.url,
      ...relayerEnv,
      CHANNEL_KEY: devnet.relayerKey,
      POLL_KEYS: '5b'.repeat(32),
      OPERATOR_TOKEN: TOKEN,
      ...solana?.env,
      ...env,
    }
    const begin = () =>
      Array.from({ length: fleet?.size ?? 1 }, () => farebox(['start'], { dir, env: settingsOfProcess }))
    let processes = begin()
    const end = async () => void (await Promise.all(processes.map((process) => process.stop())))
    undo.push(end)
    if (await dropUnknownSettings(processes[0] as FareboxProcess, dir)) {
      await end()
      processes = begin()
    }
    let origins = await Promise.all(processes.map(({ origin }) => origin))
    const before = fleet && balancer(() => origins)
    undo.push(() => before?.stop())
    return {
      get origin() {
        return before?.origin ?? (origins[0] as string)
      },
      get process() {
        return processes[0] as FareboxProcess
      },
      dir,
      ledger,
      replicas: fleet?.size ?? 1,
      environment: settingsOfProcess,
      solana: solana && { node: solana.node, feePayer: solana.feePayer },
      crash: end,
      hold: node.hold,
      async restart() {
        node.release()
        processes = begin()
        origins = await Promise.all(processes.map(({ origin }) => origin))
      },
      payTo: devnet.payTo,
      asset: devnet.asset,
      relayers: Object.values(relayerEnv).map((key) => privateKeyToAddress(key)),
      vendor: upstream,
      chain: (method, params) => rpc(devnet.rpcUrl, method, params),
      async operator(method, path, body) {
        const answer = await operate(before?.origin ?? (origins[0] as string), { method, path, body })
        // Every replica reads the controls each two seconds.
        if (fleet && method !== 'GET') await pause(CONTROLS_MS)
        return answer
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** An older checkout refuses settings that came later. True if there were any: start it again without them. */
async function dropUnknownSettings(process: FareboxProcess, dir: string): Promise<boolean> {
  const refused = await process.origin.then(() => '', String)
  const unknown = [...refused.matchAll(/farebox\.toml:(\d+):\d+: \S+: there is no such setting/g)].map(
    ([, line]) => line,
  )
  const path = join(dir, 'farebox.toml')
  const lines = readFileSync(path, 'utf8').split('\n')
  writeFileSync(path, lines.filter((_, index) => !unknown.includes(String(index + 1))).join('\n'))
  return unknown.length > 0
}

async function startSolana() {
  const node = await solanaNode({ clock: { now: Date.now } })
  const [seller, feePayer] = [await newKey(), await newKey()]
  node.airdropSol(feePayer.address)
  await node.openAccount(seller.address)
  const env = { SOLANA_URL: node.url, FEE_PAYER: feePayer.secret }
  return { node, payTo: seller.address, feePayer: feePayer.address, env }
}

async function operate(origin: string, { method, path, body }: { method: string; path: string; body: unknown }) {
  const response = await fetch(`${origin}/operator${path}`, {
    method,
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} /operator${path}: ${response.status} ${text.slice(0, 300)}`)
  return text === '' ? undefined : JSON.parse(text)
}
