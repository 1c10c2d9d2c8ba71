/**
 * Web search, prediction markets and DeFi data: what they cost, what their vendors are asked, and what becomes of the
 * answer.
 */
import { describe, expect, test } from 'bun:test'
import { defiLlama } from '../../../adapters/providers/defillama/defi.ts'
import { predexon } from '../../../adapters/providers/predexon/markets.ts'
import { exaWeb } from '../../../adapters/providers/exa/web.ts'
import {
  type DataVendor,
  ApiError,
  type PassthroughRequest,
  type Ports,
  type WebSearchVendor,
} from '../../../core/mod.ts'
import {
  type Answer,
  embedded,
  encodePayment,
  type Kit,
  kit,
  type KitOptions,
  ORIGIN,
  read,
  testClock,
  testLog,
} from '../../kit.ts'
import vectors from '../../vectors/data_quotes.json'

const MARKETS = '/api/v1/pm/polymarket/markets'
const IDENTITIES = '/api/v1/pm/polymarket/wallet/identities'
const CONTENTS = '/api/v1/websearch/contents'
const PROTOCOLS = '/api/v1/defidata/protocols'
const WALLET = `0x${'ab'.repeat(20)}`

type Fixture = Kit & {
  readonly requests: unknown[]
  send(method: string, path: string, body?: unknown): Promise<Answer>
  pay(method: string, path: string, body?: unknown): Promise<Answer>
}

/** Every vendor answers what `answer` gives, and what it is asked is kept. */
function fixture(answer: () => Promise<string> = async () => '{}', options: KitOptions = {}): Fixture {
  const requests: unknown[] = []
  const data: DataVendor = {
    ask: async (passthrough: PassthroughRequest) => (requests.push(passthrough), await answer()),
  }
  const websearch: WebSearchVendor = {
    ask: async (question, order) => (requests.push([question, order]), await answer()),
  }
  const subject = kit({ ports: { vendors: { websearch, prediction: data, defi: data } }, ...options })
  const alice = subject.buyer()
  const request = (method: string, path: string, body: unknown, headers: Record<string, string> = {}) =>
    new Request(ORIGIN + path, {
      method,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  const send: Fixture['send'] = async (method, path, body) =>
    await read(await subject.gateway.fetch(request(method, path, body)))
  const pay: Fixture['pay'] = async (method, path, body) => {
    const payment = alice.sign(await send(method, path, body))
    return await read(
      await subject.gateway.fetch(
        request(method, path, body, {
          'payment-signature': encodePayment(payment),
          cookie: 'session=1',
          authorization: 'Bearer mine',
        }),
      ),
    )
  }
  return { ...subject, requests, send, pay }
}

const pagesOf = (count: number) => ({ urls: Array.from({ length: count }, (_, index) => `https://a.example/${index}`) })

describe('the price', () => {
  test.each(vectors)(
    'of $method $path is $amount micro-USDC ($spec) (contract 9.13, 9.16, 15.1, 15.4)',
    async ({ method, path, amount, printed, urls, ...more }) => {
      const { send } = fixture()
      const body = urls === undefined ? more.body : pagesOf(urls)
      const quoted = await send(method, path, body)
      expect([
        quoted.status,
        quoted.body.accepts[0].amount,
        quoted.body.price.amount,
        quoted.body.price.currency,
      ]).toEqual([402, amount, printed, 'USD'])
    },
  )

  test('of contents is per page; a probe without a body is quoted for one page (contract 9.16)', async () => {
    const { send } = fixture()
    expect((await send('POST', CONTENTS, pagesOf(2))).body.price).toMatchObject({
      amount: '0.005000',
      pricingUnit: 'per-url',
      perUrlPrice: 0.002,
      urls: 2,
    })
    expect((await send('GET', CONTENTS)).body.price).toMatchObject({ amount: '0.003000', pricingUnit: 'per-url' })
  })

  test('of a prediction market names its venue and tier', async () => {
    expect((await fixture().send('GET', '/api/v1/pm/kalshi/markets')).body).toMatchObject({
      category: 'kalshi',
      tier: 'standard',
    })
  })
})

describe('a request to a vendor', () => {
  test('for markets has the path and the sorted, encoded query; the body of a POST replaces the query', async () => {
    const { requests, pay } = fixture()
    await pay('GET', `${MARKETS}?q=a%26b%3D%27c&limit=5`)
    await pay('POST', MARKETS, { limit: 5, q: "a&b='c" })
    await pay('POST', MARKETS)
    expect(requests).toEqual([
      { path: 'polymarket/markets', query: 'limit=5&q=a%26b%3D%27c' },
      { path: 'polymarket/markets', query: 'limit=5&q=a%26b%3D%27c' },
      { path: 'polymarket/markets', query: '' },
    ])
  })

  test('with a duplicate field is 400 before the quote', async () => {
    const { requests, send } = fixture()
    for (const path of [`${MARKETS}?id=1&id=2`, `${PROTOCOLS}?x=1&x=1&x=2`]) {
      const { status, body } = await send('GET', path)
      expect([status, body.message.includes('must be text, got an array')]).toEqual([400, true])
    }
    expect(requests).toEqual([])
  })

  test('for wallets has a list in its body, whatever form the caller used (contract 15.2)', async () => {
    const { requests, send, pay } = fixture()
    const many = { addresses: Array.from({ length: 200 }, () => WALLET) }
    expect((await send('POST', IDENTITIES, many)).status).toBe(402)
    expect((await send('POST', IDENTITIES, { addresses: [...many.addresses, WALLET] })).status).toBe(400)
    await pay('POST', IDENTITIES, { addresses: [WALLET, WALLET] })
    await pay('GET', `${IDENTITIES}?addresses=${WALLET}`)
    expect(requests.map((each) => (each as PassthroughRequest).body)).toEqual([
      { addresses: [WALLET, WALLET] },
      { addresses: [WALLET] },
    ])
  })

  test('for DeFi has one of five paths, with the query (contract 15.5)', async () => {
    const { requests, pay } = fixture()
    for (const path of [
      'protocols',
      'protocol/aave-v3',
      'chains',
      'yields',
      'prices/base:0xAb,coingecko:bitcoin?searchWidth=4h',
    ])
      await pay('GET', `/api/v1/defillama/${path}`)
    expect(requests).toEqual([
      { path: 'protocols', query: '' },
      { path: 'protocol/aave-v3', query: '' },
      { path: 'chains', query: '' },
      { path: 'yields', query: '' },
      { path: 'prices/base:0xAb,coingecko:bitcoin', query: 'searchWidth=4h' },
    ])
  })

  test('for the web has the fields of the schema, and no others (contract 9.15)', async () => {
    const { requests, send, pay } = fixture()
    await pay('POST', '/api/v1/exa/search', {
      query: 'q',
      numResults: 3,
      category: 'news',
      contents: { text: true },
      apiKey: 'x',
    })
    const like = { url: 'https://a.example/', numResults: 7, excludeSourceDomain: true }
    await pay('POST', '/api/v1/exa/find-similar', { ...like, apiKey: 'x' })
    for (const wrong of [{ numResults: 101 }, { excludeSourceDomain: 'yes' }, { url: undefined }])
      expect((await send('POST', '/api/v1/exa/find-similar', { ...like, ...wrong })).status).toBe(400)
    expect(requests).toEqual([
      ['search', { query: 'q', numResults: 3, category: 'news' }],
      ['find-similar', like],
    ])
  })

  test('for the web may filter by number, category, dates and domains (contract 9.14)', async () => {
    const { requests, pay } = fixture()
    const order = {
      query: 'q',
      numResults: 100,
      category: 'news',
      startPublishedDate: '2026-01-02',
      endPublishedDate: '2026-11-20',
      includeDomains: ['a.example'],
      excludeDomains: ['b.example'],
    }
    expect((await pay('POST', '/api/v1/websearch/search', order)).status).toBe(200)
    expect(requests).toEqual([['search', order]])
  })

  test('for pages has 1 to 100 addresses, priced before it is paid for (contract 9.16)', async () => {
    const { requests, send, pay } = fixture()
    for (const [count, amount] of [
      [1, '3000'],
      [100, '201000'],
    ] as const) {
      expect((await send('POST', CONTENTS, pagesOf(count))).body.accepts[0].amount).toBe(amount)
      expect((await pay('POST', CONTENTS, pagesOf(count))).status).toBe(200)
    }
    for (const count of [0, 101]) expect((await send('POST', CONTENTS, pagesOf(count))).status).toBe(400)
    expect(requests).toEqual([
      ['contents', pagesOf(1)],
      ['contents', pagesOf(100)],
    ])
  })
})

describe('an answer', () => {
  const TEXT = '{"price":1.10,"id":12345678901234567890,"e":1e2,"exact":"1"}'

  test('is handed on letter by letter, and settled once; web search wraps it in data (contract 9.17, 15.5)', async () => {
    const { chain, buyer, gateway } = fixture(async () => TEXT)
    const alice = buyer()
    const bought = async (path: string, method: 'GET' | 'POST', body?: object) => {
      const payment = alice.sign(await alice.ask(body ?? {}, { path, method }))
      const init = {
        method,
        headers: { 'payment-signature': encodePayment(payment), 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      }
      const first = await gateway.fetch(new Request(ORIGIN + path, init), { ip: '192.0.2.1' })
      const again = await gateway.fetch(new Request(ORIGIN + path, init), { ip: '192.0.2.1' })
      return [
        first.headers.get('content-type'),
        await first.text(),
        await again.text(),
        again.headers.get('x-payment-status'),
      ]
    }
    expect(await bought(MARKETS, 'GET')).toEqual(['application/json', TEXT, TEXT, 'already_settled'])
    expect(await bought(PROTOCOLS, 'GET')).toEqual(['application/json', TEXT, TEXT, 'already_settled'])
    expect(await bought('/api/v1/websearch/answer', 'POST', { query: 'q' })).toEqual([
      'application/json',
      `{"data":${TEXT}}`,
      `{"data":${TEXT}}`,
      'already_settled',
    ])
    expect(chain.transfers).toHaveLength(3)
  })

  test('is kept for an hour after it was paid, since it may be megabytes', async () => {
    const subject = fixture(async () => TEXT)
    await subject.pay('GET', PROTOCOLS)
    expect(await subject.ports.storage.prune(subject.clock.now() + 3_599_000)).toBe(0)
    expect(await subject.ports.storage.prune(subject.clock.now() + 3_601_000)).toBeGreaterThan(0)
  })

  test('of megabytes is stored compressed, and a resend gets it unchanged', async () => {
    const long = JSON.stringify(
      Array.from({ length: 4_000 }, (_, index) => ({ name: `Ärztekammer ${index}`, tvl: index / 7 })),
    )
    const lifetimes: number[] = []
    const keeping = (ports: Ports): Ports => ({
      ...ports,
      storage: {
        ...ports.storage,
        claimSettlement: (id, authorization, at) => (
          lifetimes.push(JSON.stringify(at.result ?? null).length),
          ports.storage.claimSettlement(id, authorization, at)
        ),
      },
    })
    const subject = fixture(async () => long, { wrap: keeping })
    const alice = subject.buyer('bob')
    const payment = alice.sign(await subject.send('GET', PROTOCOLS))
    const ask = async () =>
      await (
        await subject.gateway.fetch(
          new Request(ORIGIN + PROTOCOLS, { headers: { 'payment-signature': encodePayment(payment) } }),
          { ip: '192.0.2.1' },
        )
      ).text()
    expect([
      (await ask()) === long,
      (await ask()) === long,
      subject.requests.length,
      subject.chain.transfers.length,
    ]).toEqual([true, true, 1, 1])
    expect(lifetimes[0]).toBeLessThan(long.length / 2)
  })

  test('of the demo says that it is a sample', async () => {
    const clock = testClock()
    const { pay } = fixture(undefined, { ports: { clock, vendors: embedded(clock) } })
    const described: readonly [string, string, object?][] = [
      ['GET', MARKETS],
      ['GET', '/api/v1/pm/binance/candles/BTCUSDT'],
      ['POST', IDENTITIES, { addresses: [WALLET] }],
      ['GET', PROTOCOLS],
      ['GET', '/api/v1/defidata/protocol/lido'],
      ['GET', '/api/v1/defidata/chains'],
      ['GET', '/api/v1/defidata/yields'],
      ['GET', '/api/v1/defidata/prices/coingecko:bitcoin,coingecko:nothing'],
      ['POST', '/api/v1/websearch/search', { query: 'x402', includeDomains: ['sample.farebox.example'] }],
      ['POST', '/api/v1/websearch/find-similar', { url: 'https://sample.farebox.example/usdc' }],
      ['POST', '/api/v1/websearch/answer', { query: 'what is usdc' }],
      ['POST', CONTENTS, { urls: ['https://sample.farebox.example/usdc', 'https://a.example/'] }],
    ]
    for (const [method, path, body] of described) {
      const { status, body: answer } = await pay(method, path, body)
      expect([path, status, JSON.stringify(answer).toLowerCase().includes('sample')]).toEqual([path, 200, true])
    }
    const { body } = await pay('GET', '/api/v1/defidata/prices/coingecko:bitcoin,coingecko:nothing')
    expect(Object.keys(body.coins)).toEqual(['coingecko:bitcoin'])
  })

  test('from the web has results, or an answer with its citations (contract 9.17)', async () => {
    const clock = testClock()
    const { pay } = fixture(undefined, { ports: { clock, vendors: embedded(clock) } })
    const page = 'https://sample.farebox.example/usdc'
    for (const [path, body, members] of [
      ['search', { query: 'x402' }, ['results']],
      ['find-similar', { url: page }, ['results']],
      ['contents', { urls: [page] }, ['results']],
      ['answer', { query: 'what is usdc' }, ['answer', 'citations']],
    ] as const) {
      const { status, body: reply } = await pay('POST', `/api/v1/websearch/${path}`, body)
      expect([path, status, Object.keys(reply)]).toEqual([path, 200, ['data']])
      for (const member of members) expect([path, reply.data[member]?.length > 0]).toEqual([path, true])
    }
  })
})

describe('a request that cannot be served', () => {
  test('keeps the service’s own status and words, and takes nothing (contract 3.21, 15.3)', async () => {
    const refusal = new ApiError('PASSED_ON', {
      status: 404,
      message: 'Predexon 404: no such market (payment NOT charged)',
      fields: { status: 404 },
      details: { error: 'no such market' },
    })
    for (const [method, path, body] of [
      ['GET', MARKETS],
      ['GET', '/api/v1/defidata/protocol/nobody'],
      ['POST', CONTENTS, pagesOf(1)],
    ] as const) {
      const { pay, chain } = fixture(() => Promise.reject(refusal))
      const answer = await pay(method, path, body)
      expect([answer.status, answer.body, chain.transfers]).toEqual([
        404,
        { error: 'Bad Request', message: refusal.parts.message, status: 404, details: { error: 'no such market' } },
        [],
      ])
    }
  })

  test('because a service is away is 502, and the same signed request buys later (contract 3.21)', async () => {
    let isDown = true
    const { chain, buyer } = fixture(() =>
      isDown
        ? Promise.reject(new ApiError('UPSTREAM_FAILED', { message: 'Service X failed. Payment was NOT charged.' }))
        : Promise.resolve('[]'),
    )
    const alice = buyer()
    const at = { method: 'GET', path: PROTOCOLS } as const
    const payment = alice.sign(await alice.ask({}, at))
    const { status, body } = await alice.buy({}, { ...at, payment })
    expect([status, body.error, chain.transfers]).toEqual([502, 'Upstream provider error', []])
    isDown = false
    expect([(await alice.buy({}, { ...at, payment })).status, chain.transfers.length]).toEqual([200, 1])
  })

  test('because web search is silent for 30 seconds is 500, uncharged (contract 9.18)', async () => {
    const clock = testClock()
    const websearch = exaWeb({
      baseUrl: 'https://exa.example',
      key: 'key',
      clock,
      log: testLog(),
      fetch: (_, { signal }) =>
        new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error))),
    })
    const { pay, chain } = fixture(undefined, { ports: { clock, vendors: { websearch } } })
    const asking = pay('POST', '/api/v1/websearch/search', { query: 'q' })
    let isAnswered = false
    void asking.then(() => (isAnswered = true))
    await clock.advance(29_999)
    expect(isAnswered).toBe(false)
    await clock.advance(1)
    const { status, body } = await asking
    expect([status, body.error, chain.transfers]).toEqual([500, 'Internal server error', []])
  })

  test('because a venue refuses it keeps the status; because it is away is 502, and because of our key 503 (contract 15.3)', async () => {
    for (const [theirs, ours, suffix] of [
      [400, 400, 'payment NOT charged'],
      [404, 404, 'payment NOT charged'],
      [422, 422, 'payment NOT charged'],
      [403, 503, ''],
      [500, 502, 'NOT charged'],
      [503, 502, 'NOT charged'],
    ] as const) {
      const clock = testClock()
      const prediction = predexon({
        key: 'key',
        clock,
        log: testLog(),
        fetch: async () => Response.json({ error: 'no such market' }, { status: theirs }),
      })
      const { pay, chain } = fixture(undefined, { ports: { clock, vendors: { prediction } } })
      const asking = pay('GET', MARKETS)
      await clock.advance(5_000)
      const { status, body } = await asking
      expect([theirs, status, chain.transfers]).toEqual([theirs, ours, []])
      expect(JSON.stringify(body)).toContain(suffix)
    }
  })

  test('because a protocol is unknown is 400, uncharged; a coin that is unknown is left out, and charged (contract 15.5)', async () => {
    const clock = testClock()
    const defi = defiLlama({
      clock,
      log: testLog(),
      fetch: async (url) =>
        url.includes('/protocol/')
          ? Response.json({ message: 'Protocol not found' }, { status: 400 })
          : Response.json({ coins: {} }),
    })
    const { pay, chain } = fixture(undefined, { ports: { clock, vendors: { defi } } })
    const unknown = await pay('GET', '/api/v1/defidata/protocol/nobody')
    expect([unknown.status, chain.transfers]).toEqual([400, []])
    const coins = await pay('GET', '/api/v1/defidata/prices/coingecko:nothing')
    expect([coins.status, coins.body, chain.transfers.length]).toEqual([200, { coins: {} }, 1])
  })

  test('because DeFi data are silent for 25 seconds is 502, uncharged (contract 15.6)', async () => {
    const clock = testClock()
    const defi = defiLlama({
      clock,
      log: testLog(),
      fetch: (_, { signal }) =>
        new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error))),
    })
    const { pay, chain } = fixture(undefined, { ports: { clock, vendors: { defi } } })
    const asking = pay('GET', PROTOCOLS)
    let isAnswered = false
    void asking.then(() => (isAnswered = true))
    await clock.advance(24_999)
    expect(isAnswered).toBe(false)
    await clock.advance(1)
    expect([(await asking).status, chain.transfers]).toEqual([502, []])
  })

  test('for an unknown venue is 404 and lists the known ones (contract 15.1)', async () => {
    const { status, body } = await fixture().send('GET', '/api/v1/pm/betfair/markets')
    expect([status, body.available[0]]).toEqual([404, '/api/v1/pm/polymarket/{path}'])
  })

  test('is 503 without a challenge if no vendor is configured', async () => {
    const { gateway } = kit()
    for (const path of [MARKETS, PROTOCOLS, CONTENTS]) {
      const { status, headers } = await read(await gateway.fetch(new Request(ORIGIN + path)))
      expect([path, status, headers.has('payment-required')]).toEqual([path, 503, false])
    }
  })
})
