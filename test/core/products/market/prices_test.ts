import { describe, expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { demoMarket } from '../../../../server/devnet/demo/market.ts'
import { ApiError, type MarketVendor } from '../../../../core/mod.ts'
import { marketData } from '../../../../core/products/market/prices.ts'
import { STOCK_MARKETS } from '../../../../core/ports/vendors/market.ts'
import {
  type Answer,
  decodeHeader,
  encodePayment,
  kit,
  ORIGIN,
  read,
  START,
  testClock,
  x402Scheme,
} from '../../../kit.ts'

const NOW = START / 1000
const PRICE = '/api/v1/stocks/us/price/AAPL'
const HISTORY = `/api/v1/stocks/us/history/AAPL?from=${NOW - 10 * 86_400}`

/** A gateway over the sample feed, or over another; `seen` counts what was asked of it. */
function market(vendor?: Partial<MarketVendor>, { configured = true } = {}) {
  const clock = testClock()
  const sample = demoMarket({ clock })
  const seen: string[] = []
  const counted: MarketVendor = {
    source: vendor?.source ?? 'sample',
    feeds: (market, at) => (seen.push(`feeds ${market}`), (vendor?.feeds ?? sample.feeds)(market, at)),
    latest: (feed, at) => (
      seen.push(`latest ${feed.symbol} ${at.session ?? ''}`.trim()),
      (vendor?.latest ?? sample.latest)(feed, at)
    ),
    bars: (feed, at) => (
      seen.push(`bars ${feed.symbol} ${at.resolution} ${at.from} ${at.to} ${at.session ?? ''}`.trim()),
      (vendor?.bars ?? sample.bars)(feed, at)
    ),
  }
  const subject = kit({ ports: { clock, vendors: configured ? { market: counted } : {} } })
  const alice = subject.buyer()
  const send = async (
    path: string,
    {
      method = 'GET',
      payment,
      header = 'payment-signature',
      body,
    }: { method?: string; payment?: unknown; header?: string; body?: string } = {},
  ) =>
    await read(
      await subject.gateway.fetch(
        new Request(ORIGIN + path, {
          method,
          headers: {
            ...(body !== undefined && { 'content-type': 'application/json' }),
            ...(payment !== undefined && { [header]: encodePayment(payment) }),
          },
          ...(body !== undefined && { body }),
        }),
        { ip: '192.0.2.1' },
      ),
    )
  const pay = async (path: string, how: Parameters<typeof send>[1] = {}): Promise<Answer> =>
    await send(path, { ...how, payment: how.payment ?? alice.sign(await send(path)) })
  return { ...subject, alice, clock, seen, send, pay }
}

const away = () =>
  Promise.reject(
    new ApiError('FEED_UNAVAILABLE', { message: 'The price feed did not answer. Nothing was charged; try again.' }),
  )

describe('free feeds', () => {
  test('answer with a price, exactly as the contract names its fields, and free: true (contract 4.17, 4.18, 10.8, 10.10)', async () => {
    const latest = async () => ({
      price: '94123.123456789012345678',
      confidence: '0.0000000000001',
      publishTime: NOW - 3,
    })
    const { gateway } = market({ source: 'pyth', latest })
    const response = await gateway.fetch(new Request(`${ORIGIN}/api/v1/crypto/price/BTC-USD`))
    expect([response.status, response.headers.get('content-type'), response.headers.get('cache-control')]).toEqual([
      200,
      'application/json',
      'no-store',
    ])
    expect(await response.text()).toBe(
      `{"symbol":"BTC-USD","category":"crypto","price":94123.123456789012345678,"confidence":0.0000000000001,"publishTime":${NOW - 3},"timestamp":"2026-11-19T23:59:57.000Z","assetType":"Crypto","feedId":"sample:crypto/BTC-USD","source":"pyth","free":true}`,
    )
  })

  test('take a symbol in any case, GET or POST, and ignore sessions and payments (contract 10.5, 10.13)', async () => {
    const { send, seen, chain, ports } = market()
    for (const [path, how] of [
      ['crypto/price/btc-usd', {}],
      ['fx/price/EUR-USD?session=pre', {}],
      ['commodity/price/XAU-USD?session=nonsense', { method: 'POST' }],
      ['crypto/price/ETH-USD', { payment: 'rubbish' }],
    ] as const) {
      const { status, body } = await send(`/api/v1/${path}`, how)
      expect([path, status, body.free, typeof body.price]).toEqual([path, 200, true, 'number'])
    }
    expect(seen.filter((question) => question.startsWith('latest'))).toEqual([
      'latest BTC-USD',
      'latest EUR-USD',
      'latest XAU-USD',
      'latest ETH-USD',
    ])
    expect([chain.transfers, await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 9)]).toEqual([[], []])
  })

  test('are crypto, fx and commodity: list, price and history, each without a payment (contract 10.1)', async () => {
    const { send, chain } = market()
    for (const [category, symbol] of [
      ['crypto', 'BTC-USD'],
      ['fx', 'EUR-USD'],
      ['commodity', 'XAU-USD'],
    ] as const)
      for (const path of ['list', `price/${symbol}`, `history/${symbol}?from=${NOW - 86_400}`]) {
        const { status, body } = await send(`/api/v1/${category}/${path}`)
        expect([category, path, status, body.category]).toEqual([category, path, 200, category])
      }
    expect(chain.transfers).toEqual([])
  })

  test('answer with bars from the window, daily unless told, up to now unless told (contract 10.9, 10.11, 10.12)', async () => {
    const { send } = market()
    const { status, body } = await send(`/api/v1/crypto/history/BTC-USD?from=${NOW - 3 * 86_400}`)
    expect(status).toBe(200)
    expect({ ...body, bars: body.bars.map(({ t }: { t: number }) => t) }).toEqual({
      symbol: 'BTC-USD',
      category: 'crypto',
      resolution: 'D',
      from: NOW - 3 * 86_400,
      to: NOW,
      bars: [3, 2, 1, 0].map((day) => NOW - day * 86_400),
      source: 'sample',
      free: true,
    })
    expect(Object.keys(body.bars[0])).toEqual(['t', 'o', 'h', 'l', 'c', 'v'])
    for (const resolution of ['1', '5', '15', '60', '240', 'D', 'W', 'M'])
      expect(
        (await send(`/api/v1/fx/history/EUR-USD?resolution=${resolution}&from=1&to=${NOW}`)).body.bars.length,
      ).toBeGreaterThan(600)
  })

  test('take the history’s fields in a POST body too; the query comes first', async () => {
    const { send, seen } = market()
    const body = JSON.stringify({ from: NOW - 7_200, to: NOW, resolution: '60' })
    expect((await send('/api/v1/crypto/history/BTC-USD', { method: 'POST', body })).body.bars.length).toBe(3)
    expect(
      (await send('/api/v1/crypto/history/BTC-USD?resolution=15', { method: 'POST', body })).body.bars.length,
    ).toBe(9)
    expect(
      (await send(`/api/v1/crypto/history/BTC-USD?from=${NOW - 86_400}`, { method: 'POST' })).body.bars.length,
    ).toBe(2)
    for (const bad of ['{', '[]', '"x"', '{"from":[1]}', '{"from":{"a":1}}'])
      expect([bad, (await send('/api/v1/crypto/history/BTC-USD', { method: 'POST', body: bad })).status]).toEqual([
        bad,
        400,
      ])
    expect(seen.filter((question) => question.startsWith('bars')).length).toBe(3)
  })

  test('take a body that comes in pieces, and has no content type', async () => {
    const { gateway } = market()
    const pieces = (text: string) =>
      new ReadableStream<Uint8Array>({
        start: (stream) => (
          [...text].forEach((letter) => stream.enqueue(new TextEncoder().encode(letter))),
          stream.close()
        ),
      })
    const post = async (text: string) =>
      await read(
        await gateway.fetch(
          new Request(`${ORIGIN}/api/v1/crypto/history/BTC-USD`, { method: 'POST', body: pieces(text) }),
        ),
      )
    expect((await post(JSON.stringify({ from: NOW - 7_200, resolution: '60' }))).body.bars.length).toBe(3)
    expect([(await post('{')).status, (await post('')).body.details[0].path]).toEqual([400, 'from'])
  })

  test('end now at the latest: a window that reaches into the future loses none of its bars for it', async () => {
    const { send, seen } = market()
    const { status, body } = await send(`/api/v1/crypto/history/BTC-USD?resolution=1&from=${NOW - 600}&to=99999999999`)
    expect([status, body.from, body.to, body.bars.length, body.truncated]).toEqual([200, NOW - 600, NOW, 11, undefined])
    expect(seen.at(-1)).toBe(`bars BTC-USD 1 ${NOW - 600} ${NOW}`)
    expect(
      (await send(`/api/v1/crypto/history/BTC-USD?resolution=1&from=1&to=${NOW + 5_000 * 60}`)).body.bars.length,
    ).toBe(5_000)
    expect((await send(`/api/v1/crypto/history/BTC-USD?from=${NOW}&to=${NOW + 9}`)).body.details).toEqual([
      { path: 'from', message: `must be in the past, before ${NOW}; got ${NOW}` },
    ])
  })

  test.each([
    ['history', `history/BTC-USD?from=${NOW - 9}&resolution=1`, 120, 'list'],
    ['price', 'price/BTC-USD', 600, `history/BTC-USD?from=${NOW - 9}&resolution=1`],
    ['list', 'list', 600, `history/BTC-USD?from=${NOW - 9}&resolution=1`],
  ] as const)('have a ration for each address: %s (contract 10.19)', async (_, path, requests, other) => {
    const { gateway, clock } = market()
    const ask = (path: string, ip: string) => gateway.fetch(new Request(`${ORIGIN}/api/v1/crypto/${path}`), { ip })
    const statuses: number[] = []
    for (let count = 0; count < requests; count++) statuses.push((await ask(path, '192.0.2.1')).status)
    expect(new Set(statuses)).toEqual(new Set([200]))
    const refused = await ask(path, '192.0.2.1')
    const reset = Number(refused.headers.get('x-ratelimit-reset'))
    expect([
      refused.status,
      ...['retry-after', 'x-ratelimit-limit', 'x-ratelimit-remaining'].map((name) => refused.headers.get(name)),
    ]).toEqual([429, '60', String(requests), '0'])
    expect([reset - clock.now(), Object.keys((await refused.json()) as object)]).toEqual([
      60_000,
      ['error', 'message', 'retryAfterSeconds'],
    ])
    expect([(await ask(path, '192.0.2.2')).status, (await ask(other, '192.0.2.1')).status]).toEqual([200, 200])
    await clock.advance(60_000)
    expect((await ask(path, '192.0.2.1')).status).toBe(200)
  })

  test('with a long window come in pages of 5,000 bars, newest first, and keep `from` (contract 10.23)', async () => {
    const { send } = market()
    const from = NOW - 12_000 * 60
    const seen: number[] = []
    let path: string | undefined = `/api/v1/crypto/history/BTC-USD?resolution=1&from=${from}`
    for (const [length, to] of [
      [5_000, NOW],
      [5_000, NOW - 5_000 * 60],
      [2_001, NOW - 10_000 * 60],
    ] as const) {
      const { status, body }: { status: number; body: any } = await send(path ?? '')
      expect([status, body.bars.length, body.from]).toEqual([200, length, from])
      expect([body.bars.at(-1).t, body.truncated === true]).toEqual([to, body.next !== undefined])
      seen.unshift(...body.bars.map(({ t }: { t: number }) => t))
      path = body.next
    }
    expect([path, seen.length, new Set(seen).size]).toEqual([undefined, 12_001, 12_001])
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
  })

  test('with one bar more than a page lose none', async () => {
    const { send } = market()
    const from = NOW - 300_000
    const { body } = await send(`/api/v1/crypto/history/BTC-USD?resolution=1&from=${from}`)
    expect([body.bars.length, body.from, body.next]).toEqual([
      5_000,
      from,
      `/api/v1/crypto/history/BTC-USD?resolution=1&from=${from}&to=${from + 1}`,
    ])
    expect((await send(body.next)).body.bars.map(({ t }: { t: number }) => t)).toEqual([from])
    expect((await send(`/api/v1/crypto/history/BTC-USD?resolution=1&from=${from + 60}`)).body).not.toHaveProperty(
      'next',
    )
  })

  test('answer HEAD and OPTIONS with a 402 that asks for nothing (contract 4.8, 10.14)', async () => {
    const { gateway } = market()
    for (const path of [
      'crypto/list',
      'fx/price/EUR-USD',
      'commodity/history/XAU-USD',
      'usstock/list',
      'stocks/hk/list',
    ]) {
      for (const method of ['HEAD', 'OPTIONS']) {
        const response = await gateway.fetch(new Request(`${ORIGIN}/api/v1/${path}`, { method }))
        const { accepts } = decodeHeader(response.headers.get('payment-required'))
        expect([path, response.status, accepts[0].amount]).toEqual([path, 402, '0'])
        if (method === 'OPTIONS')
          expect(await response.json()).toMatchObject({
            error: 'Payment Required (discovery)',
            free: true,
            price: { amount: '0.000000' },
          })
      }
    }
  })

  test('that are away are 502, and 503 where none is configured', async () => {
    for (const latest of [away, () => Promise.reject(new TypeError('a bug'))]) {
      const { status, body } = await market({ latest }).send('/api/v1/crypto/price/BTC-USD')
      expect([status, body.error, body.code]).toEqual([502, 'Price feed unavailable', undefined])
    }
    expect((await market({ feeds: away }).send('/api/v1/crypto/list')).status).toBe(502)
    for (const path of ['crypto/list', 'crypto/price/BTC-USD', 'fx/history/EUR-USD?from=1', 'stocks/us/list'])
      expect([path, (await market({}, { configured: false }).send(`/api/v1/${path}`)).status]).toEqual([path, 503])
  })

  test('without an answer time out after 25 seconds', async () => {
    const { send, clock } = market({ feeds: () => new Promise(() => {}) })
    const answer = send('/api/v1/crypto/list')
    await clock.advance(25_000)
    expect((await answer).status).toBe(502)
  })
})

describe('lists', () => {
  const many = async () =>
    Array.from({ length: 2_500 }, (_, index) => ({
      symbol: `S${index}`,
      description: index % 2 ? 'ODD (a.b)' : 'even',
      assetType: 'Crypto',
      feedId: `${index}`,
      key: `${index}`,
    }))

  test('name the shelf, its example and its endpoints; count is of all matches (contract 10.7)', async () => {
    const { body } = await market().send('/api/v1/crypto/list?q=DOLLAR&limit=2')
    expect(body).toEqual({
      category: 'crypto',
      label: 'Crypto',
      count: 3,
      example: 'BTC-USD',
      endpoints: {
        list: '/api/v1/crypto/list',
        price: '/api/v1/crypto/price/{symbol}',
        history: '/api/v1/crypto/history/{symbol}',
      },
      symbols: [
        { symbol: 'BTC-USD', description: expect.any(String) },
        { symbol: 'ETH-USD', description: expect.any(String) },
      ],
    })
  })

  test('have 100 rows by default and 2,000 at most; a larger limit is lowered, one that is not a number is 400 (contract 10.7)', async () => {
    const { send } = market({ feeds: many })
    for (const [query, count] of [
      ['', 100],
      ['?limit=7', 7],
      ['?limit=2000', 2_000],
      ['?limit=2001', 2_000],
      ['?limit=99999999999999', 2_000],
    ] as const) {
      const { body } = await send(`/api/v1/crypto/list${query}`)
      expect([query, body.symbols.length, body.count]).toEqual([query, count, 2_500])
    }
    for (const limit of ['0', '-1', 'x', '1.5', ''])
      expect([limit, (await send(`/api/v1/crypto/list?limit=${limit}`)).status]).toEqual([limit, 400])
  })

  test('are filtered by what stands in symbol or description, whatever its case; a pattern is only its letters (contract 10.7)', async () => {
    const { send } = market({ feeds: many })
    for (const [q, count] of [
      ['s24', 111],
      ['EVEN', 1_250],
      ['(A.B)', 1_250],
      ['.*', 0],
      ['(a', 1_250],
      ['[', 0],
      ['\\', 0],
      ['', 2_500],
    ] as const) {
      expect([q, (await send(`/api/v1/crypto/list?q=${encodeURIComponent(q)}`)).body.count]).toEqual([q, count])
    }
  })

  test('are of every market, GET only, and free (contract 10.2, 10.3, 10.5)', async () => {
    const { send } = market()
    for (const market of STOCK_MARKETS) {
      const { status, body } = await send(`/api/v1/stocks/${market}/list`)
      expect([
        market,
        status,
        body.category,
        body.market,
        body.symbols.some(({ symbol }: { symbol: string }) => symbol === body.example),
      ]).toEqual([market, 200, 'stocks', market, true])
    }
    const { status, headers } = await send('/api/v1/crypto/list', { method: 'POST' })
    expect([status, headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS'])
    expect((await send('/api/v1/usstock/list?market=hk')).body).toEqual((await send('/api/v1/stocks/us/list')).body)
  })
})

describe('paid feeds', () => {
  test('quote 0.0020 in headers and body, with an example call and the requirements as x402 (contract 10.2, 10.5, 10.16)', async () => {
    const { send, seen } = market()
    for (const path of [PRICE, '/api/v1/usstock/price/AAPL', '/api/v1/stocks/hk/history/0700-HK']) {
      for (const method of ['GET', 'POST']) {
        const { status, headers, body } = await send(path, { method })
        const required = headers.get('payment-required')
        expect([status, headers.get('x-payment-required'), x402Scheme(headers)]).toEqual([
          402,
          required,
          `X402 requirements=${required}`,
        ])
        const { accepts, resource } = decodeHeader(required)
        expect([accepts[0].amount, accepts[0].maxTimeoutSeconds, resource.url]).toEqual(['2000', 300, ORIGIN + path])
        expect([body.price, body.x402]).toEqual([
          { amount: '0.0020', currency: 'USD' },
          { x402Version: 2, accepts },
        ])
        expect(body.example).toEqual({
          method: 'GET',
          path: expect.stringMatching(/^\/api\/v1\/stocks\/(us|hk)\/(price|history)\/(AAPL|0700-HK)/),
        })
        expect([JSON.stringify(body).match(/[^ -~]/), body.code]).toEqual([null, undefined])
      }
    }
    expect(seen).toEqual([])
  })

  test('quote before they look at the parameters, whatever those are (contract 10.15)', async () => {
    const { send } = market()
    for (const path of [
      `${PRICE}?session=lunch`,
      '/api/v1/stocks/us/price/%E7%8B%90',
      '/api/v1/stocks/us/history/AAPL',
      '/api/v1/stocks/us/history/AAPL?resolution=7&from=x&to=-1',
      '/api/v1/usstock/price/NOSUCH',
    ]) {
      expect([path, (await send(path)).status, (await send(path, { method: 'HEAD' })).status]).toEqual([path, 402, 402])
    }
    for (const body of ['{', '[]', '{"from":[]}'])
      expect((await send('/api/v1/stocks/us/history/AAPL', { method: 'POST', body })).status).toBe(402)
  })

  test('sell a price: the bare result, exact, with the receipt in the headers (contract 10.21)', async () => {
    const { pay, alice, chain } = market({
      latest: async () => ({ price: '332.2375000000000000001', confidence: '0.1', publishTime: NOW - 60 }),
    })
    const before = alice.balance()
    const { status, headers, body } = await pay(PRICE)
    expect([status, body]).toEqual([
      200,
      {
        symbol: 'AAPL',
        category: 'stocks',
        market: 'us',
        price: 332.2375,
        confidence: 0.1,
        publishTime: NOW - 60,
        timestamp: '2026-11-19T23:59:00.000Z',
        assetType: 'Equity',
        feedId: 'sample:us/AAPL',
        source: 'sample',
      },
    ])
    const transaction = chain.transfers[0]?.transaction ?? ''
    expect(decodeHeader(headers.get('payment-response'))).toMatchObject({
      success: true,
      transaction,
      payer: alice.wallet,
    })
    expect([headers.get('x-payment-receipt'), before - alice.balance()]).toEqual([transaction, 2_000n])
  })

  test('sell a history, under both header names, by POST, and with the fields in its body', async () => {
    const { pay, chain } = market()
    const whole = await pay(HISTORY, { header: 'x-payment' })
    expect([whole.status, whole.body.bars.length, whole.body.resolution, whole.body.to, whole.body.free]).toEqual([
      200,
      11,
      'D',
      NOW,
      undefined,
    ])
    expect((await pay(HISTORY, { method: 'POST' })).body).toEqual(whole.body)
    const body = JSON.stringify({ from: NOW - 7_200, resolution: '60' })
    expect((await pay('/api/v1/stocks/us/history/AAPL', { method: 'POST', body })).body.bars.length).toBe(3)
    expect(chain.transfers.length).toBe(3)
  })

  test('whose settlement is refused is 402, with the reason in PAYMENT-RESPONSE (contract 10.21)', async () => {
    const { pay, send, alice, chain } = market()
    const payment = alice.sign(await send(PRICE))
    chain.simulate('refused')
    const { status, headers, body } = await pay(PRICE, { payment })
    expect([status, 'price' in body && typeof body.price === 'number', chain.transfers]).toEqual([402, false, []])
    expect(decodeHeader(headers.get('payment-response'))).toMatchObject({
      success: false,
      errorReason: expect.stringMatching(/./),
    })
  })

  test('of usstock are those of stocks/us, and never of another market (contract 10.3)', async () => {
    const { pay } = market()
    expect((await pay('/api/v1/usstock/price/AAPL?market=hk')).body).toEqual((await pay(PRICE)).body)
    expect((await pay(`/api/v1/usstock/history/AAPL?from=${NOW - 86_400}`)).body).toEqual(
      (await pay(`/api/v1/stocks/us/history/AAPL?from=${NOW - 86_400}`)).body,
    )
  })

  test('pass the session on (contract 10.13)', async () => {
    const { pay, seen } = market()
    for (const session of ['pre', 'post', 'on']) expect((await pay(`${PRICE}?session=${session}`)).status).toBe(200)
    expect((await pay(`${HISTORY}&session=post`)).status).toBe(200)
    expect((await pay(PRICE)).status).toBe(200)
    expect(seen.filter((question) => !question.startsWith('feeds'))).toEqual([
      'latest AAPL pre',
      'latest AAPL post',
      'latest AAPL on',
      `bars AAPL D ${NOW - 10 * 86_400} ${NOW} post`,
      'latest AAPL',
    ])
  })

  test('name the feed of the session that the price is of (contract 10.22)', async () => {
    const { pay } = market()
    const regular = (await pay(PRICE)).body.feedId
    const ids = await Promise.all(
      ['pre', 'post', 'on'].map(async (session) => (await pay(`${PRICE}?session=${session}`)).body.feedId),
    )
    expect(ids).toEqual([`${regular}-pre`, `${regular}-post`, `${regular}-on`])
  })

  test('tell those who pay what is wrong, with 400, no code, and nothing charged (contract 10.11, 10.12, 10.15)', async () => {
    const { pay, send, chain, alice } = market()
    const payment = alice.sign(await send(PRICE))
    const cases: readonly [string, string][] = [
      ['', 'from'],
      ['from=', 'from'],
      ['from=0', 'from'],
      ['from=-5', 'from'],
      ['from=yesterday', 'from'],
      ['from=1.5', 'from'],
      ['from=1795132800000', 'from'],
      ['from=100&to=100', 'to'],
      ['from=100&to=99', 'to'],
      ['from=100&to=x', 'to'],
      [`from=${NOW + 1}`, 'from'],
      [`from=${NOW + 1}&to=${NOW + 2}`, 'from'],
      ['from=100&resolution=2', 'resolution'],
      ['from=100&resolution=d', 'resolution'],
      ['from=100&resolution=', 'resolution'],
      ['from=100&session=lunch', 'session'],
    ]
    for (const [query, path] of cases) {
      const { status, body } = await pay(`/api/v1/stocks/us/history/AAPL?${query}`, { payment })
      expect([query, status, body.error, body.details?.[0]?.path, body.code]).toEqual([
        query,
        400,
        'Invalid request body',
        path,
        undefined,
      ])
    }
    expect((await pay(`${PRICE}?session=regular`, { payment })).status).toBe(400)
    expect((await pay('/api/v1/stocks/us/history/AAPL', { payment, method: 'POST', body: '{' })).status).toBe(400)
    expect(chain.transfers).toEqual([])
    expect((await pay(PRICE, { payment })).status).toBe(200)
  })

  test('answer an unknown market with 404 and the list, even unpaid (contract 10.4)', async () => {
    const { send } = market()
    for (const path of ['stocks/mars/price/AAPL', 'stocks/__proto__/history/AAPL', 'stocks/uk/list']) {
      const { status, body } = await send(`/api/v1/${path}`)
      const supported = ['us', 'hk', 'jp', 'kr', 'gb', 'de', 'fr', 'nl', 'ie', 'lu', 'cn', 'ca']
      expect([path, status, body.error, body.supported]).toEqual([path, 404, 'Unknown market', supported])
    }
  })

  test('answer an unknown symbol with 404, a hint and what is near, before any settlement; the payment stays good (contract 10.17)', async () => {
    const { pay, send, chain, alice } = market()
    const payment = alice.sign(await send(PRICE))
    const { status, body } = await pay('/api/v1/stocks/us/price/APPL', { payment })
    expect([status, body.error, body.nearest]).toEqual([404, 'Symbol not found', ['AAPL']])
    expect(body.hint).toContain('Near to it: AAPL. All symbols: GET /api/v1/stocks/us/list')
    expect((await send('/api/v1/crypto/price/BTCUSD')).body.nearest[0]).toBe('BTC-USD')
    expect((await send('/api/v1/crypto/price/BTC%2FUSD')).body.hint).toContain(
      'written as BASE-QUOTE, for example BTC-USD',
    )
    expect((await send('/api/v1/fx/price/%F0%9F%A6%8A')).status).toBe(404)
    expect(chain.transfers).toEqual([])
    expect((await pay(PRICE, { payment })).status).toBe(200)
  })

  test('answer 404 where a symbol has no such session, or the window no bars (contract 10.17)', async () => {
    const { pay, chain } = market()
    const session = await pay('/api/v1/stocks/hk/price/0700-HK?session=pre')
    expect([session.status, session.body.error, session.body.hint]).toEqual([
      404,
      'No such session',
      'There is no pre session feed for 0700-HK; leave session out for regular hours.',
    ])
    const bars = await pay(`/api/v1/stocks/us/history/AAPL?from=${NOW - 3_600}&to=${NOW - 1_800}`)
    expect([bars.status, bars.body.error, typeof bars.body.hint]).toEqual([404, 'No bars in this window', 'string'])
    expect(chain.transfers).toEqual([])
  })

  test('without a current price do not report the symbol as unknown', async () => {
    const { pay, send, chain } = market({ latest: async () => undefined })
    for (const { status, body } of [await pay(PRICE), await send('/api/v1/crypto/price/BTC-USD')]) {
      expect([status, body.error]).toEqual([404, 'No price'])
      expect(body.message).toMatch(/^(AAPL|BTC-USD) has no price at the moment\. Nothing was charged\.$/)
    }
    expect(chain.transfers).toEqual([])
  })

  test('tell the vendor who pays', async () => {
    const lanes: (string | undefined)[] = []
    const { pay, send } = market({
      bars: async (_, { lane, to }) => (lanes.push(lane), [{ t: to - 1, o: '1', h: '1', l: '1', c: '1', v: '0' }]),
    })
    for (const { status } of [await pay(HISTORY), await send(`/api/v1/crypto/history/BTC-USD?from=${NOW - 9}`)])
      expect(status).toBe(200)
    expect(lanes).toEqual(['paid', 'free'])
  })

  test('that are away are 502 without a charge, and 503 in place of the 402 where none is configured (contract 10.18)', async () => {
    const { pay, chain } = market({ latest: away, bars: () => Promise.reject(new Error('ECONNRESET')) })
    for (const path of [PRICE, HISTORY]) {
      const { status, body } = await pay(path)
      expect([status, body.error]).toEqual([502, 'Price feed unavailable'])
    }
    expect(chain.transfers).toEqual([])
    const { status, headers } = await market({}, { configured: false }).send(PRICE)
    expect([status, headers.get('payment-required')]).toEqual([503, null])
  })

  test('refuse a bad payment with details and without a code, and ask nothing upstream', async () => {
    const { pay, send, alice, seen } = market()
    const { status, body } = await pay(PRICE, { payment: alice.sign(await send(PRICE), { value: 1n }) })
    expect([status, body.error, typeof body.details, body.code, body.price.amount]).toEqual([
      402,
      'Payment verification failed',
      'string',
      undefined,
      '0.0020',
    ])
    expect(seen).toEqual([])
  })

  test('charge once for one authorization: an identical resend is answered again, another question refused', async () => {
    const { pay, send, alice, chain } = market()
    const payment = alice.sign(await send(PRICE))
    const first = await pay(PRICE, { payment })
    const again = await pay(PRICE, { payment })
    expect([again.status, again.body, again.headers.get('x-payment-status')]).toEqual([
      200,
      first.body,
      'already_settled',
    ])
    const other = await pay('/api/v1/stocks/us/price/MSFT', { payment })
    expect([other.status, other.body.error, other.body.code]).toEqual([402, 'Payment verification failed', undefined])
    expect(chain.transfers.length).toBe(1)
  })
})

describe('the menu', () => {
  test('describes what the feeds answer', async () => {
    const { send, pay } = market()
    for (const { path, kind, output } of marketData.filter((each) => each.kind === 'free' || each.kind === 'sold')) {
      const symbol = { crypto: 'BTC-USD', fx: 'EUR-USD', commodity: 'XAU-USD' }[path.split('/')[3] ?? ''] ?? 'AAPL'
      const url =
        path.replace('{market}', 'us').replace('{symbol}', symbol) +
        (path.includes('history') ? `?from=${NOW - 86_400}` : '')
      const { status, body } = kind === 'sold' ? await pay(url) : await send(url)
      expect([
        url,
        status,
        output && [...Value.Errors(output, body)].map(({ path: at, message }) => `${at} ${message}`),
      ]).toEqual([url, 200, []])
    }
  })
})
