import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { isPrivate } from '../../../adapters/http/private_addresses.ts'
import { mediaFetcher } from '../../../adapters/http/media_download.ts'
import { scriptedVendor } from '../../fakes/images.ts'
import { demoImages } from '../../../server/devnet/demo/images.ts'
import { brokenImageVendors, greys, greyVendor } from '../../conformance/broken_vendors.ts'
import { runBroken, runLaws } from '../../conformance/law.ts'
import { imageVendorLaws } from '../../conformance/vendors.ts'

const fixed =
  <T>(vendor: T) =>
  async () => ({ open: async () => vendor, close: async () => {} })

runLaws('grey vendor', imageVendorLaws, fixed(greyVendor()))
runLaws('scripted vendor', imageVendorLaws, fixed(scriptedVendor(async (job) => greys(job))))

runLaws('demo images', imageVendorLaws, fixed(demoImages()))

runBroken('vendors', imageVendorLaws, brokenImageVendors)

describe('the media guard', () => {
  const PNG = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0])
  const requests: string[] = []
  let port = 0
  let stop = () => {}

  beforeAll(() => {
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: (request) => answer(request) })
    port = server.port ?? 0
    stop = () => void server.stop(true)
  })
  afterAll(() => stop())

  function answer(request: Request): Response {
    const { pathname, searchParams } = new URL(request.url)
    requests.push(pathname)
    const location = searchParams.get('to')
    if (location !== null) return new Response(null, { status: 302, headers: { location } })
    if (pathname === '/image') return new Response(PNG, { headers: { 'content-type': 'image/png; charset=x' } })
    if (pathname === '/page') return new Response('<html>', { headers: { 'content-type': 'image/png' } })
    if (pathname === '/large') return new Response(new Uint8Array(2_000))
    if (pathname === '/endless')
      return new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(400)) }))
    if (pathname === '/silent') return new Response(new ReadableStream({ pull: () => new Promise(() => {}) }))
    if (pathname === '/loop') return new Response(null, { status: 307, headers: { location: '/loop' } })
    return new Response('gone', { status: 404 })
  }

  /** Names that lead to loopback, and one of them trusted. */
  const names: Readonly<Record<string, readonly string[]>> = {
    'trusted.test': ['127.0.0.1'],
    'private.test': ['127.0.0.1'],
    'mixed.test': ['93.184.215.14', '127.0.0.1'],
    'nowhere.test': [],
  }
  const lookup = async (host: string) => (names[host] ?? []).map((address) => ({ address, family: 4 }))
  const load = (url: string, maxBytes = 1_000, signal = AbortSignal.timeout(5_000)) =>
    mediaFetcher({ lookup, trusted: [`trusted.test:${port}`] })(url.replaceAll('PORT', String(port)), {
      signal,
      maxBytes,
    })

  test('loads from a trusted host, by what the bytes are', async () => {
    const { bytes, type } = await load('http://trusted.test:PORT/image')
    expect([[...bytes], type]).toEqual([[...PNG], 'image/png'])
  })

  test('knows a trusted host by its usual port, written or not', async () => {
    const lookup = async () => [{ address: '127.0.0.1', family: 4 }]
    const isCalled = async (url: string, trusted: string) =>
      await mediaFetcher({ lookup, trusted: [trusted] })(url, {
        signal: AbortSignal.timeout(5_000),
        maxBytes: 1,
      }).catch(({ message }: Error) => !message.includes('private address'))
    const trusted = [
      ['http://own.test/', 'own.test'],
      ['http://own.test/', 'own.test:80'],
      ['https://own.test/', 'own.test:443'],
    ] as const
    const others = [
      ['http://own.test/', 'own.test:443'],
      ['http://own.test:81/', 'own.test'],
      ['http://own.test:81/', 'own.test:80'],
    ] as const
    expect(await Promise.all([...trusted, ...others].map(([url, host]) => isCalled(url, host)))).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ])
  })

  test('follows redirects, relative ones too, at most four', async () => {
    expect((await load('http://trusted.test:PORT/?to=/%3Fto=%2Fimage')).type).toBe('image/png')
    await expect(load('http://trusted.test:PORT/loop')).rejects.toThrow('more than 4 redirects')
  })

  test('calls nobody at a private address: named, numeric, one of several, or behind a redirect', async () => {
    requests.length = 0
    const refused = [
      'http://private.test:PORT/image',
      'http://mixed.test:PORT/image',
      'http://127.0.0.1:PORT/image',
      'http://[::1]:PORT/image',
      'http://[::ffff:127.0.0.1]:PORT/image',
      'http://2130706433:PORT/image',
      'http://0x7f.1:PORT/image',
      'http://169.254.169.254/latest/meta-data',
    ]
    for (const url of refused) await expect(load(url)).rejects.toThrow('private address')
    expect(requests).toEqual([])
    for (const url of ['http://private.test:PORT/image', 'http://127.0.0.1:PORT/image'])
      await expect(load(`http://trusted.test:PORT/?to=${encodeURIComponent(url)}`)).rejects.toThrow('private address')
    expect(requests).toEqual(['/', '/'])
  })

  test('calls nobody without an address, over another protocol, or with credentials', async () => {
    await expect(load('http://nowhere.test/image')).rejects.toThrow('no address')
    for (const url of ['ftp://trusted.test:PORT/image', 'file:///etc/passwd', 'data:text/plain,x'])
      await expect(load(url)).rejects.toThrow(/^media URL /)
    await expect(load('http://user:key@trusted.test:PORT/image')).rejects.toThrow('credentials')
    await expect(load('not a url')).rejects.toThrow()
  })

  test('takes no bad status, no page that calls itself an image, and no more bytes than asked for', async () => {
    await expect(load('http://trusted.test:PORT/none')).rejects.toThrow('the media host answered 404')
    await expect(load('http://trusted.test:PORT/page')).rejects.toThrow('is no image')
    await expect(load('http://trusted.test:PORT/large')).rejects.toThrow('more than 1000 bytes')
    await expect(load('http://trusted.test:PORT/endless')).rejects.toThrow('more than 1000 bytes')
    expect((await load('http://trusted.test:PORT/large', 2_000)).bytes.length).toBe(2_000)
  })

  test('ends with its signal, in the middle of a body too', async () => {
    const reason = new Error('out of time')
    await expect(load('http://trusted.test:PORT/image', 1_000, AbortSignal.abort(reason))).rejects.toBe(reason)
    const controller = new AbortController()
    const silent = load('http://trusted.test:PORT/silent', 1_000, controller.signal)
    while (!requests.includes('/silent')) await new Promise((resolve) => setImmediate(resolve))
    controller.abort(reason)
    await expect(silent).rejects.toBe(reason)
  })
})

describe('private addresses', () => {
  const own = [
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.255.255.255',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    'fc00::1',
    'fd12::1',
    'fe80::1',
    'ff02::1',
    '::ffff:10.0.0.1',
    '::ffff:a00:1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    'fe80::1%eth0',
    'not an address',
    '',
  ]
  const everybodys = [
    '1.1.1.1',
    '93.184.215.14',
    '100.63.255.255',
    '100.128.0.1',
    '172.15.255.255',
    '172.32.0.1',
    '2606:4700::1111',
    '::ffff:1.1.1.1',
    '64:ff9b::101:101',
  ]
  test.each(own)('%p is private', (address) => expect(isPrivate(address)).toBe(true))
  test.each(everybodys)('%p is public', (address) => expect(isPrivate(address)).toBe(false))
})
