import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { cachedMarket } from '../../../../adapters/providers/lib/market_cache.ts'
import { pythMarket } from '../../../../adapters/providers/pyth/market.ts'
import { BAR_SECONDS } from '../../../../core/ports/mod.ts'
import { ApiError, type Feed, type MarketVendor, type Resolution } from '../../../../core/mod.ts'
import { runLaws } from '../../../conformance/law.ts'
import { marketVendorLaws, NOW } from '../../../conformance/markets.ts'
import { testLog } from '../../../kit.ts'
import { calm, drip, handClock, KEY, type Recorded, standIn, until } from '../lib/provider_kit.ts'

const VECTORS = join(import.meta.dirname, '../../../vectors/market')
const recorded = (name: string): Recorded => JSON.parse(readFileSync(join(VECTORS, `${name}.json`), 'utf8')) as Recorded

function replay(name: string): Response {
  const { status, headers = {}, body } = recorded(name)
  return new Response(typeof body === 'string' ? body : JSON.stringify(body), { status, headers })
}

type SentRequest = { readonly path: string; readonly query: URLSearchParams; readonly headers: Headers }

/** Pyth over a stand-in that answers each path as told. */
function subject(answer: (order: SentRequest, count: number) => Response | Promise<Response>) {
  const requests: SentRequest[] = []
  const server = standIn((_, request) => {
    const { pathname, searchParams } = new URL(request.url)
    const one = { path: pathname, query: searchParams, headers: request.headers }
    requests.push(one)
    return answer(one, requests.length)
  })
  const clock = handClock()
  const log = testLog()
  const market = pythMarket({
    key: KEY,
    hermesUrl: `${server.url}/hermes/`,
    historyUrl: `${server.url}/v1/real_time`,
    clock,
    log,
  })
  return { market, requests, clock, log }
}

const LISTS: Readonly<Record<string, string>> = { equity: 'equities', crypto: 'crypto', fx: 'fx' }
function usual({ path, query }: SentRequest): Response {
  if (path === '/hermes/v2/price_feeds') return replay(LISTS[query.get('asset_type') ?? ''] ?? 'everything')
  return replay(path === '/hermes/v2/updates/price/latest' ? 'latest' : 'history')
}

const feed = (key: string, feedId = '49f6b65cb1de6b10eaf75e7c03ca029c306d0357e91b5311b175084a5ad55688'): Feed => ({
  symbol: key,
  description: key,
  assetType: 'Equity',
  feedId,
  key,
})
const APPLE = feed('Equity.US.AAPL/USD')
const TESLA = feed('Equity.US.TSLA/USD', '16dad506d7db8da01c87581c87ca897a012a153557d4d578c3b9c9e1bc0632f1')
const days = { resolution: 'D', from: 1795046400, to: 1795305600 } as const
const failure = (work: Promise<unknown>) =>
  work.then(
    () => 'answered',
    (error: unknown) => (error instanceof ApiError ? error.code : error),
  )

describe('lists of Pyth', () => {
  const symbols = async (market: MarketVendor, kind: Parameters<MarketVendor['feeds']>[0]) =>
    (await market.feeds(kind, calm())).map(({ symbol }) => symbol)

  test('read as our symbols, in the format of each market (contract 10.6)', async () => {
    const { market, requests } = subject(usual)
    expect(await symbols(market, 'crypto')).toEqual(['BTC-USD', 'ETH-USD'])
    expect(await symbols(market, 'fx')).toEqual(['EUR-USD'])
    expect(await symbols(market, 'commodity')).toEqual(['RSN7-USc', 'USOILSPOT', 'WTIV7', 'XAU-USD'])
    expect(await symbols(market, 'us')).toEqual(['AAPL', 'TSLA'])
    expect(await symbols(market, 'hk')).toEqual(['0668-HK', '0700-HK'])
    expect([await symbols(market, 'jp'), await symbols(market, 'kr'), await symbols(market, 'lu')]).toEqual([
      ['7203'],
      ['005930'],
      [],
    ])
    expect(requests.map(({ query }) => query.get('asset_type'))).toEqual([
      'crypto',
      'fx',
      null,
      'equity',
      'equity',
      'equity',
      'equity',
      'equity',
    ])
  })

  test('tell two feeds of one ticker apart by their currency', async () => {
    expect(await symbols(subject(usual).market, 'gb')).toEqual(['VOD', 'VOD-USD'])
  })

  test('carry name, type, id and Pyth’s own name', async () => {
    const [gold] = (await subject(usual).market.feeds('commodity', calm())).slice(-1)
    expect(gold).toEqual({
      symbol: 'XAU-USD',
      description: 'GOLD / US DOLLAR',
      assetType: 'Metal',
      feedId: '601'.padStart(64, '0'),
      key: 'Metal.XAU/USD',
    })
  })

  test.each([
    ['in another shape', () => Response.json({ feeds: [] })],
    ['of an error', () => Response.json({ error: 'maintenance' })],
    ['of nothing', () => Response.json([])],
    ['of no feed', () => Response.json([{ id: 7 }])],
    ['of 404', () => replay('latest_not_found')],
  ])('%s is no list: it reads as FEED_UNAVAILABLE, never as a shelf without symbols', async (_, reply) => {
    const { market, log } = subject(reply)
    for (const kind of ['us', 'crypto', 'commodity'] as const)
      expect(await failure(market.feeds(kind, calm()))).toBe('FEED_UNAVAILABLE')
    expect(log.lines.length).toBeOneOf([1, 3]) // one alert for an outage, a warning for each failure
  })

  test('that are malformed once are requested again', async () => {
    const { market } = subject((one, count) => (count === 1 ? Response.json({ error: 'maintenance' }) : usual(one)))
    expect(await symbols(market, 'fx')).toEqual(['EUR-USD'])
  })
})

describe('prices of Pyth', () => {
  test('are exact, and asked for with the key', async () => {
    const { market, requests } = subject(usual)
    expect(await market.latest(APPLE, calm())).toEqual({
      price: '332.2375',
      confidence: '0.15272',
      publishTime: 1785424136,
    })
    expect(
      await market.latest(feed('x', 'ff61491a931112ddf1bd8147cd1b641375f79f5825126d665480874634fd0ace'), calm()),
    ).toEqual({ price: '1841.36023127', confidence: '1.77166324', publishTime: 1692110601 })
    expect(requests[0]?.headers.get('authorization')).toBe(`Bearer ${KEY}`)
    expect(Object.fromEntries(requests[0]?.query ?? [])).toEqual({
      'ids[]': APPLE.feedId,
      parsed: 'true',
      encoding: 'hex',
      ignore_invalid_price_ids: 'true',
    })
  })

  test('requested in one turn are sent together, each once, eighty in a call', async () => {
    const { market, requests } = subject(usual)
    const spots = await Promise.all([APPLE, TESLA, APPLE, TESLA].map((each) => market.latest(each, calm())))
    expect(spots.map((spot) => spot?.price)).toEqual(['332.2375', '305.57932', '332.2375', '305.57932'])
    expect(requests.map(({ query }) => query.getAll('ids[]'))).toEqual([[APPLE.feedId, TESLA.feedId]])
    await Promise.all(Array.from({ length: 100 }, (_, index) => market.latest(feed('x', `${index}`), calm())))
    expect(
      requests
        .slice(1)
        .map(({ query }) => query.getAll('ids[]').length)
        .sort(),
    ).toEqual([20, 80])
  })

  test('are none for an id that Pyth does not know, or that has never published', async () => {
    expect(await subject(usual).market.latest(feed('x', 'abc'), calm())).toBeUndefined()
    expect(await subject(usual).market.latest(feed('x', '701'.padStart(64, '0')), calm())).toBeUndefined()
    expect(await subject(() => replay('latest_not_found')).market.latest(APPLE, calm())).toBeUndefined()
    for (const wrong of [
      () => Response.json({ error: 'maintenance' }),
      () => Response.json([]),
      () => new Response('no such page', { status: 404 }),
    ])
      expect(await failure(subject(wrong).market.latest(APPLE, calm()))).toBe('FEED_UNAVAILABLE')
  })

  test('of a session are of its own feed, and name it; none where there is none or it is deprecated', async () => {
    const { market, requests } = subject((one) =>
      one.query.getAll('ids[]').includes('701'.padStart(64, '0'))
        ? Response.json({
            parsed: [{ id: '701'.padStart(64, '0'), price: { price: '5', conf: '1', expo: 0, publish_time: 9 } }],
          })
        : usual(one),
    )
    expect(await market.latest(TESLA, { session: 'post', ...calm() })).toEqual({
      price: '5',
      confidence: '1',
      publishTime: 9,
      feedId: '701'.padStart(64, '0'),
    })
    expect(await market.latest(TESLA, { session: 'on', ...calm() })).toBeUndefined()
    expect(await market.latest(APPLE, { session: 'pre', ...calm() })).toBeUndefined()
    expect(requests.map(({ path }) => path.split('/').at(-1))).toEqual(['price_feeds', 'latest'])
  })
})

describe('bars of Pyth', () => {
  test('are rows of plain decimals within the window; one with a hole is left out', async () => {
    const { market, requests } = subject(usual)
    expect(await market.bars(APPLE, { ...days, ...calm() })).toEqual([
      { t: 1795046400, o: '94123.5', h: '95000.25', l: '93000', c: '94000', v: '0' },
      { t: 1795132800, o: '94000', h: '94500.125', l: '93999.99', c: '94321.1', v: '0' },
      { t: 1795219200, o: '0.0000001', h: '0.00000025', l: '0.0000001', c: '0.00000015', v: '0' },
    ])
    expect([requests[0]?.path, Object.fromEntries(requests[0]?.query ?? [])]).toEqual([
      '/v1/real_time/history',
      { symbol: 'Equity.US.AAPL/USD', resolution: 'D', from: '1795046400', to: '1795305600' },
    ])
    expect(
      (await market.bars(APPLE, { ...days, from: 1795046401, to: 1795219199, ...calm() })).map(({ t }) => t),
    ).toEqual([1795132800])
  })

  test('are none where Pyth says so; an error, a 404 and another shape are a feed that is away', async () => {
    const ask = (reply: () => Response) => subject(reply).market.bars(APPLE, { ...days, ...calm() })
    expect(await ask(() => replay('history_no_data'))).toEqual([])
    for (const reply of [
      () => replay('history_error'),
      () => replay('latest_not_found'),
      () => Response.json({ error: 'x' }),
      () => Response.json({ s: 'ok' }),
      () => new Response('"ok"'),
    ])
      expect(await failure(ask(reply))).toBe('FEED_UNAVAILABLE')
  })

  test('are never binary floats on the way (contract 10.10)', async () => {
    const text = `{"s":"ok","errmsg":"1.5 \\"2\\" {3}","t":[${days.from}, 1795132800.0],"o":[0.12345678901234567890123,9007199254740993],"h":[100000000000000000000.1,1e+2],"l":[1e-20,1.50E1],"c":[ 0.1 ,-0],"v":["12345678901234567890",0]}`
    const bars = await subject(() => new Response(text)).market.bars(APPLE, { ...days, ...calm() })
    expect(bars).toEqual([
      {
        t: days.from,
        o: '0.12345678901234567890123',
        h: '100000000000000000000.1',
        l: '0.00000000000000000001',
        c: '0.1',
        v: '12345678901234567890',
      },
      { t: 1795132800, o: '9007199254740993', h: '100', l: '15', c: '0', v: '0' },
    ])
  })

  test('of a session are of its own feed', async () => {
    const { market, requests } = subject(usual)
    expect((await market.bars(TESLA, { ...days, session: 'post', ...calm() })).length).toBe(3)
    expect(requests.at(-1)?.query.get('symbol')).toBe('Equity.US.TSLA/USD.POST')
    expect(await market.bars(APPLE, { ...days, session: 'post', ...calm() })).toEqual([])
    expect(requests.length).toBe(2)
  })
})

describe('a Pyth that is away', () => {
  test.each([
    ['unavailable', 2, 'warn'],
    ['rate_limited', 2, 'warn'],
    ['unauthorized', 1, 'alert'],
    ['not_entitled', 1, 'alert'],
  ] as const)('%s reads as FEED_UNAVAILABLE after %i attempts (contract 10.18)', async (reply, attempts, level) => {
    const { market, requests, log, clock } = subject(() => replay(reply))
    expect(await failure(market.latest(APPLE, calm()))).toBe('FEED_UNAVAILABLE')
    expect([requests.length, log.lines.map((line) => line.level), clock.pauses.length]).toEqual([
      attempts,
      [level],
      attempts - 1,
    ])
    expect(JSON.stringify(log.lines)).not.toContain(KEY)
    await failure(market.latest(APPLE, calm()))
    expect(log.lines.filter((line) => line.level === 'alert').length).toBe(level === 'alert' ? 1 : 0)
  })

  test('once is asked again', async () => {
    const { market, requests } = subject((one, count) => (count === 1 ? replay('unavailable') : usual(one)))
    expect((await market.latest(APPLE, calm()))?.price).toBe('332.2375')
    expect(requests.length).toBe(2)
  })

  test('by silence, at once or within a body, has five seconds, and five more (contract 10.18)', async () => {
    for (const silent of [() => new Promise<Response>(() => {}), () => new Response(drip())]) {
      const { market, requests, clock } = subject(silent)
      const work = failure(market.bars(APPLE, { ...days, ...calm() }))
      await until(() => requests.length === 1)
      clock.expire()
      await until(() => requests.length === 2)
      clock.expire()
      expect(await work).toBe('FEED_UNAVAILABLE')
      expect(requests.length).toBe(2)
    }
  })

  test('is one that sends a redirect, or no JSON', async () => {
    expect(await failure(subject(() => new Response('<html>')).market.feeds('us', calm()))).toBe('FEED_UNAVAILABLE')
    const { market, requests } = subject(() => new Response(null, { status: 302, headers: { location: '/elsewhere' } }))
    expect(await failure(market.feeds('us', calm()))).toBe('FEED_UNAVAILABLE')
    expect(requests.length).toBe(1)
  })

  test('is one whose address is refused', async () => {
    const clock = handClock()
    const market = pythMarket({ hermesUrl: 'http://127.0.0.1:1', clock, log: testLog() })
    expect(await failure(market.feeds('us', calm()))).toBe('FEED_UNAVAILABLE')
  })

  test('ends with the signal of who asked, and its reason', async () => {
    const reason = new Error('gone')
    const { market, requests } = subject(() => new Promise(() => {}))
    const controller = new AbortController()
    const bars = failure(market.bars(APPLE, { ...days, signal: controller.signal }))
    const latest = failure(market.latest(APPLE, controller))
    await until(() => requests.length >= 2)
    controller.abort(reason)
    expect([await bars, await latest]).toEqual([reason, reason])
  })
})

test('every recording says where it is from', () => {
  for (const file of readdirSync(VECTORS)) {
    const { document, certainty } = recorded(file.replace('.json', ''))
    expect([file, document.length > 20, ['quoted', 'types', 'inferred'].includes(certainty)]).toEqual([
      file,
      true,
      true,
    ])
  }
})

// ── laws ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const PRICES: Readonly<Record<string, readonly [id: string, type: string, price: string]>> = {
  'Crypto.BTC/USD': ['1'.repeat(64), 'crypto', '9412350000000'],
  'FX.EUR/USD': ['2'.repeat(64), 'fx', '110500000'],
  'Metal.XAU/USD': ['3'.repeat(64), 'metal', '290025000000'],
  'Equity.US.AAPL/USD': ['4'.repeat(64), 'equity', '24000000000'],
}

/** Pyth as the laws need it: four feeds, at one price each. */
function imitation({ path, query }: SentRequest): Response {
  const rows = Object.entries(PRICES)
  if (path.endsWith('/price_feeds')) {
    const wanted = query.get('asset_type')
    return Response.json(
      rows
        .filter(([, [, type]]) => wanted === null || type === wanted)
        .map(([symbol, [id, type]]) => ({ id, attributes: { symbol, description: symbol, asset_type: type } })),
    )
  }
  if (path.endsWith('/latest')) {
    const ids = query.getAll('ids[]')
    return Response.json({
      parsed: rows
        .filter(([, [id]]) => ids.includes(id))
        .map(([, [id, , price]]) => ({ id, price: { price, conf: '12345', expo: -8, publish_time: NOW - 2 } })),
    })
  }
  const price = Number(PRICES[query.get('symbol') ?? '']?.[2]) / 1e8
  if (!price) return Response.json({ s: 'no_data', t: [] })
  const length = BAR_SECONDS[(query.get('resolution') ?? 'D') as Resolution]
  const first = Math.ceil(Number(query.get('from')) / length) * length
  const t = Array.from(
    { length: Math.max(0, Math.floor((Number(query.get('to')) - first) / length) + 1) },
    (_, index) => first + index * length,
  )
  const column = t.map(() => price)
  return Response.json({
    s: t.length > 0 ? 'ok' : 'no_data',
    t,
    o: column,
    h: column,
    l: column,
    c: column,
    v: t.map(() => 0),
  })
}

const lawful = subject(imitation).market
runLaws('pyth', marketVendorLaws, async () => ({ open: async () => lawful, close: async () => {} }))
runLaws('cached pyth', marketVendorLaws, async () => {
  const market = cachedMarket(subject(imitation).market, { clock: handClock(), log: testLog() })
  return { open: async () => market, close: async () => {} }
})

test('a thousand callers of a cold cache make two calls upstream, whatever the shelf', async () => {
  for (const [kind, symbol] of [
    ['crypto', 'BTC-USD'],
    ['commodity', 'XAU-USD'],
    ['us', 'AAPL'],
  ] as const) {
    const { market, requests } = subject(imitation)
    const cached = cachedMarket(market, { clock: handClock(), log: testLog() })
    const call = async () => {
      const found = (await cached.feeds(kind, calm())).find((each) => each.symbol === symbol)
      return found && (await cached.latest(found, calm()))?.price
    }
    expect(new Set(await Promise.all(Array.from({ length: 1_000 }, call))).size).toBe(1)
    expect(requests.length).toBe(2)
  }
})
