/** The operator's figures over time, and the console's session: over HTTP behind the app. */
import { afterEach, describe, expect, test } from 'bun:test'
import { app } from '../../../server/app.ts'
import { accountReports } from '../../../server/operator/accounts.ts'
import { configurationOf } from '../../../server/operator/configuration.ts'
import { attemptLimit } from '../../../core/http/attempts.ts'
import { consoleApi } from '../../../server/operator/console.ts'
import { operatorApi } from '../../../server/operator/mod.ts'
import { parseConfig } from '../../../server/config/mod.ts'
import { FOX, type Kit, kit, type KitOptions, read, START } from '../../kit.ts'

const TOKEN = '0123456789abcdef'
const OPERATOR = { authorization: `Bearer ${TOKEN}` }
const PAGE = { 'sec-fetch-site': 'same-origin' }

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

type Served = Kit & { readonly url: string; get(path: string, init?: RequestInit): Promise<any> }

/** A gateway behind the HTTP app, with the operator's API and console. */
function served(
  options: KitOptions & { token?: string; isOff?: boolean; publicOrigin?: string; trustedProxies?: string[] } = {},
): Served {
  const { token = TOKEN, isOff = false, publicOrigin, trustedProxies = [], ...rest } = options
  const made = kit(rest)
  const { clock } = made
  const api = operatorApi({ ledger: made.ports.storage, clock, version: '1.2.3' })
  const attempts = attemptLimit(clock)
  const console = consoleApi({ token, api, clock, records: made.ports.storage, attempts })
  const operator = isOff ? {} : { attempts, operator: { token, api, console } }
  const log = { ...made.log, access() {}, flush() {} }
  const elysia = app({
    gateways: [{ gateway: made.gateway, hosts: [] }],
    log,
    publicOrigin,
    trustedProxies,
    ...operator,
  })
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: elysia.fetch })
  elysia.server = server
  undo.push(() => server.stop(true))
  const url = `http://127.0.0.1:${server.port}`
  return { ...made, url, get: async (path, init = { headers: OPERATOR }) => await read(await fetch(url + path, init)) }
}

async function signIn({ url }: Served, token = TOKEN, headers: Record<string, string> = PAGE): Promise<Response> {
  const body = JSON.stringify({ token })
  return await fetch(`${url}/console/session`, { method: 'POST', headers, body })
}

const cookieOf = (response: Response): string => response.headers.get('set-cookie')?.split(';')[0] ?? ''

describe('GET /operator/series', () => {
  test('sums revenue, calls, buyers and failures of a range, by hour or day, and by gateway, endpoint or model', async () => {
    const { get, buyer, clock } = served()
    const sold = buyer()
    for (let n = 0; n < 2; n++) expect((await sold.buy(FOX)).status).toBe(200)
    await clock.advance(2 * 3_600_000)
    expect((await buyer().buy(FOX)).status).toBe(200)
    const { body } = await get('/operator/series?since=24h&by=model')
    expect(body.totals).toMatchObject({ completed: 3, failed: 0, settled: 3, charged_usdc: '0.066000' })
    expect(body.points.map((point: any) => [point.at, point.name, point.settled, point.charged_usdc])).toEqual([
      [hourOf(START), FOX.model, 2, '0.044000'],
      [hourOf(START + 2 * 3_600_000), FOX.model, 1, '0.022000'],
    ])
    expect(body.names).toMatchObject([{ name: FOX.model, settled: 3, charged_usdc: '0.066000' }])
    expect(body.unit).toBe('hour')
    const days = await get('/operator/series?since=30d&by=endpoint')
    expect(days.body).toMatchObject({ unit: 'day', names: [{ name: 'images.generations', settled: 3 }] })
    expect(days.body.buyers.reduce((sum: number, each: any) => sum + each.buyers, 0)).toBeGreaterThan(0)
    expect((await get('/operator/series?model=nothing')).body.totals).toMatchObject({ settled: 0, p50_ms: null })
  })

  test('names each field that it cannot read, its value and what is allowed', async () => {
    const { get } = served()
    const { status, body } = await get('/operator/series?since=soon&unit=week&by=payer&page=2')
    expect(status).toBe(400)
    expect(body.details.map(({ path }: { path: string }) => path)).toEqual(['page', 'since', 'unit', 'by'])
    expect(body.message).toContain('unit: "week" is not allowed here; write hour or day')
    const long = await get('/operator/series?since=60d&unit=hour')
    expect([long.status, long.body.message]).toEqual([400, expect.stringContaining('at most 14 days')])
    const late = await get('/operator/series?since=1h&until=2h')
    expect([late.status, late.body.message]).toEqual([400, expect.stringContaining('since: ')])
  })
})

test('GET /operator/open lists what is unfinished or in doubt, with what can be done', async () => {
  const { get, buyer, chain } = served()
  chain.simulate('late')
  await buyer().buy(FOX)
  const { status, body } = await get('/operator/open')
  expect([status, body.calls.length]).toEqual([200, 1])
  expect(body.calls[0]).toMatchObject({ status: 'settling', endpoint: 'images.generations' })
  expect(body.calls[0].advice).toStartWith('Nothing to do: the settlement is on its way')
})

describe('the console', () => {
  test('does not exist where there is no token', async () => {
    const off = served({ isOff: true })
    const unknown = await off.get('/consoles', {})
    for (const path of ['/console', '/console/session', '/console/api/payments']) {
      const { status, body } = await off.get(path, { headers: { accept: 'text/html', 'user-agent': 'Mozilla/5.0' } })
      expect([status, body.error]).toEqual([404, unknown.body.error])
    }
  })

  test('signs in with the token, and only then reads the API', async () => {
    const at = served()
    expect((await fetch(`${at.url}/console/api/payments`)).status).toBe(401)
    const wrong = await signIn(at, `${TOKEN}x`)
    expect([wrong.status, wrong.headers.get('set-cookie')]).toEqual([401, null])
    const right = await signIn(at)
    expect(right.status).toBe(204)
    expect(right.headers.get('set-cookie')).toMatch(
      /^farebox_console=[\w.-]+; Path=\/console; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    )
    const headers = { cookie: cookieOf(right) }
    expect((await at.get('/console/api/payments', { headers })).body).toEqual({ payments: [], next: null })
    expect((await at.get('/console/session', { headers })).body).toMatchObject({ signed_in: true })
    expect((await fetch(`${at.url}/operator/payments`, { headers })).status).toBe(404)
  })

  test('marks its cookie Secure where the public origin is https', async () => {
    const at = served({ publicOrigin: 'https://ai.example.com' })
    expect((await signIn(at)).headers.get('set-cookie')).toEndWith('SameSite=Strict; Secure')
  })

  test('ends a session after twelve hours, when the token changes, and with a changed cookie', async () => {
    const at = served()
    const cookie = cookieOf(await signIn(at))
    const status = async (there: Served, value: string) =>
      (await fetch(`${there.url}/console/api/payments`, { headers: { cookie: value } })).status
    expect(await status(at, cookie)).toBe(200)
    expect(await status(served({ token: `${TOKEN}2` }), cookie)).toBe(401)
    expect(
      await status(
        at,
        cookie.replace(/=(\d+)/, (_, expires) => `=${Number(expires) + 1}`),
      ),
    ).toBe(401)
    await at.clock.advance(12 * 3_600_000)
    expect(await status(at, cookie)).toBe(401)
  })

  test('changes nothing for requests of other pages, and answers them without CORS headers', async () => {
    const at = served()
    const headers = { cookie: cookieOf(await signIn(at)) }
    const change = async (more: Record<string, string>) =>
      await fetch(`${at.url}/console/api/controls/maintenance`, {
        method: 'PUT',
        headers: { ...headers, ...more },
        body: '{}',
      })
    for (const more of [
      {},
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site', origin: at.url },
      { origin: 'https://evil.example' },
    ] as Record<string, string>[]) {
      const reply = await change(more)
      expect([reply.status, reply.headers.get('access-control-allow-origin')]).toEqual([403, null])
    }
    expect((await signIn(at, TOKEN, { origin: 'https://evil.example' })).status).toBe(403)
    expect((await signIn(at, TOKEN, { origin: at.url })).status).toBe(204)
  })

  test('counts attempts: ten a minute and address, then 429, also for the right token', async () => {
    const at = served()
    for (let n = 0; n < 10; n++) expect((await signIn(at, 'guess')).status).toBe(401)
    const reply = await signIn(at)
    expect([reply.status, reply.headers.get('retry-after')]).toEqual([429, '60'])
    await at.clock.advance(60_000)
    expect((await signIn(at)).status).toBe(204)
  })

  test('reads no body that is longer than a token, nor one of unknown length', async () => {
    const at = served()
    const long = await signIn(at, 'x'.repeat(3_000))
    expect([long.status, (await long.json()).error]).toEqual([413, 'Request body too large'])
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(JSON.stringify({ token: TOKEN })))
        controller.close()
      },
    })
    const reply = await fetch(`${at.url}/console/session`, { method: 'POST', headers: PAGE, body })
    expect(reply.status).toBe(413)
  })

  test('signs out: the cookie is gone from the browser, and a copy of it opens nothing on any replica', async () => {
    const at = served()
    const other = served({ ports: { storage: at.ports.storage } })
    const [one, two] = [{ cookie: cookieOf(await signIn(at)) }, { cookie: cookieOf(await signIn(at)) }]
    expect((await other.get('/console/api/payments', { headers: one })).status).toBe(200)
    const reply = await fetch(`${at.url}/console/session`, { method: 'DELETE', headers: { ...PAGE, ...one } })
    expect(reply.headers.get('set-cookie')).toStartWith('farebox_console=; Path=/console; Max-Age=0; HttpOnly')
    for (const { get } of [at, other]) {
      expect((await get('/console/api/payments', { headers: one })).status).toBe(401)
      expect((await get('/console/session', { headers: one })).body).toEqual({ signed_in: false })
      expect((await get('/console/api/payments', { headers: two })).status).toBe(200)
    }
  })

  test('opens nothing while storage cannot say who has signed out', async () => {
    const at = served()
    const headers = { cookie: cookieOf(await signIn(at)) }
    at.ports.storage.getRecord = () => Promise.reject(new Error('away'))
    expect((await at.get('/console/api/payments', { headers })).status).toBe(503)
  })
})

describe('wrong tokens', () => {
  const behind = () => served({ trustedProxies: ['127.0.0.1'] })
  const signInFrom = (at: Served, ip: string, token = TOKEN) => signIn(at, token, { ...PAGE, 'x-forwarded-for': ip })

  test('never lock the owner out: seventy from seven addresses, and the right one from another address (contract 3.9)', async () => {
    const at = behind()
    for (let n = 0; n < 70; n++) expect((await signInFrom(at, `192.0.2.${n % 7}`, 'guess')).status).toBe(401)
    expect((await signInFrom(at, '192.0.2.1', TOKEN)).status).toBe(429)
    expect((await signInFrom(at, '198.51.100.1')).status).toBe(204)
  })

  test('count by /64, at the console, /operator and /metrics together', async () => {
    const at = behind()
    for (let n = 0; n < 5; n++) expect((await signInFrom(at, `2001:db8:1:1::${n}`, 'guess')).status).toBe(401)
    const statusOf = (ip: string, token: string) =>
      at.get('/operator/payments', { headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': ip } })
    for (let n = 5; n < 10; n++) expect((await statusOf(`2001:db8:1:1::${n}`, 'guess')).status).toBe(404)
    expect((await statusOf('2001:db8:1:1:9::', TOKEN)).status).toBe(429)
    expect((await signInFrom(at, '2001:db8:1:1:8::')).status).toBe(429)
    expect((await statusOf('2001:db8:1:2::', TOKEN)).status).toBe(200)
    await at.clock.advance(60_000)
    expect((await statusOf('2001:db8:1:1:9::', TOKEN)).status).toBe(200)
  })

  test('right ones do not count', async () => {
    const at = served()
    for (let n = 0; n < 12; n++) expect((await at.get('/operator/payments')).status).toBe(200)
  })

  test('entries of X-Forwarded-For that are no address are no address to count by', async () => {
    const at = behind()
    for (let n = 0; n < 10; n++)
      expect((await signInFrom(at, `192.0.2.9, unknown-${n}, 127.0.0.1`, 'guess')).status).toBe(401)
    expect((await signInFrom(at, '192.0.2.9, unknown')).status).toBe(429)
  })
})

test('an account reports how long it lasts, by what it spent; a top-up is no spending', () => {
  let [now, amount] = [0, 1_000]
  const reports = accountReports(
    () => [{ gateway: 'base', address: '0xa', unit: 'lamports', amount, low: undefined }],
    { now: () => now },
  )
  expect(reports()[0]).toMatchObject({ balance: '1000', spent: '0', lasts_hours: null })
  ;[now, amount] = [3_600_000, 900]
  expect(reports()[0]).toMatchObject({ balance: '900', spent: '100', lasts_hours: 9 })
  ;[now, amount] = [7_200_000, 1_900]
  expect(reports()[0]).toMatchObject({ balance: '1900', spent: '100', lasts_hours: 38 })
})

test('the configuration is shown without any secret', () => {
  const secrets = ['0123456789abcdef-token', 'wh-secret-0123456789', 'pg-password', 'node-key']
  const read = parseConfig(
    `
    operator_token = "${secrets[0]}"
    alert_webhook_url = "https://hooks.example.com/${secrets[1]}"
    database_url = "postgres://farebox:${secrets[2]}@db.example.com/farebox"
    [[gateways]]
    name = "base"
    network = "eip155:84532"
    rpc_url = "https://node.example.com/${secrets[3]}"
    pay_to = "0x000000000000000000000000000000000000dEaD"
    relayer_key_env = "KEY"
    `,
    { KEY: `0x${'7'.repeat(64)}`, OPENAI_API_KEY: 'sk-0123456789' },
  )
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  const text = JSON.stringify(configurationOf(read.config, read.config.gateways))
  for (const secret of [...secrets, '7777777', 'sk-0123456789']) expect(text).not.toContain(secret)
  expect(text).toContain('"operator_token","value":"set (hidden)"')
  expect(text).toContain('node.example.com')
  expect(text).toContain('Postgres on db.example.com')
})

const hourOf = (at: number): string => new Date(Math.floor(at / 3_600_000) * 3_600_000).toISOString()
