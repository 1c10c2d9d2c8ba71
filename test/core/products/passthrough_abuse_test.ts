/**
 * Those who try to lead a passthrough astray, as data: every one is refused before the quote, none is forwarded, and
 * nobody is charged.
 */
import { describe, expect, test } from 'bun:test'
import { defiLlama } from '../../../adapters/providers/defillama/defi.ts'
import { exaWeb } from '../../../adapters/providers/exa/web.ts'
import { predexon } from '../../../adapters/providers/predexon/markets.ts'
import { type Answer, encodePayment, kit, ORIGIN, read, testClock, testLog } from '../../kit.ts'

type Hostile = readonly [what: string, path: string, body?: unknown]
type Sent = { readonly url: string; readonly init: RequestInit }

const PM = '/api/v1/pm/'
const DEFI = '/api/v1/defidata/'
const WEB = '/api/v1/websearch/'
const VENUE = `${PM}polymarket/`
const REFUSED = [400, 404, 405, 413]
const WALLET = `0x${'ab'.repeat(20)}`

/** A gateway before the real adapters, whose upstream keeps what it is sent. */
function fixture(answer: () => Response = () => Response.json({ ok: true })) {
  const sent: Sent[] = []
  const clock = testClock()
  const ports = {
    clock,
    log: testLog(),
    key: 'our-own-key',
    fetch: async (url: string, init: RequestInit) => (sent.push({ url, init }), answer()),
  }
  const vendors = {
    websearch: exaWeb({ ...ports, baseUrl: 'https://exa.example' }),
    prediction: predexon({ ...ports, baseUrl: 'https://pm.example/v2' }),
    defi: defiLlama({ ...ports, baseUrl: 'https://defi.example' }),
  }
  const subject = kit({ ports: { clock, vendors } })
  const alice = subject.buyer()
  const send = async (
    method: string,
    path: string,
    { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
  ): Promise<Answer> => {
    const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
    return await read(
      await subject.gateway.fetch(
        new Request(ORIGIN + path, {
          method,
          headers: { ...(text !== undefined && { 'content-type': 'application/json' }), ...headers },
          ...(text !== undefined && { body: text }),
        }),
      ),
    )
  }
  return { ...subject, alice, sent, send }
}

// ── the hostile ─────────────────────────────────────────────────────────────────────────────────────────────────────

const climbs = [
  '..%2f..%2fadmin',
  'markets/..%2f..%2f..%2fetc%2fpasswd',
  '%2e%2e%2fadmin',
  '%252e%252e/admin',
  '%25252e%25252e/admin',
  'markets%252f..%252fadmin',
  '..%5c..%5cadmin',
  'markets%5cadmin',
  '%c0%ae%c0%ae/admin',
  '%e0%80%ae/admin',
  '%u002e%u002e/admin',
  '%ef%bc%8e%ef%bc%8e/admin',
  '%e2%80%a4%e2%80%a4/admin',
  '.%00./admin',
  '..;/admin',
  '%2e%2e;/admin',
  '.env',
  '.git/config',
  '...',
  'markets/.%2f',
]
const splits = [
  '/markets',
  'markets//trades',
  'markets/',
  'markets;jsessionid=1',
  'markets%3Bx=1',
  'markets%3fadmin=1',
  'markets%23x',
  'markets%00',
  'markets%00.json',
  'markets%0d%0aHost:%20evil.example',
  'markets%09x',
  'markets%20x',
  'markets%0a',
  'markets%zz',
  'm%c3%a4rkets',
  'markets%e2%80%ae',
  'markets%ff',
  "markets'",
  'markets%22',
  'markets%3cscript%3e',
  'markets|id',
  'markets$(id)',
  'markets%60id%60',
  'markets*',
  `${'x/'.repeat(4_000)}x`,
  'x'.repeat(8_000),
]
const hosts = [
  '@evil.example',
  '@evil.example/markets',
  'user:pass@evil.example',
  'https:%2f%2fevil.example',
  '%2f%2fevil.example',
]
const elsewhere = [
  'https://evil.example/',
  'https:%2f%2fevil.example/polymarket',
  '//evil.example/polymarket',
  'evil.example/markets',
  'polymarket.evil.example/markets',
  'polymarket@evil.example/markets',
  'polymarketx/markets',
  '127.0.0.1/latest/meta-data',
  '[::1]/markets',
  'localhost:6379/info',
  'file:///etc/passwd',
  'gopher:%2f%2f127.0.0.1:6379',
  'POLYMARKET/markets',
  '%70olymarket%2e/markets',
  'constructor/markets',
  '__proto__/markets',
  'matching-markets',
  'trading/orders',
  '%20polymarket/markets',
  '..%2fpolymarket/markets',
  'polymarket/../../../api/v1/nothing',
]
const queries = [
  '%00=1',
  'limit=%00',
  'limit=%0d%0aX-Evil:%201',
  'limit=%1b',
  `limit=${'x'.repeat(2_001)}`,
  '=1',
  '_private=1',
  'a[b]=1',
  'a%26b=1',
  'a%23b=1',
  'a%20b=1',
  'x%ff=1',
  Array.from({ length: 33 }, (_, index) => `p${index}=1`).join('&'),
]

const paths: readonly Hostile[] = [
  ...[...climbs, ...splits, ...hosts].map((tail): Hostile => [
    `a path below a venue: ${tail.slice(0, 40)}`,
    VENUE + tail,
  ]),
  ...elsewhere.map((tail): Hostile => [`a path of its own: ${tail.slice(0, 40)}`, PM + tail]),
  ...queries.map((query): Hostile => [`a query: ${query.slice(0, 40)}`, `${VENUE}markets?${query}`]),
]

const bodies: readonly Hostile[] = [
  ['a body that is no JSON', `${VENUE}markets`, '{"broken'],
  ['a body that is no object', `${VENUE}markets`, '[]'],
  ['an operator in a body', `${VENUE}markets`, { limit: { $gt: 0 } }],
  ['a list in a body', `${VENUE}markets`, { limit: ['1'] }],
  ['a parameter of a body that cuts the query', `${VENUE}markets`, { 'a&admin': '1' }],
  ['a line break of a body', `${VENUE}markets`, { limit: '1\r\nHost: evil.example' }],
  ['half a letter', `${VENUE}markets`, '{"limit":"\\ud800"}'],
  ['no wallets', `${VENUE}wallet/identities`, {}],
  ['an empty list of wallets', `${VENUE}wallet/identities`, { addresses: [] }],
  ['201 wallets', `${VENUE}wallet/identities`, { addresses: Array.from({ length: 201 }, () => WALLET) }],
  ['a wallet that is a path', `${VENUE}wallet/identities`, { addresses: ['../../admin'] }],
  ['a wallet that is an object', `${VENUE}wallet/identities`, { addresses: [{ $ne: null }] }],
  ['a body over the cap', `${VENUE}markets`, `{"limit":"${'x'.repeat(1 << 20)}"}`],
]

const defi: readonly Hostile[] = [
  ...[
    '..%2fadmin',
    '%2e%2e%2fadmin',
    '%252e%252e',
    'aave%2fadmin',
    'aave/admin',
    'aave%5cadmin',
    'aave%00',
    'aave%3fx=1',
    'aave%23x',
    'aave;x',
    '@evil.example',
    'https:%2f%2fevil.example',
    '%c3%a4ave',
    '.hidden',
    '',
    'x'.repeat(129),
  ].map((tail): Hostile => [`a slug: ${tail.slice(0, 40)}`, `${DEFI}protocol/${tail}`]),
  ...[
    'bitcoin',
    'http:%2f%2fevil.example',
    'coingecko:bitcoin%2f..%2f..%2fadmin',
    'coingecko:..%2fadmin',
    'coingecko:bitcoin;x:y',
    'coingecko:bitcoin%3fx=1',
    'coingecko:bitcoin,',
    ',',
    'coingecko:%00',
    'evil.example:80',
    'a@b:c',
    `coingecko:${'x'.repeat(129)}`,
    Array.from({ length: 101 }, () => 'a:b').join(','),
    '',
  ].map((tail): Hostile => [`coins: ${tail.slice(0, 40)}`, `${DEFI}prices/${tail}`]),
  ...[
    'protocols/..%2fadmin',
    'protocols/x',
    'chains?a%26b=1',
    'yields?x=%0d%0a',
    'yields;x',
    'emissions',
    '%2e%2e%2fpro',
    'prices',
  ].map((tail): Hostile => [`a path: ${tail}`, DEFI + tail]),
]

const pages = [
  'file:///etc/passwd',
  'ftp://a.example/',
  'gopher://a.example/',
  'javascript:alert(1)',
  'data:text/html,x',
  '//evil.example/',
  'a.example',
  '',
  ' https://a.example/',
  'https://',
  'https:///etc',
  'http://localhost/',
  'http://localhost./',
  'http://LOCALHOST:8080/',
  'http://127.0.0.1/',
  'http://127.1/',
  'http://2130706433/',
  'http://0x7f000001/',
  'http://0177.0.0.1/',
  'http://[::1]/',
  'http://[::ffff:127.0.0.1]/',
  'http://169.254.169.254/latest/meta-data',
  'http://10.0.0.1/',
  'http://metadata.google.internal/',
  'http://printer.local/',
  'http://intranet/',
  'http://user:pass@a.example/',
  'http://a.example\\@evil.example/',
  'http://a.example/\nHost: evil',
  'http://ⓛocalhost/',
  'http://１２７.0.0.1/',
  `https://a.example/${'x'.repeat(2_048)}`,
  1,
  null,
  { url: 'https://a.example' },
]
const web: readonly Hostile[] = [
  ...pages.map((url): Hostile => [`a page: ${JSON.stringify(url).slice(0, 40)}`, `${WEB}find-similar`, { url }]),
  ...pages.map((url): Hostile => [
    `a page among others: ${JSON.stringify(url).slice(0, 40)}`,
    `${WEB}contents`,
    { urls: ['https://a.example/', url] },
  ]),
  ...[
    [],
    'https://a.example/',
    [['https://a.example/']],
    Array.from({ length: 101 }, () => 'https://a.example/'),
    {},
    null,
  ].map((urls): Hostile => ['a list of pages that is none', `${WEB}contents`, { urls }]),
  ...[
    { numResults: 0 },
    { numResults: 101 },
    { numResults: 1.5 },
    { numResults: '10' },
    { includeDomains: ['https://a.example'] },
    { includeDomains: ['../admin'] },
    { excludeDomains: ['a b.example'] },
    { excludeDomains: 'a.example' },
    { includeDomains: ['localhost'] },
    { includeDomains: Array.from({ length: 101 }, () => 'a.example') },
    { category: 'news"; drop' },
    { category: 1 },
    { startPublishedDate: 'yesterday' },
    { startPublishedDate: '2026-13-01' },
    { endPublishedDate: '2026-01-01\n' },
    { startPublishedDate: '2026-02-01', endPublishedDate: '2026-01-01' },
  ].map((more): Hostile => [`a filter: ${JSON.stringify(more).slice(0, 40)}`, `${WEB}search`, { query: 'q', ...more }]),
  ...['', 'x'.repeat(2_001), 1, null, ['q'], { $ne: 1 }].map((query): Hostile => [
    `a query: ${String(query).slice(0, 20)}`,
    `${WEB}answer`,
    { query },
  ]),
  ['another path', `${WEB}research`, { query: 'q' }],
  ['a path that climbs', `${WEB}..%2fsearch`, { query: 'q' }],
  ['a body that is no JSON', `${WEB}search`, '{"query":'],
]

// ── the law ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const families: Readonly<
  Record<string, { readonly list: readonly Hostile[]; readonly method: 'GET' | 'POST'; readonly good: Hostile }>
> = {
  'paths and queries of markets': { list: paths, method: 'GET', good: ['', `${VENUE}markets`] },
  'bodies for markets': { list: bodies, method: 'POST', good: ['', `${VENUE}markets`, { limit: 1 }] },
  'DeFi data': { list: defi, method: 'GET', good: ['', `${DEFI}prices/coingecko:bitcoin`] },
  'web search': { list: web, method: 'POST', good: ['', `${WEB}search`, { query: 'q' }] },
}

describe.each(Object.entries(families))('%s', (_, { list, method, good: [, goodPath, goodBody] }) => {
  const subject = fixture()
  const { alice, chain, sent, send } = subject
  const signed = (async () => alice.sign(await send(method, goodPath, { body: goodBody })))()

  test.each(list)(
    '%s is refused with and without a payment, and goes nowhere (contract 9.14, 9.16)',
    async (_what, path, body) => {
      const payment = encodePayment(await signed)
      for (const headers of [{}, { 'payment-signature': payment }]) {
        const { status, headers: answered, body: reply } = await send(method, path, { body, headers })
        expect([
          REFUSED.includes(status) ? 'refused' : status,
          answered.has('payment-required'),
          typeof reply?.error,
        ]).toEqual(['refused', false, 'string'])
      }
      expect([sent, chain.transfers]).toEqual([[], []])
    },
  )

  test('has taken nothing of the payment that came with all of them', async () => {
    const { status } = await send(method, goodPath, {
      body: goodBody,
      headers: { 'payment-signature': encodePayment(await signed) },
    })
    expect([status, chain.transfers.length, sent.length]).toEqual([200, 1, 1])
  })
})

const good = Object.values(families).map(({ method, good: [, path, body] }) => [method, path, body] as const)

test.each(good)('%s %s carries nothing of the buyer’s to the vendor', async (method, path, body) => {
  const { alice, send, sent } = fixture()
  const payment = encodePayment(alice.sign(await send(method, path, { body })))
  const theirs = {
    'payment-signature': payment,
    'x-payment': payment,
    cookie: 'session=theirs',
    authorization: 'Bearer theirs',
    'x-api-key': 'theirs',
    'x-forwarded-for': '10.0.0.1',
    'x-forwarded-host': 'evil.example',
    forwarded: 'host=evil.example',
    referer: 'https://theirs.example',
    'x-http-method-override': 'DELETE',
  }
  expect((await send(method, path, { body, headers: theirs })).status).toBe(200)
  const headers = sent.flatMap(({ init }) => [...new Headers(init.headers)])
  expect(
    headers.filter(
      ([name, value]) => !['accept', 'content-type', 'x-api-key'].includes(name) || value.includes('theirs'),
    ),
  ).toEqual([])
  expect(JSON.stringify(sent)).not.toContain('theirs')
  expect(sent.map(({ init }) => init.redirect)).toEqual(['manual'])
})

test.each(good)(
  '%s %s that is sent on to a private address is neither followed nor charged',
  async (method, path, body) => {
    const { alice, send, sent, chain } = fixture(
      () => new Response(null, { status: 302, headers: { location: 'http://169.254.169.254/latest/meta-data' } }),
    )
    const payment = encodePayment(alice.sign(await send(method, path, { body })))
    const { status, body: reply } = await send(method, path, { body, headers: { 'payment-signature': payment } })
    expect([status, JSON.stringify(reply).includes('169.254'), sent.length, chain.transfers]).toEqual([
      503,
      false,
      1,
      [],
    ])
  },
)

test('refuses every other method', async () => {
  const { send, sent, chain } = fixture()
  for (const path of [`${VENUE}markets`, `${DEFI}chains`, `${WEB}search`])
    for (const method of ['PUT', 'PATCH', 'DELETE']) expect((await send(method, path)).status).toBe(405)
  expect([sent, chain.transfers]).toEqual([[], []])
})
