/** Where faults play: one Postgres, one chain behind a wire, two gateway processes, and wallets with money. */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'pg'
import { type Hex, parseEther, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { postgresStorage } from '../../adapters/storage/postgres/mod.ts'
import { type Anvil, rpc, startAnvil } from '../../server/devnet/anvil.ts'
import type { EvmScheme } from '../../adapters/chains/evm/node/x402_contracts.ts'
import { CONTRACTS, DEVNET_ASSET } from '../../server/devnet/mod.ts'
import { postgresServer, type PostgresServer } from '../adapters/storage/postgres/postgres_server.ts'
import { wallets } from '../bench/buyers.ts'
import { POLL_SECRET } from './buyers.ts'
import { NOTES } from './kill_points.ts'
import { type Guard, guard, type Replica, replica, writeConfig } from './replicas.ts'
import { type ProxyOptions, type RpcProxy, rpcProxy } from './rpc_proxy.ts'

/** A directory and a database, for replicas that are still to be hired. */
export type Ground = {
  readonly dir: string
  readonly media: string
  readonly databaseUrl: string
  readonly pool: Pool
  readonly guarding: Guard
  readonly database: PostgresServer['own']
  /** A file that each process loads first. */
  readonly preload?: string
}

export type Fixture = Pick<Ground, 'dir' | 'media' | 'pool' | 'database'> & {
  readonly node: Anvil
  readonly rpc: RpcProxy
  readonly payTo: Hex
  readonly replicas: Pair
  readonly people: Awaited<ReturnType<typeof wallets>>
}
type Pair = readonly [Replica, Replica]

type FixtureOptions = {
  readonly buyers: number
  readonly proxy: Omit<ProxyOptions, 'upstream'>
  /** Origin of a stand-in for xAI, which then films. */
  readonly films?: string
  /** Origin of a stand-in for a chat service and for nodes of other chains. */
  readonly talks?: string
  /** How long a silent replica keeps its work; the gateway's own default unless told. */
  readonly leaseSeconds?: number
  /** Its scheme; `exact` unless told. */
  readonly schemes?: readonly EvmScheme[]
  /** Whether it takes API keys; not unless told. They need channels. */
  readonly hasKeys?: boolean
  /** A file that each process loads first, and what else is in its environment. */
  readonly preload?: string
  readonly env?: Readonly<Record<string, string>>
}

/** One row with two relayer keys. What channels owe is claimed in every round. */
export const onEvm = (payTo: Hex, schemes: readonly EvmScheme[], hasKeys = false): string => `[[gateways]]
name = "fault"
network = "eip155:84532"
pay_to = "${payTo}"
rpc_url_env = "RPC_URL"
relayer_key_env = ["RELAYER_A", "RELAYER_B"]
schemes = ${JSON.stringify(schemes)}
${schemes.includes('batch-settlement') ? CHANNELS : ''}
${hasKeys ? 'keys = true' : ''}
`
const CHANNELS = `channel_key_env = "CHANNEL_KEY"
channel_withdraw_seconds = 900
channel_claim_above = 1
coin_price = 0`

/**
 * Both replicas greet when it resolves. What it started is in `undo`, also when it rejects: to be ended from the last
 * to the first.
 */
export async function fixture(
  undo: (() => unknown)[],
  {
    buyers,
    proxy,
    films,
    talks,
    leaseSeconds,
    schemes = ['exact'],
    hasKeys = false,
    preload,
    env: more,
  }: FixtureOptions,
): Promise<Fixture> {
  const [position, node] = await Promise.all([
    ground(undo),
    startAnvil({ blockTime: 1 }).then((anvil) => (undo.push(() => anvil.stop()), anvil)),
  ])
  const { dir, media, pool, database } = position
  const rpc = await rpcProxy({ upstream: node.url, ...proxy })
  undo.push(() => rpc.close())
  const keys = [generatePrivateKey(), generatePrivateKey(), generatePrivateKey()] as const
  const payTo = privateKeyToAddress(generatePrivateKey())
  const people = await funded(node, { keys, payTo, buyers })

  writeConfig(dir, {
    gateways: onEvm(payTo, schemes, hasKeys),
    media,
    ...(films && { films }),
    ...(talks && { talks }),
    ...(leaseSeconds && { leaseSeconds }),
  })
  const env = {
    POLL_KEYS: POLL_SECRET,
    RELAYER_A: keys[0],
    RELAYER_B: keys[1],
    CHANNEL_KEY: generatePrivateKey(),
    ...more,
    ...(films && { XAI_API_KEY: 'key', XAI_BASE_URL: films }),
  }
  const replicas = await pair(undo, { ...position, ...(preload && { preload }) }, (name) => ({
    ...env,
    RPC_URL: rpc.urlOf(name),
  }))
  return { dir, media, pool, database, node, rpc, payTo, replicas, people }
}

export async function ground(undo: (() => unknown)[]): Promise<Ground> {
  const dir = mkdtempSync(join(tmpdir(), 'farebox-fault-'))
  const guarding = guard(dir)
  undo.push(() => guarding.end())
  const postgres = await postgresServer()
  undo.push(() => postgres.stop())
  const databaseUrl = await postgres.fresh()
  const pool = await prepared(databaseUrl)
  undo.push(() => pool.end())
  return { dir, media: join(dir, 'media'), databaseUrl, pool, guarding, database: postgres.own }
}

/** Two replicas with the configuration that was written; both greet when it resolves. */
export async function pair(
  undo: (() => unknown)[],
  { dir, databaseUrl, guarding, preload }: Ground,
  envOf: (name: string) => Readonly<Record<string, string>>,
): Promise<Pair> {
  const replicas = [await hired('a'), await hired('b')] as const
  await Promise.all(replicas.map((each) => each.start()))
  return replicas

  async function hired(name: string): Promise<Replica> {
    const made = await replica({
      name,
      dir,
      databaseUrl,
      env: envOf(name),
      guard: guarding,
      ...(preload && { preload }),
    })
    undo.push(() => made.stop())
    return made
  }
}

/** The tables, with notes beside them of who did what. */
async function prepared(url: string): Promise<Pool> {
  const storage = postgresStorage(url)
  await storage.ready()
  await storage.close()
  const pool = new Pool({ connectionString: url, max: 4 })
  pool.on('error', () => {}) // the server may end first
  pool.on('connect', (client) => client.on('error', () => {}))
  await pool.query(NOTES)
  return pool
}

/** Test USDC on the chain, gas for the relayers, money for the buyers. The third key mints. */
async function funded(
  { url }: Anvil,
  { keys, payTo, buyers }: { keys: readonly [Hex, Hex, Hex]; payTo: Hex; buyers: number },
) {
  for (const [address, code] of CONTRACTS) await rpc(url, 'anvil_setCode', [address, code])
  for (const key of keys) await rpc(url, 'anvil_setBalance', [privateKeyToAddress(key), toHex(parseEther('1000'))])
  return await wallets({ port: 0, rpcUrl: url, asset: DEVNET_ASSET, payTo, minterKey: keys[2] }, buyers)
}

/** Ends the leases of a life that is over: work, settlements and the relayer's key. */
export async function bury(life: string, { pool }: Pick<Fixture, 'pool'>): Promise<void> {
  const now = Date.now()
  await pool.query(
    `UPDATE leases SET expires_at = $2 WHERE worker_id IN (SELECT worker_id FROM fault_workers WHERE life = $1)`,
    [life, now],
  )
  await pool.query(
    `UPDATE calls SET lease_expires_at = $2 WHERE work_status IN ('queued', 'in_progress') AND worker_id IN (SELECT worker_id FROM fault_workers WHERE life = $1)`,
    [life, now],
  )
  await pool.query(
    `UPDATE calls c SET claim_expires_at = $2 FROM fault_claims k WHERE k.call = c.id AND k.claim_token = c.claim_token AND k.life = $1 AND c.payment_status = 'settling'`,
    [life, now],
  )
}
