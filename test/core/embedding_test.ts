/** A gateway inside another program: built, started, stopped, mounted. */
import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { evmChain, localPorts, memoryChain, memoryStorage, multiChain } from '../../adapters/mod.ts'
import { scriptedVendor } from '../fakes/images.ts'
import {
  type Chain,
  createGateway,
  customGateway,
  flatPrice,
  gateway,
  paid,
  type Ports,
  type SetupError,
} from '../../core/mod.ts'

const vendor = scriptedVendor()
const log = () => {
  const lines: string[] = []
  const at = (level: string) => (message: string) => void lines.push(`${level}: ${message}`)
  return { lines, info: at('info'), warn: at('warn'), alert: at('alert') }
}
const portsOf = (chain: Chain = memoryChain(), more: Partial<Ports> = {}): Ports => ({
  ...localPorts({ chain, images: () => vendor }),
  ...more,
})
const wrong = (...problems: string[]): Chain => ({ ...memoryChain(), check: async () => ({ kind: 'wrong', problems }) })
const problemsOf = async (built: Promise<unknown>): Promise<readonly string[]> =>
  await built.then(
    () => [],
    (error: SetupError) => error.problems,
  )

describe('createGateway()', () => {
  test('rejects with every problem of the setup, the storage and all chains, in words', async () => {
    const chain = multiChain([
      wrong('network: the node is on eip155:1', 'asset: there is no token'),
      wrong('relayer_key: no gas'),
    ])
    const storage = { ...memoryStorage(), getRecord: () => Promise.reject(new Error('the file is locked')) }
    const problems = await problemsOf(
      createGateway({ ports: portsOf(chain, { storage }), maxBody: -1, hidden: ['teleport'], basePath: 'ai/' }),
    )
    expect(problems).toEqual([
      'maxBody: must be a whole number of at least 0; it is -1',
      'basePath: must be like /ai, without a slash at its end; it is ai/',
      'hidden: there is no endpoint teleport; endpoints are named like images.generations',
      'ports.storage: the file is locked',
      'network: the node is on eip155:1',
      'asset: there is no token',
      'relayer_key: no gas',
    ])
    const error = await createGateway({ ports: portsOf(wrong('asset: none')) }).catch((caught: Error) => caught)
    expect(String(error)).toBe('SetupError: The gateway cannot be built:\n  - asset: none')
  })

  test('names ports that plain JavaScript has forgotten', async () => {
    const { clock: _clock, vendors: _vendors, ...ports } = portsOf()
    expect(await problemsOf(createGateway({ ports } as never))).toEqual([
      'ports.clock: is missing; see localPorts()',
      'ports.vendors: is missing; see localPorts()',
    ])
    expect((await problemsOf(createGateway({} as never))).length).toBe(9)
  })

  test('names what plain JavaScript gives instead: nothing, an option that does not exist, no storage', async () => {
    expect(await problemsOf(createGateway(undefined as never))).toEqual([
      'setup: is missing; give createGateway({ ports })',
    ])
    expect(await problemsOf(createGateway({ ports: portsOf(), baseePath: '/ai' } as never))).toEqual([
      'baseePath: there is no such option',
    ])
    const storages = [null, {}].map((storage) => createGateway({ ports: { ...portsOf(), storage } } as never))
    expect(await Promise.all(storages.map(problemsOf))).toEqual([
      ['ports.storage: is missing; see localPorts()'],
      ['ports.storage: is no storage, it has no openCall, getCall, getRecord; see openStorage()'],
    ])
    expect(() => localPorts({ chain: memoryChain(), images: () => vendor, storage: undefined } as never)).toThrow(
      'localPorts: storage is undefined; leave it out to keep everything in memory',
    )
    expect(() => evmChain({ network: 'eip155:8453', rpcUrl: 'http://127.0.0.1', asset: '0x' } as never)).toThrow(
      'evmChain: payTo is missing',
    )
  })

  test('builds over a node that does not answer, says so, and run() opens it when it does', async () => {
    const own = memoryChain()
    const wallet = log()
    let isUp = false
    let checks = 0
    const checked = Promise.withResolvers<void>()
    const chain: Chain = {
      ...own,
      terms: (now) => (isUp ? own.terms(now) : []),
      async check() {
        if (++checks === 1) return { kind: 'unavailable', reason: 'no route' }
        isUp = true
        checked.resolve()
        return { kind: 'ready', warnings: [] }
      },
    }
    const farebox = await createGateway({ ports: portsOf(chain, { log: wallet }) })
    expect(wallet.lines).toEqual(['warn: a chain is unreachable; its gateway answers 503 until it responds'])
    expect((await order(farebox)).status).toBe(503)
    const stop = farebox.run()
    await checked.promise
    expect((await order(farebox)).status).toBe(402)
    await stop()
  })
})

test('a vendor that only the embedding program declares reaches its product', async () => {
  const ports = portsOf()
  const poems = { write: () => 'first light on snow' }
  const poem = paid({
    name: 'poem',
    path: '/api/v1/poem',
    summary: 'Write a poem',
    tag: 'text',
    input: Type.Object({}),
    output: Type.Object({ text: Type.String() }),
    example: {},
    isAvailable: (_input, { vendors }) => (vendors as { poems?: typeof poems }).poems?.write() !== undefined,
    price: () => ({ amount: flatPrice('0.01'), maxTimeoutSeconds: 300, publicPrice: {} }),
    run: async () => ({ result: 'never' }),
    show: ({ made }) => ({ text: made }),
  })
  const gatewayWith = (vendors: Ports['vendors']) => customGateway({ ports: { ...ports, vendors }, endpoints: [poem] })
  const ask = async (vendors: Ports['vendors']) => (await order(gatewayWith(vendors), '/api/v1/poem')).status
  expect([await ask(ports.vendors), await ask({ ...ports.vendors, poems } as never)]).toEqual([503, 402])
})

const order = (farebox: { fetch(request: Request): Promise<Response> }, path = '/api/v1/images/generations') =>
  farebox.fetch(
    new Request(`http://shop.example${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"model":"vendor-a/image-1","prompt":"a red fox"}',
    }),
  )

describe('run()', () => {
  test('renews, maintains and refreshes; stop() ends all of it', async () => {
    const storage = memoryStorage()
    const rounds: string[] = []
    const done = Promise.withResolvers<void>()
    const seen = (name: string) => {
      rounds.push(name)
      if (new Set(rounds).size === 3) done.resolve()
    }
    const chain = { ...memoryChain(), refresh: async () => seen('refresh') }
    const observed = {
      ...storage,
      renew: (...args: Parameters<typeof storage.renew>) => (seen('renew'), storage.renew(...args)),
      lostCalls: (...args: Parameters<typeof storage.lostCalls>) => (seen('maintain'), storage.lostCalls(...args)),
    }
    const stop = gateway({ ports: portsOf(chain, { storage: observed }) }).run()
    await done.promise
    await stop()
    const count = rounds.length
    await stop()
    expect(rounds.length).toBe(count)
  })

  test('fails the calls of the process before it, and none of another gateway of its own', async () => {
    const chain = memoryChain()
    const wallet = chain.wallet('alice')
    chain.fund(wallet, 1_000_000n)
    const storage = memoryStorage()
    const never = scriptedVendor(() => new Promise(() => {}))
    const shared = { ...storage }
    const ofBefore = gateway({ ports: localPorts({ chain, images: () => never, storage }), inlineMs: 0 })
    const beside = gateway({ ports: localPorts({ chain, images: () => never, storage: shared }), inlineMs: 0 })
    const buy = async (farebox: typeof beside) => {
      const { accepts } = (await (await order(farebox)).json()) as { accepts: [Parameters<typeof chain.sign>[0]] }
      const payment = btoa(JSON.stringify(chain.sign(accepts[0], { from: wallet, now: Date.now() })))
      const job = await farebox.fetch(
        new Request('http://shop.example/api/v1/images/generations', {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'payment-signature': payment },
          body: '{"model":"vendor-a/image-1","prompt":"a red fox"}',
        }),
      )
      return ((await job.json()) as { id: string }).id
    }
    const [lost, alive] = [await buy(ofBefore), await buy(beside)]

    const failed = Promise.withResolvers<void>()
    const logged = { ...log(), warn: (message: string) => void (message.includes('were failed') && failed.resolve()) }
    const ports = localPorts({ chain, images: () => never, storage: shared, log: logged })
    const stop = gateway({ ports }).run()
    await failed.promise
    expect((await storage.getCall(lost))?.workStatus).toBe('failed')
    expect((await storage.getCall(alive))?.workStatus).not.toBe('failed')
    await stop({ drainMs: 0 })
  })

  test('stop() waits for the work under way, and the result is paid for', async () => {
    const chain = memoryChain()
    const wallet = chain.wallet('alice')
    chain.fund(wallet, 1_000_000n)
    const [started, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const slow = scriptedVendor(async ({ n }) => {
      started.resolve()
      await finish.promise
      return Array.from({ length: n }, () => ({ url: 'data:image/png;base64,iVBORw0KGgo=' }))
    })
    const farebox = gateway({ ports: localPorts({ chain, images: () => slow }) })
    const stop = farebox.run()
    const { accepts } = (await (await order(farebox)).json()) as { accepts: [Parameters<typeof chain.sign>[0]] }
    const payment = btoa(JSON.stringify(chain.sign(accepts[0], { from: wallet, now: Date.now() })))
    const paid = farebox.fetch(
      new Request('http://shop.example/api/v1/images/generations', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'payment-signature': payment },
        body: '{"model":"vendor-a/image-1","prompt":"a red fox"}',
      }),
    )
    await started.promise
    let isStopped = false
    const stopping = stop().then(() => (isStopped = true))
    expect((await farebox.fetch(new Request('http://shop.example/readyz'))).status).toBe(503)
    expect(isStopped).toBe(false)
    finish.resolve()
    expect(await (await paid).json()).toMatchObject({ payment: { status: 'settled' } })
    await stopping
    expect(chain.balanceOf(wallet)).toBe(1_000_000n - BigInt(accepts[0].amount))
  })
})

describe('basePath', () => {
  test('is in the challenge, the poll URL, the media and every document, whether or not the host takes it off (contract 21.13)', async () => {
    const chain = memoryChain()
    const wallet = chain.wallet('alice')
    chain.fund(wallet, 1_000_000n)
    const farebox = gateway({ ports: portsOf(chain), basePath: '/ai', inlineMs: 0 })
    const get = async (path: string) => await farebox.fetch(new Request(`http://shop.example${path}`))
    for (const path of ['/ai/api/v1/images/generations', '/api/v1/images/generations']) {
      const challenge = await order(farebox, path)
      const { resource } = JSON.parse(atob(challenge.headers.get('payment-required') ?? '')) as {
        resource: { url: string }
      }
      expect(resource.url).toBe('http://shop.example/ai/api/v1/images/generations')
    }
    const { accepts } = (await (await order(farebox)).json()) as { accepts: [Parameters<typeof chain.sign>[0]] }
    const header = {
      'payment-signature': btoa(JSON.stringify(chain.sign(accepts[0], { from: wallet, now: Date.now() }))),
    }
    const job = await farebox.fetch(
      new Request('http://shop.example/ai/api/v1/images/generations', {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...header },
        body: '{"model":"vendor-a/image-1","prompt":"a red fox"}',
      }),
    )
    const { poll_url } = (await job.json()) as { poll_url: string }
    expect(poll_url).toStartWith('/ai/api/v1/images/generations/')
    expect(job.headers.get('location')).toBe(poll_url)
    const paid = await collected(() =>
      farebox.fetch(new Request(`http://shop.example${poll_url}`, { headers: header })),
    )
    const { data } = paid as { data: [{ url: string }] }
    expect(data[0].url).toStartWith('http://shop.example/ai/api/media/')
    expect((await farebox.fetch(new Request(data[0].url))).headers.get('content-type')).toBe('image/png')

    const openapi = (await (await get('/ai/openapi.json')).json()) as { servers: unknown }
    expect(openapi.servers).toEqual([{ url: 'http://shop.example/ai' }])
    const known = await (await get('/ai/.well-known/x402')).text()
    expect(known).toContain('http://shop.example/ai/api/v1/images/generations')
    expect(known).not.toContain('shop.example/api')
    const { endpoints } = (await (await get('/ai/api/pricing')).json()) as { endpoints: { path: string }[] }
    expect(endpoints.filter(({ path }) => !path.startsWith('/ai/'))).toEqual([])
    const docs = await (await get('/ai/docs')).text()
    expect(docs).toContain('href="/ai/openapi.json"')
    const missing = (await (await get('/ai/api/v1/images')).json()) as { nearby: string[] }
    expect(missing.nearby.filter((route) => !route.includes(' /ai/'))).toEqual([])
  })

  test('tells a host which paths are its own', () => {
    const mounted = gateway({ ports: portsOf(), basePath: '/ai' })
    const paths = ['/ai', '/ai/nothing', '/ai/api/v1/search', '/api/v1/search', '/air', '/hello']
    expect(paths.map((path) => mounted.matches('GET', path))).toEqual([true, true, true, false, false, false])
    const whole = gateway({ ports: portsOf() })
    expect(paths.map((path) => whole.matches('GET', path))).toEqual([false, false, false, true, false, false])
  })
})

/** Polls until the job is done: each answer is an event, so nothing waits for time. */
async function collected(poll: () => Promise<Response>): Promise<unknown> {
  for (;;) {
    const reply = await poll()
    if (reply.status === 200) return await reply.json()
    expect(reply.status).toBe(202)
    await new Promise((turn) => setImmediate(turn))
  }
}
