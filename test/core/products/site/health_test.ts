import { describe, expect, test } from 'bun:test'
import { scriptedVendor } from '../../../fakes/images.ts'
import { scriptedChat } from '../../../fakes/chat.ts'
import { catalog, ApiError, type Gateway } from '../../../../core/mod.ts'
import { FOX, kit, type KitOptions, ORIGIN, read, START } from '../../../kit.ts'

const PATHS = ['/api/health', ...['overview', 'chain', 'models', 'regions'].map((what) => `/api/v1/health/${what}`)]

function fixture(options: KitOptions = {}) {
  const made = kit({ name: 'main', version: '1.2.3', ...options })
  const get = async (path: string, ip = '192.0.2.1') =>
    await read(await made.gateway.fetch(new Request(ORIGIN + path), { ip }))
  return { ...made, get, health: async (what: string) => (await get(`/api/v1/health/${what}`)).body }
}

const TOKEN = 'a-token-of-thirty-two-characters!'
const iso = (ms: number) => new Date(START + ms).toISOString()

describe('probes', () => {
  const probe = async (gateway: Gateway, path: string, authorization?: string) =>
    await read(
      await gateway.fetch(new Request(ORIGIN + path, { headers: authorization ? { authorization } : {} }), {
        ip: '192.0.2.1',
      }),
    )

  test('say that the process lives and is ready, without any limit; 200 probes read storage once (contract 19.8)', async () => {
    const requests: string[] = []
    const watched = <Port extends object>(port: Port): Port =>
      Object.fromEntries(
        Object.entries(port).map(([verb, value]) => [
          verb,
          typeof value === 'function' ? (...args: unknown[]) => (requests.push(verb), value(...args)) : value,
        ]),
      ) as Port
    const { gateway, ports, clock } = fixture({
      wrap: (inner) => ({ ...inner, storage: watched(inner.storage), objects: watched(inner.objects) }),
    })
    for (const [path, status, reads] of [
      ['/livez', 'ok', []],
      ['/readyz', 'ready', ['getCall']],
    ] as const) {
      requests.length = 0
      for (let n = 0; n < 200; n++) {
        const answer = await probe(gateway, path)
        expect([answer.status, answer.body]).toEqual([200, { status }])
      }
      expect((await gateway.fetch(new Request(ORIGIN + path, { method: 'HEAD' }), { ip: '192.0.2.1' })).status).toBe(
        200,
      )
      expect(requests).toEqual([...reads])
    }
    await clock.advance(1_000)
    await probe(gateway, '/readyz')
    expect(requests).toEqual(['getCall', 'getCall'])
    await ports.storage.close()
  })

  test('a storage that fails or hangs makes the gateway not ready, and it is ready when the storage is back (contract 19.8)', async () => {
    let state: 'well' | 'away' | 'hangs' = 'well'
    const { gateway, clock } = fixture({
      operatorToken: TOKEN,
      wrap: (inner) => ({
        ...inner,
        storage: {
          ...inner.storage,
          async getCall(id) {
            if (state === 'away') throw new Error('no connection')
            if (state === 'hangs') await new Promise(() => {})
            return await inner.storage.getCall(id)
          },
        },
      }),
    })
    const isReady = async () => {
      await clock.advance(1_000)
      const answer = probe(gateway, '/readyz')
      await clock.advance(1_500)
      return (await answer).status === 200
    }
    expect(await isReady()).toBe(true)
    for (const trouble of ['away', 'hangs'] as const) {
      state = trouble
      expect(await isReady()).toBe(false)
      expect((await probe(gateway, '/livez')).status).toBe(200)
      state = 'well'
      expect(await isReady()).toBe(true)
    }
  })

  test("?verbose lists each check for the operator's token, and nothing more to others (contract 19.8)", async () => {
    const { gateway } = fixture({ operatorToken: TOKEN })
    const well = ['process', 'storage', 'chain'].map((name) => ({ name, ok: true }))
    expect((await probe(gateway, '/readyz?verbose', `Bearer ${TOKEN}`)).body).toEqual({
      status: 'ready',
      reasons: [],
      checks: well,
    })
    gateway.leaveRotation()
    expect((await probe(gateway, '/readyz?verbose', `Bearer ${TOKEN}`)).body.checks).toEqual([
      { name: 'process', ok: false, reason: 'the process is stopping' },
      ...well.slice(1),
    ])
    const stranger = await gateway.fetch(new Request(`${ORIGIN}/readyz?verbose`), { ip: '192.0.2.1' })
    expect(stranger.headers.get('retry-after')).not.toBeNull()
    expect(await read(stranger)).toMatchObject({ status: 503, body: { status: 'not_ready' } })
    expect((await probe(gateway, '/readyz?verbose')).body).toEqual({ status: 'not_ready', reason: 'stopping' })
  })

  test('say 503 before the chain was checked, while it cannot settle, and while the process stops; why is for the operator (contract 19.8)', async () => {
    const { ports } = kit()
    const token = TOKEN
    const unready = async (options: KitOptions, reason: string, leave = false) => {
      const { gateway } = fixture({ ...options, operatorToken: token })
      if (leave) gateway.leaveRotation()
      const answer = await probe(gateway, '/readyz')
      expect([answer.status, answer.body]).toEqual([503, { status: 'not_ready', reason: expect.any(String) }])
      expect((await probe(gateway, '/readyz', `Bearer ${token}`)).body).toEqual({
        status: 'not_ready',
        reason: answer.body.reason,
        reasons: [reason],
      })
      expect((await probe(gateway, '/livez')).status).toBe(200)
    }
    await unready({ ports: { chain: { ...ports.chain, terms: () => [] } } }, 'no chain has been checked yet')
    const closed = () => ({ code: 'no_gas' as const, reason: 'the relayer holds 0 ETH' })
    await unready({ ports: { chain: { ...ports.chain, closed } } }, 'the relayer holds 0 ETH')
    await unready({}, 'the process is stopping', true)
  })
})

describe('health', () => {
  test('of a new gateway is good, without observations (contract 19.6)', async () => {
    const { health } = fixture()
    const none = { last_success_at: null, last_failure_at: null, failures_in_a_row: 0 }
    expect(await health('overview')).toEqual({
      object: 'health.overview',
      status: 'ok',
      gateway: 'main',
      network: 'base-sepolia',
      version: '1.2.3',
      uptime_seconds: 0,
      chain: { status: 'ok' },
      models: { total: 10, available: 10, degraded: 0 },
      timestamp: iso(0),
    })
    expect(await health('chain')).toMatchObject({
      status: 'ok',
      networks: [{ network: 'eip155:84532', label: 'base-sepolia', scheme: 'exact' }],
      ...none,
    })
    expect(await health('regions')).toEqual({
      object: 'list',
      data: [{ id: 'main', status: 'ok', network: 'base-sepolia' }],
      timestamp: iso(0),
    })
    const { data } = await health('models')
    expect(data).toHaveLength(10)
    expect(data[0]).toEqual({ id: 'vendor-a/image-1', status: 'available', ...none })
  })

  test('is of what is on the list, and of nothing else', async () => {
    const hidden = catalog().images.all.map((row, index) => (index === 0 ? { ...row, hidden: true } : row))
    const { health } = fixture({
      catalog: catalog({ images: hidden }),
      ports: { vendors: { images: ({ vendor }) => (vendor === 'vendor-a' ? scriptedVendor() : undefined) } },
    })
    expect((await health('models')).data.map(({ id }: { id: string }) => id)).toEqual(['vendor-a/image-2'])
  })

  test('says that the chain is starting until it has been checked (contract 19.6)', async () => {
    const { ports } = kit()
    const { health, get } = fixture({ ports: { chain: { ...ports.chain, terms: () => [] } } })
    expect(await health('chain')).toMatchObject({ status: 'starting', networks: [] })
    expect(await health('overview')).toMatchObject({ status: 'starting', chain: { status: 'starting' } })
    expect((await get('/api/health')).body).toMatchObject({ status: 'ok', ready: false })
  })

  test('of a chain is degraded after three questions without an answer, and good again after the next (contract 19.6)', async () => {
    const { chain, clock, health, buyer } = fixture()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    chain.outage(true)
    for (let times = 1; times <= 3; times++) {
      expect(await health('chain')).toMatchObject({ status: 'ok', failures_in_a_row: times - 1 })
      await clock.advance(1_000)
      expect((await alice.buy(FOX, { payment })).status).toBe(503)
    }
    expect(await health('chain')).toMatchObject({
      status: 'degraded',
      failures_in_a_row: 3,
      last_success_at: null,
      last_failure_at: iso(3_000),
    })
    expect(await health('overview')).toMatchObject({ status: 'degraded', chain: { status: 'degraded' } })
    chain.outage(false)
    await clock.advance(1_000)
    expect((await alice.buy(FOX, { payment })).status).toBe(200)
    expect(await health('chain')).toMatchObject({
      status: 'ok',
      failures_in_a_row: 0,
      last_success_at: iso(4_000),
      last_failure_at: iso(3_000),
    })
  })

  test('is not ready once payments could not be verified for 15 seconds; the operator is told once, and when they can be', async () => {
    const { chain, clock, get, health, buyer, log } = fixture()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const alerts = () =>
      log.lines
        .splice(0)
        .flatMap(({ level, message }) => (message === 'a payment was settled' ? [] : [`${level} ${message}`]))
    const ready = async () => (await get('/api/health')).body.ready
    chain.outage(true)
    const fail = async (seconds: number) => {
      await clock.advance(seconds * 1_000)
      expect((await alice.buy(FOX, { payment })).status).toBe(503)
    }
    await fail(1)
    await fail(14)
    expect([await ready(), (await health('chain')).reason, alerts()]).toEqual([true, null, []])
    for (let times = 0; times < 5; times++) await fail(1)
    expect([await ready(), await health('chain')]).toMatchObject([
      false,
      { status: 'degraded', reason: 'verification_unavailable' },
    ])
    expect(alerts()).toEqual(['alert payments cannot be verified: the chain does not answer; paid requests get 503'])
    await clock.advance(60_000)
    expect(await ready()).toBe(true)
    await fail(1)
    expect([await ready(), alerts()]).toEqual([false, []])
    chain.outage(false)
    expect((await alice.buy(FOX, { payment })).status).toBe(200)
    expect([await ready(), (await health('chain')).reason]).toEqual([true, null])
    expect(alerts()).toEqual(['info payments can be verified again'])
  })

  test('of a model is degraded after three failures in a row, of that model alone (contract 19.6)', async () => {
    let isBroken = true
    const vendor = scriptedVendor(async ({ n }) => {
      if (isBroken) throw new Error('https://10.0.0.7/v1?key=s3cret refused')
      return Array.from({ length: n }, () => ({ url: 'data:image/png;base64,iVBORw0KGgo=' }))
    })
    const { health, buyer } = fixture({ vendor })
    const alice = buyer()
    const status = async () => (await health('models')).data.find(({ id }: { id: string }) => id === FOX.model)
    for (let times = 0; times < 3; times++) {
      expect((await status()).status).toBe('available')
      expect((await alice.buy()).status).toBe(500)
    }
    expect(await status()).toMatchObject({ status: 'degraded', failures_in_a_row: 3, last_failure_at: iso(0) })
    expect(await health('overview')).toMatchObject({
      status: 'degraded',
      models: { total: 10, available: 9, degraded: 1 },
    })
    isBroken = false
    expect((await alice.buy()).status).toBe(200)
    expect(await status()).toMatchObject({ status: 'available', failures_in_a_row: 0, last_success_at: iso(0) })
  })

  test('a request that a model refuses says nothing against the model; one that it has no room for does', async () => {
    const apiErrors = [
      new ApiError('CONTENT_POLICY'),
      new ApiError('INVALID_PARAMETER'),
      new ApiError('RATE_LIMITED'),
      new ApiError('UPSTREAM_TIMEOUT'),
    ]
    const chatVendor = scriptedChat(async () => {
      throw apiErrors.shift() ?? new Error('no more')
    })
    const { gateway, health } = fixture({ chatVendor })
    const { data } = await health('models')
    const { body: models } = await read(await gateway.fetch(new Request(`${ORIGIN}/api/v1/models`)))
    const free = models.data.find(({ billing_mode }: { billing_mode: string }) => billing_mode === 'free').id
    expect(data.map(({ id }: { id: string }) => id)).toContain(free)
    const seen: number[] = []
    for (let times = 0; times < 4; times++) {
      const body = JSON.stringify({ model: free, messages: [{ role: 'user', content: 'Hi' }] })
      await gateway.fetch(
        new Request(`${ORIGIN}/api/v1/chat/completions`, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json' },
        }),
      )
      seen.push((await health('models')).data.find(({ id }: { id: string }) => id === free).failures_in_a_row)
    }
    expect(seen).toEqual([0, 0, 1, 2])
  })

  test('asks nobody, and tells nothing that was said to it', async () => {
    const vendor = scriptedVendor(() => Promise.reject(new Error('https://10.0.0.7/v1?key=s3cret refused')))
    let requestCount = 0
    const { ports } = kit()
    const stop = () => (requestCount++, Promise.reject(new Error('http://node.internal:8545/s3cret')))
    const { get, buyer, clock } = fixture({
      vendor,
      wrap: (inner) => ({
        ...inner,
        chain: { ...inner.chain, verify: stop, settle: stop, fate: stop, balance: stop },
        storage: { ...ports.storage, spendByModel: stop },
      }),
    })
    const alice = buyer()
    await alice.buy()
    const before = [requestCount, vendor.jobs.length]
    for (const path of PATHS) {
      const { status, body, headers } = await get(path)
      expect([path, status, headers.get('cache-control')]).toEqual([path, 200, 'no-store'])
      expect(JSON.stringify(body)).not.toMatch(/s3cret|10\.0\.0\.7|internal|8545|refused|error/i)
    }
    expect([requestCount, vendor.jobs.length]).toEqual(before)
    expect(clock.waiting).toBe(0)
  })

  test('is asked 60 times a minute by one address, whichever page it asks for (contract 19.7)', async () => {
    const { get, clock } = fixture()
    for (let i = 0; i < 60; i++) expect((await get(PATHS[i % PATHS.length] ?? '')).status).toBe(200)
    await clock.advance(15_000)
    const { status, headers, body } = await get('/api/v1/health/overview')
    expect([status, body.error]).toEqual([429, 'Rate limit exceeded'])
    const named = ['retry-after', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'].map((name) =>
      headers.get(name),
    )
    expect(named).toEqual(['45', '60', '0', String(START + 60_000)])
    expect((await get('/api/health', '192.0.2.2')).status).toBe(200)
    await clock.advance(45_000)
    expect((await get('/api/health')).status).toBe(200)
  })
})
