/** The HTTP app around the gateways: selects one by host, and adds request ids, CORS headers and the access log. */
import { isSameSecret } from '../core/lib/mod.ts'
import { Elysia } from 'elysia'
import type { Gateway, Reply } from '../core/mod.ts'
import { attemptLimit, type Attempts, isBrowser, type RequestUrl, requestUrl } from '../core/http/mod.ts'
import { documentCompression, isDocument } from './http/compression.ts'
import { isForwarded } from './http/forwarded.ts'
import {
  addressReader,
  type Address,
  type Base,
  originOf,
  originParser,
  isLoopbackHost,
  type RequestAddress,
  unknownAddress,
} from './http/request_address.ts'
import { corsHeaders, isPreflight, preflightReply } from './http/cors.ts'
import { guide } from './docs/guides.ts'
import type { ServerLog } from './log.ts'
import { MCP, mcpEndpoint, type McpEndpoint } from './mcp/mod.ts'
import { CONSOLE, type ConsoleApi, tooManyAttempts } from './operator/console.ts'
import { OPERATOR, type OperatorApi } from './operator/mod.ts'
import { ASSETS } from './web/bundle.ts'
import { isPage, webPages } from './web/mod.ts'
import { defined } from './config/settings.ts'
import manifest from '../package.json' with { type: 'json' }

export type AppOptions = {
  /** `origin` is the gateway's own public origin, if it has one. */
  readonly gateways: readonly GatewayHost[]
  readonly log: ServerLog
  readonly publicOrigin?: string | undefined
  /** How pages write the command `farebox`. */
  readonly buyerCommand?: string
  readonly trustedProxies?: readonly string[]
  /** Called when a request of this peer has started; the returned function is called when its response begins. */
  readonly track?: (peer: Address) => (reply: { readonly isStream: boolean }) => void
  /** Whether responses ask to close their connection, because the process stops. */
  readonly isClosing?: () => boolean
  /** Body of GET /devnet; absent with real money. */
  readonly devnet?: (origin: string) => unknown
  /** Whether a devnet has keys of vendors: then it serves nobody who comes from elsewhere, or through a proxy. */
  readonly isKeyed?: boolean
  /** Serves GET /metrics to requests with this bearer token; without it the path returns 404. */
  readonly metrics?: { readonly token: string; scrape(): Promise<{ readonly type: string; readonly body: string }> }
  /** Limits wrong tokens at /metrics and /operator/*. Give the console the same one. */
  readonly attempts?: Attempts
  /** Serves /operator/* to requests with this bearer token; without it the paths return 404. */
  readonly operator?: { readonly token: string; readonly api: OperatorApi; readonly console?: ConsoleApi }
}

type GatewayHost = { readonly gateway: Gateway; readonly hosts: readonly string[]; readonly origin?: string }

/** State of an app. */
type Serving = Pick<AppOptions, 'log' | 'publicOrigin' | 'track' | 'isClosing' | 'devnet' | 'operator'> & {
  readonly byHost: ReadonlyMap<string, GatewayHost>
  readonly first: GatewayHost
  readonly newRequestId: () => string
  readonly parsed: ReturnType<typeof originParser>
  readonly addressOf: ReturnType<typeof addressReader>
  readonly headersFor: ReturnType<typeof corsHeaders>
  readonly toolsOf: ReturnType<typeof toolsByGateway>
  readonly pages: ReturnType<typeof webPages>
  readonly compressed: ReturnType<typeof documentCompression>
  readonly ownReply: ReturnType<typeof ownRoutes>
}

/** One app for all gateways. Requests for a host that no gateway names go to the first gateway. */
export function app(options: AppOptions) {
  const { gateways, log, publicOrigin, buyerCommand, trustedProxies = [], devnet, isKeyed, metrics, operator } = options
  const { attempts = attemptLimit({ now: Date.now }) } = options
  const byHost = new Map(gateways.flatMap((each) => each.hosts.map((host) => [host.toLowerCase(), each] as const)))
  const [first] = gateways
  if (!first) throw new RangeError('app() needs at least one gateway')
  const parsed = originParser()
  const pages = webPages(defined({ command: buyerCommand }))
  const serving: Serving = {
    ...options,
    byHost,
    first,
    newRequestId: requestIds(),
    parsed,
    addressOf: addressReader({ publicOrigin, trustedProxies, log, parsed }),
    headersFor: corsHeaders(),
    toolsOf: toolsByGateway(),
    pages,
    compressed: documentCompression(),
    ownReply: ownRoutes({ ...defined({ devnet, isKeyed, metrics, operator }), attempts, pages }),
  }
  const elysia = new Elysia()
  // Asked of its context, the server would be defined as a property of every request.
  return elysia.all('/*', ({ request }) => serve(serving, request, elysia.server?.requestIP(request) ?? null), {
    parse: 'none',
  })
}

async function serve(serving: Serving, request: Request, peer: Address): Promise<Response> {
  const { log, isClosing, newRequestId, parsed, addressOf, headersFor } = serving
  const end = serving.track?.(peer)
  let isStream = false
  try {
    const startedAt = performance.now()
    const id = clientRequestId(request) ?? newRequestId()
    const url = requestUrl(request)
    const base = hasSingleHost(request) ? parsed(url.origin) : null
    const address = base ? addressOf(base, request, peer) : unknownAddress(peer)
    const routed = base ? route(serving, request, { url, id, address, base }) : badHost
    const reply = routed instanceof Promise ? await routed : routed
    const path = base ? url.path : ''
    isStream = reply.body instanceof ReadableStream
    log.access({
      id,
      method: request.method,
      path,
      status: reply.status,
      ms: tenths(performance.now() - startedAt),
      ip: address.ip,
    })
    const { variant } = reply
    const isVariant = variant?.of === reply.headers
    const plain = isVariant ? variant.shared : reply.headers
    const headers = path === DEVNET || isConsole(path) ? plain : headersFor(plain, request.headers.get('origin'))
    const response = new Response(reply.body as BodyInit | null, { status: reply.status, headers })
    if (isVariant) response.headers.set(variant.name, reply.headers[variant.name] ?? '')
    response.headers.set('x-request-id', id)
    if (isClosing?.()) response.headers.set('connection', 'close')
    return response
  } finally {
    end?.({ isStream })
  }
}

type Routing = {
  readonly url: RequestUrl
  readonly id: string
  readonly address: RequestAddress
  readonly base: Base
}

function route(
  serving: Serving,
  request: Request,
  { url: { path, search }, id, address, base }: Routing,
): Reply | Promise<Reply> {
  const { log, publicOrigin, byHost, first, devnet, operator, pages } = serving
  const { ip, host, origin } = address
  if (request.method === 'OPTIONS' && isPreflight(request)) return preflightReply(request)
  const own = serving.ownReply(request, { path, search }, { address, base })
  if (own) return own
  const name = byHost.size === 0 || byHost.has(host) ? host : host.replace(/:\d+$/, '')
  const target = byHost.get(name) ?? first
  const caller = {
    ip,
    origin: target.origin ?? (target === first ? origin : originOf(publicOrigin, { name, origin })),
    isHostTrusted: target.origin !== undefined || publicOrigin !== undefined || (base.isLoopback && base.host === host),
  }
  const page = guideFor(request.method, path, target.gateway)
  if (page) return page
  const isServed = isPage(path) && (isPublic(target.gateway) || (operator?.console && path.startsWith(ASSETS)))
  const made = isServed ? pages(request, { path, origin: caller.origin }) : undefined
  if (made) return made
  if (path === MCP && isDocumented(target.gateway)) {
    if (devnet && !isDirect(request, base, host)) return notDirect('A devnet has private keys')
    return serving.toolsOf(target.gateway)(request, {
      ...caller,
      called: ({ tool, status, ms }) => log.access({ id, method: 'POST', path, status, ms: tenths(ms), ip, tool }),
    })
  }
  const isOwnHost = path === READYZ && byHost.has(name)
  const reply = target.gateway.handle(isOwnHost ? askingForSales(request) : request, caller)
  if (isDocument(path)) return reply.then((document) => serving.compressed(request, path, document))
  return isBrowser(request.headers) && isPublic(target.gateway)
    ? reply.then((made) => pages.payable(request, made))
    : reply
}

/**
 * Whether a request has the operator's token, or the refusal of an address that was wrong too often. Without the
 * token these paths are answered like any unknown one.
 */
function proofOf(
  request: Request,
  { token, ip, attempts }: { readonly token: string; readonly ip: string; readonly attempts: Attempts },
): 'operator' | Reply | undefined {
  const given = request.headers.get('authorization')
  if (given === null) return undefined
  const wait = attempts.secondsToWait(ip)
  if (wait > 0) return tooManyAttempts(wait)
  if (isSameSecret(given, `Bearer ${token}`)) return 'operator'
  attempts.failed(ip)
  return undefined
}

/** Answers the routes of the process, which no gateway serves: devnet, metrics, the operator's API and console. */
function ownRoutes({
  devnet,
  isKeyed = false,
  metrics,
  operator,
  attempts,
  pages,
}: Pick<AppOptions, 'devnet' | 'isKeyed' | 'metrics' | 'operator'> & {
  readonly attempts: Attempts
  readonly pages: ReturnType<typeof webPages>
}) {
  return function ownReply(
    request: Request,
    { path, search }: Pick<RequestUrl, 'path' | 'search'>,
    { address: { ip, host, origin }, base }: { readonly address: RequestAddress; readonly base: Base },
  ): Reply | Promise<Reply> | undefined {
    if (devnet && (path === DEVNET || isKeyed) && !isDirect(request, base, host))
      return notDirect(path === DEVNET ? '/devnet shows a private key' : 'This devnet has keys of vendors')
    if (devnet && path === DEVNET) return devnetReply(request.method, devnet(origin))
    if (metrics && path === METRICS && request.method === 'GET') {
      const proof = proofOf(request, { token: metrics.token, ip, attempts })
      if (proof !== undefined) return proof === 'operator' ? metrics.scrape().then(metricsReply) : proof
    }
    if (operator && path.startsWith(OPERATOR)) {
      const proof = proofOf(request, { token: operator.token, ip, attempts })
      if (proof !== undefined) return proof === 'operator' ? operator.api(request, { path, search }) : proof
    }
    if (operator?.console && isConsole(path)) {
      const answer =
        path === CONSOLE && isRead(request.method)
          ? pages.console(request)
          : operator.console(request, { path, search, ip, origin })
      if (answer) return answer
    }
    return undefined
  }
}

/** The tools of each gateway, made once. */
function toolsByGateway(): (gateway: Gateway) => McpEndpoint {
  const tools = new Map<Gateway, McpEndpoint>()
  return (gateway) => {
    const endpoint = tools.get(gateway) ?? mcpEndpoint(gateway, { version: manifest.version })
    tools.set(gateway, endpoint)
    return endpoint
  }
}

/** For a Host header that is missing, invalid or repeated (RFC 9112, 3.2). */
const badHost: Reply = {
  status: 400,
  headers: { 'content-type': 'application/json' },
  body: '{"error":"Invalid Host header"}',
}

/** Shows a private key, though of test money only: it gets no CORS headers, so no web page can read it. */
const DEVNET = '/devnet'
const METRICS = '/metrics'

/** Of a load balancer it asks about the process; by a gateway's own host name, whether that gateway sells. */
const READYZ = '/readyz'

function askingForSales(request: Request): Request {
  const url = new URL(request.url)
  url.searchParams.set('sells', '')
  return new Request(url, { method: request.method, headers: request.headers })
}

/** The console is for pages of this origin only. */
const isConsole = (path: string): boolean => path === CONSOLE || path.startsWith(`${CONSOLE}/`)
const isRead = (method: string): boolean => method === 'GET' || method === 'HEAD'

/**
 * Two Host headers arrive joined by a comma. They are refused, because a proxy in front may have read the other one
 * (RFC 9112, 3.2).
 */
const hasSingleHost = (request: Request): boolean => !request.headers.get('host')?.includes(',')

/**
 * Whether the caller is on this machine, with no proxy between. A web page whose host name resolves to this machine
 * (DNS rebinding) sends a foreign Host header.
 */
function isDirect({ headers }: Request, base: Base, host: string): boolean {
  return base.isLoopback && isLoopbackHost(host) && !isForwarded(headers)
}

function notDirect(why: string): Reply {
  const message =
    `${why}, so it answers this machine alone: without a proxy between, and without a header that proxies add. ` +
    'Use http://localhost, http://127.0.0.1 or http://[::1].'
  return {
    status: 403,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    body: JSON.stringify({ error: 'Forbidden', message }),
  }
}

function devnetReply(method: string, info: unknown): Reply {
  if (method !== 'GET' && method !== 'HEAD')
    return {
      status: 405,
      headers: { 'content-type': 'application/json', allow: 'GET, HEAD' },
      body: '{"error":"Method not allowed"}',
    }
  return {
    status: 200,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    body: JSON.stringify(info, null, 2),
  }
}

/** Whether a gateway shows programs what it sells. */
const isDocumented = ({ endpoints }: Gateway): boolean => endpoints.some(({ name }) => name === 'discovery.openapi')

/** Whether it shows people: retired gateways, and those whose `docs` are hidden, have no pages. */
const isPublic = ({ endpoints }: Gateway): boolean => endpoints.some(({ name }) => name === 'docs')

/** The guide page at this path. */
function guideFor(method: string, path: string, gateway: Gateway): Reply | undefined {
  if (method !== 'GET' && method !== 'HEAD') return undefined
  const page = guide(path)
  return page && isPublic(gateway) ? page : undefined
}

function metricsReply({ type, body }: { type: string; body: string }): Reply {
  return { status: 200, headers: { 'content-type': type, 'cache-control': 'no-store' }, body }
}

function clientRequestId(request: Request): string | undefined {
  const id = request.headers.get('x-request-id')
  return id && /^[\w.-]{8,64}$/.test(id) ? id : undefined
}

/** A random prefix per process, then a counter: unique, and cheaper than a random id per request. */
function requestIds(): () => string {
  const prefix = crypto.randomUUID().slice(0, 8)
  let count = 0
  return () => `${prefix}-${(count++).toString(36).padStart(6, '0')}`
}

const tenths = (ms: number): number => Math.round(ms * 10) / 10
