/** Elysia around the gateways: host to gateway, request id, CORS, access log, Reply to Response. Nothing here knows a price. */
import { BlockList, isIP } from 'node:net'
import { Elysia } from 'elysia'
import type { Gateway, Reply } from '../core/mod.ts'
import { isSameSecret } from '../core/lib/ids.ts'
import { isLoopback } from './config/mod.ts'
import { isPreflight, preflightReply, withCors } from './cors.ts'
import { guide } from './docs/guides.ts'
import type { ServerLog } from './log.ts'

export type AppOptions = {
  /** `origin` is a gateway's own public one, where it has one. */
  readonly gateways: readonly Hosted[]
  readonly log: ServerLog
  readonly publicOrigin?: string | undefined
  readonly trustedProxies?: readonly string[]
  /** Called where the reply to this request is a stream. */
  readonly onStream?: (request: Request) => void
  /** What GET /devnet shows; absent when the money is real. */
  readonly devnet?: (origin: string) => unknown
  /** What GET /metrics shows to who brings the token; to everybody else there is no such path. */
  readonly metrics?: { readonly token: string; scrape(): Promise<{ readonly type: string; readonly body: string }> }
}

type Hosted = { readonly gateway: Gateway; readonly hosts: readonly string[]; readonly origin?: string }
type Address = { address: string; port: number } | null
type Standpoint = { readonly ip: string; readonly host: string; readonly origin: string }

/** One app for all gateways. The first one answers for hosts that no gateway names. */
export function app({ gateways, log, publicOrigin, trustedProxies = [], onStream, devnet, metrics }: AppOptions) {
  const byHost = new Map(gateways.flatMap((each) => each.hosts.map((host) => [host.toLowerCase(), each] as const)))
  const [first] = gateways
  if (!first) throw new RangeError('an app needs a gateway')
  const proxies = blockList(trustedProxies)
  const newRequestId = requestIds()

  async function serve(request: Request, peer: Address): Promise<Response> {
    const startedAt = performance.now()
    const id = givenRequestId(request) ?? newRequestId()
    const url = isOneHost(request) ? URL.parse(request.url) : null
    const { ip, host, origin } = url ? standpoint(url, request, peer) : nowhere(peer)
    const reply = url ? await answer(request, url, { ip, host, origin }) : badHost
    const path = url ? pathOf(request.url) : ''
    log.access({
      id,
      method: request.method,
      path,
      status: reply.status,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
      ip,
    })
    if (reply.body instanceof ReadableStream) onStream?.(request)
    const headers = path === DEVNET ? reply.headers : withCors(reply.headers, request.headers.get('origin'))
    return new Response(reply.body as BodyInit | null, {
      status: reply.status,
      headers: { ...headers, 'x-request-id': id },
    })
  }

  async function answer(request: Request, url: URL, { ip, host, origin }: Standpoint): Promise<Reply> {
    if (request.method === 'OPTIONS' && isPreflight(request)) return preflightReply(request)
    if (devnet && pathOf(request.url) === DEVNET)
      return isLocal(url, host) ? showDevnet(request.method, devnet(origin)) : notLocal(host)
    if (metrics && isScrape(request, metrics.token)) return showMetrics(await metrics.scrape())
    const name = byHost.has(host) ? host : host.replace(/:\d+$/, '')
    const called = byHost.get(name) ?? (first as Hosted)
    const page = guideFor(request, called.gateway)
    if (page) return page
    return await called.gateway.handle(request, {
      ip,
      origin: called.origin ?? (called === first ? origin : originOf(name, origin)),
      url,
    })
  }

  /** The process's public origin is the first gateway's; another one stands behind the same door under the name that it is called by. */
  function originOf(name: string, origin: string): string {
    return publicOrigin === undefined ? origin : `${publicOrigin.split('//', 1)[0]}//${name}`
  }

  /** Who calls, and what they call us. Forwarded headers count only from configured proxies (decision 26). */
  function standpoint(url: URL, request: Request, peer: Address): Standpoint {
    const direct = peer?.address ?? ''
    if (!proxies || !isIn(proxies, direct)) return { ip: direct, host: url.host, origin: publicOrigin ?? url.origin }
    const hops = list(request.headers.get('x-forwarded-for')).map(withoutPort).reverse()
    const ip = hops.find((hop) => !isIn(proxies, hop)) ?? direct
    const host = list(request.headers.get('x-forwarded-host')).at(-1)?.toLowerCase() ?? url.host
    const scheme =
      list(request.headers.get('x-forwarded-proto')).at(-1) === 'https' ? 'https' : url.protocol.slice(0, -1)
    return { ip, host, origin: publicOrigin ?? asciiOrigin(scheme, host) ?? url.origin }
  }

  return new Elysia().all('/*', ({ request, server }) => serve(request, server?.requestIP(request) ?? null), {
    parse: 'none',
  })
}

/** A Host header that is no host makes no URL (RFC 9112, 3.2). */
const badHost: Reply = {
  status: 400,
  headers: { 'content-type': 'application/json' },
  body: '{"error":"Invalid Host header"}',
}

function nowhere(peer: Address): Standpoint {
  return { ip: peer?.address ?? '', host: '', origin: '' }
}

/** Shows a private key, if one to play money: no web page of another origin may read it. */
const DEVNET = '/devnet'
const METRICS = '/metrics'

/** Two Host headers arrive as one, with a comma. A gateway and a proxy before it might each believe another one (RFC 9112, 3.2). */
const isOneHost = (request: Request): boolean => !request.headers.get('host')?.includes(',')

/** Any name may resolve to this machine (DNS rebinding), so a page of a foreign name must not read what is shown here. */
const isLocal = (url: URL, host: string): boolean => isLoopbackHost(url.host) && isLoopbackHost(host)

function isLoopbackHost(host: string): boolean {
  const url = URL.parse(`http://${host}`)
  return url !== null && isLoopback(url.hostname.replace(/^\[|\]$/g, ''))
}

function notLocal(host: string): Reply {
  const message = `/devnet shows a private key and answers only to a loopback host; the Host header was ${host.slice(0, 100)}. Call http://localhost, http://127.0.0.1 or http://[::1].`
  return {
    status: 403,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    body: JSON.stringify({ error: 'Forbidden', message }),
  }
}

function showDevnet(method: string, facts: unknown): Reply {
  if (method !== 'GET' && method !== 'HEAD')
    return {
      status: 405,
      headers: { 'content-type': 'application/json', allow: 'GET, HEAD' },
      body: '{"error":"Method not allowed"}',
    }
  return {
    status: 200,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    body: JSON.stringify(facts, null, 2),
  }
}

/** A guide, where the gateway shows its documents: a retired one, and one whose `docs` are hidden, do not. */
function guideFor({ method, url }: Request, { endpoints }: Gateway): Reply | undefined {
  if (method !== 'GET' && method !== 'HEAD') return undefined
  const page = guide(pathOf(url))
  return page && endpoints.some(({ name }) => name === 'docs') ? page : undefined
}

/** Whoever is not the operator is answered as at any path that is not there. */
function isScrape(request: Request, token: string): boolean {
  if (request.method !== 'GET' || pathOf(request.url) !== METRICS) return false
  return isSameSecret(request.headers.get('authorization') ?? '', `Bearer ${token}`)
}

function showMetrics({ type, body }: { type: string; body: string }): Reply {
  return { status: 200, headers: { 'content-type': type, 'cache-control': 'no-store' }, body }
}

function givenRequestId(request: Request): string | undefined {
  const given = request.headers.get('x-request-id')
  return given && /^[\w.-]{8,64}$/.test(given) ? given : undefined
}

/** A random prefix for each process, then a count: unique, and cheaper than a random id per request. */
function requestIds(): () => string {
  const prefix = crypto.randomUUID().slice(0, 8)
  let count = 0
  return () => `${prefix}-${(count++).toString(36).padStart(6, '0')}`
}

function pathOf(url: string): string {
  const start = url.indexOf('/', 8)
  if (start === -1) return '/'
  const end = url.indexOf('?', start)
  return end === -1 ? url.slice(start) : url.slice(start, end)
}

const list = (header: string | null): string[] =>
  (header ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)

/** Some proxies write the port of the connection as well: each would be a caller of its own. `1.2.3.4:80`, `[2001:db8::1]:80` and `[2001:db8::1]` lose it. */
function withoutPort(hop: string): string {
  const [, v6, v4] = /^(?:\[([0-9a-fA-F:.]+)\](?::\d*)?|(\d+\.\d+\.\d+\.\d+):\d*)$/.exec(hop) ?? []
  return v6 ?? v4 ?? hop
}

function blockList(ranges: readonly string[]): BlockList | undefined {
  if (ranges.length === 0) return undefined
  const blocks = new BlockList()
  for (const range of ranges) {
    const [address = '', bits] = range.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) blocks.addAddress(address, family)
    if (bits !== undefined) blocks.addSubnet(address, Number(bits), family)
  }
  return blocks
}

/** Whether an address is that of a configured proxy. */
export function proxyCheck(ranges: readonly string[]): (address: string) => boolean {
  const proxies = blockList(ranges)
  return (address) => proxies !== undefined && isIn(proxies, address)
}

function isIn(blocks: BlockList, address: string): boolean {
  const plain = address.replace(/^::ffff:/i, '')
  return isIP(plain) !== 0 && blocks.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4')
}

function asciiOrigin(scheme: string, host: string): string | undefined {
  return URL.canParse(`${scheme}://${host}`) ? new URL(`${scheme}://${host}`).origin : undefined
}
