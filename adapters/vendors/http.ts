/** The only outgoing fetch: a deadline, bounded bytes, redirects followed by hand, and no private address behind a foreign URL. */
import { lookup as systemLookup } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'

export type FetchMedia = (url: string, at: { signal: AbortSignal; maxBytes: number }) => Promise<{ bytes: Uint8Array; type: string }>

export type HttpOptions = {
  readonly fetch?: typeof globalThis.fetch
  readonly lookup?: (host: string) => Promise<readonly { address: string }[]>
  /** Hosts that may be private all the same: a vendor on the operator's own network. Written `host:port`. */
  readonly trusted?: readonly string[]
}

const MAX_REDIRECTS = 4

/** Downloads what a vendor's URL points at. Throws for a private address, a bad status, too many bytes or redirects. */
export function mediaFetcher({ fetch = globalThis.fetch, lookup = resolveAll, trusted = [] }: HttpOptions = {}): FetchMedia {
  return async (start, { signal, maxBytes }) => {
    let url = new URL(start)
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      await assertPublic(url)
      const response = await fetch(url, { signal, redirect: 'manual', headers: { accept: 'image/*, video/*, audio/*' } })
      const location = response.headers.get('location')
      if (response.status >= 300 && response.status < 400 && location) {
        await response.body?.cancel()
        url = new URL(location, url)
        continue
      }
      if (!response.ok) throw new Error(`the media host answered ${response.status}`)
      const type = response.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
      return { bytes: await readAtMost(response, maxBytes), type }
    }
    throw new Error(`more than ${MAX_REDIRECTS} redirects`)
  }

  async function assertPublic(url: URL): Promise<void> {
    if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new Error(`media over ${url.protocol} is not fetched`)
    if (trusted.includes(url.host)) return
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const addresses = isIP(host) ? [{ address: host }] : await lookup(host)
    if (addresses.length === 0) throw new Error('the media host has no address')
    if (addresses.some(({ address }) => isPrivate(address))) throw new Error('the media host has a private address')
  }
}

async function readAtMost(response: Response, maxBytes: number): Promise<Uint8Array> {
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) {
    await response.body?.cancel()
    throw new Error(`the media is larger than ${maxBytes} bytes`)
  }
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxBytes) throw new Error(`the media is larger than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

const resolveAll = (host: string) => systemLookup(host, { all: true })

const PRIVATE_4 = ['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24', '192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/3']
const PRIVATE_6 = ['::/127', '64:ff9b::/96', '100::/64', 'fc00::/7', 'fe80::/10', 'ff00::/8']
const privateBlocks = new BlockList()
for (const block of PRIVATE_4) privateBlocks.addSubnet(...subnet(block), 'ipv4')
for (const block of PRIVATE_6) privateBlocks.addSubnet(...subnet(block), 'ipv6')

function subnet(block: string): [string, number] {
  const [address = '', bits] = block.split('/')
  return [address, Number(bits)]
}

/** Loopback, private, link-local, carrier-grade NAT, multicast and reserved addresses, IPv4-mapped ones included. */
export function isPrivate(address: string): boolean {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  const plain = mapped ?? address
  if (/^::ffff:/i.test(plain)) return true
  return privateBlocks.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4')
}
