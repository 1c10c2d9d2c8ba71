/**
 * One contestant, a process of its own: `bun contestant.ts <name> <json>`. Says where it listens over IPC, and ends with its parent.
 * gateway: the product as `bun run start` has it. shop: the same, before a scripted vendor. peer: @x402/hono. bare: Bun.serve.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { evmChain } from '../../adapters/chains/evm.ts'
import { systemClock } from '../../adapters/machine.ts'
import { diskObjects } from '../../adapters/objects/disk.ts'
import { sqliteStorage } from '../../adapters/storage/sqlite.ts'
import { scriptedVendor } from '../../adapters/vendors/scripted.ts'
import { gateway } from '../../core/mod.ts'
import { app } from '../../server/app.ts'
import { parseConfig } from '../../server/config.ts'
import { startDevnet } from '../../server/devnet/devnet.ts'
import { serverLog } from '../../server/log.ts'
import { start } from '../../server/main.ts'
import { sweep } from '../../server/sweep.ts'
import { peer } from './peer.ts'

/** `dir` is where it may write; `amount` is the peer's price; `challenge` is what bare answers with. */
export type Given = { readonly dir: string; readonly amount?: string; readonly challenge?: { readonly status: number; readonly headers: [string, string][]; readonly body: string } }

/** What it tells its parent; the devnet only where it has one. */
export type Ready = { readonly port: number; readonly devnet?: { readonly rpcUrl: string; readonly asset: string; readonly payTo: string; readonly minterKey: string } }

type Standing = { readonly ready: Ready; stop(): Promise<unknown> }

const contestants: Readonly<Record<string, (given: Given) => Promise<Standing>>> = { gateway: startGateway, shop: startShop, peer: startPeer, bare: startBare }

async function startGateway({ dir }: Given): Promise<Standing> {
  const read = parseConfig('', { PORT: '0', DATABASE_URL: `sqlite:${join(dir, 'farebox.db')}`, OBJECT_STORE: `file:${join(dir, 'media')}` })
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  const { url, stop } = await start(read.config, serverLog('info'))
  return { ready: { port: Number(new URL(url).port) }, stop }
}

/** What server/wiring.ts does for devnet, with another vendor: it answers at once with one pixel. */
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
    vendors: { images: () => vendor, chat: () => undefined, media: () => Promise.reject(new Error('the scripted vendor answers with data URIs')) },
    clock: systemClock,
    log,
    random: (bytes: number) => new Uint8Array(randomBytes(bytes)),
    countTokens: async (text: string) => text.length,
    background: (work: Promise<unknown>) => void work.catch((error: Error) => log.alert('background work failed', { error: error.stack })),
  }
  const owner = randomBytes(12).toString('hex')
  const shop = gateway({ ports, name: 'devnet', label: 'base-sepolia', owner })
  const sweeping = sweep({ gateways: [shop], storage, clock: systemClock, log, owner })
  const { fetch } = app({ gateways: [{ gateway: shop, hosts: [] }], log }) as unknown as { fetch: (request: Request) => Promise<Response> }
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

/** Reads the JSON and answers with the same bytes: what HTTP itself costs here. */
async function startBare({ challenge }: Given): Promise<Standing> {
  if (!challenge) throw new Error('bare needs a challenge to repeat')
  const { status, headers, body } = challenge
  const server = serve(async (request) => {
    await request.json()
    return new Response(body, { status, headers })
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
  process.send?.(ready)
}
