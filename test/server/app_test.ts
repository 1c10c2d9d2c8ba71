/** The HTTP side of the gateway, over a real listener on loopback: what no reply of core says by itself. */
import { afterEach, describe, expect, test } from 'bun:test'
import { EXPOSED_HEADERS, PAYMENT_HEADERS } from '../../core/mod.ts'
import { type AppOptions, app } from '../../server/app.ts'
import type { ServerLog } from '../../server/log.ts'
import { challengeIn } from '../core/mpp/mpp_kit.ts'
import { decodeHeader, encodePayment, FOX, GENERATIONS, type Kit, kit } from '../kit.ts'

type AccessLine = Parameters<ServerLog['access']>[0]
type Gateway = Kit & {
  readonly url: string
  readonly access: readonly AccessLine[]
  get(path: string, init?: RequestInit): Promise<Response>
}

const JSON_TYPE = { 'content-type': 'application/json' }
const ORDER = { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(FOX) }

const listening: { stop(now: boolean): unknown }[] = []
afterEach(() => {
  for (const server of listening.splice(0)) server.stop(true)
})

function open(options: Partial<AppOptions> = {}): Gateway {
  const made = kit()
  const access: AccessLine[] = []
  const log: ServerLog = { ...made.log, access: (line) => access.push(line), flush() {} }
  const elysia = app({ gateways: [{ gateway: made.gateway, hosts: [] }], log, ...options })
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: elysia.fetch })
  elysia.server = server
  listening.push(server)
  const url = `http://127.0.0.1:${server.port}`
  return { ...made, url, access, get: (path, init) => fetch(url + path, init) }
}

/** Sends bytes that no client library would, and reads until the server hangs up. */
async function raw({ url }: Gateway, lines: readonly string[]): Promise<string> {
  const { port } = new URL(url)
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let answer = ''
  await Bun.connect({
    hostname: '127.0.0.1',
    port: Number(port),
    socket: {
      open: (socket) => void socket.write(Buffer.from(`${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`)),
      data: (_socket, bytes) => void (answer += bytes.toString()),
      close: () => resolve(answer),
      error: (_socket, error) => reject(error),
    },
  })
  return await promise
}

const list = (header: string | null): string[] => (header ?? '').split(',').map((name) => name.trim().toLowerCase())

describe('equal quotes', () => {
  /** Headers of a 402 as sent, without those that are of one reply alone. */
  const equalParts = ({ headers }: Response) => ({
    ...Object.fromEntries([...headers].filter(([name]) => name !== 'x-request-id')),
    date: '',
    'www-authenticate': headers.get('www-authenticate')?.replace(/(id|opaque|expires)="[^"]*"/g, ''),
  })

  test('each have a challenge and a request id of their own, and are alike otherwise (contract 24.2, 4.7)', async () => {
    const gateway = open()
    const replies = [await gateway.get(GENERATIONS, ORDER), await gateway.get(GENERATIONS, ORDER)]
    const challenges = replies.map(({ headers }) => challengeIn(headers))
    expect(new Set(challenges.map(({ id }) => id)).size).toBe(2)
    expect(new Set(challenges.map(({ opaque }) => opaque)).size).toBe(2)
    expect(new Set(replies.map(({ headers }) => headers.get('x-request-id'))).size).toBe(2)
    const [one, other] = replies.map(equalParts)
    expect([one]).toEqual([other])
    expect(one?.['www-authenticate']).toInclude('X402 requirements=')
    expect(await replies[0]?.text()).toBe((await replies[1]?.text()) as string)
  })

  test('are read by pages and by clients of MPP alone, whoever asked first (contract 4.5, 24.4)', async () => {
    const gateway = open()
    const origin = { origin: 'https://app.example' }
    const variants = [{}, origin, { 'accept-payment': 'evm/charge' }, { ...origin, 'accept-payment': 'evm/charge' }, {}]
    for (const more of variants) {
      const { headers } = await gateway.get(GENERATIONS, { ...ORDER, headers: { ...JSON_TYPE, ...more } })
      expect(challengeIn(headers).method).toBe('evm')
      expect(headers.get('www-authenticate')?.includes('X402')).toBe(!('accept-payment' in more))
      expect(list(headers.get('access-control-expose-headers')).includes('www-authenticate')).toBe('origin' in more)
    }
  })
})

describe('browsers', () => {
  test('a preflight allows every payment header, and the one that public clients send by mistake (contract 4.6)', async () => {
    const gateway = open()
    for (const path of [GENERATIONS, '/api/v1/images/models', '/nowhere']) {
      const response = await gateway.get(path, {
        method: 'OPTIONS',
        headers: { origin: 'https://app.example', 'access-control-request-method': 'POST' },
      })
      expect(response.status).toBe(204)
      expect(response.headers.get('access-control-allow-origin')).toBe('*')
      expect(list(response.headers.get('access-control-allow-methods'))).toEqual(
        expect.arrayContaining(['get', 'post']),
      )
      expect(list(response.headers.get('access-control-allow-headers'))).toEqual(
        expect.arrayContaining([...PAYMENT_HEADERS, 'content-type', 'access-control-expose-headers']),
      )
      expect(list(response.headers.get('vary'))).toContain('origin')
    }
  })

  test('OPTIONS without an origin is no preflight, and tells what the path allows', async () => {
    const response = await open().get('/api/v1/images/models', { method: 'OPTIONS' })
    expect(response.status).toBe(204)
    expect(list(response.headers.get('allow'))).toEqual(['get', 'head', 'options'])
    expect(response.headers.has('access-control-allow-methods')).toBe(false)
  })

  test('every reply to a request with an origin may be read, with every header of the protocol that it carries: 200, 402, 404 and 405 (contract 4.5)', async () => {
    const gateway = open()
    const requests = [
      ['/api/health', {}],
      [GENERATIONS, ORDER],
      ['/nowhere', {}],
      ['/api/health', { method: 'DELETE' }],
    ] as const
    const ask = (more: Record<string, string>) =>
      Promise.all(requests.map(([path, init]) => gateway.get(path, { ...init, headers: { ...JSON_TYPE, ...more } })))
    const replies = await ask({ origin: 'https://app.example' })
    expect(replies.map(({ status }) => status)).toEqual([200, 402, 404, 405])
    for (const { headers } of await ask({})) {
      expect([headers.get('access-control-allow-origin'), headers.get('access-control-expose-headers')]).toEqual([
        null,
        null,
      ])
      expect(list(headers.get('vary'))).toContain('origin')
    }
    for (const { headers } of replies) {
      expect(headers.get('access-control-allow-origin')).toBe('*')
      const carried = EXPOSED_HEADERS.map((name) => name.toLowerCase()).filter((name) => headers.has(name))
      expect(list(headers.get('access-control-expose-headers'))).toEqual(carried)
    }
  })

  test('a header of the protocol that a reply carries is exposed (contract 4.5)', async () => {
    const { headers } = await open().get(GENERATIONS, {
      ...ORDER,
      headers: { ...JSON_TYPE, origin: 'https://app.example' },
    })
    const carried = [...headers.keys()].filter((name) => /payment|authenticate|request-id|ratelimit|retry/.test(name))
    expect(carried.length).toBeGreaterThanOrEqual(4)
    expect(carried.filter((name) => !list(headers.get('access-control-expose-headers')).includes(name))).toEqual([])
  })
})

describe('request ids', () => {
  test('a plain one is repeated; anything else is replaced (contract 4.7)', async () => {
    const gateway = open()
    const idFor = async (given: string) =>
      (await gateway.get('/api/health', { headers: { 'x-request-id': given } })).headers.get('x-request-id')
    expect(await idFor('trace-0123.abc_DEF')).toBe('trace-0123.abc_DEF')
    for (const bad of ['short', 'x'.repeat(65), 'has space inside', '<script>alert(1)</script>', 'line\tbreak-in-it'])
      expect(await idFor(bad)).toMatch(/^[0-9a-f]{8}-[0-9a-z]{6}$/)
  })

  test('our own differ, and are those of the access log (contract 4.7)', async () => {
    const gateway = open()
    const ids = await Promise.all(
      [1, 2, 3].map(async () => (await gateway.get('/nowhere')).headers.get('x-request-id')),
    )
    expect(new Set(ids).size).toBe(3)
    expect(gateway.access.map(({ id }) => id).sort()).toEqual(ids.map(String).sort())
  })
})

describe('proxies', () => {
  const forwarded = {
    'x-forwarded-for': '203.0.113.9',
    'x-forwarded-host': 'Pay.Example',
    'x-forwarded-proto': 'https',
  }
  const seen = async (gateway: Gateway, headers: Record<string, string>) => {
    const challenge = await gateway.get(GENERATIONS, { ...ORDER, headers: { ...JSON_TYPE, ...headers } })
    const { resource } = decodeHeader(challenge.headers.get('payment-required'))
    return { ip: gateway.access.at(-1)?.ip, url: resource.url }
  }

  test('from anybody else, forwarded headers mean nothing (contract 1.9, 4.9)', async () => {
    for (const trustedProxies of [[], ['10.0.0.0/8']]) {
      const gateway = open({ trustedProxies })
      expect(await seen(gateway, forwarded)).toEqual({ ip: '127.0.0.1', url: `${gateway.url}${GENERATIONS}` })
    }
  })

  test('that are not trusted are told to the operator once, and trusted ones never', async () => {
    for (const [trustedProxies, origins] of [
      [[], 1],
      [['10.0.0.0/8'], 1],
      [['127.0.0.0/8'], 0],
    ] as const) {
      const gateway = open({ trustedProxies })
      await gateway.get('/livez')
      expect(gateway.log.lines).toEqual([])
      for (let n = 0; n < 3; n++) await gateway.get('/livez', { headers: { 'x-forwarded-for': '192.0.2.7' } })
      expect(gateway.log.lines.map(({ level, fields }) => [level, fields])).toEqual(
        Array.from({ length: origins }, () => ['warn', { peer: '127.0.0.1' }]),
      )
    }
  })

  test('a configured proxy says who called, and by what name (contract 4.9)', async () => {
    const gateway = open({ trustedProxies: ['127.0.0.0/8'] })
    expect(await seen(gateway, forwarded)).toEqual({ ip: '203.0.113.9', url: `https://pay.example${GENERATIONS}` })
  })

  test('the caller is the last hop that is no proxy: what a caller writes in front of it is ignored', async () => {
    const gateway = open({ trustedProxies: ['127.0.0.1', '10.0.0.0/8'] })
    expect(await seen(gateway, { 'x-forwarded-for': '198.51.100.1, 203.0.113.9, 10.1.2.3' })).toMatchObject({
      ip: '203.0.113.9',
    })
  })

  test('the port that a proxy writes behind an address is no part of who calls', async () => {
    const gateway = open({ trustedProxies: ['127.0.0.1', '10.0.0.0/8', '2001:db8:1::/48'] })
    const cases = [
      ['203.0.113.9:5000', '203.0.113.9'],
      ['[2001:db8::1]:444', '2001:db8::1'],
      ['[2001:db8::1]', '2001:db8::1'],
      ['2001:db8::1', '2001:db8::1'],
      ['203.0.113.9:1, 10.1.2.3:2, [2001:db8:1::7]:3', '203.0.113.9'],
      ['203.0.113.9:', '203.0.113.9'],
    ] as const
    for (const [header, ip] of cases)
      expect([header, await seen(gateway, { 'x-forwarded-for': header })]).toMatchObject([header, { ip }])
  })

  test('the public origin wins over every header (contract 1.9)', async () => {
    const gateway = open({ trustedProxies: ['127.0.0.1'], publicOrigin: 'https://images.example' })
    expect(await seen(gateway, forwarded)).toMatchObject({ url: `https://images.example${GENERATIONS}` })
    expect(await seen(gateway, { host: 'evil.example' })).toMatchObject({ url: `https://images.example${GENERATIONS}` })
  })

  test('a forwarded host that is none falls back to the one that was called', async () => {
    const gateway = open({ trustedProxies: ['127.0.0.1'] })
    expect(await seen(gateway, { 'x-forwarded-host': 'not a host' })).toMatchObject({
      url: `${gateway.url}${GENERATIONS}`,
    })
  })

  test('rate windows count the caller, not the proxy', async () => {
    const gateway = open({ trustedProxies: ['127.0.0.1'] })
    const ask = async (ip: string) =>
      (await gateway.get('/api/v1/images/models', { headers: { 'x-forwarded-for': ip } })).status
    const first = await Promise.all(Array.from({ length: 101 }, () => ask('203.0.113.1')))
    expect(first.filter((status) => status === 429)).toHaveLength(1)
    expect(await ask('203.0.113.2')).toBe(200)
  })
})

describe('hosts', () => {
  test('the Host header chooses the gateway, and the first one answers for hosts that nobody names (contract 21.2, 21.7)', async () => {
    const [base, solana] = [kit({ name: 'base' }), kit({ name: 'solana' })]
    const gateway = open({
      gateways: [
        { gateway: base.gateway, hosts: ['base.example'] },
        { gateway: solana.gateway, hosts: ['Solana.Example', 'solana.example:8080'] },
      ],
    })
    const originAs = async (host: string) =>
      ((await (await gateway.get('/api/health', { headers: { host } })).json()) as { gateway: string }).gateway
    expect(await originAs('solana.example')).toBe('solana')
    expect(await originAs('SOLANA.example:8080')).toBe('solana')
    expect(await originAs('base.example')).toBe('base')
    expect(await originAs('nobody.example')).toBe('base')
  })

  test('what a gateway says of itself is under its own name: the process has a public origin for the first one only', async () => {
    const [base, solana, nano] = [kit({ name: 'base' }), kit({ name: 'solana' }), kit({ name: 'nano' })]
    const gateways = [
      { gateway: base.gateway, hosts: ['base.example'] },
      { gateway: solana.gateway, hosts: ['sol.example'] },
      { gateway: nano.gateway, hosts: ['nano.example'], origin: 'https://cheap.example' },
    ]
    const gateway = open({ gateways, publicOrigin: 'https://images.example' })
    const originAs = async (host: string) => {
      const quoted = await gateway.get(GENERATIONS, { ...ORDER, headers: { ...JSON_TYPE, host } })
      const { servers } = (await (await gateway.get('/openapi.json', { headers: { host } })).json()) as {
        servers: { url: string }[]
      }
      return [
        decodeHeader(quoted.headers.get('payment-required')).resource.url.replace(GENERATIONS, ''),
        servers[0]?.url,
      ]
    }
    const origins = await Promise.all(
      ['base.example', 'evil.example', 'SOL.example', 'sol.example:8443', 'nano.example'].map(originAs),
    )
    const both = (origin: string) => [origin, origin]
    expect(origins).toEqual(
      [
        'https://images.example',
        'https://images.example',
        'https://sol.example',
        'https://sol.example',
        'https://cheap.example',
      ].map(both),
    )
  })

  test('a Host that is no host is a 400 in JSON, and the server goes on (contract 4.16)', async () => {
    const gateway = open()
    for (const host of ['färe.bøx', 'a b', '[::1', 'x:99999']) {
      const answer = await raw(gateway, ['GET /api/health?key=s3cret HTTP/1.1', `Host: ${host}`])
      expect(answer).toStartWith('HTTP/1.1 400 ')
      expect(answer).toContain('{"error":"Invalid Host header"}')
    }
    expect((await gateway.get('/api/health')).status).toBe(200)
    expect(JSON.stringify(gateway.access)).not.toContain('s3cret')
  })

  test('a name in punycode is a host like any other', async () => {
    const gateway = open()
    const challenge = await gateway.get(GENERATIONS, {
      ...ORDER,
      headers: { ...JSON_TYPE, host: 'xn--fre-qla.example' },
    })
    expect(decodeHeader(challenge.headers.get('payment-required')).resource.url).toBe(
      `http://xn--fre-qla.example${GENERATIONS}`,
    )
  })
})

describe('paths and methods', () => {
  test('what is not there is a 404 in JSON', async () => {
    const gateway = open()
    for (const path of ['/nowhere', '/%ff/%zz', '/api/v1/images', '/api//health', '/devnet']) {
      const response = await gateway.get(path)
      expect({ path, status: response.status, type: response.headers.get('content-type') }).toEqual({
        path,
        status: 404,
        type: 'application/json',
      })
      expect(await response.json()).toMatchObject({ error: 'Not found' })
    }
  })

  test('the root, however it is written, has links for programs (contract 19.20)', async () => {
    const gateway = open()
    for (const path of ['/', '/?a=b', '//']) {
      const response = await gateway.get(path)
      expect({ path, status: response.status }).toEqual({ path, status: 200 })
      expect(await response.json()).toMatchObject({ name: 'Farebox', links: {} })
    }
  })

  test('a wrong method is a 405 in JSON that names the right ones', async () => {
    const gateway = open()
    const wrong = [
      ['DELETE', '/api/health'],
      ['PUT', GENERATIONS],
      ['POST', '/api/v1/images/models'],
      ['PROPFIND', '/openapi.json'],
    ]
    for (const [method = '', path = ''] of wrong) {
      const response = await gateway.get(path, { method })
      expect({ method, status: response.status, type: response.headers.get('content-type') }).toEqual({
        method,
        status: 405,
        type: 'application/json',
      })
      expect(list(response.headers.get('allow'))).not.toContain(method.toLowerCase())
      expect(await response.json()).toMatchObject({ error: 'Method not allowed' })
    }
  })

  test('HEAD is GET without its body, and a probe of what is sold', async () => {
    const gateway = open()
    for (const [path = '', status] of [
      ['/api/health', 200],
      ['/openapi.json', 200],
      [GENERATIONS, 402],
      ['/nowhere', 404],
    ] as const) {
      const response = await gateway.get(path, { method: 'HEAD' })
      expect({ path, status: response.status, body: await response.text() }).toEqual({ path, status, body: '' })
    }
  })

  test('a payment header of 15,000 bytes reaches the gateway and is answered with a fresh challenge', async () => {
    const gateway = open()
    for (const name of PAYMENT_HEADERS) {
      const response = await gateway.get(GENERATIONS, {
        ...ORDER,
        headers: { ...JSON_TYPE, [name]: encodePayment({ x402Version: 2, junk: 'x'.repeat(11_200) }).slice(0, 15_000) },
      })
      expect(response.status).toBe(402)
      expect(await response.json()).toMatchObject({ code: 'PAYMENT_INVALID', x402Version: 2 })
    }
  })

  test('a body over the limit is a 413 with a body', async () => {
    const response = await open().get(GENERATIONS, {
      method: 'POST',
      headers: JSON_TYPE,
      body: JSON.stringify({ ...FOX, prompt: 'x'.repeat(1 << 20) }),
    })
    expect(response.status).toBe(413)
    expect(await response.json()).toMatchObject({ error: 'Request body too large', max_bytes: 1 << 20 })
  })
})

describe('a purchase over HTTP', () => {
  test('challenge, payment, result and hosted image, under the origin that was called', async () => {
    const gateway = open()
    const buyer = gateway.buyer()
    const challenge = await gateway.get(GENERATIONS, ORDER)
    const payment = buyer.sign({ status: 402, headers: challenge.headers, body: await challenge.json() })
    const paid = await gateway.get(GENERATIONS, {
      ...ORDER,
      headers: { ...JSON_TYPE, 'payment-signature': encodePayment(payment) },
    })
    const body = (await paid.json()) as { data: { url: string }[]; payment: { status: string } }
    expect(paid.status).toBe(200)
    expect(body.payment.status).toBe('settled')
    expect(buyer.balance()).toBe(100_000_000n - 22_000n)
    const [image] = body.data
    expect(image?.url).toStartWith(`${gateway.url}/api/media/images/`)
    const media = await fetch(image?.url ?? '')
    expect(media.headers.get('content-type')).toBe('image/png')
    expect(media.headers.get('cache-control')).toContain('immutable')
  })
})

describe('the access log', () => {
  test('one line per request with method, path, status, time and address, and nothing that was sent in confidence', async () => {
    const gateway = open()
    const secrets = {
      authorization: 'Bearer s3cret',
      'x-api-key': 's3cret',
      'payment-signature': encodePayment({ s3cret: true }),
      cookie: 's3cret=1',
      'user-agent': 's3cret',
    }
    await gateway.get(`${GENERATIONS}?key=s3cret&sig=s3cret`, {
      method: 'POST',
      headers: { ...JSON_TYPE, ...secrets },
      body: JSON.stringify({ ...FOX, prompt: 's3cret' }),
    })
    expect(gateway.access).toEqual([
      {
        id: expect.any(String),
        method: 'POST',
        path: GENERATIONS,
        status: 402,
        ms: expect.any(Number),
        ip: '127.0.0.1',
      },
    ])
    expect(JSON.stringify([gateway.access, gateway.log.lines])).not.toMatch(/s3cret|czNjcmV0/)
  })
})

describe('/devnet', () => {
  const devnet = (origin: string) => ({ network: 'eip155:84532', gateways: [{ base_url: origin }] })

  test('shows the local chain where there is one, and is never kept by a cache (contract 21.7)', async () => {
    const gateway = open({ devnet })
    const response = await gateway.get('/devnet?x=1')
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(await response.json()).toEqual({ network: 'eip155:84532', gateways: [{ base_url: gateway.url }] })
    expect((await gateway.get('/devnet', { method: 'HEAD' })).status).toBe(200)
  })

  test('a wrong method on it is a 405 in JSON', async () => {
    const response = await open({ devnet }).get('/devnet', { method: 'POST' })
    expect({ status: response.status, allow: response.headers.get('allow') }).toEqual({
      status: 405,
      allow: 'GET, HEAD',
    })
    expect(await response.json()).toEqual({ error: 'Method not allowed' })
  })

  test('it is not there where the money is real (contract 21.7)', async () => {
    const gateway = open()
    const response = await gateway.get('/devnet')
    expect(response.status).toBe(404)
    expect(await response.text()).not.toContain('private_key')
    expect(await (await gateway.get('/openapi.json')).text()).not.toContain('devnet')
  })
})
