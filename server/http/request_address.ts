/** Reads who calls and what was called, from the socket and from headers of configured proxies (decision 86). */
import { BlockList, isIP } from 'node:net'
import { boundedMap } from '../../core/lib/mod.ts'
import { isLoopback } from '../config/mod.ts'
import type { ServerLog } from '../log.ts'

export type Address = { readonly address: string; readonly port: number } | null
/** The caller's address, and the host and origin that it called. */
export type RequestAddress = { readonly ip: string; readonly host: string; readonly origin: string }

/** The origin that was called, and its parts. */
export type Base = {
  readonly host: string
  readonly origin: string
  readonly protocol: string
  readonly isLoopback: boolean
}

/** Reads the address of a caller, and the host and origin that it called. */
export function addressReader({
  publicOrigin,
  trustedProxies = [],
  log,
  parsed,
}: {
  readonly publicOrigin: string | undefined
  readonly trustedProxies?: readonly string[]
  readonly log: Pick<ServerLog, 'warn'>
  parsed(origin: string): Base | null
}) {
  const proxies = blockList(trustedProxies)
  let isProxyReported = false
  return addressOf

  /** Forwarded headers are trusted only from configured proxies (decision 26). */
  function addressOf(base: Base, request: Request, peer: Address): RequestAddress {
    const direct = peer?.address ?? ''
    if (!proxies || !isIn(proxies, direct)) {
      if (!isProxyReported && request.headers.has('x-forwarded-for')) reportProxy(direct)
      return { ip: direct, host: base.host, origin: publicOrigin ?? base.origin }
    }
    const hops = list(request.headers.get('x-forwarded-for')).map(withoutPort).filter(isIP).reverse()
    const ip = hops.find((hop) => !isIn(proxies, hop)) ?? direct
    const host = list(request.headers.get('x-forwarded-host')).at(-1)?.toLowerCase() ?? base.host
    const scheme =
      list(request.headers.get('x-forwarded-proto')).at(-1) === 'https' ? 'https' : base.protocol.slice(0, -1)
    return { ip, host, origin: publicOrigin ?? parsed(`${scheme}://${host}`)?.origin ?? base.origin }
  }

  /** Logged once: callers may send this header too, not only a proxy. */
  function reportProxy(peer: string): void {
    isProxyReported = true
    log.warn(
      'X-Forwarded-For came from an address that is not in trusted_proxies and was ignored; if it is your proxy, all its callers share one address and its limits: add it to trusted_proxies',
      { peer },
    )
  }
}

/** The configured public origin is the first gateway's. Other gateways have the same scheme and their own host. */
export function originOf(publicOrigin: string | undefined, { name, origin }: { name: string; origin: string }): string {
  return publicOrigin === undefined ? origin : `${publicOrigin.split('//', 1)[0]}//${name}`
}

export function unknownAddress(peer: Address): RequestAddress {
  return { ip: peer?.address ?? '', host: '', origin: '' }
}

export function isLoopbackHost(host: string): boolean {
  const url = URL.parse(`http://${host}`)
  return url !== null && isLoopback(url.hostname.replace(/^\[|\]$/g, ''))
}

/** Parses origins with a cache, because callers send few different ones. */
export function originParser(): (origin: string) => Base | null {
  const known = boundedMap<Base | null>(MAX_ORIGINS)
  return (origin) => {
    const before = known.get(origin)
    if (before !== undefined) return before
    const url = URL.parse(origin)
    // The parts of a URL are made anew whenever they are read.
    const base = url && {
      host: url.host,
      origin: url.origin,
      protocol: url.protocol,
      isLoopback: isLoopbackHost(url.host),
    }
    known.set(origin, base)
    return base
  }
}

const MAX_ORIGINS = 1_000

const list = (header: string | null): string[] =>
  (header ?? '')
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)

/**
 * Strips the port that some proxies add, since rate limits count by address: `1.2.3.4:80`, `[2001:db8::1]:80` and
 * `[2001:db8::1]`.
 */
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

/** Returns a predicate for the addresses of configured proxies. */
export function proxyCheck(ranges: readonly string[]): (address: string) => boolean {
  const proxies = blockList(ranges)
  return (address) => proxies !== undefined && isIn(proxies, address)
}

function isIn(blocks: BlockList, address: string): boolean {
  const plain = address.replace(/^::ffff:/i, '')
  return isIP(plain) !== 0 && blocks.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4')
}
