import { describe, expect, test } from 'bun:test'
import { demoMarket } from '../../../server/devnet/demo/market.ts'
import { isBrowser, type Page, paymentPage } from '../../../core/http/browser_402.ts'
import { encodePayment, FOX, GENERATIONS, kit, ORIGIN, readyJob, x402Scheme } from '../../kit.ts'

const BROWSER = {
  accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
  'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0',
}
const PROGRAMS: readonly Record<string, string>[] = [
  {},
  { accept: '*/*', 'user-agent': 'curl/8.5.0' },
  { accept: 'text/html', 'user-agent': 'curl/8.5.0' },
  { accept: '*/*', 'user-agent': BROWSER['user-agent'] },
  { accept: 'application/json', 'user-agent': BROWSER['user-agent'] },
  { 'user-agent': BROWSER['user-agent'] },
]

const { gateway, buyer } = kit()
const get = (
  headers: Record<string, string>,
  { path = GENERATIONS, method = 'GET', body = null as string | null } = {},
) => gateway.fetch(new Request(ORIGIN + path, { method, headers, body }))
const post = (headers: Record<string, string>, body: unknown) =>
  get({ 'content-type': 'application/json', ...headers }, { method: 'POST', body: JSON.stringify(body) })

describe('a browser on a paid route', () => {
  test('gets a page with every header of the protocol (contract 1.56)', async () => {
    const [page, plain] = [await get(BROWSER), await get({})]
    expect(page.status).toBe(402)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    const protocol = ['payment-required', 'x-payment-required', 'cache-control'] as const
    for (const name of protocol)
      expect([name, page.headers.get(name)]).toEqual([name, plain.headers.get(name) ?? 'none'])
    expect(x402Scheme(page.headers)).toBe(x402Scheme(plain.headers) ?? 'none')
    expect(page.headers.get('www-authenticate')).toStartWith('Payment ')
    expect(page.headers.get('vary')).toBe('Accept')
  })

  test('reads what is sold, its price, how to pay, and that looking is free', async () => {
    const html = await (await get(BROWSER)).text()
    expect(html).toStartWith('<!doctype html>')
    for (const text of [
      'Generate images from a prompt',
      '0.022000 USDC',
      'base-sepolia',
      `${ORIGIN}${GENERATIONS}`,
      'Nothing was charged',
      '/openapi.json',
    ])
      expect(html).toContain(text)
  })

  test('on a feed that is read by GET sees a GET, and its example', async () => {
    const { gateway: feeds } = kit({ ports: { vendors: { market: demoMarket({ clock: { now: () => 0 } }) } } })
    const html = async (path: string) =>
      await (await feeds.fetch(new Request(ORIGIN + path, { headers: BROWSER }))).text()
    const [price, history] = [await html('/api/v1/usstock/price/TSLA'), await html('/api/v1/stocks/hk/history/0700-HK')]
    expect(price).toContain(`await pay(&quot;${ORIGIN}/api/v1/stocks/us/price/AAPL&quot;)   // a GET`)
    expect(history).toContain(
      `await pay(&quot;${ORIGIN}/api/v1/stocks/hk/history/0700-HK?from=1790000000&quot;)   // a GET`,
    )
    expect(price + history).not.toContain('POST')
    expect(await (await get(BROWSER)).text()).toContain('method: &#39;POST&#39;'.replaceAll('&#39;', "'"))
  })

  test('loads and runs nothing', async () => {
    const page = await get(BROWSER)
    expect(page.headers.get('content-security-policy')).toBe("default-src 'none'; style-src 'unsafe-inline'")
    expect(await page.text()).not.toMatch(/<script|<img|<iframe|<link|<form|\son\w+=|src=|url\(/i)
  })

  test('that posts an order gets the price of that order', async () => {
    const page = await post(BROWSER, { ...FOX, n: 2 })
    expect([page.status, page.headers.get('content-type')]).toEqual([402, 'text/html; charset=utf-8'])
    expect(await page.text()).toContain('0.043000 USDC')
  })

  test('that sends HEAD gets no body', async () => {
    const page = await get(BROWSER, { method: 'HEAD' })
    expect([page.status, page.headers.has('payment-required'), await page.text()]).toEqual([402, true, ''])
  })

  test('gets JSON for every reply but a challenge', async () => {
    for (const response of [
      await post(BROWSER, { model: 'nobody' }),
      await get(BROWSER, { path: '/nowhere' }),
      await get(BROWSER, { path: '/api/health' }),
    ]) {
      expect(response.headers.get('content-type')).toBe('application/json')
    }
  })
})

describe('JSON, never HTML', () => {
  test('is for programs', async () => {
    for (const headers of PROGRAMS) {
      for (const response of [await get(headers), await post(headers, FOX)]) {
        expect([headers, response.status, response.headers.get('content-type')]).toEqual([
          headers,
          402,
          'application/json',
        ])
      }
      expect(isBrowser(new Headers(headers))).toBe(false)
    }
    expect(isBrowser(new Headers(BROWSER))).toBe(true)
  })

  test('is for whoever pays, well or badly', async () => {
    const alice = buyer()
    const payment = alice.sign(await alice.ask(), { value: 1n })
    for (const name of ['payment-signature', 'x-payment']) {
      for (const value of ['garbage', encodePayment(payment)]) {
        const response = await post({ ...BROWSER, [name]: value }, FOX)
        expect([
          response.status,
          response.headers.get('content-type'),
          ((await response.json()) as { code: string }).code,
        ]).toEqual([402, 'application/json', 'PAYMENT_INVALID'])
      }
    }
  })

  test('is for polls, from a browser too', async () => {
    const { gateway, pollUrl, payment } = await readyJob()
    const statuses: number[] = []
    for (const headers of [{}, { 'payment-signature': 'garbage' }, { 'payment-signature': encodePayment(payment) }]) {
      const response = await gateway.fetch(new Request(ORIGIN + pollUrl, { headers: { ...BROWSER, ...headers } }))
      expect(response.headers.get('content-type')).toBe('application/json')
      statuses.push(response.status)
    }
    expect(statuses).toEqual([402, 402, 200])
  })
})

describe('text that a stranger controls', () => {
  const HOSTILE = `"><script>alert('1')</script>&amp;<b a='`

  test('is escaped in every place of the page', () => {
    const calm: Page = { url: 'u', summary: 's', network: 'n', body: { price: { amount: '0.022000' } } }
    for (const page of [
      { ...calm, url: HOSTILE },
      { ...calm, summary: HOSTILE },
      { ...calm, network: HOSTILE },
      { ...calm, body: { price: { amount: HOSTILE } } },
    ]) {
      const html = paymentPage(page)
      expect(html).not.toContain('<script')
      expect(html).not.toContain('<b a=')
      expect(html).toContain('&lt;script&gt;alert(&#39;1&#39;)')
      expect(html.match(/<[a-z!/][^>]*>/g)).toEqual(paymentPage(calm).match(/<[a-z!/][^>]*>/g))
    }
  })

  test('is escaped in the origin and the path that it called', async () => {
    const request = () => new Request(ORIGIN + GENERATIONS, { headers: BROWSER })
    const html = await (await gateway.fetch(request(), { origin: `http://evil.example/${HOSTILE}` })).text()
    expect(html).not.toContain('<script')
    expect(html).toContain('http://evil.example/')
    const { endpoints } = gateway
    const [sold] = endpoints.filter((endpoint) => endpoint.kind === 'sold')
    if (!sold) throw new Error('nothing is for sale')
    const open = kit({ endpoints: [{ ...sold, path: '/sold/{what...}' }] }).gateway
    const page = await open.fetch(new Request(`${ORIGIN}/sold/'onload='x'&lt;script&gt;"`, { headers: BROWSER }))
    expect(await page.text()).toContain('/sold/&#39;onload=&#39;x&#39;&amp;lt;script&amp;gt;')
  })

  test('about a price of nothing promises no fee', () => {
    const page = { url: 'u', summary: 'Prove a wallet', network: 'base', body: { price: { amount: '0.000000' } } }
    expect(paymentPage(page)).not.toContain('fee included')
    expect(paymentPage({ ...page, body: { price: { amount: '0.022000' } } })).toContain('margin and fee included')
    expect(paymentPage({ ...page, body: {} })).toContain('<strong> USDC</strong>')
  })
})
