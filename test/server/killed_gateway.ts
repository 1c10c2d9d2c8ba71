/** A gateway that tests kill: it sells chats by `exact` and by channels, on a devnet. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import type { Devnet } from '../../server/devnet/mod.ts'
import type { GatewayProcess, GatewayProcesses } from './gateway_process.ts'

const CHANNEL_KEY = generatePrivateKey()

type Options = {
  readonly start: GatewayProcesses['start']
  readonly devnet: Devnet
  /** The origin of the chat vendor. */
  readonly vendor: string
  /** The node; that of the devnet unless told. */
  readonly rpcUrl?: string
  /** Takes API keys. */
  readonly hasKeys?: boolean
}

/** Starts it in a directory, the first time or after it was killed. */
export function killedGateway(at: string, { start, devnet, vendor, rpcUrl, hasKeys = false }: Options): GatewayProcess {
  const config = `
[vendors.vendor-h]
chat = "openai-chat"
base_url = "${vendor}/v1"

[[gateways]]
name = "shop"
network = "${devnet.network}"
pay_to = "${devnet.payTo}"
rpc_url_env = "RPC_URL"
relayer_key_env = "RELAYER"
schemes = ["exact", "batch-settlement"]
channel_key_env = "CHANNEL_KEY"
keys = ${hasKeys}
`
  writeFileSync(join(at, 'farebox.toml'), config)
  return start(at, {
    RPC_URL: rpcUrl ?? devnet.rpcUrl,
    RELAYER: devnet.relayerKey,
    CHANNEL_KEY,
    POLL_KEYS: '5e'.repeat(32),
    VENDOR_H_API_KEY: 'vendor-key-of-the-test',
  })
}
