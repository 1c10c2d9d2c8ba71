import { describe, expect, test } from 'bun:test'
import { memoryObjects } from '../../../../adapters/objects/memory.ts'
import { kit, ORIGIN } from '../../../kit.ts'

const PATH = '/api/media/video/a.mp4'
const ETAG = '"video/a.mp4"'

async function gateway() {
  const objects = memoryObjects()
  await objects.put(
    'video/a.mp4',
    Uint8Array.from({ length: 100 }, (_, n) => n),
    'video/mp4',
  )
  const { gateway } = kit({ ports: { objects } })
  return async (headers: Record<string, string>, method = 'GET') => {
    const response = await gateway.fetch(new Request(ORIGIN + PATH, { headers, method }))
    return { status: response.status, headers: response.headers, bytes: [...(await response.bytes())] }
  }
}

const upTo = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, n) => first + n)

describe('GET /api/media in parts', () => {
  test.each([
    ['bytes=0-1', 0, 1],
    ['bytes=10-19', 10, 19],
    ['BYTES=90-', 90, 99],
    ['bytes=90-1000', 90, 99],
    ['bytes=-5', 95, 99],
    ['bytes=-1000', 0, 99],
  ])('%s is 206 with that part', async (range, first, last) => {
    const { status, headers, bytes } = await (await gateway())({ range })
    expect([status, headers.get('content-range'), headers.get('content-length'), headers.get('etag')]).toEqual([
      206,
      `bytes ${first}-${last}/100`,
      String(last - first + 1),
      ETAG,
    ])
    expect(headers.get('cache-control')).toContain('immutable')
    expect(bytes).toEqual(upTo(first, last))
  })

  test.each(['bytes=100-', 'bytes=200-300', 'bytes=-0'])('%s is 416, with the size', async (range) => {
    const { status, headers } = await (await gateway())({ range })
    expect([status, headers.get('content-range'), headers.get('cache-control')]).toEqual([
      416,
      'bytes */100',
      'no-store',
    ])
  })

  test.each(['bytes=5-4', 'bytes=-', 'bytes=0-1,3-4', 'bytes=a-b', 'items=0-1', ''])(
    '%p is no range, and gets the whole',
    async (range) => {
      const { status, headers, bytes } = await (await gateway())({ range })
      expect([status, headers.get('accept-ranges'), headers.get('content-range'), bytes.length]).toEqual([
        200,
        'bytes',
        null,
        100,
      ])
    },
  )

  test('one who has it is told so, and one who has something else gets the whole', async () => {
    const ask = await gateway()
    expect((await ask({ range: 'bytes=0-1', 'if-none-match': ETAG })).status).toBe(304)
    expect((await ask({ range: 'bytes=0-1', 'if-range': ETAG })).status).toBe(206)
    expect((await ask({ range: 'bytes=0-1', 'if-range': '"other"' })).status).toBe(200)
    expect((await ask({ range: 'bytes=0-1' }, 'HEAD')).status).toBe(200)
  })

  test('a store that knows no ranges answers with the whole', async () => {
    const { put, get } = memoryObjects()
    await put('video/a.mp4', new Uint8Array(9), 'video/mp4')
    const { gateway } = kit({ ports: { objects: { put, get: (key) => get(key), delete: async () => {} } } })
    const response = await gateway.fetch(new Request(ORIGIN + PATH, { headers: { range: 'bytes=0-1' } }))
    expect([response.status, response.headers.get('content-length')]).toEqual([200, '9'])
  })
})
