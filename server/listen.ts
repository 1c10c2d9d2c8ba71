/** Sockets of a process: one for all gateways, told apart by host, and one for each gateway that has a port of its own (contract 21.7). */
import { app, proxyCheck } from './app.ts'
import type { Config } from './config/mod.ts'
import { defaultLimits, guardConnections } from './connections.ts'
import type { ServerLog } from './log.ts'
import { StartError } from './start_error.ts'
import type { Wired } from './wiring/mod.ts'

export type Listening = {
  /** Of the socket that all gateways share. */
  readonly url: string
  /** Takes no more connections; with `now` it ends those that are open. */
  stop(now: boolean): Promise<void>
}

export type InFlight = { add<T>(request: Promise<T>): Promise<T>; over(): Promise<void> }

/** Requests that have reached a handler and are not answered yet. */
export function inFlight(): InFlight {
  const open = new Set<Promise<unknown>>()
  return {
    add(request) {
      const over = () => void open.delete(request)
      open.add(request)
      request.then(over, over)
      return request
    },
    async over() {
      while (open.size > 0) await Promise.allSettled(open)
    },
  }
}

type Hosted = Parameters<typeof app>[0]['gateways'][number]
type Options = { readonly log: ServerLog; readonly requests: InFlight }

/** Throws StartError for a port that cannot be had; then nothing listens. */
export function listen(config: Config, { gateways, devnet, metrics }: Wired, { log, requests }: Options): Listening {
  const { publicOrigin, trustedProxies, operatorToken } = config
  const servers: Bun.Server<unknown>[] = []
  const ports = new Map<string, number>()
  let main = config.port
  const facts = devnet && {
    devnet: (origin: string) => devnetFacts(devnet, gateways, (name) => atPort(origin, ports.get(name) ?? main)),
  }
  const figures = metrics &&
    operatorToken !== undefined && { metrics: { token: operatorToken, scrape: metrics.scrape } }
  const usual = defaultLimits()
  const total = config.maxConnections ?? usual.total
  const limits = { total, perAddress: config.maxConnectionsPerAddress ?? Math.ceil(total / 2) }
  const isProxy = proxyCheck(trustedProxies)
  const guard = guardConnections({
    ...limits,
    ports: () => servers.map(portOf),
    isExempt: isProxy,
    onClosed: (facts) => log.warn('connections over the limit were closed', { ...facts, ...limits }),
  })
  const streamed = new WeakSet<Request>()
  const shared = {
    log,
    onStream: (request: Request) => void streamed.add(request),
    trustedProxies,
    ...facts,
    ...figures,
  }
  const hosted = gateways.map(({ gateway, config: { hosts, publicOrigin: origin } }): Hosted => ({
    gateway,
    hosts,
    ...(origin && { origin }),
  }))

  try {
    const server = open(config.port, { gateways: hosted, publicOrigin })
    main = portOf(server)
    for (const [index, { config: row }] of gateways.entries()) {
      if (row.port === undefined) continue
      const own = { gateways: [{ ...(hosted[index] as Hosted), hosts: [] }] }
      ports.set(
        row.name,
        portOf(devnet ? openNear(row.port, own) : open(row.port, own, `the port of gateway ${row.name}`)),
      )
    }
    return { url: `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${server.port}`, stop }
  } catch (error) {
    void stop(true)
    throw error
  }

  function open(
    port: number,
    served: Pick<Parameters<typeof app>[0], 'gateways' | 'publicOrigin'>,
    setting = 'PORT',
  ): Bun.Server<unknown> {
    const elysia = app({ ...shared, ...served })
    try {
      // Bun's own 413 has no body and its idle limit is 10 s: sizes are checked in core, and an inline window takes 30 s.
      const server = Bun.serve({
        port,
        hostname: config.host,
        idleTimeout: 255,
        maxRequestBodySize: Number.MAX_SAFE_INTEGER,
        fetch: (request, self) => handle(request, self),
      })
      elysia.server = server
      servers.push(server)
      return server

      function handle(request: Request, self: Bun.Server<unknown>): Promise<Response> {
        const end = guard.begin(self.requestIP(request))
        const answering = Promise.resolve(elysia.fetch(request))
        const over = () => end({ isStream: streamed.has(request) })
        answering.then(over, over)
        return requests.add(answering)
      }
    } catch (error) {
      throw refusal(error as Error & { code?: string }, { port, host: config.host, setting })
    }
  }

  /** Play gateways take another port where theirs is taken: `/devnet` tells which. */
  function openNear(port: number, served: Parameters<typeof open>[1]): Bun.Server<unknown> {
    try {
      return open(port, served)
    } catch {
      return open(0, served)
    }
  }

  async function stop(now: boolean): Promise<void> {
    if (now) guard.stop()
    await Promise.all(servers.map((server) => server.stop(now)))
  }
}

const portOf = (server: Bun.Server<unknown>): number => server.port ?? 0

function refusal(
  { code, message }: Error & { code?: string },
  { port, host, setting }: { port: number; host: string; setting: string },
): StartError {
  if (code === 'EADDRINUSE')
    return new StartError(
      `Port ${port} on ${host} is taken. Stop what listens there, or set ${setting} to another one (0 picks a free one).`,
    )
  if (code === 'EACCES')
    return new StartError(`Port ${port} on ${host} may not be opened by this user. Set ${setting} to one above 1023.`)
  return new StartError(`Cannot listen on ${host}:${port}: ${message}`)
}

function atPort(origin: string, port: number): string {
  const url = new URL(origin)
  url.port = String(port)
  return url.origin
}

/** `baseUrl` of a gateway by its name. Shows keys, if to play money. */
function devnetFacts(
  { evm, solana }: NonNullable<Wired['devnet']>,
  gateways: Wired['gateways'],
  baseUrl: (name: string) => string,
) {
  const onEvm = {
    network: evm.network,
    rpc_url: evm.rpcUrl,
    asset: evm.asset,
    pay_to: evm.payTo,
    buyer: { address: evm.buyer.address, private_key: evm.buyer.privateKey },
  }
  const onSolana = solana && {
    network: solana.network,
    rpc_url: solana.rpcUrl,
    asset: solana.mint,
    pay_to: solana.payTo,
    buyer: { address: solana.buyer.address, private_key: solana.buyer.privateKey },
  }
  const chainOf = (name: string) => (name === 'solana' && onSolana ? onSolana : onEvm)
  return {
    note: 'Local chains with play money. This route and the keys on it exist on devnet only.',
    ...onEvm,
    gateways: gateways.map(({ gateway: { name }, config: { label } }) => ({
      name,
      label,
      base_url: baseUrl(name),
      ...chainOf(name),
    })),
  }
}
