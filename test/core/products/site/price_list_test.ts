import { describe, expect, test } from 'bun:test'
import { scriptedChat } from '../../../fakes/chat.ts'
import { endpoints } from '../../../../core/products/mod.ts'
import { isSold } from '../../../../core/endpoint/mod.ts'
import { kit, type KitOptions, ORIGIN, read, START } from '../../../kit.ts'

function fixture(options: KitOptions = {}) {
  const { gateway, ...rest } = kit({ chatVendor: scriptedChat(), ...options })
  return {
    ...rest,
    gateway,
    get: async (path: string, ip = '192.0.2.1') => await read(await gateway.fetch(new Request(ORIGIN + path), { ip })),
  }
}

describe('GET /api/pricing', () => {
  test('has everything on the menu, at the price that openapi.json has (contract 8.11, 19.10)', async () => {
    const { get } = fixture()
    const { status, body, headers } = await get('/api/pricing')
    expect([status, headers.get('cache-control')]).toEqual([200, 'public, max-age=60'])
    expect(body).toMatchObject({
      object: 'pricing',
      currency: 'USD',
      asset: 'USDC',
      network: 'base-sepolia',
      transaction_fee: '0.001000',
    })
    const { paths } = (await get('/openapi.json')).body
    for (const { methods, path, price } of body.endpoints) {
      for (const method of methods)
        expect([path, paths[path][method.toLowerCase()]['x-payment-info']?.price ?? 'free']).toEqual([path, price])
    }
    for (const { path, price } of body.endpoints.filter(({ price }: { price: unknown }) => price !== 'free')) {
      const { mode, amount, min, max } = price
      const isPriced = mode === 'fixed' ? /^\d+\.\d{6}$/.test(amount) : mode === 'dynamic' && Number(min) < Number(max)
      expect([path, isPriced]).toEqual([path, true])
    }
    const listed = body.endpoints.flatMap(({ methods }: { methods: string[] }) => methods)
    const described = Object.values<object>(paths)
      .flatMap((item) => Object.values<Record<string, unknown>>(item as Record<string, Record<string, unknown>>))
      .filter((node) => node['x-alias-of'] === undefined && node['x-quote-of'] === undefined)
    expect(listed).toHaveLength(described.length)
  })

  test('has every model that /api/v1/models lists, at its rates (contract 8.11, 19.10)', async () => {
    const { get } = fixture()
    const { models } = (await get('/api/pricing')).body
    const { data } = (await get('/api/v1/models')).body
    expect(models.length).toBeGreaterThan(10)
    expect(models).toEqual(
      data.map(({ id, owned_by, categories, billing_mode, pricing }: any) => ({
        id,
        owned_by,
        categories,
        billing_mode,
        pricing,
      })),
    )
  })

  test('leaves out the models that nobody here serves', async () => {
    const { get } = fixture({ ports: { vendors: { images: () => undefined, chat: () => undefined } } })
    const { status, body } = await get('/api/pricing')
    expect([status, body.models]).toEqual([200, []])
    expect(body.endpoints.length).toBeGreaterThan(10)
  })

  test('takes 100 requests per hour and address (contract 3.12, 4.10, 8.11)', async () => {
    const { get, clock } = fixture()
    for (let i = 0; i < 100; i++) expect((await get('/api/pricing')).status).toBe(200)
    await clock.advance(60_000)
    const { status, headers, body } = await get('/api/pricing')
    expect([status, body.error]).toEqual([429, 'Rate limit exceeded'])
    const named = ['retry-after', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'].map((name) =>
      headers.get(name),
    )
    expect(named).toEqual(['3540', '100', '0', String(START + 3_600_000)])
    expect((await get('/api/pricing', '192.0.2.2')).status).toBe(200)
    expect((await get('/brand/numbers.json')).status).toBe(200)
  })
})

describe('GET /brand/numbers.json', () => {
  test('counts what is listed, and what is offered (contract 8.12)', async () => {
    const { get, gateway } = fixture()
    const { body } = await get('/brand/numbers.json')
    const { data } = (await get('/api/v1/models')).body
    const count = (mode: string) =>
      data.filter(({ billing_mode }: { billing_mode: string }) => billing_mode === mode).length
    expect(body.version).toBe(1)
    expect(body.models).toMatchObject({
      totalVisible: data.length,
      chatVisible: data.length - count('per_image'),
      image: count('per_image'),
      free: count('free'),
      freeWithheld: 0,
    })
    expect(body.models.withFallbackAllEntries).toBeGreaterThanOrEqual(body.models.withFallback)
    const listed = gateway.offered().filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden)
    const paid = listed.filter(isSold).length
    expect(body.endpoints).toEqual({ paid, free: listed.length - paid })
    expect([paid > 4, paid < endpoints.filter(isSold).length]).toEqual([true, true])
    expect(body.networks).toBe(1)
  })

  test('counts nothing that is not for sale here', async () => {
    const { body } = await fixture({ ports: { vendors: { images: () => undefined, chat: () => undefined } } }).get(
      '/brand/numbers.json',
    )
    expect(Object.values(body.models)).toEqual(Object.keys(body.models).map(() => 0))
  })
})
