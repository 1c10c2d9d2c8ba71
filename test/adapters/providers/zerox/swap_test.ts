import { afterAll, describe, expect, test } from 'bun:test'
import { zerox, type ZeroxConfig } from '../../../../adapters/providers/zerox/swap.ts'
import type { ApiError, SwapCall } from '../../../../core/mod.ts'
import { brokenSwapVendors, echoVendor } from '../../../conformance/broken_swap.ts'
import { runBroken, runLaws } from '../../../conformance/law.ts'
import { swapVendorLaws } from '../../../conformance/swap.ts'
import { kit, ORIGIN, read, testClock, testLog } from '../../../kit.ts'
import { calm, flood, prose, recorded, replay, errorText, testRecordings } from '../lib/provider_kit.ts'

const PROTOCOL = 'zerox'
const KEY = '0a1b2c3d-key'
const TREASURY = '0x1111111111111111111111111111111111111111'
const HASH = `0x${'ab'.repeat(32)}`

type Seen = { readonly line: string; readonly headers: Headers; readonly body: string }

function fixture(
  answer: (seen: Seen) => Response | Promise<Response> = ({ line, body }) => Response.json({ line, body }),
  more: Partial<ZeroxConfig> = {},
) {
  const seen: Seen[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const one = {
        line: `${request.method} ${pathname}${search}`,
        headers: request.headers,
        body: await request.text(),
      }
      seen.push(one)
      return await answer(one)
    },
  })
  afterAll(() => server.stop(true))
  const log = testLog()
  return {
    seen,
    log,
    vendor: zerox({
      baseUrl: `http://127.0.0.1:${server.port}/`,
      key: KEY,
      feeRecipient: TREASURY,
      clock: testClock(),
      log,
      ...more,
    }),
  }
}

const get = (path: string, query = ''): SwapCall => ({ method: 'GET', path, query })
const on = (name: string) => fixture(() => replay(recorded(PROTOCOL, name)))

describe('requests of zerox()', () => {
  const routes: readonly (readonly [SwapCall, string])[] = [
    [get('/price', '?a=1'), 'GET /swap/permit2/price?a=1'],
    [get('/quote', '?a=1'), 'GET /swap/permit2/quote?a=1'],
    [get('/gasless/price'), 'GET /gasless/price'],
    [get('/gasless/quote'), 'GET /gasless/quote'],
    [get('/gasless/approval-tokens', '?chainId=1'), 'GET /gasless/gasless-approval-tokens?chainId=1'],
    [get('/gasless/chains'), 'GET /gasless/chains'],
    [get('/swap/chains'), 'GET /swap/chains'],
    [get(`/gasless/status/${HASH}`, '?chainId=1'), `GET /gasless/status/${HASH}?chainId=1`],
    [get('/trade-analytics/swap', '?cursor=a%3D'), 'GET /trade-analytics/swap?cursor=a%3D'],
    [get('/trade-analytics/gasless'), 'GET /trade-analytics/gasless'],
    [
      { method: 'POST', path: '/gasless/submit', query: '', body: new TextEncoder().encode('{}') },
      'POST /gasless/submit',
    ],
  ]

  test.each(routes)('for %j is its key, its version and nothing else', async (call, line) => {
    const { seen, vendor } = fixture()
    await vendor.call(call, calm())
    expect(seen.map((one) => [one.line, one.headers.get('0x-api-key'), one.headers.get('0x-version')])).toEqual([
      [line, KEY, 'v2'],
    ])
    const names = [...(seen[0]?.headers.keys() ?? [])].filter(
      (name) =>
        !['accept', 'accept-encoding', 'connection', 'content-length', 'content-type', 'host', 'user-agent'].includes(
          name,
        ),
    )
    expect(names.sort()).toEqual(['0x-api-key', '0x-version'])
  })

  test('is the query byte for byte, and the body too', async () => {
    const { seen, vendor } = fixture()
    const query = '?b=2&a=%20+%2B&&c[]=1&%zz=;x=1?y'
    const body = '{ "n": 12345678901234567890,\n "é": "\\u00e9" }'
    await vendor.call(get('/price', query), calm())
    await vendor.call(
      { method: 'POST', path: '/gasless/submit', query: '', body: new TextEncoder().encode(body) },
      calm(),
    )
    expect(seen.map((one) => [one.line, one.body, one.headers.get('content-type')])).toEqual([
      [`GET /swap/permit2/price${query}`, '', null],
      ['POST /gasless/submit', body, 'application/json'],
    ])
  })

  test('never leaves its host: a fragment stays a part of the query, and redirects are not followed', async () => {
    const { seen, vendor } = fixture(
      () => new Response(null, { status: 302, headers: { location: 'http://127.0.0.1:9/' } }),
    )
    expect((await vendor.call(get('/price', '?a=#b'), calm())).status).toBe(302)
    expect(seen.map(({ line }) => line)).toEqual(['GET /swap/permit2/price?a=%23b'])
  })

  test.each(['', '0x', '0x0000000000000000000000000000000000000000', 'vitalik.eth', `${TREASURY}0`])(
    'nothing at all, where the fee would go to %p',
    (feeRecipient) => {
      expect(() => zerox({ key: KEY, feeRecipient, clock: testClock(), log: testLog() })).toThrow('must be an address')
    },
  )
})

describe('replies of zerox()', () => {
  test.each([
    'price',
    'no_liquidity',
    'submitted',
    'input_invalid',
    'token_not_authorized',
    'taker_not_authorized',
    'status_not_found',
    'no_trades_access',
    'rate_limited',
    'internal',
  ])('%s is the aggregator’s own, status and body', async (name) => {
    const { vendor, log } = on(name)
    const { status, body } = recorded(PROTOCOL, name)
    expect(await vendor.call(get('/price'), calm())).toMatchObject({
      status,
      body,
      text: JSON.stringify(body),
    } as never)
    expect(log.lines).toEqual([])
  })

  test.each(['no_key', 'wrong_key', 'no_balance'])(
    '%s is ours to mend: 503 to the caller, an alert to the operator, and no word of it in either',
    async (name) => {
      const { vendor, log } = on(name)
      const work = vendor.call(get('/price'), calm())
      expect(await work.catch((error: ApiError) => error.code)).toBe('NOT_CONFIGURED')
      await vendor.call(get('/price'), calm()).catch(() => {})
      expect(log.lines.map(({ level }) => level)).toEqual(['alert'])
      const words = await errorText(work, log)
      expect([KEY, ...prose(recorded(PROTOCOL, name).body)].filter((secret) => words.includes(secret))).toEqual([])
    },
  )

  testRecordings(PROTOCOL, [
    'price',
    'no_liquidity',
    'submitted',
    'input_invalid',
    'token_not_authorized',
    'taker_not_authorized',
    'status_not_found',
    'no_trades_access',
    'rate_limited',
    'internal',
    'no_key',
    'wrong_key',
    'no_balance',
  ])

  test.each([400, 500])('a page instead of JSON is a %d without details', async (status) => {
    const { vendor } = fixture(() => new Response('<html>secret</html>', { status }))
    expect(await vendor.call(get('/price'), calm())).toMatchObject({ status, body: null })
  })

  test('the text is as it came, and says when to come again', async () => {
    const text = '{ "a": 12345678901234567890.10, "a": 1e400 }'
    const answer = (status: number, headers: Record<string, string> = {}) =>
      fixture(() => new Response(text, { status, headers })).vendor.call(get('/price'), calm())
    expect((await answer(200)).text).toBe(text)
    expect((await answer(429, { 'retry-after': '12' })).retryAfter).toBe('12')
    expect((await answer(429, { 'retry-after': 'Fri, 20 Nov 2026 12:00:00 GMT' })).retryAfter).toBe(
      'Fri, 20 Nov 2026 12:00:00 GMT',
    )
    expect(await answer(429, { 'retry-after': 'soon <b>' })).not.toHaveProperty('retryAfter')
  })

  test.each([400, 404, 429, 500])('%d never quotes our key', async (status) => {
    const key = 'k"e/y-0123456789'
    const { vendor } = fixture(
      () =>
        Response.json(
          { name: 'X', message: `bad key ${key}`, url: `https://a.example/?k=${encodeURIComponent(key)}` },
          { status },
        ),
      { key },
    )
    const { text, body } = await vendor.call(get('/price'), calm())
    expect([text, JSON.stringify(body)].filter((text) => text.includes('0123456789'))).toEqual([])
    expect(body).toMatchObject({ message: 'bad key ***' })
  })

  test('a success without JSON, a flood and a broken connection are errors', async () => {
    const flooding = fixture(() => new Response(flood('{').body), { maxBytes: 100_000 }).vendor
    const page = fixture(() => new Response('<html>')).vendor
    const nobody = zerox({
      baseUrl: 'http://127.0.0.1:1',
      key: KEY,
      feeRecipient: TREASURY,
      clock: testClock(),
      log: testLog(),
    })
    for (const vendor of [flooding, page, nobody]) {
      expect(await vendor.call(get('/price'), calm()).catch((error: ApiError) => error.code)).toBe('MODEL_UNAVAILABLE')
    }
  })
})

const fixed =
  <T>(vendor: T) =>
  async () => ({ open: async () => vendor, close: async () => {} })
runLaws('zerox()', swapVendorLaws, fixed(fixture().vendor))
runLaws('echo vendor', swapVendorLaws, fixed(echoVendor()))
runBroken('swap vendors', swapVendorLaws, brokenSwapVendors)

test('a request reaches the aggregator with our fee and key, and without the caller’s (contract 11.4)', async () => {
  const { seen, vendor } = fixture(() => replay(recorded(PROTOCOL, 'price')))
  const { gateway } = kit({ ports: { vendors: { swap: vendor } } })
  const path =
    '/api/v1/zerox/price?chainId=8453&sellToken=0xA&swapFeeBps=0&SWAPFEERECIPIENT%5B%5D=0xE&buyToken=0xB&sellAmount=100000000'
  const { status, headers, body } = await read(
    await gateway.fetch(new Request(ORIGIN + path, { headers: { '0x-api-key': 'theirs', '0x-version': 'v1' } })),
  )
  expect([status, headers.get('x-affiliate')]).toEqual([200, 'farebox'])
  expect(body.fees.integratorFee).toEqual({ amount: expect.any(String), token: expect.any(String), type: 'volume' })
  expect(BigInt(body.fees.integratorFee.amount)).toBe((BigInt(body.sellAmount) * 20n) / 10_000n)
  expect(body.fees.integratorFee.token).toBe(body.sellToken)
  expect(seen.map((one) => [one.line, one.headers.get('0x-api-key'), one.headers.get('0x-version')])).toEqual([
    [
      `GET /swap/permit2/price?chainId=8453&sellToken=0xA&buyToken=0xB&sellAmount=100000000&swapFeeRecipient=${TREASURY}&swapFeeBps=20&swapFeeToken=0xA`,
      KEY,
      'v2',
    ],
  ])
})
