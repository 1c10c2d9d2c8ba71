/** Maps an address to one caller for rate limits: an IPv4 address, or the /64 block of an IPv6 address. */

const IPV4 = /^\d{1,3}(?:\.\d{1,3}){3}$/

/**
 * The key of a caller's address in rate limits and budgets. One customer usually has a whole IPv6 /64, so only the
 * first four groups count. An IPv4-mapped IPv6 address counts as its IPv4 address. Text that is no IP address is
 * returned unchanged.
 */
export function addressKey(ip: string): string {
  const zone = ip.indexOf('%')
  const bare = zone === -1 ? ip : ip.slice(0, zone)
  if (!bare.includes(':')) return bare
  const groups = groupsOf(bare.toLowerCase())
  if (!groups) return ip
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  const [high = 0, low = 0] = groups.slice(6)
  if (isMapped) return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`
}

/** The eight groups of an IPv6 address; undefined for text that is none. */
function groupsOf(text: string): readonly number[] | undefined {
  const halves = withoutDots(text).split('::')
  if (halves.length > 2) return undefined
  const [head = [], tail] = halves.map((half) => (half === '' ? [] : half.split(':')))
  const missing = 8 - head.length - (tail?.length ?? 0)
  if (tail ? missing < 1 : missing !== 0) return undefined
  const all = [...head, ...Array.from({ length: missing }, () => '0'), ...(tail ?? [])]
  return all.every((group) => /^[0-9a-f]{1,4}$/.test(group))
    ? all.map((group) => Number.parseInt(group, 16))
    : undefined
}

/** Writes an IPv4 address at the end as two groups. */
function withoutDots(text: string): string {
  const last = text.slice(text.lastIndexOf(':') + 1)
  if (!IPV4.test(last)) return text
  const [a = 0, b = 0, c = 0, d = 0] = last.split('.').map(Number)
  return `${text.slice(0, -last.length)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
}
