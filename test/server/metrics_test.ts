/** `/metrics`: who may read it, and that its figures are what happened. */
import { afterEach, describe, expect, test } from 'bun:test'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { scriptedVendor } from '../fakes/images.ts'
import { endpoints } from '../../core/mod.ts'
import { app } from '../../server/app.ts'
import { type Metrics, metrics } from '../../server/metrics.ts'
import { SKY, STREAM, table } from '../core/call/stream_kit.ts'
import { embedded, encodePayment, FOX, GENERATIONS, type Kit, kit, type KitOptions, START, testClock } from '../kit.ts'

const TOKEN = '0123456789abcdef'
const OPERATOR = { authorization: `Bearer ${TOKEN}` }

/** A kit whose gateway, `till`, counts. */
function counting(
  options: KitOptions = {},
): Kit & { readonly counted: Metrics; figures(): Promise<Readonly<Record<string, number>>> } {
  const clock = testClock()
  const counted = metrics({ version: '1.2.3', clock })
  const ports = { ...options.ports, clock, meter: counted.meterOf('till') }
  const made = kit({ name: 'till', ...options, ports })
  return { ...made, counted, figures: () => figuresOf(counted) }
}

/** Series of ours that are not zero; those of requests, the drain and histogram buckets aside. */
async function figuresOf({ scrape }: Metrics): Promise<Readonly<Record<string, number>>> {
  const { body } = await scrape()
  const lines = body
    .split('\n')
    .filter(
      (line) =>
        line.startsWith('farebox_') && !/^farebox_(?:requests|info|drain_phase|request_duration)|_bucket\{/.test(line),
    )
  const series = lines.map(
    (line) =>
      [
        line.slice('farebox_'.length, line.lastIndexOf(' ')).replace('gateway="till",', ''),
        Number(line.slice(line.lastIndexOf(' '))),
      ] as const,
  )
  return Object.fromEntries(series.filter(([, value]) => value !== 0))
}

async function requestsOf({ counted }: { counted: Metrics }): Promise<Readonly<Record<string, number>>> {
  const found = [
    ...(await counted.scrape()).body.matchAll(
      /^farebox_requests_total\{gateway="till",endpoint="([^"]*)",status="(\w+)"\} (\d+)$/gm,
    ),
  ]
  return Object.fromEntries(found.map(([, endpoint, status, count]) => [`${endpoint} ${status}`, Number(count)]))
}

const IMAGES = 'endpoint="images.generations"'

describe('figures', () => {
  test('a gateway that has done nothing shows its process and its version, and nothing else of its own', async () => {
    const { counted, figures } = counting()
    const { type, body } = await counted.scrape()
    expect(type).toStartWith('text/plain; version=0.0.4')
    expect(body).toContain('farebox_info{version="1.2.3"} 1')
    for (const name of [
      'process_resident_memory_bytes',
      'process_cpu_seconds_total',
      'process_start_time_seconds',
      'process_open_fds',
    ])
      expect(body).toMatch(new RegExp(`^${name} \\d`, 'm'))
    expect(await figures()).toEqual({})
    for (const zero of [
      'calls_total{gateway="till",state="failed"}',
      'settlements_total{gateway="till",outcome="unresolved"}',
    ])
      expect(body).toContain(`farebox_${zero} 0`)
  })

  test('a quote is one request and one quote', async () => {
    const { figures, counted, buyer } = counting()
    await buyer().ask()
    expect(await figures()).toEqual({ [`quotes_total{${IMAGES}}`]: 1 })
    expect(await requestsOf({ counted })).toEqual({ 'images.generations 402': 1 })
  })

  test('a purchase is verified, opened, completed and settled, and its price is revenue', async () => {
    const { figures, counted, buyer } = counting()
    await buyer().buy()
    await buyer('bob').buy()
    expect(await figures()).toEqual({
      [`quotes_total{${IMAGES}}`]: 2,
      'verifications_total{outcome="valid"}': 2,
      'calls_total{state="opened"}': 2,
      'calls_total{state="completed"}': 2,
      'settlements_total{outcome="settled"}': 2,
      [`revenue_usdc_total{${IMAGES}}`]: 0.044,
    })
    expect(await requestsOf({ counted })).toEqual({ 'images.generations 402': 2, 'images.generations 2xx': 2 })
  })

  test('a refused payment is counted by its code; one that cannot be judged as unavailable', async () => {
    const { figures, buyer, chain } = counting()
    const alice = buyer()
    const challenge = await alice.ask()
    await alice.buy(FOX, { payment: alice.sign(challenge, { value: 1n }) })
    await alice.buy(FOX, { payment: alice.sign(challenge, { by: 'mallory' }) })
    const payment = alice.sign(challenge)
    chain.outage(true)
    expect((await alice.buy(FOX, { payment })).status).toBe(503)
    chain.outage(false)
    await alice.buy(FOX, { payment })
    await alice.buy({ ...FOX, prompt: 'another' }, { payment })
    chain.drain(alice.wallet)
    await alice.buy()
    expect(await figures()).toMatchObject({
      'verifications_total{outcome="PAYMENT_INVALID"}': 2,
      'verifications_total{outcome="unavailable"}': 1,
      'verifications_total{outcome="valid"}': 1,
      'verifications_total{outcome="PAYMENT_REPLAY"}': 1,
      'verifications_total{outcome="PAYMENT_UNFUNDED"}': 1,
      'calls_total{state="opened"}': 1,
    })
  })

  test('a failed settlement is no revenue; the call that waits for it counts as completed once', async () => {
    const { figures, buyer, chain, clock } = counting()
    const alice = buyer()
    chain.simulate('refused')
    const payment = alice.sign(await alice.ask())
    const { status, body } = await alice.buy(FOX, { payment })
    expect(status).toBe(402)
    const failed = {
      'calls_total{state="opened"}': 1,
      'calls_total{state="completed"}': 1,
      'settlements_total{outcome="refused"}': 1,
    }
    expect(await figures()).toMatchObject(failed)
    expect(Object.keys(await figures()).filter((name) => name.startsWith('revenue'))).toEqual([])
    await clock.advance(1_000)
    expect((await alice.poll(body.poll_url, payment)).status).toBe(200)
    expect(await figures()).toMatchObject({
      ...failed,
      'settlements_total{outcome="settled"}': 1,
      [`revenue_usdc_total{${IMAGES}}`]: 0.022,
    })
    await alice.poll(body.poll_url, payment)
    expect(await figures()).toMatchObject({
      'settlements_total{outcome="settled"}': 1,
      [`revenue_usdc_total{${IMAGES}}`]: 0.022,
    })
  })

  test('what a poll and what the sweep find out about money counts once, whoever finds it', async () => {
    const { figures, buyer, chain, clock, gateway } = counting()
    const alice = buyer()
    chain.simulate('late')
    await alice.buy()
    expect(await figures()).toMatchObject({ 'settlements_total{outcome="unknown"}': 1 })
    chain.deliver()
    await clock.advance(60_000)
    await gateway.maintain()
    await gateway.maintain()
    expect(await figures()).toMatchObject({
      'settlements_total{outcome="unknown"}': 1,
      'settlements_total{outcome="settled"}': 1,
      [`revenue_usdc_total{${IMAGES}}`]: 0.022,
    })
  })

  test('work that fails is a failed call, and no settlement', async () => {
    const { figures, buyer } = counting({ vendor: scriptedVendor(() => Promise.reject(new Error('no paint'))) })
    await buyer().buy()
    const seen = await figures()
    expect(seen).toMatchObject({ 'calls_total{state="opened"}': 1, 'calls_total{state="failed"}': 1 })
    expect(Object.keys(seen).filter((name) => /completed|settlements|revenue/.test(name))).toEqual([])
  })

  test('a streamed answer counts its tokens and the time to its first part; every request has a duration', async () => {
    const clock = testClock()
    const counted = metrics({ version: '1', clock })
    const { post, signed, idle } = await table(undefined, { name: 'till', ports: { meter: counted.meterOf('till') } })
    await (await post(STREAM, { payment: await signed(STREAM) })).text()
    await idle()
    const { body } = await counted.scrape()
    const labels = 'gateway="till",endpoint="chat.completions"'
    expect(body).toContain(`farebox_first_token_seconds_count{${labels}} 1`)
    expect(body).toContain(`farebox_request_duration_seconds_bucket{${labels},le="+Inf"} 2`)
    expect(body).toMatch(new RegExp(`^farebox_tokens_sum\\{${labels},type="output"\\} [1-9]`, 'm'))
    expect(body).toContain(`farebox_tokens_count{${labels},type="input"} 1`)
  })

  test('the process tells its work, its leases, its storage, its clock and what it owes', async () => {
    const counted = metrics({ version: '1', clock: testClock() })
    let skew: number | undefined = 1_500
    counted.watch({
      backgroundWork: () => 3,
      relayerLeases: () => [
        { gateway: 'till', address: '0xa', isLeased: true },
        { gateway: 'till', address: '0xb', isLeased: false },
      ],
      unresolved: async () => ({ base: 2 }),
      isStorageReachable: async () => true,
      clockSkew: () => skew,
    })
    counted.drainPhase('lame_duck')
    const { body } = await counted.scrape()
    for (const line of [
      'background_work 3',
      'relayer_lease_held{gateway="till",address="0xa"} 1',
      'relayer_lease_held{gateway="till",address="0xb"} 0',
      'unresolved_payments{gateway="base"} 2',
      'storage_reachable 1',
      'clock_skew_seconds 1.5',
      'drain_phase{phase="lame_duck"} 1',
      'drain_phase{phase="serving"} 0',
    ])
      expect(body).toContain(`\nfarebox_${line}\n`)
    skew = undefined
    expect((await counted.scrape()).body).not.toMatch(/^farebox_clock_skew_seconds /m)
  })

  test('one shots and jobs count like any other call', async () => {
    const clock = testClock()
    const shot = counting({ ports: { vendors: embedded(clock) } })
    await shot.buyer().buy({ query: 'x402' }, { path: '/api/v1/search' })
    expect(await shot.figures()).toMatchObject({
      'quotes_total{endpoint="search"}': 1,
      'calls_total{state="completed"}': 1,
      'revenue_usdc_total{endpoint="search"}': 0.081,
    })
    const job = counting({ inlineMs: 0 })
    await job.buyer().buy()
    await job.idle()
    expect(await job.figures()).toMatchObject({ 'calls_total{state="opened"}': 1, 'calls_total{state="completed"}': 1 })
  })

  test('an answer counts once, whole or streamed, and a free one not at all', async () => {
    const counted = metrics({ version: '1', clock: testClock() })
    const { post, signed, idle } = await table(undefined, { name: 'till', ports: { meter: counted.meterOf('till') } })
    for (const order of [SKY, STREAM]) await (await post(order, { payment: await signed(order) })).text()
    await (await post({ ...SKY, model: 'nvidia/gpt-oss-120b' })).text()
    await idle()
    const seen = await figuresOf(counted)
    expect(seen).toMatchObject({
      'quotes_total{endpoint="chat.completions"}': 2,
      'verifications_total{outcome="valid"}': 2,
      'calls_total{state="opened"}': 2,
      'calls_total{state="completed"}': 2,
      'settlements_total{outcome="settled"}': 2,
    })
    expect(await requestsOf({ counted })).toEqual({ 'chat.completions 402': 2, 'chat.completions 2xx': 3 })
  })

  test('a label is a name of the menu: callers cannot add one', async () => {
    const { counted, gateway, buyer } = counting()
    for (const path of ['/nowhere', '/"} 1', '/api/v1/chat/%22%0a', '/api/jobs/x"', '/api/v1/stocks/zz"/list'])
      await gateway.fetch(new Request(`http://farebox.test${path}`))
    await gateway.fetch(new Request('http://farebox.test/api/health', { method: 'DELETE' }))
    await buyer().ask({ ...FOX, model: 'no/such"model' })
    const names = new Set([...endpoints.map(({ name }) => name), 'none'])
    const requests = await requestsOf({ counted })
    const { body } = await counted.scrape()
    expect(body.match(/^farebox_requests_total/gm)).toHaveLength(Object.keys(requests).length)
    expect(Object.keys(requests).filter((key) => !names.has(key.split(' ')[0] ?? ''))).toEqual([])
    expect(requests).toMatchObject({ 'none 4xx': expect.any(Number), 'images.generations 4xx': 1 })
  })

  test('gateways are told apart', async () => {
    const counted = metrics({ version: '1', clock: testClock() })
    for (const name of ['base', 'solana'])
      await kit({ name, ports: { meter: counted.meterOf(name) } })
        .buyer()
        .ask()
    const { body } = await counted.scrape()
    for (const name of ['base', 'solana']) expect(body).toContain(`farebox_quotes_total{gateway="${name}",${IMAGES}} 1`)
  })
})

describe('upstreams', () => {
  test('every answer is timed under the name of its vendor, failures too', async () => {
    const clock = testClock()
    const counted = metrics({ version: '1', clock })
    const slow = counted.timed(
      'vendor-a',
      scriptedVendor(async () => {
        await clock.wait(3_000)
        throw new Error('too tired')
      }),
    )
    expect(Object.keys(slow).sort()).toEqual(['edit', 'generate', 'isFull', 'jobs'])
    expect(slow.isFull?.()).toBe(false)
    const failing = slow
      .generate({ model: 'm', prompt: 'p', width: 1, height: 1, n: 1 }, { signal: new AbortController().signal })
      .catch((error: Error) => error.message)
    await clock.advance(3_000)
    expect(await failing).toBe('too tired')
    expect(clock.now()).toBe(START + 3_000)
    const { body } = await counted.scrape()
    expect(body).toContain('farebox_upstream_seconds_bucket{le="2.5",vendor="vendor-a"} 0')
    expect(body).toContain('farebox_upstream_seconds_bucket{le="5",vendor="vendor-a"} 1')
    expect(body).toContain('farebox_upstream_seconds_sum{vendor="vendor-a"} 3')
  })
})

describe('the route', () => {
  const listening: { stop(now: boolean): unknown }[] = []
  afterEach(() => {
    for (const server of listening.splice(0)) server.stop(true)
  })

  function open({ isSecret = false } = {}) {
    const clock = testClock()
    const counted = metrics({ version: '1', clock })
    const [base, other] = ['base', 'other'].map((name) =>
      kit({ name, chain: memoryChain(), ports: { clock, meter: counted.meterOf(name) } }),
    )
    const quiet = () => {}
    const gateways = [
      { gateway: base!.gateway, hosts: ['base.example'] },
      { gateway: other!.gateway, hosts: ['other.example'] },
    ]
    const log = { info: quiet, warn: quiet, alert: quiet, access: quiet, flush: quiet }
    const elysia = app({ gateways, log, ...(!isSecret && { metrics: { token: TOKEN, scrape: counted.scrape } }) })
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: elysia.fetch })
    listening.push(server)
    return (path: string, init: RequestInit = {}) => fetch(`http://127.0.0.1:${server.port}${path}`, init)
  }

  test('the operator reads it, whichever gateway the host names', async () => {
    const get = open()
    await get(GENERATIONS, {
      method: 'POST',
      headers: { 'content-type': 'application/json', host: 'other.example' },
      body: JSON.stringify(FOX),
    })
    for (const host of ['base.example', 'other.example', 'nobody.example']) {
      const response = await get('/metrics?x=1', { headers: { ...OPERATOR, host } })
      expect({
        status: response.status,
        type: response.headers.get('content-type'),
        cache: response.headers.get('cache-control'),
      }).toEqual({
        status: 200,
        type: 'text/plain; version=0.0.4; charset=utf-8',
        cache: 'no-store',
      })
      expect(await response.text()).toContain(`farebox_quotes_total{gateway="other",${IMAGES}} 1`)
    }
  })

  test('to everybody else it is a path that is not there', async () => {
    const get = open()
    const paid = encodePayment({ x402Version: 2 })
    const strangers: readonly RequestInit[] = [
      {},
      { headers: { authorization: TOKEN } },
      { headers: { authorization: `Bearer ${TOKEN}x` } },
      { headers: { authorization: `Bearer ${TOKEN.slice(1)}` } },
      { headers: { authorization: 'Bearer ' } },
      { headers: { authorization: `Basic ${btoa(`operator:${TOKEN}`)}` } },
      { headers: { 'payment-signature': paid } },
      { method: 'POST', headers: OPERATOR },
      { method: 'HEAD', headers: OPERATOR },
    ]
    const shape = async (response: Response) => ({
      status: response.status,
      headers: [...response.headers.keys()],
      body: await response.text(),
    })
    for (const init of strangers) {
      const [here, elsewhere] = [await shape(await get('/metrics', init)), await shape(await get('/metricz', init))]
      expect(here.status).toBe(404)
      expect(here).toEqual(elsewhere)
    }
    expect((await get('/metrics/', { headers: OPERATOR })).status).toBe(404)
    expect(await (await get('/openapi.json')).text()).not.toContain('/metrics')
  })

  test('where no token is set, nobody is the operator', async () => {
    const get = open({ isSecret: true })
    for (const authorization of ['', 'Bearer', 'Bearer ', 'Bearer undefined', `Bearer ${TOKEN}`])
      expect((await get('/metrics', { headers: { authorization } })).status).toBe(404)
  })
})
