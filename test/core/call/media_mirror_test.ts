import { describe, expect, test } from 'bun:test'
import { memoryObjects } from '../../../adapters/objects/memory.ts'
import { PIXEL } from '../../fakes/images.ts'
import type { OpenMedia } from '../../../core/endpoint/mod.ts'
import { type MediaStream, NoMedia, type Objects, type Vendors } from '../../../core/mod.ts'
import { isObjectKey } from '../../../core/ports/objects.ts'
import { mirrors } from '../../../core/call/work/media_mirror.ts'
import { countingRandom, START, testClock, testLog } from '../../kit.ts'

const never: Vendors['media'] = () => Promise.reject(new Error('not to be fetched'))

function bench({
  media = never,
  stream,
  objects = memoryObjects(),
}: { media?: Vendors['media']; stream?: Vendors['stream']; objects?: Objects } = {}) {
  const clock = testClock()
  const log = testLog()
  const ports = {
    objects,
    clock,
    log,
    random: countingRandom(),
    background: (work: Promise<unknown>) => void work,
    vendors: { images: () => undefined, chat: () => undefined, media, ...(stream && { stream }) },
  }
  const usual = mirrors({ ports, maxBytes: 1000 })
  const short = mirrors({ ports, maxBytes: 1000, maxStreamBytes: 5000 })
  const host = (...urls: readonly string[]) => usual('job_1', { folder: 'images', urls })
  const film = (...urls: readonly string[]) => usual('job_1', { folder: 'videos', urls, kinds: ['video'] })
  const pour = (open: OpenMedia, folder = 'images') =>
    short('job_1', { folder, urls: ['https://vendor.test/a'], streams: [open] })
  return { host, film, pour, objects, clock, log }
}

/** Where the first media of a bench lie: nothing of the job's id is in it. */
const SECRET = 'images/2026-11-20/00000000000000000000000000000001'

const bytesOf = async (objects: Objects, key: string) => (await objects.get(key))?.body as Uint8Array

describe('media keys', () => {
  test('are relative paths of plain segments, at most 200 characters', () => {
    for (const key of ['a', 'images/2026-11-20/job_1-0.png', 'A.b_c-d/0', 'x'.repeat(200)])
      expect([key, isObjectKey(key)]).toEqual([key, true])
    for (const key of [
      '',
      '/',
      '/a',
      'a/',
      'a//b',
      '.',
      '..',
      '../a',
      'a/../b',
      '.hidden',
      'a/.b',
      'a\\b',
      'a b',
      'a\0',
      'a\n',
      '狐',
      'a?b',
      'a:b',
      'x'.repeat(201),
    ])
      expect([key, isObjectKey(key)]).toEqual([key, false])
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
    const { host, objects } = bench({
      media: async (url, { maxBytes }) => ({
        bytes: new TextEncoder().encode(`${url} ${maxBytes}`),
        type: 'image/jpeg',
      }),
    })
    expect(await host('https://vendor.test/a')).toEqual([
      { key: `${SECRET}-0.jpg`, url: null, source: 'https://vendor.test/a' },
    ])
    expect(new TextDecoder().decode(await bytesOf(objects, `${SECRET}-0.jpg`))).toBe('https://vendor.test/a 1000')
  })

  test('passes on what it cannot fetch, decode or store, one piece at a time, and says why in the log', async () => {
    const { host, log } = bench()
    const [fetched, broken, good] = await host('https://vendor.test/a', 'data:image/png;base64,%', PIXEL)
    expect(fetched).toEqual({ key: null, url: 'https://vendor.test/a', source: 'https://vendor.test/a' })
    expect(broken).toEqual({ key: null, url: 'data:image/png;base64,%', source: 'data:image/png' })
    expect(good?.key).toBe(`${SECRET}-2.png`)
    expect(log.lines.map(({ level, fields }) => [level, fields.error])).toEqual([
      ['warn', 'the data URI does not decode'],
      ['warn', 'not to be fetched'],
    ])
    const full: Objects = {
      put: () => Promise.reject(new Error('disk full')),
      get: async () => undefined,
      delete: async () => {},
    }
    expect(await bench({ objects: full }).host(PIXEL)).toEqual([{ key: null, url: PIXEL, source: 'data:image/png' }])
  })

  test('never hosts a type that a browser could run under our origin', async () => {
    for (const type of ['text/html', 'image/svg+xml', 'application/octet-stream', '']) {
      const { host, objects } = bench({ media: async () => ({ bytes: new Uint8Array(1), type }) })
      expect(await host('https://vendor.test/a')).toEqual([
        { key: null, url: 'https://vendor.test/a', source: 'https://vendor.test/a' },
      ])
      expect(await objects.get(`${SECRET}-0.html`)).toBeUndefined()
    }
    expect((await bench().host('data:image/svg+xml,%3Csvg/%3E'))[0]).toMatchObject({
      key: null,
      source: 'data:image/svg+xml',
    })
    expect((await bench().host('data:'))[0]?.source).toBe('data:')
  })

  test('hands out no link to what is nothing of its kind, nor to what nobody can have (contract 2.26)', async () => {
    const linked = async (media: Vendors['media']) => (await bench({ media }).film('https://vendor.test/a'))[0]?.url
    expect(await linked(() => Promise.reject(new NoMedia('the media host answered 404')))).toBeNull()
    for (const type of ['text/html', 'application/json', 'image/png'])
      expect([type, await linked(async () => ({ bytes: new Uint8Array(1), type }))]).toEqual([type, null])
    const link = 'https://vendor.test/a'
    expect(await linked(() => Promise.reject(new Error('connection reset')))).toBe(link)
    for (const type of ['video/x-matroska', 'application/octet-stream', ''])
      expect([type, await linked(async () => ({ bytes: new Uint8Array(1), type }))]).toEqual([type, link])
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
    const ports = {
      objects,
      clock,
      log,
      random: countingRandom(),
      background: (work: Promise<unknown>) => void work,
      vendors: { images: () => undefined, chat: () => undefined, media: never },
    }
    expect(await mirrors({ ports, maxBytes: 1 })('job_1', undefined)).toEqual([])
  })
})

describe('mirroring a stream', () => {
  const FELL_BACK = [{ key: null, url: 'https://vendor.test/a', source: 'https://vendor.test/a' }]
  const piece = (length: number, value = 7) => new Uint8Array(length).fill(value)

  /** Gives its pieces as they are asked for; then ends, breaks, or waits without end. */
  function clip({
    type = 'video/mp4',
    pieces = [piece(3), piece(4)],
    end = 'closes' as Error | 'closes' | 'stalls',
  } = {}) {
    const seen = { requestCount: 0, left: false }
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          const next = pieces[seen.requestCount++]
          if (next) return controller.enqueue(next)
          if (end === 'stalls') return new Promise(() => {})
          if (end === 'closes') return controller.close()
          controller.error(end)
        },
        cancel: () => void (seen.left = true),
      },
      { highWaterMark: 0 },
    )
    return { seen, media: { body, type } satisfies MediaStream }
  }

  test('pours what a URL points at into the store, and never asks for it whole', async () => {
    const given: unknown[] = []
    const { host, objects } = bench({
      stream: async (url, { maxBytes }) => {
        given.push([url, maxBytes])
        return clip().media
      },
    })
    expect(await host('https://vendor.test/a', PIXEL)).toEqual([
      { key: `${SECRET}-0.mp4`, url: null, source: 'https://vendor.test/a' },
      { key: `${SECRET}-1.png`, url: null, source: 'data:image/png' },
    ])
    expect(given).toEqual([['https://vendor.test/a', 2 * 1024 ** 3]])
    expect(await objects.get(`${SECRET}-0.mp4`)).toEqual({ body: piece(7), size: 7, type: 'video/mp4' })
  })

  test('reads a piece by the stream that comes with it, instead of its URL', async () => {
    for (const [type, extension] of Object.entries({
      'video/quicktime': 'mov',
      'video/webm': 'webm',
      'audio/mpeg': 'mp3',
      'audio/wav': 'wav',
      'audio/pcm': 'pcm',
    })) {
      expect(await bench().pour(async () => clip({ type }).media)).toEqual([
        { key: `${SECRET}-0.${extension}`, url: null, source: 'https://vendor.test/a' },
      ])
    }
  })

  test('holds a stream where the store or the vendors cannot do otherwise, up to what may be held', async () => {
    const { put, get } = memoryObjects()
    const small = bench({ objects: { put, get, delete: async () => {} } })
    expect((await small.pour(async () => clip().media))[0]?.key).toBe(`${SECRET}-0.mp4`)
    expect(
      await bench({ objects: { put, get, delete: async () => {} } }).pour(
        async () => clip({ pieces: [piece(600), piece(600)] }).media,
      ),
    ).toEqual(FELL_BACK)
    const fetched = bench({
      objects: { put, get: async () => undefined, delete: async () => {} },
      stream: () => Promise.reject(new Error('not to be streamed')),
      media: async () => ({ bytes: piece(1), type: 'video/mp4' }),
    })
    expect((await fetched.host('https://vendor.test/a'))[0]?.key).toBe(`${SECRET}-0.mp4`)
  })

  test.each([
    ['breaks', { end: new Error('the vendor hung up') }, 'the vendor hung up', false],
    ['is of a type that is not hosted', { type: 'text/html' }, 'media of type text/html is not hosted', true],
    ['is larger than it may be', { pieces: Array.from({ length: 9 }, () => piece(600)) }, 'more than 5000 bytes', true],
    [
      'is an image larger than one may be',
      { type: 'image/png', pieces: [piece(600), piece(600)] },
      'more than 1000 bytes',
      true,
    ],
  ])('leaves nothing of one that %s, and falls back to its URL', async (_, given, why, isLeft) => {
    const { pour, objects, log } = bench()
    const { seen, media } = clip(given)
    let signal: AbortSignal | undefined
    const opened = pour(async (at) => {
      signal = at.signal
      return media
    })
    expect(await opened).toEqual(FELL_BACK)
    expect([seen.left, signal?.aborted, log.lines[0]?.fields.error]).toEqual([isLeft, true, why])
    for (const extension of ['mp4', 'png', 'html'])
      expect(await objects.get(`${SECRET}-0.${extension}`)).toBeUndefined()
  })

  test('leaves nothing where the store fails, and lets the vendor go', async () => {
    const { media, seen } = clip()
    const full: Objects = { ...memoryObjects(), putStream: () => Promise.reject(new Error('disk full')) }
    const { pour, log } = bench({ objects: full })
    expect(await pour(async () => media)).toEqual(FELL_BACK)
    expect([seen.left, log.lines[0]?.fields.error]).toEqual([true, 'disk full'])
  })

  test('gives up on one that never begins, or falls silent for a minute', async () => {
    const silent = bench()
    const beginning = silent.pour(() => new Promise(() => {}))
    await silent.clock.advance(60_000)
    expect(await beginning).toEqual(FELL_BACK)
    const { media, seen } = clip({ end: 'stalls' })
    const stalled = bench()
    const hosted = stalled.pour(async () => media)
    await stalled.clock.advance(59_000)
    expect(seen.left).toBe(false)
    await stalled.clock.advance(1_000)
    expect([await hosted, seen.left, stalled.clock.waiting]).toEqual([FELL_BACK, true, 0])
  })

  test('gives up on one that drips for ten minutes', async () => {
    const { pour, clock, objects } = bench()
    let drop = () => {}
    const body = new ReadableStream<Uint8Array>(
      { pull: (controller) => new Promise((resolve) => (drop = () => resolve(controller.enqueue(piece(1))))) },
      { highWaterMark: 0 },
    )
    const hosted = pour(async () => ({ body, type: 'video/mp4' }))
    for (let passed = 50_000; passed < 600_000; passed += 50_000) {
      await clock.advance(50_000)
      drop()
    }
    await clock.advance(50_000)
    expect(await hosted).toEqual(FELL_BACK)
    expect(await objects.get(`${SECRET}-0.mp4`)).toBeUndefined()
  })
})

describe('a crowd of streams', () => {
  test('goes eight at a time, in the order in which it came; a picture, and what is in our hands, wait for none of it', async () => {
    const { pour, host, clock } = bench()
    const ends: (() => void)[] = []
    const body = () =>
      new ReadableStream<Uint8Array>(
        { pull: (controller) => new Promise((resolve) => ends.push(() => resolve(controller.close()))) },
        { highWaterMark: 0 },
      )
    const hosted: number[] = []
    for (let index = 0; index < 20; index++)
      void pour(async () => ({ body: body(), type: 'video/mp4' }), 'videos').then(
        ([piece]) => piece?.key && hosted.push(index),
      )
    await clock.advance(0)
    expect(ends).toHaveLength(8)
    expect((await host(PIXEL))[0]?.key).toEndWith('.png')
    const small = { body: new Response(new Uint8Array(3)).body as ReadableStream<Uint8Array>, type: 'image/png' }
    expect((await pour(async () => small))[0]?.key).toEndWith('.png')
    for (let ended = 0; ended < 20; ended++) {
      ends[ended]?.()
      await clock.advance(0)
      expect([hosted.length, ends.length]).toEqual([ended + 1, Math.min(20, ended + 9)])
    }
    expect(hosted).toEqual(Array.from({ length: 20 }, (_, index) => index))
    expect(clock.waiting).toBe(0)
  })

  test('that drips keeps nobody waiting for more than ten minutes', async () => {
    const { pour, clock, log } = bench()
    let whenAnswerStarts = 0
    const drip: OpenMedia = async () => {
      whenAnswerStarts++
      const pull = (controller: ReadableStreamDefaultController<Uint8Array>) =>
        clock.wait(50_000).then(() => controller.enqueue(new Uint8Array(1)))
      return { body: new ReadableStream({ pull }, { highWaterMark: 0 }), type: 'video/mp4' }
    }
    const last: unknown[] = []
    const load = (size: number) => Array.from({ length: size }, () => pour(drip, 'videos'))
    void load(8)
    await clock.advance(50_000)
    void load(8)
    void pour(drip, 'videos').then((hosted) => last.push(...hosted))
    while (last.length === 0 && clock.now() < START + 3_600_000) await clock.advance(50_000)
    expect([whenAnswerStarts, clock.now() - START]).toEqual([16, 650_000])
    expect(last).toEqual([{ key: null, url: 'https://vendor.test/a', source: 'https://vendor.test/a' }])
    expect(log.lines.at(-1)?.fields.error).toBe('no download slot became free in time')
  })
})
