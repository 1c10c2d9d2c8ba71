/** Who may come in, over a real listener on loopback: hosts, origins, browsers, and callers who leave in mid-body. */
import { afterEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { scriptedChat } from '../fakes/chat.ts'
import { type AppOptions, app } from '../../server/app.ts'
import { isOwnPage } from '../../server/http/cors.ts'
import type { ServerLog } from '../../server/log.ts'
import { kit, type KitOptions } from '../kit.ts'

type AccessLine = Parameters<ServerLog['access']>[0]

const listening: { stop(now: boolean): unknown }[] = []
afterEach(() => {
  for (const server of listening.splice(0)) server.stop(true)
})

function open(
  { hostname = '127.0.0.1', ...options }: Partial<AppOptions> & { hostname?: string } = {},
  setup: KitOptions = {},
) {
  const made = kit(setup)
  const answered = Promise.withResolvers<AccessLine>()
  const log: ServerLog = { ...made.log, access: (line) => answered.resolve(line), flush() {} }
  const elysia = app({ gateways: [{ gateway: made.gateway, hosts: [] }], log, ...options })
  const server = Bun.serve({ port: 0, hostname, fetch: elysia.fetch })
  elysia.server = server
  listening.push(server)
  return { ...made, port: server.port ?? 0, url: `http://127.0.0.1:${server.port}`, answered: answered.promise }
}

/** Sends bytes that no client library would, and reads until the server hangs up. */
async function raw(port: number, lines: readonly string[]): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let answer = ''
  await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      open: (socket) => void socket.write(Buffer.from(`${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`)),
      data: (_socket, bytes) => void (answer += bytes.toString()),
      close: () => resolve(answer),
      error: (_socket, error) => reject(error),
    },
  })
  return await promise
}

describe('/devnet', () => {
  const devnet = () => ({ private_key: 's3cret' })

  test('answers only to a loopback host: a page whose name was rebound to this machine does not read the key (contract 21.7)', async () => {
    const { port } = open({ devnet })
    const ask = (host: string) => raw(port, ['GET /devnet HTTP/1.1', `Host: ${host}`])
    const foreign = [
      'evil.example',
      `evil.example:${port}`,
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      '10.0.0.1',
      '128.0.0.1',
      '0.0.0.0',
      '[::2]',
      '[::ffff:10.0.0.1]',
    ]
    for (const host of foreign) {
      const answer = await ask(host)
      expect([host, answer.slice(9, 12), answer.includes('s3cret')]).toEqual([host, '403', false])
      expect(answer).toContain('Use http://localhost')
    }
    for (const host of [
      'localhost',
      `LocalHost:${port}`,
      '127.0.0.1',
      `127.8.9.10:${port}`,
      '[::1]',
      `[::1]:${port}`,
    ]) {
      const answer = await ask(host)
      expect([host, answer.slice(9, 12), answer.includes('s3cret')]).toEqual([host, '200', true])
    }
  })

  const FORWARDING: readonly Readonly<Record<string, string>>[] = [
    { 'x-forwarded-host': 'localhost' },
    { 'x-forwarded-for': '127.0.0.1' },
    { 'x-forwarded-proto': 'https' },
    { forwarded: 'for=127.0.0.1' },
    { via: '1.1 nginx' },
    { 'x-real-ip': '127.0.0.1' },
    { 'cf-connecting-ip': '192.0.2.1' },
    { 'true-client-ip': '192.0.2.1' },
    { 'fly-client-ip': '192.0.2.1' },
    { 'x-amzn-trace-id': 'Root=1' },
    { 'cdn-loop': 'cloudflare' },
    { host: 'evil.example' },
  ]

  test('refuses whatever a proxy has forwarded, a trusted one included (contract 21.14)', async () => {
    for (const trustedProxies of [[], ['127.0.0.1']]) {
      const { url } = open({ devnet, trustedProxies })
      for (const headers of FORWARDING) {
        const response = await fetch(`${url}/devnet`, { headers })
        expect([headers, response.status, (await response.text()).includes('s3cret')]).toEqual([headers, 403, false])
      }
    }
  })

  test('a devnet with keys of vendors serves nothing to whoever comes through a proxy, on any route (contract 21.14)', async () => {
    const { url } = open({ devnet, isKeyed: true })
    const ask = async (path: string, headers = {}) => (await fetch(url + path, { headers })).status
    for (const path of ['/api/v1/models', '/', '/mcp', '/api/v1/images/generations', '/devnet'])
      for (const headers of FORWARDING) expect([path, headers, await ask(path, headers)]).toEqual([path, headers, 403])
    expect([await ask('/api/v1/models'), await ask('/devnet')]).toEqual([200, 200])
  })

  test('a devnet without keys of vendors, and a gateway that sells, serve who comes through a proxy', async () => {
    for (const { url } of [open({ devnet }), open({ isKeyed: true })])
      for (const headers of FORWARDING)
        expect([headers, (await fetch(`${url}/api/v1/models`, { headers })).status]).toEqual([headers, 200])
  })

  test('no page of another origin may read it', async () => {
    const { url } = open({ devnet })
    const { headers } = await fetch(`${url}/devnet`, { headers: { origin: 'https://evil.example' } })
    expect(headers.get('access-control-allow-origin')).toBeNull()
  })
})

test('what is free can be kept from pages of foreign origins, and is not counted for them', async () => {
  const { url } = open(
    {},
    {
      chatVendor: scriptedChat(),
      freeToOrigin: (origin) => origin === 'http://localhost:3000',
      freeTier: [{ requests: 2, windowMs: 60_000 }],
    },
  )
  const ask = async (origin?: string) => {
    const headers = { 'content-type': 'application/json', ...(origin && { origin }) }
    const body = JSON.stringify({ model: 'farebox/echo-free', messages: [{ role: 'user', content: 'Hello' }] })
    return (await fetch(`${url}/api/v1/chat/completions`, { method: 'POST', headers, body })).status
  }
  expect([
    await ask('https://evil.example'),
    await ask('null'),
    await ask('http://localhost:3000'),
    await ask(),
    await ask(),
  ]).toEqual([403, 403, 200, 200, 429])
})

test('on devnet the pages of this machine and of the public origin may use what is free, and no others', () => {
  const isOwn = isOwnPage('https://pay.example')
  const own = [
    'http://localhost',
    'http://localhost:3000',
    'https://127.0.0.1:8443',
    'http://[::1]:5173',
    'https://pay.example',
  ]
  const foreign = [
    'null',
    'https://evil.example',
    'http://localhost.evil.example',
    'http://pay.example',
    'http://192.168.0.2',
    'chrome-extension://abc',
    '',
  ]
  expect([own.filter((origin) => !isOwn(origin)), foreign.filter(isOwn)]).toEqual([[], []])
  expect(isOwnPage(undefined)('https://pay.example')).toBe(false)
})

describe('the Host header', () => {
  test('given twice is 400 in JSON, even if both are the same (contract 4.16)', async () => {
    const { port } = open()
    for (const [first, second] of [
      ['a.example', 'b.example'],
      ['a.example', 'a.example'],
      ['localhost', 'evil.example'],
    ]) {
      const answer = await raw(port, ['GET /api/health HTTP/1.1', `Host: ${first}`, `Host: ${second}`])
      expect(answer).toStartWith('HTTP/1.1 400 ')
      expect(answer).toContain('{"error":"Invalid Host header"}')
    }
  })
})

describe('a caller who hangs up in mid-body', () => {
  const path = '/api/v1/chat/completions'
  const cases = [
    ['a small body', path, ['Content-Length: 100']],
    ['a large body', path, ['Content-Length: 2000000']],
    ['a body of unknown length', path, ['Transfer-Encoding: chunked']],
    ['a form', '/api/v1/images/image2image', ['Content-Type: multipart/form-data; boundary=x', 'Content-Length: 100']],
    ['a body of a free endpoint', '/api/v1/chat/estimate', ['Content-Length: 100']],
  ] as const
  for (const [what, at, headers] of cases) {
    test(`is no alert and no 500: ${what}`, async () => {
      const { port, answered, log } = open()
      const head = [`POST ${at} HTTP/1.1`, 'Host: localhost', ...headers].join('\r\n')
      await Bun.connect({
        hostname: '127.0.0.1',
        port,
        socket: {
          open: (socket) =>
            void (socket.write(`${head}\r\n\r\n5\r\n{"mod`), socket.flush(), setImmediate(() => socket.end())),
          data() {},
        },
      })
      expect((await answered).status).toBe(400)
      expect(log.lines.filter(({ level }) => level === 'alert')).toEqual([])
    })
  }
})

describe('a browser', () => {
  const preflight = async (url: string, request: string) => {
    const headers = {
      origin: 'https://app.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': request,
    }
    const response = await fetch(`${url}/api/v1/chat/completions`, { method: 'OPTIONS', headers })
    return (response.headers.get('access-control-allow-headers') ?? '').split(', ')
  }

  test('may send every header that the official OpenAI SDK sends', async () => {
    const { url } = open()
    let sent: readonly string[] = []
    const spy = async (_url: unknown, init?: RequestInit) => {
      sent = [...new Headers(init?.headers).keys()]
      return Response.json({ choices: [] })
    }
    const client = new OpenAI({
      apiKey: 'none',
      baseURL: `${url}/api/v1`,
      dangerouslyAllowBrowser: true,
      fetch: spy as typeof fetch,
    })
    await client.chat.completions.create({ model: 'm', messages: [] })
    // A page cannot set these: the browser writes them itself.
    const requests = sent.filter((name) => !['user-agent', 'content-length'].includes(name))
    expect(requests.filter((name) => name.startsWith('x-stainless-')).length).toBeGreaterThan(4)
    expect(await preflight(url, requests.join(','))).toEqual(expect.arrayContaining(requests))
  })

  test('may send any harmless header, and none that speaks of the connection (contract 4.6)', async () => {
    const { url } = open()
    const unsafe = [
      'x-forwarded-for',
      'X-Forwarded-Host',
      'forwarded',
      'x-real-ip',
      'true-client-ip',
      'cookie',
      'host',
      'proxy-authorization',
      'sec-fetch-site',
      'x-http-method-override',
      'transfer-encoding',
      'a b',
      'x'.repeat(101),
      '<script>',
    ]
    const allowed = await preflight(url, ['x-stainless-new', 'X-My-App', 'traceparent', ...unsafe].join(', '))
    expect(allowed).toEqual(expect.arrayContaining(['x-stainless-new', 'x-my-app', 'traceparent', 'payment-signature']))
    expect(unsafe.filter((name) => allowed.includes(name.toLowerCase()))).toEqual([])
  })

  test('asks for at most a hundred headers at a time', async () => {
    const { url } = open()
    const allowed = await preflight(url, Array.from({ length: 150 }, (_, at) => `x-header-${at}`).join(','))
    expect(allowed.filter((name) => name.startsWith('x-header-')).length).toBe(100)
  })
})

test('/readyz by a host name of one gateway says whether that one sells, with the reason as a code (contract 19.8)', async () => {
  const { chain } = kit().ports
  const closed = kit({
    name: 'closed',
    ports: { chain: { ...chain, terms: () => [], closed: () => ({ code: 'no_gas', reason: 'it holds 0 ETH' }) } },
  })
  const open = kit({ name: 'open' })
  const log: ServerLog = { ...open.log, access() {}, flush() {} }
  const gateways = [
    { gateway: open.gateway, hosts: ['open.example'] },
    { gateway: closed.gateway, hosts: ['closed.example'] },
  ]
  const { handle } = app({ gateways, log })
  const ask = async (host: string) => {
    const response = await handle(new Request(`http://${host}/readyz`, { headers: { host } }))
    return [response.status, await response.json()]
  }
  expect(await ask('open.example')).toEqual([200, { status: 'ready' }])
  expect(await ask('closed.example')).toEqual([503, { status: 'not_ready', reason: 'no_gas' }])
  expect(await ask('10.0.0.1')).toEqual([200, { status: 'ready' }])
})
