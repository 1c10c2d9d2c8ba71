/**
 * Processes of the chat bench: `bun chat_gateways.ts <name> <json>`. Says over IPC where it listens, answers `facts`,
 * and ends with its parent. upstream: the model. bare: Bun.serve that passes everything on. farebox: the product as the
 * server has it, before the same upstream. hono: @x402/hono that sells the same by vouchers.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Hex } from 'viem'
import { evmChain } from '../../adapters/chains/evm/mod.ts'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { systemClock } from '../../adapters/local.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { sqliteStorage } from '../../adapters/storage/sqlite/mod.ts'
import { countTokens, textDigest, warmTokenizer } from '../../adapters/token_counter.ts'
import { openaiChat } from '../../adapters/providers/openai/chat.ts'
import { gateway, memoized, retention, type Storage } from '../../core/mod.ts'
import { app } from '../../server/app.ts'
import type { Devnet } from '../../server/devnet/mod.ts'
import { serverLog } from '../../server/log.ts'
import { tokenThread } from '../../server/wiring/token_thread.ts'
import { startMaintenance } from '../../server/maintenance.ts'
import { upstream } from './upstream.ts'
import { voucherPeer } from './voucher_peer.ts'

/** `baseUrl` is the upstream's, up to where the protocol's own paths begin; `dir` is where it may write. */
export type Given = {
  readonly dir: string
  readonly baseUrl: string
  readonly channels?: Channels
  /** Counts on a thread and remembers counts, as the server does. */
  readonly isThreaded?: boolean
}

/** The chain on which vouchers are good, and the keys of its seller. */
export type Channels = Pick<Devnet, 'rpcUrl' | 'network' | 'asset' | 'domain' | 'payTo' | 'relayerKey'> & {
  readonly authorizerKey: Hex
  /** The peer's channels are in files, not in memory. */
  readonly inFiles?: boolean
}

export type Ready = { readonly port: number }

export type Facts = {
  /** Resident memory in MB, after a collection of garbage. */
  readonly rss: number
  /** Answers of the upstream, by name of who asked. */
  readonly requests: Readonly<Record<string, number>>
  /** Transfers to the seller on the cash chain. */
  readonly transfers: number
}

type Standing = { readonly port: number; facts(): Partial<Facts>; stop(): Promise<unknown> }

export const BUYERS = 256
/** Wallets of the cash chain exist by name. */
export const buyerName = (index: number): string => `buyer ${index % BUYERS}`
const BALANCE = 1_000_000_000_000n
/** Raised by configuration, on the same path. */
const FREE_TIER = [
  { requests: 1_000_000_000, windowMs: 60_000 },
  { requests: 1_000_000_000, windowMs: 3_600_000 },
]

const starts: Readonly<Record<string, (given: Given) => Promise<Standing>>> = {
  upstream: startUpstream,
  bare: startBare,
  farebox: startFarebox,
  hono: startHono,
}

async function startUpstream(): Promise<Standing> {
  const { port, requests, stop } = upstream()
  return { port, facts: () => ({ requests }), stop }
}

/** The least cost of passing on: nothing is read, checked or counted. */
async function startBare({ baseUrl }: Given): Promise<Standing> {
  const url = `${baseUrl}/chat/completions`
  const server = serve(async (request) => {
    const { status, headers, body } = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: request.body,
    })
    return new Response(body, { status, headers: { 'content-type': headers.get('content-type') ?? '' } })
  })
  return { port: server.port ?? 0, facts: () => ({}), stop: () => server.stop(true) }
}

/** In front of the same upstream, whose answers it passes on as text. */
async function startHono({ baseUrl, channels, dir }: Given): Promise<Standing> {
  if (!channels) throw new Error('hono needs a chain for its channels')
  const server = serve(await voucherPeer({ ...channels, dir }, `${baseUrl}/chat/completions`))
  return { port: server.port ?? 0, facts: () => ({}), stop: () => server.stop(true) }
}

async function channelsOf({ authorizerKey, ...chain }: Channels, storage: Storage) {
  const made = evmChain({
    ...chain,
    readAt: 'pending',
    schemes: ['batch-settlement'],
    channels: {
      storage,
      authorizerKey,
      withdrawDelay: 86_400,
      minDeposit: 1n,
      coinPrice: 0,
      takeLease: async () => false,
    },
  })
  const checked = await made.check({ now: Date.now() })
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  return made
}

function cash() {
  const chain = memoryChain()
  for (let index = 0; index < BUYERS; index++) chain.fund(chain.wallet(buyerName(index)), BALANCE)
  return chain
}

async function startFarebox({ baseUrl, dir, channels, isThreaded = false }: Given): Promise<Standing> {
  const log = serverLog('info')
  const storage = sqliteStorage(join(dir, 'farebox.db'))
  const cashChain = cash()
  const chain = channels ? await channelsOf(channels, storage) : cashChain
  const vendor = openaiChat({
    baseUrl,
    key: 'bench',
    maker: 'bench',
    timeoutMs: 120_000,
    clock: systemClock,
    log,
  })
  const thread = isThreaded ? tokenThread() : undefined
  if (!thread) await warmTokenizer()
  const ports = {
    storage,
    objects: memoryObjects(),
    chain,
    vendors: { images: () => undefined, chat: () => vendor, media: () => Promise.reject(new Error('no media here')) },
    clock: systemClock,
    log,
    random: (bytes: number) => new Uint8Array(randomBytes(bytes)),
    countTokens: thread ? memoized(thread.countTokens, { digest: textDigest }) : countTokens,
    background: (work: Promise<unknown>) =>
      void work.catch((error: Error) => log.alert('background work failed', { error: error.stack })),
  }
  const workerId = randomBytes(12).toString('hex')
  const farebox = gateway({ ports, name: 'bench', label: 'base-sepolia', workerId, freeTier: FREE_TIER })
  const sweeping = startMaintenance({
    gateways: [farebox],
    storage,
    objects: memoryObjects(),
    retention,
    clock: systemClock,
    log,
    workerId,
  })
  const elysia = app({ gateways: [{ gateway: farebox, hosts: [] }], log })
  const server = serve((request) => elysia.fetch(request))
  elysia.server = server
  return {
    port: server.port ?? 0,
    facts: () => ({ transfers: cashChain.transfers.length }),
    async stop() {
      await server.stop(true)
      await sweeping.stop()
      await storage.close()
      thread?.close()
      log.flush()
    },
  }
}

function serve(fetch: (request: Request) => Response | Promise<Response>) {
  return Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 255, fetch } as Parameters<typeof Bun.serve>[0])
}

if (import.meta.main) {
  const [name = '', given = '{}'] = process.argv.slice(2)
  const start = starts[name]
  if (!start) throw new Error(`no such process: ${name}`)
  const { port, facts, stop } = await start(JSON.parse(given))
  process.on('disconnect', () => void stop().finally(() => process.exit(0)))
  process.on('message', () => {
    Bun.gc(true)
    process.send?.({ rss: process.memoryUsage.rss() / 1e6, requests: {}, transfers: 0, ...facts() } satisfies Facts)
  })
  process.send?.({ port } satisfies Ready)
}
