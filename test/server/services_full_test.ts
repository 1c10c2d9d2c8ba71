/**
 * Search, prices and swaps on a started gateway: what devnet has without a key, which source a key brings, and what the
 * operator may see of it.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { quietLog, startedGateways } from './started_gateway.ts'
import type { Running } from '../../server/main.ts'

const SEARCH = '/api/v1/search'
const BITCOIN = '/api/v1/crypto/price/BTC-USD'
const APPLE = '/api/v1/usstock/price/AAPL'
const SWAP = '/api/v1/dexagg/price?chainId=8453&sellToken=0x1&buyToken=0x2&sellAmount=1000000'
const ANALYTICS = '/api/v1/dexagg/trade-analytics/swap'
const TREASURY = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const TOKEN = 'the-operators-own-token'

const warnings: string[] = []
const alerts: string[] = []
const log = quietLog({
  warn: (message) => void warnings.push(message),
  alert: (message) => void alerts.push(message),
})
const { startWith } = startedGateways(log)
let plain: Running
let upstream: Upstream

beforeAll(async () => {
  upstream = standIn()
  plain = await startWith()
})
afterAll(() => upstream.stop())

type Answer = { readonly status: number; readonly headers: Headers; readonly body: any }

async function get({ url }: Running, path: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const response = await fetch(url + path, { headers })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

/** Bought by the devnet's buyer, with the official client. */
async function buy({ url }: Running, path: string, body?: unknown): Promise<Answer> {
  const pay = wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [
      { network: 'eip155:*', client: new ExactEvmScheme(privateKeyToAccount(devnet().buyer.privateKey as Hex)) },
    ],
  })
  const response = await pay(
    url + path,
    body === undefined
      ? {}
      : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
  )
  return { status: response.status, headers: response.headers, body: await response.json() }
}

function devnet() {
  if (!plain.wired.devnet) throw new Error('not on devnet')
  return plain.wired.devnet.evm
}

/** Gateways that were named by their operator, on the chain of the devnet. */
function playGateways(...names: readonly string[]): string {
  const { rpcUrl, payTo, network } = devnet()
  return names
    .map(
      (name) =>
        `[[gateways]]\nname = "${name}"\nhosts = ["${name}.example"]\nnetwork = "${network}"\npay_to = "${payTo}"\nrpc_url = "${rpcUrl}"\nrelayer_key_env = "RELAYER_KEY"\n`,
    )
    .join('')
}
const playMoney = () => ({ RELAYER_KEY: devnet().relayerKey })

type Upstream = { readonly url: string; readonly seen: string[]; refusing: boolean; stop(): Promise<void> }

/** xAI, Exa, Pyth and 0x under one roof; `seen` is what they were asked, with the key that came along. */
function standIn(): Upstream {
  const seen: string[] = []
  const feed = {
    id: 'ab'.repeat(32),
    attributes: { symbol: 'Crypto.BTC/USD', description: 'BITCOIN', asset_type: 'Crypto' },
  }
  const price = { price: '6000012345678', conf: '100000000', expo: -8, publish_time: 1_795_000_000 }
  const xai = {
    status: 'completed',
    model: 'grok-x',
    output: [
      {
        type: 'message',
        content: [
          { type: 'output_text', text: 'By xAI.', annotations: [{ type: 'url_citation', url: 'https://a.example/' }] },
        ],
      },
    ],
  }
  const answers: Readonly<Record<string, () => Response>> = {
    '/xai/responses': () =>
      made.refusing ? Response.json({ error: 'no credits' }, { status: 429 }) : Response.json(xai),
    '/exa/answer': () => Response.json({ answer: 'By Exa.', citations: [{ url: 'https://b.example/' }] }),
    '/hermes/v2/price_feeds': () => Response.json([feed]),
    '/hermes/v2/updates/price/latest': () => Response.json({ parsed: [{ id: feed.id, price }] }),
    '/bars/history': () => Response.json({ s: 'ok', t: [1_790_000_040], o: [1], h: [3], l: [1], c: [2], v: [7] }),
    '/zerox/swap/permit2/price': () => Response.json({ liquidityAvailable: true }),
    '/zerox/trade-analytics/swap': () => Response.json({ trades: [] }),
  }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, searchParams } = new URL(request.url)
      const { model = '' } = request.method === 'POST' ? ((await request.json()) as { model?: string }) : {}
      const key = ['authorization', 'x-api-key', '0x-api-key']
        .map((name) => request.headers.get(name))
        .find((value) => value !== null)
      seen.push([pathname, model, searchParams.get('swapFeeRecipient'), key].filter(Boolean).join(' '))
      return answers[pathname]?.() ?? new Response(null, { status: 404 })
    },
  })
  const made: Upstream = {
    url: `http://127.0.0.1:${server.port}`,
    seen,
    refusing: false,
    stop: async () => void (await server.stop(true)),
  }
  return made
}

describe('devnet without a key', () => {
  test('searches its bundled documents, and says so', async () => {
    const { status, headers, body } = await buy(plain, SEARCH, { query: 'What is x402?' })
    expect([status, headers.get('x-payment-receipt')]).toEqual([200, expect.stringMatching(/^0x[0-9a-f]{64}$/)])
    expect(body).toMatchObject({
      model: 'farebox/sample-search',
      summary: expect.stringContaining('not results from the web'),
    })
  })

  test('gives sample prices away, and sells those of stocks', async () => {
    expect(await get(plain, BITCOIN)).toMatchObject({
      status: 200,
      body: { symbol: 'BTC-USD', source: 'sample', free: true },
    })
    expect(await get(plain, APPLE)).toMatchObject({ status: 402, body: { price: { amount: '0.0020' } } })
    expect(await buy(plain, APPLE)).toMatchObject({ status: 200, body: { symbol: 'AAPL', source: 'sample' } })
  })

  test('finds no swaps: there is nothing to stand in for an exchange', async () => {
    expect((await get(plain, SWAP)).status).toBe(503)
  })

  test('shows no figures to anybody: it has no token', async () => {
    expect(plain.wired.metrics).toBeUndefined()
    expect((await get(plain, '/metrics', { authorization: 'Bearer undefined' })).status).toBe(404)
  })
})

describe('for real money', () => {
  test('nothing embedded is for sale', async () => {
    const running = await startWith(playMoney(), playGateways('play'))
    expect((await get(running, BITCOIN)).status).toBe(503)
    expect((await get(running, SWAP)).status).toBe(503)
    expect((await buy(running, SEARCH, { query: 'x402' })).status).toBe(503)
  })

  test('unless the operator says so, who is warned', async () => {
    warnings.length = 0
    const running = await startWith(playMoney(), `market = "sample"\nsearch = ["corpus"]\n${playGateways('play')}`)
    expect((await get(running, BITCOIN)).body.source).toBe('sample')
    expect((await buy(running, SEARCH, { query: 'x402' })).status).toBe(200)
    expect(warnings).toContain('samples are sold for real money')
  })
})

test('models are timed too: what a vendor answers, under its name', async () => {
  const chat = { model: 'farebox/echo', messages: [{ role: 'user', content: 'Hello' }] }
  const vendors = `[vendors.embedded]\nchat = "echo"\n[vendors.vendor-a]\nprotocol = "demo"\n[vendors.vendor-h]\nchat = "openai-chat"\nbase_url = "${upstream.url}/deep"\n`
  const running = await startWith({ ...playMoney(), OPERATOR_TOKEN: TOKEN }, playGateways('play') + vendors)
  expect((await buy(running, '/api/v1/chat/completions', chat)).status).toBe(200)
  expect(
    (await buy(running, '/api/v1/images/generations', { model: 'vendor-a/image-1', prompt: 'a fox' })).status,
  ).toBe(200)
  expect(
    (await buy(running, '/api/v1/chat/completions', { ...chat, model: 'vendor-h/chat-4' })).status,
  ).toBeGreaterThanOrEqual(400)
  const body = await (await fetch(`${running.url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })).text()
  const counts = [...body.matchAll(/^farebox_upstream_seconds_count\{vendor="([\w-]+)"\} (\d+)$/gm)].map(
    ([, vendor, count]) => [vendor, Number(count)],
  )
  expect(Object.fromEntries(counts)).toEqual({ echo: 1, demo: 1, 'vendor-h': 1 })
})

describe('keys', () => {
  const keys = () => ({
    ...playMoney(),
    XAI_API_KEY: 'k-x',
    XAI_BASE_URL: `${upstream.url}/xai`,
    XAI_SEARCH_MODEL: 'grok-x',
    EXA_API_KEY: 'k-e',
    EXA_BASE_URL: `${upstream.url}/exa`,
    PYTH_API_KEY: 'k-p',
    PYTH_HERMES_URL: `${upstream.url}/hermes`,
    PYTH_HISTORY_URL: `${upstream.url}/bars`,
    ZEROX_API_KEY: 'k-z',
    ZEROX_BASE_URL: `${upstream.url}/zerox`,
    SWAP_FEE_RECIPIENT: TREASURY,
    OPERATOR_TOKEN: TOKEN,
  })
  const operator = { authorization: `Bearer ${TOKEN}` }
  let keyed: Running

  beforeAll(async () => {
    keyed = await startWith(keys(), playGateways('first', 'second'))
  })

  test('xAI searches first, and Exa where xAI has no answer', async () => {
    upstream.seen.length = 0
    alerts.length = 0
    expect(await buy(keyed, SEARCH, { query: 'x402' })).toMatchObject({
      status: 200,
      body: { summary: 'By xAI.', model: 'grok-x' },
    })
    upstream.refusing = true
    expect(await buy(keyed, SEARCH, { query: 'x402' })).toMatchObject({ status: 200, body: { summary: 'By Exa.' } })
    upstream.refusing = false
    expect(alerts).toEqual(['a vendor refuses this gateway: check its key, balance, model and settings'])
    const [first, ...rest] = upstream.seen
    expect(first).toBe('/xai/responses grok-x Bearer k-x')
    expect(rest.at(-1)).toBe('/exa/answer k-e')
  })

  test('the order is the operator’s', async () => {
    const running = await startWith(keys(), `search = ["exa", "xai"]\n${playGateways('play')}`)
    expect((await buy(running, SEARCH, { query: 'x402' })).body.summary).toBe('By Exa.')
  })

  test('one cache stands before Pyth, for all gateways', async () => {
    upstream.seen.length = 0
    for (const host of ['first.example', 'second.example']) {
      expect(await get(keyed, BITCOIN, { host })).toMatchObject({
        status: 200,
        body: { source: 'pyth', price: 60_000.12345678 },
      })
      expect(
        await get(keyed, '/api/v1/crypto/history/BTC-USD?resolution=1&from=1790000000&to=1790000100', { host }),
      ).toMatchObject({ status: 200 })
    }
    expect(upstream.seen.toSorted()).toEqual([
      '/bars/history Bearer k-p',
      '/hermes/v2/price_feeds Bearer k-p',
      '/hermes/v2/updates/price/latest Bearer k-p',
    ])
  })

  test('swaps bring their fee to the treasury', async () => {
    upstream.seen.length = 0
    expect(await get(keyed, SWAP)).toMatchObject({ status: 200, body: { liquidityAvailable: true } })
    expect(upstream.seen).toEqual([`/zerox/swap/permit2/price ${TREASURY} k-z`])
  })

  test('the operator’s token opens their routes on every gateway, and to nobody else', async () => {
    for (const host of ['first.example', 'second.example']) {
      expect(await get(keyed, ANALYTICS, { host, ...operator })).toMatchObject({ status: 200, body: { trades: [] } })
      expect((await get(keyed, ANALYTICS, { host })).status).toBe(404)
      expect((await get(keyed, ANALYTICS, { host, authorization: `Bearer ${TOKEN}x` })).status).toBe(404)
    }
  })

  test('figures: who sold what, and how long each upstream took', async () => {
    await buy(keyed, SEARCH, { query: 'x402' })
    const response = await fetch(`${keyed.url}/metrics`, { headers: operator })
    const body = await response.text()
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
    ])
    expect(body).toMatch(/^farebox_revenue_usdc_total\{gateway="first",endpoint="search"\} 0\.\d+$/m)
    expect(body).toMatch(/^farebox_requests_total\{gateway="second",endpoint="crypto\.price",status="2xx"\} \d+$/m)
    for (const vendor of ['xai', 'exa', 'pyth', 'zerox'])
      expect(body).toMatch(new RegExp(`^farebox_upstream_seconds_count\\{vendor="${vendor}"\\} [1-9]`, 'm'))
    expect(body).not.toMatch(/k-[xepz]\b|BTC-USD|x402/)
    expect((await get(keyed, '/metrics')).status).toBe(404)
  })
})
