/** CORS: browsers may call every route, send every payment header and read every receipt (contract 4.5). */
import { EXPOSED_HEADERS, PAYMENT_HEADERS, type Reply } from '../../core/mod.ts'
import { isLoopback } from '../config/mod.ts'

const METHODS = 'GET, HEAD, POST, OPTIONS'

/**
 * Request headers that every preflight allows. Public clients send `access-control-expose-headers` as a request header
 * (decision 46).
 */
const ALLOWED = [
  ...PAYMENT_HEADERS,
  'content-type',
  'accept',
  'authorization',
  'access-control-expose-headers',
  'x-request-id',
  'x-api-key',
  'payment-authorization',
  'accept-payment',
  'idempotency-key',
  'x-poll-wallet',
  'x-poll-timestamp',
  'x-poll-signature',
  'anthropic-version',
  'anthropic-beta',
]

/**
 * Request headers that no preflight allows, because proxies and servers trust them: forwarded addresses and hosts,
 * method overrides, hop-by-hop headers and cookies.
 */
const UNSAFE = [
  /^(?:x-)?forwarded/,
  /^x-(?:real-ip|client-ip|cluster-client-ip|original-|rewrite-url|http-method|method-override)/,
  /^(?:true-client-ip|cf-|fastly-|fly-)/,
  /^(?:proxy-|sec-)/,
  /^(?:cookie2?|host|origin|connection|content-length|keep-alive|te|trailer|transfer-encoding|upgrade|via)$/,
]

const TOKEN = /^[\w!#$%&'*+.^`|~-]{1,100}$/
const MAX_REQUESTED = 100

export function isPreflight(request: Request): boolean {
  return request.headers.has('origin') && request.headers.has('access-control-request-method')
}

/** Allows the usual headers, and those that the browser requests unless they are unsafe. */
export function preflightReply(request: Request): Reply {
  const requested = (request.headers.get('access-control-request-headers') ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
  const safe = requested
    .slice(0, MAX_REQUESTED)
    .filter((name) => TOKEN.test(name) && !UNSAFE.some((pattern) => pattern.test(name)))
  return {
    status: 204,
    headers: {
      'access-control-allow-methods': METHODS,
      'access-control-allow-headers': [...new Set([...ALLOWED, ...safe].map((name) => name.toLowerCase()))].join(', '),
      'access-control-max-age': '86400',
      vary: 'Access-Control-Request-Method, Access-Control-Request-Headers',
    },
    body: null,
  }
}

/**
 * Adds CORS headers to those of a reply, if the request has an `Origin`; `Vary` tells caches so (contract 4.5). Exposes
 * only those payment headers that the reply has, to keep the headers of a 402 small.
 */
function withCors(headers: Reply['headers'], origin: string | null): Record<string, string> {
  const vary = headers.vary === undefined ? 'Origin' : `${headers.vary}, Origin`
  if (origin === null) return { ...headers, vary }
  const present = new Set([...Object.keys(headers).map((name) => name.toLowerCase()), 'x-request-id'])
  const exposed = EXPOSED_HEADERS.filter((name) => present.has(name.toLowerCase())).join(', ')
  return { ...headers, vary, 'access-control-allow-origin': '*', 'access-control-expose-headers': exposed }
}

/**
 * Makes response headers of a reply's. Those that many replies share are made once for callers without an origin, and
 * once for pages.
 */
export function corsHeaders(): (headers: Reply['headers'], origin: string | null) => Headers | Record<string, string> {
  const [plain, forPages] = [new WeakMap<object, Headers>(), new WeakMap<object, Headers>()]
  return (headers, origin) => {
    if (!Object.isFrozen(headers)) return withCors(headers, origin)
    const known = origin === null ? plain : forPages
    const made = known.get(headers) ?? new Headers(withCors(headers, origin))
    known.set(headers, made)
    return made
  }
}

/**
 * Accepts web pages of this machine and of the public origin. On devnet only these may use free models, because those
 * may run on the operator's own keys.
 */
export function isOwnPage(publicOrigin: string | undefined): (origin: string) => boolean {
  return (origin) => origin === publicOrigin || isLoopback(URL.parse(origin)?.hostname.replace(/^\[|\]$/g, '') ?? '')
}
