import { describe, expect, test } from 'bun:test'
import { createServer } from 'node:net'
import { isPrivate } from '../../../adapters/http/private_addresses.ts'
import { vendorHttp } from '../../../adapters/http/fetch.ts'
import { mediaFetcher } from '../../../adapters/http/media_download.ts'
import { retrySeconds, failureKindOf } from '../../../adapters/http/error_replies.ts'
import { START } from '../../kit.ts'
import {
  calm,
  drip,
  flood,
  KEY,
  outcome,
  PNG,
  errorText,
  setup,
  standIn,
  until,
} from '../providers/lib/provider_kit.ts'

const bytes = Buffer.from(PNG, 'base64')
const image = (body: Uint8Array = bytes, type = 'image/png') =>
  new Response(body as BodyInit, { headers: { 'content-type': type } })

describe('isPrivate()', () => {
  const own4 = ['192.0.0.8', '192.0.2.1', '192.88.99.1', '198.51.100.7', '203.0.113.9', '240.0.0.1']
  const own6 = [
    '0:0:0:0:0:ffff:a00:1',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b::',
    '64:ff9b:1::1',
    '100::1',
    'fec0::1',
    '2001::1',
    '2001:db8::1',
    '3fff::1',
    '5f00::1',
    '4000::1',
    'localhost',
  ]
  test.each([...own4, ...own6])('%s is', (address) => expect(isPrivate(address)).toBe(true))
  test.each(['8.8.8.8', '223.255.255.255', '64:ff9b::808:808', '2a00:1450:4001::200e'])('%s is not', (address) =>
    expect(isPrivate(address)).toBe(false),
  )
})

describe('mediaFetcher()', () => {
  const at = { signal: new AbortController().signal, maxBytes: 1_000_000 }

  test('brings bytes, and the type that they are', async () => {
    const { url, host, seen } = standIn(() => image(bytes, 'application/octet-stream'))
    const media = await mediaFetcher({ trusted: [host] })(`${url}/a.png?x=1`, at)
    expect([Buffer.from(media.bytes).toString('base64'), media.type]).toEqual([PNG, 'image/png'])
    expect([seen[0]?.path, seen[0]?.headers.get('authorization')]).toEqual(['/a.png', null])
  })

  test('trusts the header of a file that is not an image', async () => {
    const { url, host } = standIn(() => image(Buffer.from('\0\0\0\x18ftypmp42'), 'video/mp4; codecs=avc1'))
    expect((await mediaFetcher({ trusted: [host] })(url, at)).type).toBe('video/mp4')
  })

  test.each([
    ['HTML that says it is an image', () => image(Buffer.from('<html>oops</html>'))],
    ['an SVG', () => image(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'image/svg+xml')],
    ['a 404', () => new Response('gone', { status: 404 })],
    ['a 500', () => new Response('oops', { status: 500 })],
    [
      'what is compressed, unasked',
      () =>
        new Response(Bun.gzipSync(bytes) as BodyInit, {
          headers: { 'content-type': 'image/png', 'content-encoding': 'gzip' },
        }),
    ],
    ['more bytes than it may be, by its header', () => image(Buffer.concat([bytes, Buffer.alloc(1_000_000)]))],
    ['a redirect to itself, without end', () => new Response(null, { status: 302, headers: { location: '/again' } })],
    ['a redirect to a file', () => new Response(null, { status: 302, headers: { location: 'file:///etc/passwd' } })],
  ])('refuses %s', async (_, answer) => {
    const { url, host } = standIn(answer)
    await expect(mediaFetcher({ trusted: [host] })(url, at)).rejects.toThrow()
  })

  test('lets go of ten gigabytes after the first one too many', async () => {
    const { state, body } = flood()
    const { url, host } = standIn(() => new Response(body, { headers: { 'content-type': 'image/png' } }))
    await expect(mediaFetcher({ trusted: [host] })(url, at)).rejects.toThrow('more than 1000000 bytes')
    await until(() => state.cancelled)
  })

  test.each([
    ['silence', () => new Promise<Response>(() => {})],
    ['a slow drip', () => new Response(drip(), { headers: { 'content-type': 'image/png' } })],
  ])('ends %s with its signal, and with its reason', async (_, answer) => {
    const { url, host, seen } = standIn(answer)
    const stop = new AbortController()
    const work = mediaFetcher({ trusted: [host] })(url, { ...at, signal: stop.signal })
    work.catch(() => {})
    await until(() => seen.length === 1)
    stop.abort(new Error('too late'))
    await expect(work).rejects.toThrow('too late')
  })

  test('judges each redirect anew: a public host cannot lead to a private one', async () => {
    const inner = standIn(() => image())
    const outer = standIn(() => new Response(null, { status: 302, headers: { location: inner.url } }))
    await expect(mediaFetcher({ trusted: [outer.host] })(outer.url, at)).rejects.toThrow('private address')
    expect([outer.seen.length, inner.seen.length]).toEqual([1, 0])
  })

  test('calls the address that it judged: a name that answers otherwise the second time is asked once', async () => {
    const { host, seen } = standIn(() => image())
    const port = host.split(':')[1]
    let requestCount = 0
    const lookup = async () =>
      requestCount++ === 0 ? [{ address: '127.0.0.1', family: 4 }] : [{ address: '127.0.0.9', family: 4 }]
    await mediaFetcher({ trusted: [`rebinding.example.com:${port}`], lookup })(
      `http://rebinding.example.com:${port}/`,
      at,
    )
    expect([requestCount, seen[0]?.headers.get('host')]).toEqual([1, `rebinding.example.com:${port}`])
  })
})

describe('vendorHttp()', () => {
  const http = ({ config }: ReturnType<typeof setup>, more = {}) => vendorHttp({ ...config, name: 'test', ...more })
  const good = () => Response.json({ ok: true })

  test.each([502, 503, 529])('asks once more after %d, after a pause, and no more', async (status) => {
    const { url, seen } = standIn(() => (seen.length === 1 ? new Response('busy', { status }) : good()))
    const made = setup(url)
    expect(await http(made).postJson(url, { a: 1 }, calm())).toEqual({ ok: true })
    expect([seen.map(({ json }) => json), made.clock.pauses]).toEqual([[{ a: 1 }, { a: 1 }], [500]])
    const never = standIn(() => new Response('busy', { status }))
    expect(await outcome(http(made).postJson(never.url, {}, calm()), made.log)).toBe('failure')
    expect(never.seen).toHaveLength(2)
  })

  test('asks once more where nobody listens', async () => {
    const closed = createServer()
    const port = await new Promise<number>((resolve) =>
      closed.listen(0, '127.0.0.1', () => resolve((closed.address() as { port: number }).port)),
    )
    await new Promise((resolve) => closed.close(resolve))
    const made = setup('')
    const work = http(made).postJson(`http://127.0.0.1:${port}/?key=${KEY}`, {}, calm())
    expect(await outcome(work, made.log)).toBe('failure')
    expect(made.clock.pauses).toEqual([500])
    expect(await errorText(work, made.log)).not.toContain(KEY)
  })

  test.each([400, 401, 404, 429, 500, 504])('never asks again after %d', async (status) => {
    const { url, seen } = standIn(() => new Response('no', { status }))
    await expect(http(setup(url)).postJson(url, {}, calm())).rejects.toThrow()
    expect(seen).toHaveLength(1)
  })

  test('never asks again when the connection breaks: the vendor may be at work', async () => {
    let requestCount = 0
    const server = createServer((socket) => {
      requestCount++
      socket.once('data', () => socket.destroy())
    })
    const port = await new Promise<number>((resolve) =>
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port)),
    )
    const made = setup('')
    expect(await outcome(http(made).postJson(`http://127.0.0.1:${port}/`, {}, calm()), made.log)).toBe('failure')
    expect([requestCount, made.clock.pauses]).toEqual([1, []])
    server.close()
  })

  test('believes no declared length of a body that comes in pieces, and lets go of one without end', async () => {
    let isLeft = false
    const server = createServer((socket) => {
      socket.on('error', () => {}).on('close', () => (isLeft = true))
      const piece = `8000\r\n${' '.repeat(0x8000)}\r\n`
      // A turn for others between two pieces: a write that fails calls back at once, before the socket is known to be
      // destroyed.
      const pour = (): void => void (!socket.destroyed && socket.write(piece, () => setImmediate(pour)))
      socket.once('data', () =>
        socket.write(
          'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n',
          pour,
        ),
      )
    })
    const port = await new Promise<number>((resolve) =>
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port)),
    )
    const made = setup('')
    expect(
      await outcome(http(made, { maxBytes: 1_000_000 }).postJson(`http://127.0.0.1:${port}/`, {}, calm()), made.log),
    ).toBe('failure')
    await until(() => isLeft)
    server.close()
  })

  test('follows no redirect, so the key goes nowhere else; the operator is told', async () => {
    const other = standIn(good)
    const { url } = standIn(() => Response.redirect(other.url, 307))
    const made = setup(url)
    expect(
      await outcome(http(made).postJson(url, {}, { ...calm(), headers: { authorization: `Bearer ${KEY}` } }), made.log),
    ).toBe('operator')
    expect(other.seen).toEqual([])
  })

  test('tells the operator what to look for, and no secret', async () => {
    const { url } = standIn(() =>
      Response.json(
        { error: { code: 'invalid_api_key', message: `key ${KEY} is wrong` } },
        { status: 401, headers: { 'x-request-id': 'req_1' } },
      ),
    )
    const made = setup(url)
    await http(made)
      .postJson(url, {}, calm())
      .catch(() => {})
    expect(made.log.lines).toEqual([
      {
        level: 'alert',
        message: expect.stringContaining('check its key'),
        fields: { vendor: 'test', maker: 'maker-x', status: 401, code: 'invalid_api_key', request: 'req_1' },
      },
    ])
  })

  test('tells the operator once per outage of a model, and when it is over', async () => {
    let status = 404
    const { url } = standIn(() => (status === 200 ? good() : new Response('no', { status })))
    const made = setup(url)
    const vendor = http(made)
    const ask = (model: string) => vendor.postJson(url, { model }, calm()).catch(() => {})
    const alerts = () =>
      made.log.lines.splice(0).map(({ level, fields }) => `${level} ${fields.model ?? fields.subject}`)
    for (let times = 0; times < 20; times++) await ask('one')
    expect(alerts()).toEqual(['alert one'])
    await ask('two')
    status = 302
    await ask('two')
    await ask('two')
    expect(alerts()).toEqual(['alert two', 'alert two'])
    status = 200
    await ask('one')
    await ask('one')
    expect(alerts()).toEqual(['info one'])
    await ask('two')
    expect(alerts()).toEqual(['info two', 'info two'])
  })

  test('ends with the caller, and with its reason', async () => {
    const { url, seen } = standIn(() => new Promise<Response>(() => {}))
    const stop = new AbortController()
    const work = http(setup(url)).postJson(url, {}, { signal: stop.signal })
    work.catch(() => {})
    await until(() => seen.length === 1)
    stop.abort(new Error('the work was given up'))
    await expect(work).rejects.toThrow('the work was given up')
    await expect(http(setup(url)).postJson(url, {}, { signal: stop.signal })).rejects.toThrow('the work was given up')
    expect(seen).toHaveLength(1)
  })
})

describe('retrySeconds() takes', () => {
  const info = {
    error: {
      details: [
        { '@type': 'type.googleapis.com/google.rpc.Help' },
        { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '36.2s' },
      ],
    },
  }
  test.each([
    ['milliseconds first', { 'retry-after-ms': '1500', 'retry-after': '9' }, info, 2],
    ['then seconds', { 'retry-after': '9' }, info, 9],
    ['at least one', { 'retry-after': '0' }, info, 1],
    ['or a date', { 'retry-after': new Date(START + 61_500).toUTCString() }, undefined, 61],
    ['even a past one', { 'retry-after': new Date(START - 5_000).toUTCString() }, undefined, 1],
    ["then Google's RetryInfo", { 'retry-after': 'soon' }, info, 37],
    ['at most a day', { 'retry-after': '99999999' }, undefined, 86_400],
    ['a default without any', {}, undefined, 30],
    ['a default for details that are none', {}, { error: { details: 'none' } }, 30],
  ])('%s', (_, headers, body, seconds) => {
    expect(retrySeconds({ headers: new Headers(headers as Record<string, string>), body }, START)).toBe(seconds)
  })
})

test('usualTrouble() of each status', () => {
  const read = (...statuses: number[]) => [...new Set(statuses.map(failureKindOf))]
  expect(read(429)).toEqual(['rate_limited'])
  expect(read(408, 504, 524)).toEqual(['timeout'])
  expect(read(413)).toEqual(['image'])
  expect(read(301, 307, 400, 401, 402, 403, 404, 410, 422)).toEqual(['operator'])
  expect(read(500, 502, 503, 529)).toEqual(['failed'])
})
