/** Addresses that a foreign URL may reach: only the public internet (IANA special-purpose address registries). */
import { BlockList, isIP } from 'node:net'

type Address = { readonly address: string; readonly family: number }
/** Resolves every address of a host. */
export type Lookup = (host: string) => Promise<readonly Address[]>

const PRIVATE_4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
]
/** Documentation, 6to4 relays, benchmarks, multicast and everything above it. */
const RESERVED_4 = [
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
]
/**
 * Reserved inside 2000::/3, which contains all public addresses: protocol assignments with Teredo, documentation, 6to4.
 */
const PRIVATE_6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

const private4 = toBlockList([...PRIVATE_4, ...RESERVED_4], 'ipv4')
const private6 = toBlockList(PRIVATE_6, 'ipv6')
const public6 = toBlockList(['2000::/3'], 'ipv6')
/** IPv6 addresses whose last 32 bits are an IPv4 address: mapped, and NAT64 (RFC 6052). */
const carries4 = toBlockList(['::ffff:0:0/96', '64:ff9b::/96'], 'ipv6')

function toBlockList(list: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const ranges = new BlockList()
  for (const block of list) {
    const [address = '', bits] = block.split('/')
    ranges.addSubnet(address, Number(bits), family)
  }
  return ranges
}

/**
 * Whether an address is loopback, private, link-local, shared, multicast or reserved; an embedded IPv4 address is
 * judged itself.
 */
export function isPrivate(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return private4.check(address, 'ipv4')
  if (family !== 6 || address.includes('%')) return true
  if (carries4.check(address, 'ipv6')) return private4.check(last32(address), 'ipv4')
  return !public6.check(address, 'ipv6') || private6.check(address, 'ipv6')
}

function last32(address: string): string {
  const groups = new URL(`http://[${address}]`).hostname.slice(1, -1).split(':')
  const [high = 0, low = 0] = groups.slice(-2).map((group) => Number.parseInt(group || '0', 16))
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}
