/** The gateway that is attacked: a process with a chain of its own, and a vendor that counts its answers. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Hex, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { rpc } from '../../../server/devnet/anvil.ts'
import { startDevnet } from '../../../server/devnet/mod.ts'
import { farebox, type FareboxProcess } from './process.ts'
import { type Vendor, vendor } from './vendor.ts'

const TOKEN = 'a-token-of-the-operator-under-attack'
export const CHAT_MODEL = 'vendor-h/chat-under-attack'

export type Target = {
  readonly origin: string
  readonly dir: string
  readonly payTo: Hex
  readonly asset: Hex
  readonly relayers: readonly Hex[]
  readonly vendor: Vendor
  readonly process: FareboxProcess
  /** One call of the chain's node, as its owner, who may do anything. */
  chain<T>(method: string, params: readonly unknown[]): Promise<T>
  /** The operator's API; throws when it refuses. */
  operator(method: string, path: string, body?: unknown): Promise<any>
  stop(): Promise<void>
}

/** `database`: the path of its ledger, in its folder. */
export type TargetOptions = {
  readonly settings?: string
  readonly env?: Readonly<Record<string, string>>
  readonly database?: string
}

/** The host name of the second gateway. */
export const SECOND = 'two.example'

const rowOf = (name: string, payTo: Hex, more = '') => `[[gateways]]
name = "${name}"
network = "eip155:84532"
pay_to = "${payTo}"
rpc_url_env = "RPC_URL"
relayer_key_env = "RELAYER_${name.toUpperCase()}"
schemes = ["exact", "upto", "batch-settlement"]
channel_key_env = "CHANNEL_KEY"
${more}
`

/** The operator pays as much for its answers as the buyers: an unpaid answer is a loss. */
const toml = ({ payTo, vendorUrl, settings }: { payTo: Hex; vendorUrl: string; settings: string }) => `
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

${rowOf('one', payTo)}
${rowOf('two', payTo, `hosts = ["${SECOND}"]`)}`

/** Started on a free port in a new directory, which `stop` removes. */
export async function startTarget({
  settings = '',
  env = {},
  database = 'target.db',
}: TargetOptions = {}): Promise<Target> {
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
    const keys = [generatePrivateKey(), generatePrivateKey()] as const
    for (const key of keys) await rpc(devnet.rpcUrl, 'anvil_setBalance', [privateKeyToAddress(key), toHex(10n ** 21n)])
    mkdirSync(join(dir, 'media'))
    writeFileSync(join(dir, 'farebox.toml'), toml({ payTo: devnet.payTo, vendorUrl: upstream.origin, settings }))
    const process = farebox(['start'], {
      dir,
      env: {
        PORT: '0',
        DATABASE_URL: `sqlite:${join(dir, database)}`,
        RPC_URL: devnet.rpcUrl,
        RELAYER_ONE: keys[0],
        RELAYER_TWO: keys[1],
        CHANNEL_KEY: devnet.relayerKey,
        POLL_KEYS: '5b'.repeat(32),
        OPERATOR_TOKEN: TOKEN,
        ...env,
      },
    })
    undo.push(() => process.stop())
    const origin = await process.origin
    return {
      origin,
      dir,
      payTo: devnet.payTo,
      asset: devnet.asset,
      relayers: keys.map((key) => privateKeyToAddress(key)),
      vendor: upstream,
      process,
      chain: (method, params) => rpc(devnet.rpcUrl, method, params),
      operator: (method, path, body) => operate(origin, { method, path, body }),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
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
