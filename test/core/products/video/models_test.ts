/** The catalog of videos: how it is listed, found by its aliases, and changed by an operator. */
import { describe, expect, test } from 'bun:test'
import { scriptedVideo } from '../../../fakes/videos.ts'
import type { VideoRow } from '../../../../core/ports/vendors/video.ts'
import { videoRows } from '../../../../core/products/video/catalog.ts'
import { overrideVideos, type VideoOverride } from '../../../../core/products/video/overrides.ts'
import { video } from '../../../../core/products/video/generations.ts'
import type { Offering } from '../../../../core/endpoint/mod.ts'
import { catalog } from '../../../../core/mod.ts'
import { kit, type KitOptions, ORIGIN, read } from '../../../kit.ts'

const GENERATIONS = '/api/v1/videos/generations'
const vendor = scriptedVideo()
const gateway = (options: KitOptions = {}) =>
  kit({ endpoints: video, ports: { vendors: { video: () => vendor } }, ...options })
const get = async (path: string, subject = gateway()) =>
  await read(await subject.gateway.fetch(new Request(ORIGIN + path), { ip: '192.0.2.7' }))
const listed = async (options: KitOptions = {}): Promise<any[]> =>
  (await get('/api/v1/video/models', gateway(options))).body.data

const TABLE = [
  // Contract 12.10: id, shortest, longest and usual length, resolutions, usual resolution, sound, enrolled characters.
  ['vendor-f/video-1', 4, 12, 4, ['720p'], '720p', true, false],
  ['vendor-c/video-1', 1, 15, 8, ['480p', '720p'], '480p', false, false],
  ['vendor-c/video-1.5', 1, 15, 8, ['480p', '720p', '1080p'], '480p', true, false],
  ['vendor-e/video-1.5-pro', 4, 12, 5, ['480p', '720p', '1080p'], '720p', true, false],
  ['vendor-e/video-2.0-mini', 4, 15, 5, ['480p', '720p'], '720p', true, true],
  ['vendor-e/video-2.0-fast', 4, 15, 5, ['480p', '720p'], '720p', true, true],
  ['vendor-e/video-2.0', 4, 15, 5, ['480p', '720p', '1080p', '4K'], '720p', true, true],
  ['vendor-e/video-2.5', 4, 30, 5, ['480p', '720p'], '720p', true, false],
]

describe('GET /api/v1/video/models', () => {
  test('lists the eight models of the contract, in its order, with what its table says (contract 12.6)', async () => {
    const rows = (await listed()).map((row) => [
      row.id,
      row.min_duration_seconds,
      row.max_duration_seconds,
      row.default_duration_seconds,
      row.resolutions,
      row.defaultResolution,
      row.synced_audio,
      row.asset_id,
    ])
    expect(rows).toEqual(TABLE)
  })

  test('gives every field of a model, its rates as numbers (contract 12.6)', async () => {
    const all = await listed()
    expect(all.find(({ id }) => id === 'vendor-c/video-1.5')).toEqual({
      id: 'vendor-c/video-1.5',
      object: 'model',
      name: 'Video 1.5',
      owned_by: 'vendor-c',
      min_duration_seconds: 1,
      max_duration_seconds: 15,
      default_duration_seconds: 8,
      resolutions: ['480p', '720p', '1080p'],
      defaultResolution: '480p',
      aspect_ratios: ['16:9', '9:16', '1:1', '4:3', '3:4', '3:2', '2:3'],
      image_to_video: true,
      synced_audio: true,
      last_frame: false,
      reference_media: false,
      asset_id: false,
      pricePerSecond: 0.08,
      pricePerSecondByResolution: { '480p': 0.08, '720p': 0.14, '1080p': 0.25 },
      perGenerationFee: 0.001,
      transaction_fee: 0.001,
    })
    expect(all.find(({ id }) => id === 'vendor-f/video-1')).toMatchObject({
      durations: [4, 8, 12],
      pricePerSecond: 0.1,
      perGenerationFee: 0,
      aspect_ratios: [],
    })
    expect(all.find(({ id }) => id === 'vendor-e/video-2.0')).toMatchObject({
      pricePerSecond: 0.216281835,
      price_per_million_tokens: 9.9715,
      last_frame: true,
      reference_media: true,
    })
    expect(all.filter((row) => 'pricePerSecondByResolution' in row).map(({ id }) => id)).toEqual([
      'vendor-c/video-1',
      'vendor-c/video-1.5',
    ])
    expect(all.filter(({ last_frame }) => last_frame).map(({ id }) => id)).toEqual([
      'vendor-e/video-1.5-pro',
      'vendor-e/video-2.0-mini',
      'vendor-e/video-2.0-fast',
      'vendor-e/video-2.0',
    ])
    expect(all.filter(({ reference_media }) => reference_media).map(({ id }) => id)).toEqual([
      'vendor-e/video-2.0-mini',
      'vendor-e/video-2.0-fast',
      'vendor-e/video-2.0',
    ])
  })

  test('leaves out what is hidden, retired or made by nobody here', async () => {
    const rows = videoRows.map((row) => ({
      ...row,
      ...(row.family === 'f' && { hidden: true }),
      ...(row.family === 'c' && { retired: true }),
    }))
    expect((await listed({ catalog: catalog({ video: rows }) })).map(({ owned_by }) => owned_by)).toEqual(
      Array(5).fill('vendor-e'),
    )
    expect(await listed({ ports: { vendors: { video: () => undefined } } })).toEqual([])
    expect(await listed({ ports: {} })).toEqual([])
    const oneVendor = { video: (row: VideoRow) => (row.vendor === 'vendor-f' ? vendor : undefined) }
    expect((await listed({ ports: { vendors: oneVendor } })).map(({ id }) => id)).toEqual(['vendor-f/video-1'])
  })

  test('answers one address a hundred times an hour (contract 12.6)', async () => {
    const subject = gateway()
    const statuses = await Promise.all(
      Array.from({ length: 101 }, async () => (await get('/api/v1/video/models', subject)).status),
    )
    expect(statuses.filter((status) => status === 200).length).toBe(100)
    expect(statuses.filter((status) => status === 429).length).toBe(1)
    await subject.clock.advance(3_600_000)
    expect((await get('/api/v1/video/models', subject)).status).toBe(200)
  })
})

describe('GET /api/v1/videos/generations without payment', () => {
  test('is the discovery 402 at the default price (contract 12.7)', async () => {
    const { status, body, headers } = await get(GENERATIONS)
    expect([status, body.price.amount, body.accepts[0].amount]).toEqual([402, '0.402000', '402000'])
    expect(headers.get('payment-required')).toBeString()
    expect(body.catalog).toEqual((await get('/api/v1/video/models')).body)
    const rates = body.catalog.data
      .filter(({ owned_by }: { owned_by: string }) => owned_by === 'vendor-c')
      .map((row: any) => [row.pricePerSecondByResolution, row.defaultResolution, row.perGenerationFee])
    expect(rates).toEqual([
      [{ '480p': 0.05, '720p': 0.07 }, '480p', 0.001],
      [{ '480p': 0.08, '720p': 0.14, '1080p': 0.25 }, '480p', 0.001],
    ])
  })

  test('has the word from which that 402 shows the catalog: the same as the free listing', async () => {
    const [generations] = video
    const { discovery } = generations as unknown as { discovery(offering: Offering): unknown }
    const { ports } = gateway()
    expect(discovery({ catalog: catalog(), vendors: ports.vendors })).toEqual({
      catalog: (await get('/api/v1/video/models')).body,
    })
  })
})

describe('aliases', () => {
  test('find their rows, in dotted and dashed spelling, and reply with the id of the contract', async () => {
    const { video } = catalog()
    const pairs = {
      'xai/grok-imagine-video': 'vendor-c/video-1',
      'xai/grok-imagine-video-1.5': 'vendor-c/video-1.5',
      'openai/sora-2': 'vendor-f/video-1',
      'azure/sora-2': 'vendor-f/video-1',
      'bytedance/seedance-1.5-pro': 'vendor-e/video-1.5-pro',
      'bytedance/seedance-2-0': 'vendor-e/video-2.0',
    }
    for (const [alias, id] of Object.entries(pairs)) expect([alias, video.get(alias)?.id]).toEqual([alias, id])
    expect(video.get('constructor')).toBeUndefined()
  })
})

// ── what an operator changes ────────────────────────────────────────────────────────────────────────────────────────

const C1 = 'vendor-c/video-1'
const E2 = 'vendor-e/video-2.0'
const NEW: VideoOverride = {
  id: 'house/reel',
  vendor: 'local',
  upstream: 'reel-9',
  family: 'c',
  rates: { perSecondByResolution: { '480p': '0.01', '720p': '0.02' } },
}

const mistakes = (...overrides: readonly VideoOverride[]) => overrideVideos(videoRows, overrides).mistakes
function rowsWith(...overrides: readonly VideoOverride[]): readonly VideoRow[] {
  const made = overrideVideos(videoRows, overrides)
  expect(made.mistakes).toEqual([])
  return made.rows
}
const rowWith = (id: string, ...overrides: readonly VideoOverride[]): VideoRow =>
  rowsWith(...overrides).find((row) => row.id === id) ?? expect.unreachable()
const quote = async (rows: readonly VideoRow[], body: object) =>
  (
    await gateway({ catalog: catalog({ video: rows }) })
      .buyer()
      .ask({ prompt: 'a red fox', ...body }, { path: GENERATIONS })
  ).body

describe('an override', () => {
  test('without fields changes nothing', () => {
    expect(rowsWith()).toEqual([...videoRows])
    expect(rowsWith({ id: C1 })).toEqual([...videoRows])
  })

  test('changes what it names, and leaves the rest of the row and the other rows alone', () => {
    const changes: readonly Omit<VideoOverride, 'id' | 'rates' | 'redirect'>[] = [
      { aliases: ['a'] },
      { name: 'Reel' },
      { maker: 'house' },
      { vendor: 'local' },
      { upstream: 'reel-9' },
      { hidden: true },
      { retired: true },
      { ratios: ['1:1'] },
      { seconds: { min: 2, max: 4, usual: 3 } },
    ]
    for (const change of changes) {
      const known = (row: VideoRow) => (row.id === C1 ? { ...row, ...change } : row)
      expect(rowsWith({ id: C1, ...change })).toEqual(videoRows.map(known))
    }
  })

  test('of the rates changes the quote, and how it is made', async () => {
    expect(
      (await quote(rowsWith({ id: C1, rates: { perSecondByResolution: { '480p': '0.5', '720p': '1' } } }), {})).price
        .amount,
    ).toBe('4.001000')
    expect((await quote(rowsWith({ id: C1, rates: { perSecond: '0.5' } }), {})).price.amount).toBe('4.201000')
    // 8*21690*0.5/1e6*1.05 = 0.091098
    expect((await quote(rowsWith({ id: C1, rates: { perMillionTokens: '1' } }), {})).price.amount).toBe('0.092098')
  })

  test('that leaves a resolution without a rate, or is malformed, is refused with its row and field', () => {
    const wrong: readonly [Omit<VideoOverride, 'id'>, string][] = [
      [{ resolutions: ['480p', '1080p'] }, `videos ${C1}.rates: none for 1080p`],
      [{ rates: { perSecondByResolution: { '480p': '1' } } }, `videos ${C1}.rates: none for 720p`],
      [{ resolutions: ['8K', '480p'] }, `videos ${C1}.resolutions: must be of 480p, 720p, 1080p, 4K, got 8K`],
      [{ usualResolution: '4K' }, `videos ${C1}.usualResolution: must be one of its resolutions, got 4K`],
      [{ rates: { perSecond: 'cheap' } }, `videos ${C1}.rates: not a decimal amount: "cheap"`],
      [
        { seconds: { min: 5, max: 4, usual: 5 } },
        `videos ${C1}.seconds: whole numbers are needed, min <= usual <= max, and usual one of only`,
      ],
      [
        { seconds: { min: 1, max: 4, usual: 2.5 } },
        `videos ${C1}.seconds: whole numbers are needed, min <= usual <= max, and usual one of only`,
      ],
      [
        { seconds: { min: 4, max: 12, only: [4, 8], usual: 5 } },
        `videos ${C1}.seconds: whole numbers are needed, min <= usual <= max, and usual one of only`,
      ],
    ]
    for (const [change, mistake] of wrong) expect(mistakes({ id: C1, ...change })).toEqual([mistake])
    expect(mistakes({ id: C1 }, { id: C1 })).toEqual([`videos: two entries change ${C1}`])
    expect(mistakes({ id: C1, aliases: [E2] })).toEqual([`videos: two rows are called ${E2}`])
  })
})

describe('a new row', () => {
  test('needs a vendor, an upstream id, a family and rates; the rest is its family’s', async () => {
    expect(rowWith('house/reel', NEW)).toMatchObject({
      name: 'house/reel',
      maker: 'local',
      family: 'c',
      aliases: [],
      seconds: { min: 1, max: 15, usual: 8 },
      usualResolution: '480p',
      audio: false,
    })
    for (const missing of ['vendor', 'upstream', 'family', 'rates'] as const) {
      const { [missing]: _, ...rest } = NEW
      expect([missing, mistakes(rest as VideoOverride)]).toEqual([
        missing,
        [`videos house/reel: not in the built-in catalog, so ${missing} is required`],
      ])
    }
    expect((await quote(rowsWith(NEW), { model: 'house/reel' })).price.amount).toBe('0.081000')
  })
})

describe('a redirection', () => {
  test('keeps the name and what both make, at the rates of the row that does the work', async () => {
    const rows = rowsWith({ id: E2, redirect: 'vendor-e/video-2.0-fast' })
    const row = rows.find(({ id }) => id === E2)
    expect(row).toMatchObject({
      id: E2,
      upstream: 'dreamina-seedance-2-0-fast-260128',
      resolutions: ['480p', '720p'],
      servedBy: 'vendor-e/video-2.0-fast',
      references: true,
    })
    expect((await quote(rows, { model: E2 })).price.amount).toBe('0.826804')
    expect((await quote(rows, { model: E2, resolution: '4K' })).error).toBe('Invalid request body')
  })

  test('takes away what the other row cannot do, and lengths that only one of them makes', () => {
    expect(rowWith(E2, { id: E2, redirect: 'vendor-e/video-1.5-pro' })).toMatchObject({
      lastFrame: true,
      references: false,
      assets: false,
      seconds: { min: 4, max: 12, usual: 5 },
    })
    expect(rowWith('vendor-e/video-2.5', { id: 'vendor-e/video-2.5', redirect: 'vendor-f/video-1' }).seconds).toEqual({
      min: 4,
      max: 12,
      usual: 4,
      only: [4, 8, 12],
    })
  })

  test('to an unknown model, to itself, to another redirection or to a more expensive model is refused (contract 21.11)', () => {
    expect(mistakes({ id: C1, redirect: 'nobody' })).toEqual([
      `videos ${C1}.redirect: there is no other row called nobody`,
    ])
    expect(mistakes({ id: C1, redirect: C1 })).toEqual([`videos ${C1}.redirect: there is no other row called ${C1}`])
    expect(mistakes({ id: C1, redirect: 'vendor-c/video-1.5' })).toEqual([
      `videos ${C1}.redirect: vendor-c/video-1.5 costs more at 480p, 720p`,
    ])
    expect(
      mistakes(
        { id: E2, redirect: 'vendor-e/video-2.0-fast' },
        { id: 'vendor-e/video-2.0-fast', redirect: 'vendor-e/video-2.0-mini' },
      )[0],
    ).toContain('is redirected itself')
    expect(mistakes({ id: C1, seconds: { min: 1, max: 3, usual: 2 }, redirect: 'vendor-f/video-1' })).toEqual([
      `videos ${C1}.redirect: vendor-f/video-1 makes none of its lengths`,
    ])
  })
})
