import { describe, expect, test } from 'bun:test'
import { film as filmOf, frameSize } from '../../../../server/devnet/demo/film.ts'
import { FRAMES_PER_SECOND } from '../../../../server/devnet/demo/mp4.ts'
import { type DemoVideosOptions, demoVideos } from '../../../../server/devnet/demo/videos.ts'
import { decodePng, encodePng } from '../../../../adapters/providers/lib/png.ts'
import type { VideoJob, VideoVendor } from '../../../../core/mod.ts'
import { runLaws } from '../../../conformance/law.ts'
import { DOOMED, ENDLESS, UPSTREAM_TEXT, videoVendorLaws } from '../../../conformance/videos.ts'
import { testLog } from '../../../kit.ts'

const never = { signal: new AbortController().signal }
const JOB: VideoJob = { model: 'demo', prompt: 'a red fox in the snow', seconds: 1, resolution: '480p' }
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

async function ended(from: VideoVendor, handle: string) {
  for (;;) {
    const state = await from.pollUpstream(handle, never)
    if (state.kind !== 'running') return state
    await turn()
  }
}

async function read(from: VideoVendor, handle: string): Promise<Buffer> {
  const clip = await from.clip?.(handle, never)
  const bytes = Buffer.from(await new Response(clip?.body).arrayBuffer())
  expect([clip?.type, clip?.size]).toEqual(['video/mp4', bytes.length])
  return bytes
}

const film = async (more: Partial<VideoJob> = {}) => {
  const made = await filmOf({ ...JOB, ...more })
  return { ...made, mp4: Buffer.from(made.mp4) }
}

/** A vendor whose films are made by `makeFilm`. */
const acting = (makeFilm: (job: VideoJob) => Promise<{ mp4: Uint8Array }>, options: DemoVideosOptions = {}) =>
  demoVideos({ ...options, makeFilm: makeFilm as typeof filmOf })
const made = async () => ({ mp4: new Uint8Array(100) })
const endless = () => new Promise<never>(() => {})

runLaws('demo videos', videoVendorLaws, async () => {
  const actor = acting(async ({ prompt }) => {
    if (prompt === DOOMED) throw new Error(UPSTREAM_TEXT)
    return prompt === ENDLESS ? await endless() : await made()
  })
  return { open: async () => actor, close: async () => {} }
})

// ── the film itself ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Facts that a player reads of an MP4: its size, its length, and where its frames and key frames are. */
function measured(mp4: Buffer) {
  const [mvhd, tkhd, stsz, stss, stco] = ['mvhd', 'tkhd', 'stsz', 'stss', 'stco'].map(
    (type) => mp4.indexOf(type, 0, 'latin1') + 4,
  ) as [number, number, number, number, number]
  const first = mp4.readUInt32BE(stco + 8)
  const frames = mp4.readUInt32BE(stsz + 8)
  const kinds: number[] = []
  let at = first
  for (let frame = 0; frame < frames; frame++) {
    kinds.push((mp4[at + 4] as number) & 31)
    expect(mp4.readUInt32BE(at) + 4).toBe(mp4.readUInt32BE(stsz + 12 + 4 * frame))
    at += mp4.readUInt32BE(at) + 4
  }
  expect(at).toBe(mp4.length)
  return {
    order: ['ftyp', 'moov', 'mdat'].map((type) => mp4.indexOf(type, 0, 'latin1')),
    seconds: mp4.readUInt32BE(mvhd + 16) / mp4.readUInt32BE(mvhd + 12),
    size: `${mp4.readUInt32BE(tkhd + 76) / 65536}x${mp4.readUInt32BE(tkhd + 80) / 65536}`,
    keys: [mp4.readUInt32BE(stss + 4), mp4.readUInt32BE(stss + 8)],
    kinds,
  }
}

describe('a film', () => {
  test.each([
    ['480p', '16:9', 1, '854x480'],
    ['480p', '1:1', 30, '480x480'],
    ['4K', '9:16', 1, '2160x3840'],
  ] as const)(
    'has the size and the length that are billed: %s in %s for %i s',
    async (resolution, aspectRatio, seconds, size) => {
      const { mp4 } = await film({ resolution, seconds, aspectRatio })
      const { order, kinds, ...seen } = measured(mp4)
      // 5 is a key frame, 1 is one that builds on the frame before it.
      expect([seen, kinds]).toEqual([
        { size, seconds, keys: [1, 1] },
        [5, ...Array(seconds * FRAMES_PER_SECOND - 1).fill(1)],
      ])
      expect(order).toEqual(order.toSorted((a, b) => a - b))
    },
  )

  test('is the same file for the same job, another for other words or another seed', async () => {
    const films: Buffer[] = []
    for (const more of [{}, {}, { prompt: 'a café at night ☾' }, { seed: 7 }])
      films.push((await film({ aspectRatio: '1:1', ...more })).mp4)
    expect([films[1]?.equals(films[0] as Buffer), new Set(films.map((bytes) => Bun.hash(bytes))).size]).toEqual([
      true,
      3,
    ])
  })

  test('ends with the last frame that was given, labelled, and hands that frame back when asked', async () => {
    const blue = {
      width: 160,
      height: 120,
      data: new Uint8Array(160 * 120 * 4).map((_, at) => [20, 40, 200, 255][at % 4] as number),
    }
    const picture = `data:image/png;base64,${Buffer.from(await encodePng(blue)).toString('base64')}`
    const frame = await decodePng(
      (await film({ image: picture, lastFrame: picture, returnLastFrame: true })).lastFrame as Uint8Array,
    )
    const [top, foot] = [frame.data.subarray(0, 4), frame.data.subarray(-640 * 10 * 4).subarray(0, 4)]
    expect([frame.width, frame.height, [...top], [...foot]]).toEqual([
      640,
      480,
      [20, 40, 200, 255],
      [246, 237, 218, 255],
    ])
  })

  test('is never stopped by a picture that cannot be read, or by a link', async () => {
    const { mp4 } = await film({
      image: 'data:image/bmp;base64,Qk0AAAAA',
      lastFrame: 'https://example.com/a.png',
      referenceImages: ['https://example.com/b.png'],
      aspectRatio: '1:1',
    })
    expect(measured(mp4).seconds).toBe(1)
  })

  const sizes = [
    ['480p', '16:9', 854, 480],
    ['720p', '16:9', 1280, 720],
    ['1080p', '16:9', 1920, 1080],
    ['4K', '16:9', 3840, 2160],
    ['4K', '9:16', 2160, 3840],
    ['720p', '4:3', 960, 720],
    ['720p', '2:3', 720, 1080],
    ['720p', '21:9', 1680, 720],
    ['4K', '21:9', 3840, 1646],
    ['480p', 'adaptive', 854, 480],
  ] as const
  test.each(sizes)('in %s and %s is %ix%i', (resolution, aspectRatio, width, height) => {
    expect(frameSize({ resolution, aspectRatio })).toEqual({ width, height })
  })

  test('without a ratio follows its picture, as far as 21:9', () => {
    expect(frameSize({ resolution: '720p' }, { width: 300, height: 400 })).toEqual({ width: 720, height: 960 })
    expect(frameSize({ resolution: '480p', aspectRatio: 'adaptive' }, { width: 9000, height: 10 })).toEqual({
      width: 1120,
      height: 480,
    })
  })
})

// ── the vendor ──────────────────────────────────────────────────────────────────────────────────────────────────────

describe('demoVideos()', () => {
  test('makes the film that was ordered, and streams it', async () => {
    const vendor = demoVideos()
    const { handle } = await vendor.submit({ ...JOB, aspectRatio: '1:1' }, never)
    expect(await ended(vendor, handle)).toEqual({ kind: 'done', seconds: 1, requestId: handle })
    expect((await read(vendor, handle)).equals((await film({ aspectRatio: '1:1' })).mp4)).toBe(true)
  })

  test.each([{ seconds: 0 }, { seconds: 31 }, { seconds: 1.5 }, { resolution: '8K' }, { aspectRatio: '0:9' }])(
    'refuses what nobody sells: %j',
    async (job) => {
      await expect(acting(made).submit({ ...JOB, ...job }, never)).rejects.toThrow('the demo films')
    },
  )

  test('films one after another; more than may wait are BUSY', async () => {
    const actor = acting(endless, { waiting: 2 })
    const handles: string[] = []
    for (let at = 0; at < 3; at++) handles.push((await actor.submit(JOB, never)).handle)
    await expect(actor.submit(JOB, never)).rejects.toMatchObject({ code: 'BUSY' })
    expect([actor.isFull?.(), acting(endless, { waiting: 2 }).isFull?.()]).toEqual([true, false])
    const states: unknown[] = await Promise.all(handles.map((handle) => actor.pollUpstream(handle, never)))
    const queued = { kind: 'running', status: 'queued' }
    expect(states).toEqual([{ kind: 'running', status: 'in_progress', progress: 50 }, queued, queued])
  })

  test('a film that cannot be made fails with the reason in the log, and the next one is made', async () => {
    const log = testLog()
    const actor = acting(
      async ({ prompt }) => {
        if (prompt === 'dead') throw new Error('boom')
        return await made()
      },
      { log },
    )
    const handles = [await actor.submit({ ...JOB, prompt: 'dead' }, never), await actor.submit(JOB, never)]
    const states = [await ended(actor, handles[0]?.handle ?? ''), await ended(actor, handles[1]?.handle ?? '')]
    expect(states).toEqual([
      { kind: 'failed', reason: 'The demo film could not be made.' },
      { kind: 'done', seconds: 1, requestId: handles[1]?.handle ?? '' },
    ])
    expect(JSON.stringify(log)).toContain('boom')
  })

  test('a clip can be read again, until newer ones take its place', async () => {
    const actor = acting(made, { maxFilms: 2 })
    const handles: string[] = []
    for (let at = 0; at < 3; at++) {
      const { handle } = await actor.submit(JOB, never)
      handles.push(handle)
      await ended(actor, handle)
      expect(await read(actor, handle)).toEqual(await read(actor, handle))
    }
    expect(await Promise.all(handles.map(async (handle) => (await actor.pollUpstream(handle, never)).kind))).toEqual([
      'failed',
      'done',
      'done',
    ])
    await expect(actor.clip?.(handles[0] as string, never) ?? Promise.resolve()).rejects.toThrow(
      'there is no demo film',
    )
  })
})
