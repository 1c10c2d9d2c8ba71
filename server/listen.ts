/**
 * The listening sockets: one shared by all gateways, and one per gateway that has its own port (contract 21.7; decision
 * 82).
 */
import { isIP } from 'node:net'
import { attemptLimit, type Attempts } from '../core/http/mod.ts'
import { storageProbe } from '../core/ports/mod.ts'
import { app } from './app.ts'
import { proxyCheck } from './http/request_address.ts'
import { type Config, realVendors } from './config/mod.ts'
import { defaultLimits, guardConnections } from './http/connections.ts'
import { inTurns } from './http/turns.ts'
import type { ServerLog } from './log.ts'
import { StartError } from './start_error.ts'
import { accountReports } from './operator/accounts.ts'
import { configurationOf } from './operator/configuration.ts'
import { consoleApi } from './operator/console.ts'
import { operatorApi } from './operator/mod.ts'
import { statusReport } from './operator/status.ts'
import { VERSION } from './wiring/gateways.ts'
import type { Wired } from './wiring/mod.ts'

type Listening = {
  /** URL of the socket that all gateways share. */
  readonly url: string
  /** From now on every response closes its connection, so that clients and proxies leave before the socket does. */
  closeConnections(): void
  /** Stops accepting connections; with `now`, also closes those that are open. */
  stop(now: boolean): Promise<void>
}

type InFlight = {
  /** Counts a request as open until the returned function is called. */
  begin(): () => void
  isIdle(): boolean
  /** Resolves when no request is open. */
  finished(): Promise<void>
}

/** Counts requests until they are answered. */
export function inFlight(): InFlight {
  let open = 0
  let waiting: (() => void)[] = []
  const end = () => {
    open -= 1
    if (open > 0) return
    for (const resolve of waiting) resolve()
    waiting = []
  }
  return {
    begin() {
      open += 1
      return end
    },
    isIdle: () => open === 0,
    finished: () => (open === 0 ? Promise.resolve() : new Promise((resolve) => void waiting.push(resolve))),
  }
}

type GatewayHost = Parameters<typeof app>[0]['gateways'][number]
type Options = { readonly log: ServerLog; readonly requests: InFlight }

/** The sockets that are open. */
type Sockets = {
  readonly host: string
  readonly tracing: Wired['tracing']
  readonly servers: Bun.Server<unknown>[]
  /** Ports of the gateways that have their own. */
  readonly ports: Map<string, number>
  sharedPort: number
  isClosing: boolean
}

/** Opens all sockets. Throws StartError when one cannot be opened, with the others closed again. */
export function listen(config: Config, wired: Wired, { log, requests }: Options): Listening {
  const { gateways, devnet, tracing } = wired
  const sockets: Sockets = {
    host: config.host,
    tracing,
    servers: [],
    ports: new Map(),
    sharedPort: config.port,
    isClosing: false,
  }
  const guard = guardOf(config, { sockets, log })
  const track = (peer: Parameters<typeof guard.begin>[0]) => {
    const answered = guard.begin(peer)
    const end = requests.begin()
    return (reply: { readonly isStream: boolean }) => {
      answered(reply)
      end()
    }
  }
  const shared = { log, track, isClosing: () => sockets.isClosing, ...appOptions(config, wired, sockets) }
  const hosted = gateways.map(({ gateway, config: { hosts, publicOrigin: origin } }): GatewayHost => ({
    gateway,
    hosts,
    ...(origin && { origin }),
  }))
  const stop = async (now: boolean): Promise<void> => {
    if (now) guard.stop()
    await Promise.all(sockets.servers.map((server) => server.stop(now)))
  }

  try {
    const sharedApp = () => app({ ...shared, gateways: hosted, publicOrigin: config.public_origin })
    const server = open(sockets, { port: config.port, setting: 'PORT', appOf: sharedApp })
    sockets.sharedPort = portOf(server)
    for (const [index, { config: settings }] of gateways.entries()) {
      if (settings.port === undefined) continue
      const appOf = () => app({ ...shared, gateways: [{ ...(hosted[index] as GatewayHost), hosts: [] }] })
      const wanted = { port: settings.port, setting: `the port of gateway ${settings.name}`, appOf }
      sockets.ports.set(settings.name, portOf(devnet ? openPreferred(sockets, wanted) : open(sockets, wanted)))
    }
    const host = config.host.includes(':') ? `[${config.host}]` : config.host
    return { url: `http://${host}:${server.port}`, closeConnections: () => void (sockets.isClosing = true), stop }
  } catch (error) {
    void stop(true)
    throw error
  }
}

function guardOf(config: Config, { sockets, log }: { readonly sockets: Sockets; readonly log: ServerLog }) {
  const total = config.max_connections ?? defaultLimits().total
  const limits = { total, perAddress: config.max_connections_per_address ?? Math.ceil(total / 2) }
  return guardConnections({
    ...limits,
    ports: () => sockets.servers.map(portOf),
    isExempt: proxyCheck(config.trusted_proxies ?? []),
    onClosed: (counts) => log.warn('connections over the limit were closed', { ...counts, ...limits }),
  })
}

/** Options that the apps of all sockets share. */
function appOptions(config: Config, wired: Wired, sockets: Sockets) {
  const { gateways, devnet, metrics } = wired
  const { trusted_proxies: trustedProxies = [], operator_token: token } = config
  const attempts = attemptLimit(wired.clock)
  const portOfGateway = (name: string) => sockets.ports.get(name) ?? sockets.sharedPort
  return {
    trustedProxies,
    buyerCommand: config.buyer_command,
    attempts,
    ...(devnet && {
      devnet: (origin: string) => devnetInfo(devnet, gateways, (name) => atPort(origin, portOfGateway(name))),
      isKeyed: realVendors(config).length > 0,
    }),
    ...(metrics && token !== undefined && { metrics: { token, scrape: metrics.scrape } }),
    ...(token !== undefined && { operator: operatorOf(config, wired, { token, attempts }) }),
  }
}

type Wanted = {
  readonly port: number
  /** Name of the setting that errors tell. */
  readonly setting: string
  readonly appOf: () => ReturnType<typeof app>
}

function open({ host, tracing, servers }: Sockets, { port, setting, appOf }: Wanted): Bun.Server<unknown> {
  const elysia = appOf()
  try {
    // Core checks body sizes, because Bun's own 413 has no body. Bun's idle timeout of 10 s is too short for inline
    // work.
    const server = Bun.serve({
      port,
      hostname: host,
      idleTimeout: 255,
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch: inTurns(tracing ? (request) => tracing.request(request, () => elysia.fetch(request)) : elysia.fetch),
    })
    elysia.server = server
    servers.push(server)
    return server
  } catch (error) {
    throw listenError(error as Error & { code?: string }, { port, host, setting })
  }
}

/** Devnet gateways use another port when theirs is in use; `/devnet` shows it. */
function openPreferred(sockets: Sockets, wanted: Wanted): Bun.Server<unknown> {
  try {
    return open(sockets, wanted)
  } catch {
    return open(sockets, { ...wanted, port: 0 })
  }
}

function operatorOf(
  config: Config,
  wired: Wired,
  { token, attempts }: { readonly token: string; readonly attempts: Attempts },
): NonNullable<Parameters<typeof app>[0]['operator']> {
  const { storage, clock, controls, gateways } = wired
  const products = () => {
    const sold = gateways.flatMap(({ gateway }) => gateway.endpoints).filter(({ kind }) => kind === 'sold')
    return [...new Set(sold.flatMap(({ tag, name }) => [tag, name]))].sort()
  }
  const control = { controls, clock, products, gateways: gateways.map(({ gateway }) => gateway.name) }
  const accounts = accountReports(wired.accounts, clock)
  accounts() // Their spending is counted from here.
  const status = statusReport({
    version: VERSION,
    gateways,
    clock,
    token,
    accounts,
    isStorageReachable: storageProbe(storage, clock),
    clockTrouble: wired.clockTrouble,
  })
  const configuration = configurationOf(
    config,
    gateways.map((row) => row.config),
  )
  const keys = { keys: wired.apiKeys, rules: controls.rules }
  const api = operatorApi({ ledger: storage, clock, version: VERSION, control, status, configuration, keys })
  return { token, api, console: consoleApi({ token, api, clock, records: storage, attempts }) }
}

const portOf = (server: Bun.Server<unknown>): number => server.port ?? 0

function listenError(
  { code, message }: Error & { code?: string },
  { port, host, setting }: { port: number; host: string; setting: string },
): StartError {
  if (code === 'EADDRINUSE')
    return new StartError(
      `Port ${port} on ${host} is already in use. Stop the other process, ` +
        `or set ${setting} to another port (0 picks a free one).`,
    )
  if (code === 'EACCES')
    return new StartError(`This user may not listen on port ${port} of ${host}. Set ${setting} to a port above 1023.`)
  if (code === 'EADDRNOTAVAIL' || isIP(host) === 0)
    return new StartError(
      `Cannot listen on ${host}, which is no address or name of this machine (${code}). ` +
        'Set HOST to an IP address or a host name of this machine, or to 0.0.0.0 for all of its addresses.',
    )
  return new StartError(`Cannot listen on ${host}:${port}: ${message}`)
}

function atPort(origin: string, port: number): string {
  const url = new URL(origin)
  url.port = String(port)
  return url.origin
}

/** The body of `/devnet`. Includes private keys, of test money. `baseUrl` takes the name of a gateway. */
function devnetInfo(
  { evm, solana }: NonNullable<Wired['devnet']>,
  gateways: Wired['gateways'],
  baseUrl: (name: string) => string,
) {
  const evmInfo = {
    network: evm.network,
    rpc_url: evm.rpcUrl,
    asset: evm.asset,
    pay_to: evm.payTo,
    buyer: { address: evm.buyer.address, private_key: evm.buyer.privateKey },
  }
  const solanaInfo = solana && {
    network: solana.network,
    rpc_url: solana.rpcUrl,
    asset: solana.mint,
    pay_to: solana.payTo,
    buyer: { address: solana.buyer.address, private_key: solana.buyer.privateKey },
  }
  const chainOf = (name: string) => (name === 'solana' && solanaInfo ? solanaInfo : evmInfo)
  return {
    note: 'Local chains with test money. This route and its keys exist on devnet only.',
    ...evmInfo,
    gateways: gateways.map(({ gateway: { name }, config: { label } }) => ({
      name,
      label,
      base_url: baseUrl(name),
      ...chainOf(name),
    })),
  }
}
