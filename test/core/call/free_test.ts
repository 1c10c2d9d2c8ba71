import { describe, expect, test } from 'bun:test'
import { PIXEL, scriptedVendor } from '../../fakes/images.ts'
import { catalog } from '../../../core/mod.ts'
import vectors from '../../vectors/pricing.json'
import { kit, ORIGIN, read, START } from '../../kit.ts'

type Gateway = ReturnType<typeof kit>['gateway']
const get = (gateway: Gateway, path: string, headers: Record<string, string> = {}, ip = '192.0.2.1') =>
  gateway.fetch(new Request(ORIGIN + path, { headers }), { ip })
const MODELS = '/api/v1/images/models'

describe('GET /api/v1/images/models', () => {
  test('lists every model with its sizes at catalog rates, and needs no payment (contract 5.44)', async () => {
    const { status, body } = await read(await get(kit().gateway, MODELS))
    expect(status).toBe(200)
    expect(body.object).toBe('list')
    const listed = body.data.flatMap((model: any) =>
      model.pricing.sizes.map(({ size, price }: any) => `${model.id} ${size} ${price}`),
    )
    expect(listed).toEqual(vectors.map(({ model, size, rate }) => `${model} ${size} ${Number(rate)}`))
    expect(body.data[0]).toEqual({
      id: 'vendor-a/image-1',
      object: 'model',
      name: 'Image 1',
      owned_by: 'vendor-a',
      pricing: {
        sizes: [
          { size: '1024x1024', price: 0.02 },
          { size: '1536x1024', price: 0.04 },
          { size: '1024x1536', price: 0.04 },
        ],
      },
    })
  })

  test('leaves out what the operator has not configured', async () => {
    const vendor = scriptedVendor()
    const vendors = {
      images: ({ vendor: name }: { vendor: string }) => (name === 'vendor-b' ? vendor : undefined),
      media: () => Promise.reject(),
    }
    const { body } = await read(await get(kit({ ports: { vendors } }).gateway, MODELS))
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual([
      'vendor-b/image-flash',
      'vendor-b/image-flash-2',
      'vendor-b/image-pro',
    ])
  })

  test('lists rows of the operator’s own', async () => {
    const [row] = catalog().images.all
    if (!row) throw new Error('an empty catalog')
    const { body } = await read(
      await get(kit({ catalog: catalog({ images: [{ ...row, id: 'mine/image' }] }) }).gateway, MODELS),
    )
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual(['mine/image'])
  })

  test('takes 100 requests per hour and address, then 429 until the hour is over (contract 5.45)', async () => {
    const { gateway, clock } = kit()
    for (let i = 0; i < 100; i++) expect((await get(gateway, MODELS)).status).toBe(200)
    await clock.advance(600_000)
    const { status, headers, body } = await read(await get(gateway, MODELS))
    expect([status, body.error]).toEqual([429, 'Rate limit exceeded'])
    expect(body.message).toBe('At most 100 requests in 60 minutes; retry after 2026-11-20T01:00:00.000Z.')
    expect([headers.get('retry-after'), headers.get('x-ratelimit-reset')]).toEqual(['3000', String(START + 3_600_000)])
    expect((await get(gateway, MODELS, {}, '192.0.2.2')).status).toBe(200)
    expect((await get(gateway, '/api/health')).status).toBe(200)
    await clock.advance(3_000_000)
    expect((await get(gateway, MODELS)).status).toBe(200)
  })
})

describe('GET /api/health', () => {
  test('says who is up, and since when (contract 4.18, 19.5)', async () => {
    const { gateway, clock } = kit({ name: 'main', version: '1.2.3' })
    await clock.advance(61_500)
    const { status, headers, body } = await read(await get(gateway, '/api/health'))
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store'])
    expect(body).toEqual({
      status: 'ok',
      ready: true,
      gateway: 'main',
      network: 'base-sepolia',
      version: '1.2.3',
      uptime_seconds: 61,
      timestamp: '2026-11-20T00:01:01.500Z',
    })
  })
})

describe('GET /api/media', () => {
  async function hosted() {
    const { gateway, buyer } = kit()
    const { body } = await buyer().buy()
    return { gateway, path: new URL(body.data[0].url).pathname }
  }

  test('serves what was bought, immutable and with its type, to anybody who has the URL', async () => {
    const { gateway, path } = await hosted()
    const response = await get(gateway, path)
    expect(response.status).toBe(200)
    expect(
      Object.fromEntries(
        ['content-type', 'content-length', 'cache-control', 'x-content-type-options', 'content-security-policy'].map(
          (name) => [name, response.headers.get(name)],
        ),
      ),
    ).toEqual({
      'content-type': 'image/png',
      'content-length': String(atob(PIXEL.split(',')[1] ?? '').length),
      'cache-control': 'public, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    })
    expect(`data:image/png;base64,${Buffer.from(await response.arrayBuffer()).toString('base64')}`).toBe(PIXEL)
  })

  test('answers 304 to one who has it, and HEAD without the bytes', async () => {
    const { gateway, path } = await hosted()
    const etag = (await get(gateway, path)).headers.get('etag') ?? ''
    const again = await get(gateway, path, { 'if-none-match': etag })
    expect([again.status, await again.text()]).toEqual([304, ''])
    const head = await gateway.fetch(new Request(ORIGIN + path, { method: 'HEAD' }))
    expect([head.status, head.headers.get('content-type'), await head.text()]).toEqual([200, 'image/png', ''])
  })

  test('of nothing is 404 as JSON, and no path leads out of the store', async () => {
    const { gateway } = await hosted()
    for (const path of [
      '/api/media/images/none.png',
      '/api/media/..%2F..%2Fetc%2Fpasswd',
      '/api/media/%00',
      '/api/media/images%5C..%5Cx',
      '/api/media/%E7%8B%90.png',
    ]) {
      const { status, headers, body } = await read(await get(gateway, path))
      expect([path, status, headers.get('cache-control'), body.error]).toEqual([path, 404, 'no-store', 'Not found'])
    }
  })

  test('a streamed object is let go when nobody reads it', async () => {
    let cancelled = 0
    const body = () => new ReadableStream<Uint8Array>({ cancel: () => void cancelled++ })
    const { gateway } = kit({
      ports: {
        objects: {
          put: async () => {},
          get: async () => ({ body: body(), size: 3, type: 'image/png' }),
          delete: async () => {},
        },
      },
    })
    const path = '/api/media/images/a.png'
    expect((await get(gateway, path, { 'if-none-match': '"images/a.png"' })).status).toBe(304)
    expect((await gateway.fetch(new Request(ORIGIN + path, { method: 'HEAD' }))).status).toBe(200)
    expect(cancelled).toBe(2)
  })
})
