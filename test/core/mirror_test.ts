import { describe, expect, test } from 'bun:test'
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { PIXEL } from '../../adapters/vendors/scripted.ts'
import type { Objects, Vendors } from '../../core/mod.ts'
import { isObjectKey } from '../../core/keys.ts'
import { mirror } from '../../core/mirror.ts'
import { countingRandom, testClock, testLog } from '../kit.ts'

const never: Vendors['media'] = () => Promise.reject(new Error('not to be fetched'))

function bench({ media = never, objects = memoryObjects() }: { media?: Vendors['media']; objects?: Objects } = {}) {
  const clock = testClock()
  const log = testLog()
  const ports = { objects, clock, log, random: countingRandom(), vendors: { images: () => undefined, chat: () => undefined, media } }
  const host = (...urls: readonly string[]) => mirror({ ports, maxBytes: 1000 }, 'job_1', { folder: 'images', urls })
  return { host, objects, clock, log }
}

/** Where the first media of a bench lie: nothing of the job's id is in it. */
const SECRET = 'images/2026-11-20/00000000000000000000000000000001'

const bytesOf = async (objects: Objects, key: string) => (await objects.get(key))?.body as Uint8Array

describe('media keys', () => {
  test('are relative paths of plain segments, at most 200 characters', () => {
    for (const key of ['a', 'images/2026-11-20/job_1-0.png', 'A.b_c-d/0', 'x'.repeat(200)]) expect([key, isObjectKey(key)]).toEqual([key, true])
    for (const key of ['', '/', '/a', 'a/', 'a//b', '.', '..', '../a', 'a/../b', '.hidden', 'a/.b', 'a\\b', 'a b', 'a\0', 'a\n', '狐', 'a?b', 'a:b', 'x'.repeat(201)]) expect([key, isObjectKey(key)]).toEqual([key, false])
  })
})

describe('mirroring', () => {
  test('hosts inline media under folder, date, a secret and index, and keeps only its type as source', async () => {
    const { host, objects } = bench()
    expect(await host(PIXEL, 'data:image/webp;base64,aGk=')).toEqual([
      { key: `${SECRET}-0.png`, url: null, source: 'data:image/png' },
      { key: `${SECRET}-1.webp`, url: null, source: 'data:image/webp' },
    ])
    expect(new TextDecoder().decode(await bytesOf(objects, `${SECRET}-1.webp`))).toBe('hi')
    expect((await objects.get(`${SECRET}-0.png`))?.type).toBe('image/png')
  })

  test("hosts what a vendor's URL points at, and keeps the URL as source", async () => {
    const { host, objects } = bench({ media: async (url, { maxBytes }) => ({ bytes: new TextEncoder().encode(`${url} ${maxBytes}`), type: 'image/jpeg' }) })
    expect(await host('https://vendor.test/a')).toEqual([{ key: `${SECRET}-0.jpg`, url: null, source: 'https://vendor.test/a' }])
    expect(new TextDecoder().decode(await bytesOf(objects, `${SECRET}-0.jpg`))).toBe('https://vendor.test/a 1000')
  })

  test('passes on what it cannot fetch, decode or store, one piece at a time, and says why in the log', async () => {
    const { host, log } = bench()
    const [fetched, broken, good] = await host('https://vendor.test/a', 'data:image/png;base64,%', PIXEL)
    expect(fetched).toEqual({ key: null, url: 'https://vendor.test/a', source: 'https://vendor.test/a' })
    expect(broken).toEqual({ key: null, url: 'data:image/png;base64,%', source: 'data:image/png' })
    expect(good?.key).toBe(`${SECRET}-2.png`)
    expect(log.lines.map(({ level, fields }) => [level, fields.error])).toEqual([['warn', 'the data URI does not decode'], ['warn', 'not to be fetched']])
    const full: Objects = { put: () => Promise.reject(new Error('disk full')), get: async () => undefined }
    expect(await bench({ objects: full }).host(PIXEL)).toEqual([{ key: null, url: PIXEL, source: 'data:image/png' }])
  })

  test('never hosts a type that a browser could run under our origin', async () => {
    for (const type of ['text/html', 'image/svg+xml', 'application/octet-stream', '']) {
      const { host, objects } = bench({ media: async () => ({ bytes: new Uint8Array(1), type }) })
      expect(await host('https://vendor.test/a')).toEqual([{ key: null, url: 'https://vendor.test/a', source: 'https://vendor.test/a' }])
      expect(await objects.get(`${SECRET}-0.html`)).toBeUndefined()
    }
    expect((await bench().host('data:image/svg+xml,%3Csvg/%3E'))[0]).toMatchObject({ key: null, source: 'data:image/svg+xml' })
    expect((await bench().host('data:'))[0]?.source).toBe('data:')
  })

  test('gives up on a media host that does not answer within a minute', async () => {
    let aborted = false
    const { host, clock } = bench({
      media: (_url, { signal }) => new Promise(() => signal.addEventListener('abort', () => (aborted = true))),
    })
    const hosted = host('https://vendor.test/a')
    await clock.advance(60_000)
    expect((await hosted)[0]?.key).toBeNull()
    expect(aborted).toBe(true)
  })

  test('of no media is nothing', async () => {
    const { clock, log, objects } = bench()
    const ports = { objects, clock, log, random: countingRandom(), vendors: { images: () => undefined, chat: () => undefined, media: never } }
    expect(await mirror({ ports, maxBytes: 1 }, 'job_1', undefined)).toEqual([])
  })
})
