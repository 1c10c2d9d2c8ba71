/**
 * One contestant, a process of its own: `bun contestant.ts <name> <json>`. Says where it listens over IPC, and ends
 * with its parent. gateway: the product as `bun run start` has it. shop: the same, before a scripted vendor. prices:
 * the same, before made-up prices. peer: @x402/hono. bare: Bun.serve.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { evmChain } from '../../adapters/chains/evm/mod.ts'
import { systemClock } from '../../adapters/local.ts'
import { diskObjects } from '../../adapters/objects/disk.ts'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { sqliteStorage } from '../../adapters/storage/sqlite/mod.ts'
import { cachedMarket } from '../../adapters/providers/lib/market_cache.ts'
import { demoMarket } from '../../server/devnet/demo/market.ts'
import { scriptedVendor } from '../fakes/images.ts'
import { endpoints, gateway, retention } from '../../core/mod.ts'
import { app } from '../../server/app.ts'
import { parseConfig } from '../../server/config/mod.ts'
import { startDevnet } from '../../server/devnet/mod.ts'
import { serverLog } from '../../server/log.ts'
import { start } from '../../server/main.ts'
import { startMaintenance } from '../../server/maintenance.ts'
import { fillLedger } from './fill.ts'
import { peer } from './peer.ts'

/** `dir` is where it may write; `amount` is the peer's price; `repeat` is what bare answers with. */
export type Given = {
  readonly dir: string
  readonly amount?: string
  readonly repeat?: { readonly status: number; readonly headers: [string, string][]; readonly body: string }
  /** It says how long its event loop was held. */
  readonly beats?: boolean
  /** Rows of a ledger that are over. */
  readonly expired?: { readonly rows: number; readonly kind: 'settled' | 'unpaid' }
}

/** Its message to its parent; the devnet only where it has one. */
export type Ready = {
  readonly port: number
  readonly devnet?: {
    readonly rpcUrl: string
    readonly asset: string
    readonly payTo: string
    readonly minterKey: string
  }
}

/** Its answer to any message of its parent: CPU time since its start. */
export type Cpu = { readonly cpuMicros: number }

type Standing = { readonly ready: Ready; stop(): Promise<unknown> }

const contestants: Readonly<Record<string, (given: Given) => Promise<Standing>>> = {
  gateway: startGateway,
  shop: startShop,
  prices: startPrices,
  peer: startPeer,
  bare: startBare,
  ledger: startLedger,
}

async function startGateway({ dir }: Given): Promise<Standing> {
  const read = parseConfig('', {
    PORT: '0',
    DATABASE_URL: `sqlite:${join(dir, 'farebox.db')}`,
    OBJECT_STORE: `file:${join(dir, 'media')}`,
    // All of the bench is one address.
    UNPAID_CHARACTERS_PER_MINUTE: '10000000000',
  })
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  const { url, stop, wired } = await start(read.config, serverLog('info'))
  const devnet = wired.devnet && { devnet: factsOf(wired.devnet.evm) }
  return { ready: { port: Number(new URL(url).port), ...devnet }, stop }
}

/** The wiring of devnet as in server/wiring/mod.ts, with another vendor: it answers at once with one pixel. */
async function startShop({ dir }: Given): Promise<Standing> {
  const devnet = await startDevnet({ dir: join(dir, 'devnet') })
  const log = serverLog('info')
  const storage = sqliteStorage(join(dir, 'farebox.db'))
  const vendor = scriptedVendor()
  const chain = evmChain({ ...devnet, readAt: 'pending', maxInFlight: 1 })
  const checked = await chain.check()
  if (checked.kind !== 'ready') throw new Error(JSON.stringify(checked))
  const ports = {
    storage,
    objects: diskObjects(join(dir, 'media')),
    chain,
    vendors: {
      images: () => vendor,
      chat: () => undefined,
      media: () => Promise.reject(new Error('the scripted vendor answers with data URIs')),
    },
    clock: systemClock,
    log,
    random: (bytes: number) => new Uint8Array(randomBytes(bytes)),
    countTokens: async (text: string) => text.length,
    background: (work: Promise<unknown>) =>
      void work.catch((error: Error) => log.alert('background work failed', { error: error.stack })),
  }
  const workerId = randomBytes(12).toString('hex')
  const shop = gateway({ ports, name: 'devnet', label: 'base-sepolia', workerId })
  const sweeping = startMaintenance({
    gateways: [shop],
    storage,
    objects: memoryObjects(),
    retention,
    clock: systemClock,
    log,
    workerId,
  })
  const { fetch } = app({ gateways: [{ gateway: shop, hosts: [] }], log }) as unknown as {
    fetch: (request: Request) => Promise<Response>
  }
  const server = serve(fetch)
  return {
    ready: { port: server.port ?? 0, devnet: factsOf(devnet) },
    async stop() {
      await server.stop(true)
      await sweeping.stop()
      chain.close()
      await storage.close()
      await devnet.stop()
      log.flush()
    },
  }
}

async function startPeer({ dir, amount = '22000' }: Given): Promise<Standing> {
  const devnet = await startDevnet({ dir: join(dir, 'devnet') })
  const server = serve(await peer(devnet, scriptedVendor(), amount))
  return {
    ready: { port: server.port ?? 0, devnet: factsOf(devnet) },
    async stop() {
      await server.stop(true)
      await devnet.stop()
    },
  }
}

/**
 * The source's clock stands, so that every answer is as long as the first; the cache's goes, and asks again every five
 * seconds.
 */
async function startPrices({ dir }: Given): Promise<Standing> {
  const log = serverLog('info')
  const storage = sqliteStorage(join(dir, 'farebox.db'))
  const market = cachedMarket(demoMarket({ clock: { now: () => 1_790_000_000_000 } }), { clock: systemClock, log })
  const ports = {
    storage,
    objects: diskObjects(join(dir, 'media')),
    chain: memoryChain(),
    vendors: {
      market,
      images: () => undefined,
      chat: () => undefined,
      media: () => Promise.reject(new Error('no media here')),
    },
    clock: systemClock,
    log,
    random: (bytes: number) => new Uint8Array(randomBytes(bytes)),
    countTokens: async (text: string) => text.length,
    background: (work: Promise<unknown>) =>
      void work.catch((error: Error) => log.alert('background work failed', { error: error.stack })),
  }
  const workerId = randomBytes(12).toString('hex')
  // An address may ask for 600 a minute; the window stays, with room for all that is asked here.
  const roomy = endpoints.map((each) =>
    each.kind === 'free' && each.limit ? { ...each, limit: { ...each.limit, requests: 1_000_000_000 } } : each,
  )
  const shop = gateway({ ports, name: 'bench', label: 'base-sepolia', workerId, endpoints: roomy })
  const sweeping = startMaintenance({
    gateways: [shop],
    storage,
    objects: memoryObjects(),
    retention,
    clock: systemClock,
    log,
    workerId,
  })
  const elysia = app({ gateways: [{ gateway: shop, hosts: [] }], log })
  const server = serve((request) => elysia.fetch(request))
  elysia.server = server
  return {
    ready: { port: server.port ?? 0 },
    async stop() {
      await server.stop(true)
      await sweeping.stop()
      await storage.close()
      log.flush()
    },
  }
}

/** A ledger with calls that are over; whoever asks has them pruned. */
async function startLedger({ dir, expired }: Given): Promise<Standing> {
  const path = join(dir, 'farebox.db')
  const now = Date.now()
  if (expired) await fillLedger(path, { ...expired, now })
  const storage = sqliteStorage(path)
  const server = serve(async () => new Response(`${await storage.prune(now)}`))
  return {
    ready: { port: server.port ?? 0 },
    async stop() {
      await server.stop(true)
      await storage.close()
    },
  }
}

/** Reads the JSON that a POST brings, and answers with the same bytes: what HTTP itself costs here. */
async function startBare({ repeat }: Given): Promise<Standing> {
  if (!repeat) throw new Error('bare needs something to repeat')
  const { status, headers, body } = repeat
  const answer = () => new Response(body, { status, headers })
  const server = serve(async (request) => {
    if (request.method !== 'POST') return answer()
    await request.json()
    return answer()
  })
  return { ready: { port: server.port ?? 0 }, stop: () => server.stop(true) }
}

function serve(fetch: (request: Request) => Response | Promise<Response>) {
  return Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 255, fetch } as Parameters<typeof Bun.serve>[0])
}

function factsOf(devnet: Awaited<ReturnType<typeof startDevnet>>) {
  const { rpcUrl, asset, payTo, buyer } = devnet
  return { rpcUrl, asset, payTo, minterKey: buyer.privateKey }
}

if (import.meta.main) {
  const [name = '', given = '{}'] = process.argv.slice(2)
  const begin = contestants[name]
  if (!begin) throw new Error(`no such contestant: ${name}`)
  const { ready, stop } = await begin(JSON.parse(given))
  process.on('disconnect', () => void stop().finally(() => process.exit(0)))
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send?.({ cpuMicros: user + system } satisfies Cpu)
  })
  process.send?.(ready)
}
