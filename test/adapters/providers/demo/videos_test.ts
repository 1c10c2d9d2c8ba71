import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createH264MP4Encoder } from 'h264-mp4-encoder'
import { filmOf } from '../../../../adapters/providers/demo/sketch/film.ts'
import { frameSize, momentOf, planOf, type FilmJob } from '../../../../adapters/providers/demo/sketch/film_plan.ts'
import { decodePng, encodePng } from '../../../../adapters/providers/demo/sketch/png.ts'
import { sketchVideo, type Program, type SketchVideoOptions } from '../../../../adapters/providers/demo/videos.ts'
import type { VideoJob, VideoVendor } from '../../../../core/mod.ts'
import { runLaws } from '../../../conformance/law.ts'
import { DOOMED, ENDLESS, VENDOR_SAYS, videoVendorLaws } from '../../../conformance/videos.ts'
import { testLog } from '../../../kit.ts'

const ROOM = mkdtempSync(join(tmpdir(), 'farebox-films-test-'))
const acted: (() => void)[] = []
afterAll(() => {
  for (const close of acted) close()
  rmSync(ROOM, { recursive: true })
})

const never = { signal: new AbortController().signal }
const JOB: VideoJob = { model: 'sketch', prompt: 'a red fox in the snow', seconds: 1, resolution: '480p' }
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

async function ended(from: VideoVendor, handle: string) {
  for (;;) {
    const state = await from.look(handle, never)
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

/** The film of a job, drawn in this process. */
async function film(job: Partial<FilmJob> = {}) {
  const percents: number[] = []
  const encoder = await createH264MP4Encoder()
  const made = await filmOf(
    { prompt: JOB.prompt, seconds: 1, resolution: '480p', ...job },
    { encoder, progress: (percent) => percents.push(percent) },
  )
  encoder.delete()
  return { ...made, mp4: Buffer.from(made.mp4), percents }
}

type Told = Parameters<Program>[0]

/** A vendor whose films are what `act` says; it may be told to load otherwise too. */
function acting(
  act: (job: FilmJob, told: Told) => void,
  { load, ...options }: SketchVideoOptions & { load?: (told: Told) => void } = {},
) {
  const program: Program = (told) => {
    const { job } = told.order
    const due = setImmediate(() => {
      if (job) return act(job, told)
      if (load) return load(told)
      told.hear({ ready: true })
    })
    return { stop: () => clearImmediate(due) }
  }
  const actor = sketchVideo({ program, ...options })
  acted.push(() => actor.close())
  return actor
}

const writes = ({ order, hear }: Told) => {
  writeFileSync(order.path, `a film at ${order.path}`)
  hear({ bytes: 10 })
}

runLaws('sketch video', videoVendorLaws, async () => {
  const actor = acting(({ prompt }, told) => {
    if (prompt === DOOMED) return told.hear({ error: VENDOR_SAYS })
    if (prompt === ENDLESS) return told.hear({ progress: 3 })
    writes(told)
  })
  return { open: async () => actor, close: async () => actor.close() }
})

// ── the film itself ─────────────────────────────────────────────────────────────────────────────────────────────────

/** What a player reads of an MP4: its size, its length, and where its frames and key frames are. */
function measured(mp4: Buffer) {
  const find = (type: string) => mp4.indexOf(type, 0, 'latin1') + 4
  const [mvhd, tkhd, stsz, stss, stco] = ['mvhd', 'tkhd', 'stsz', 'stss', 'stco'].map(find) as [
    number,
    number,
    number,
    number,
    number,
  ]
  return {
    order: ['ftyp', 'moov', 'mdat'].map((type) => mp4.indexOf(type, 0, 'latin1')),
    seconds: mp4.readUInt32BE(mvhd + 16) / mp4.readUInt32BE(mvhd + 12),
    size: `${mp4.readUInt32BE(tkhd + 76) / 65536}x${mp4.readUInt32BE(tkhd + 80) / 65536}`,
    frames: mp4.readUInt32BE(stsz + 8),
    keys: Array.from({ length: mp4.readUInt32BE(stss + 4) }, (_, at) => mp4.readUInt32BE(stss + 8 + at * 4)),
    /** Length and kind of the first unit of the first frame; 5 is a key frame. */
    first: { offset: mp4.readUInt32BE(stco + 8), kind: (mp4[mp4.readUInt32BE(stco + 8) + 4] as number) & 31 },
  }
}

const shapes = [
  ['480p', '16:9', 1, '854x480'],
  ['480p', '1:1', 5, '480x480'],
] as const
test.each(shapes)(
  'a film has the size and the length that are billed: %s in %s for %i s',
  async (resolution, aspectRatio, seconds, size) => {
    const { mp4, percents } = await film({ resolution, seconds, aspectRatio })
    const { order, first, ...seen } = measured(mp4)
    expect(seen).toEqual({ size, seconds, frames: seconds * 4, keys: seconds > 4 ? [1, 17] : [1] })
    expect(order).toEqual(order.toSorted((a, b) => a - b))
    expect([first.kind, first.offset > (order[2] as number)]).toEqual([5, true])
    expect([percents.length, percents.at(-1)]).toEqual([seconds * 4, 100])
  },
  20_000,
)

test('the same job is the same file, and other words or another seed make another; each says what it is', async () => {
  const films = []
  for (const job of [{}, {}, { prompt: 'a café at night ☾' }, { seed: 7 }])
    films.push((await film({ aspectRatio: '1:1', ...job })).mp4)
  expect(films[1]?.equals(films[0] as Buffer)).toBe(true)
  expect(new Set(films.map((bytes) => Bun.hash(bytes))).size).toBe(3)
  expect(films[2]?.toString()).toContain('Procedural sketch, no model: a café at night ☾')
}, 20_000)

test('a film ends with the last frame that was given, over its label, and hands that frame back when asked', async () => {
  const blue = {
    width: 160,
    height: 120,
    data: new Uint8Array(160 * 120 * 4).map((_, at) => [20, 40, 200, 255][at % 4] as number),
  }
  const picture = `data:image/png;base64,${Buffer.from(await encodePng(blue)).toString('base64')}`
  const frame = decodePng(
    (await film({ image: picture, lastFrame: picture, returnLastFrame: true })).lastFrame as Uint8Array,
  )
  expect([frame.width, frame.height]).toEqual([640, 480])
  expect([...frame.data.subarray(0, 4)]).toEqual([20, 40, 200, 255])
  expect([...frame.data.subarray(-640 * 40 * 4).subarray(0, 4)]).toEqual([246, 237, 218, 255])
})

test('a picture that cannot be read, or a link, never stops a film', async () => {
  const { mp4 } = await film({
    image: 'data:image/bmp;base64,Qk0AAAAA',
    lastFrame: 'https://example.com/a.png',
    unseen: 'references not shown: 2',
    aspectRatio: '1:1',
  })
  expect(measured(mp4).seconds).toBe(1)
})

test.each([
  ['process', false],
  ['thread', true],
])(
  'a film that is drawn in a %s of its own is the same',
  async (_, thread) => {
    const vendor = sketchVideo({ thread })
    acted.push(() => vendor.close())
    const picture = `data:image/png;base64,${'A'.repeat(3_000_000)}`
    const { handle } = await vendor.submit({ ...JOB, aspectRatio: '1:1', image: picture }, never)
    expect(await ended(vendor, handle)).toEqual({ kind: 'done', seconds: 1 })
    expect((await read(vendor, handle)).equals((await film({ aspectRatio: '1:1', image: 'data:,' })).mp4)).toBe(true)
  },
  20_000,
)

const sizes = [
  ['480p', '16:9', 854, 480],
  ['720p', '16:9', 1280, 720],
  ['1080p', '16:9', 1920, 1080],
  ['4K', '16:9', 3840, 2160],
  ['4K', '9:16', 2160, 3840],
  ['720p', '4:3', 960, 720],
  ['720p', '3:4', 720, 960],
  ['720p', '2:3', 720, 1080],
  ['720p', '21:9', 1680, 720],
  ['4K', '21:9', 3840, 1646],
  ['480p', 'adaptive', 854, 480],
] as const
test.each(sizes)('%s in %s is %ix%i', (resolution, aspectRatio, width, height) => {
  expect(frameSize({ resolution, aspectRatio })).toEqual({ width, height })
})

test('without a ratio a film follows its picture, as far as 21:9', () => {
  expect(frameSize({ resolution: '720p' }, { width: 300, height: 400 })).toEqual({ width: 720, height: 960 })
  expect(frameSize({ resolution: '480p', aspectRatio: 'adaptive' }, { width: 9000, height: 10 })).toEqual({
    width: 1120,
    height: 480,
  })
  expect(frameSize({ resolution: '480p', aspectRatio: '16:9' }, { width: 10, height: 10 })).toEqual({
    width: 854,
    height: 480,
  })
})

test('every scene is seen, in order, and a film begins and ends unmixed', () => {
  for (const [resolution, seconds] of [
    ['480p', 1],
    ['480p', 8],
    ['720p', 30],
    ['4K', 1],
    ['4K', 15],
  ] as const) {
    const plan = planOf({ prompt: '', seconds, resolution })
    const moments = Array.from({ length: plan.frames }, (_, frame) => momentOf(plan, frame))
    expect([...new Set(moments.map(({ scene }) => scene))]).toEqual(Array.from({ length: plan.scenes }, (_, at) => at))
    expect([moments[0]?.mixed, moments.at(-1)?.mixed]).toEqual([0, 0])
    for (const { mixed, pan, scene } of moments)
      expect([mixed >= 0 && mixed < 1, pan(scene) >= 0 && pan(scene) <= 1]).toEqual([true, true])
  }
})

// ── the queue, the process and the files ────────────────────────────────────────────────────────────────────────────

test.each([{ seconds: 0 }, { seconds: 31 }, { seconds: 1.5 }, { resolution: '8K' }, { aspectRatio: '0:9' }])(
  'sketch refuses what nobody sells: %j',
  (job) => {
    expect(acting(() => {}).submit({ ...JOB, ...job }, never)).rejects.toThrow('sketch films')
  },
)

test('films are drawn one after another, and more than may wait are refused', async () => {
  const actor = acting((_, { hear }) => hear({ progress: 40 }), { waiting: 2 })
  const handles: string[] = []
  for (let at = 0; at < 3; at++) handles.push((await actor.submit(JOB, never)).handle)
  expect(actor.submit(JOB, never)).rejects.toThrow('too many sketches are waiting')
  await turn()
  const states = await Promise.all(handles.map((handle) => actor.look(handle, never)))
  const queued = { kind: 'running', status: 'queued' }
  expect(states as unknown[]).toEqual([{ kind: 'running', status: 'in_progress', progress: 40 }, queued, queued])
})

test('an encoder that cannot be loaded is said at submission, and looked for again next time', async () => {
  const answers = [{ error: 'Cannot find package' }, { ready: true }] as const
  let asked = 0
  const actor = acting((_, told) => writes(told), {
    load: ({ hear }) => hear(answers[asked++] ?? { error: 'asked too often' }),
  })
  const words = 'the sketch cannot film: its encoder, h264-mp4-encoder, could not be loaded (Cannot find package)'
  await expect(actor.submit(JOB, never)).rejects.toThrow(words)
  for (let at = 0; at < 2; at++) expect((await ended(actor, (await actor.submit(JOB, never)).handle)).kind).toBe('done')
})

test('an aborted submission does not wait for the encoder, and leaves no film', async () => {
  const actor = acting(() => {}, { load: () => {} })
  const controller = new AbortController()
  const work = actor.submit(JOB, controller)
  controller.abort(new Error('gone'))
  expect(work).rejects.toThrow('gone')
})

test('a film that takes too long, or whose process dies, fails with the reason in the log, and the next one is drawn', async () => {
  const log = testLog()
  const fates: Record<string, (told: Told) => void> = {
    slow: () => {},
    dead: ({ died }) => died('its process ended with 3'),
    fine: writes,
  }
  const actor = acting(({ prompt }, told) => fates[prompt]?.(told), { limitMs: 20, log })
  const handles = []
  for (const prompt of Object.keys(fates)) handles.push((await actor.submit({ ...JOB, prompt }, never)).handle)
  const states = []
  for (const handle of handles) states.push(await ended(actor, handle))
  expect(states).toEqual([
    { kind: 'failed', reason: 'The sketch took too long to draw.' },
    { kind: 'failed', reason: 'The sketch could not be drawn.' },
    { kind: 'done', seconds: 1 },
  ])
  expect(JSON.stringify(log)).toContain('its process ended with 3')
})

test('a clip can be read again, until newer ones take its place, the read ones first', async () => {
  const dir = join(ROOM, 'shelf')
  const actor = acting((_, told) => writes(told), { kept: 2, dir })
  const handles: string[] = []
  for (let at = 0; at < 3; at++) {
    const { handle } = await actor.submit(JOB, never)
    handles.push(handle)
    await ended(actor, handle)
    if (at === 1) expect(await read(actor, handle)).toEqual(await read(actor, handle))
  }
  const kinds = await Promise.all(handles.map(async (handle) => (await actor.look(handle, never)).kind))
  expect([kinds, readdirSync(dir).length]).toEqual([['done', 'failed', 'done'], 2])
  expect(actor.clip?.(handles[1] as string, never)).rejects.toThrow('no such sketch')
})

test('closing ends the process that draws, which had no environment, and deletes every film', async () => {
  const dir = join(ROOM, 'closing')
  const seen = join(ROOM, 'seen.json')
  const program = join(ROOM, 'program.ts')
  writeFileSync(
    program,
    `import { writeFileSync } from 'node:fs'
    process.on('message', ({ job, path }) => {
      if (!job) return process.send({ ready: true })
      writeFileSync(path, 'half a film')
      writeFileSync(${JSON.stringify(seen)}, JSON.stringify([process.pid, Object.keys(process.env)]))
      process.send({ progress: 1 })
    })`,
  )
  const actor = sketchVideo({ program: pathToFileURL(program), dir })
  acted.push(() => actor.close())
  const { handle } = await actor.submit({ ...JOB, prompt: 'hang' }, never)
  for (
    let state = await actor.look(handle, never);
    state.kind === 'running' && state.progress !== 1;
    state = await actor.look(handle, never)
  )
    await turn()
  const [pid, names] = JSON.parse(readFileSync(seen, 'utf8')) as [number, string[]]
  const lives = () => existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  expect([lives(), names.filter((name) => !name.startsWith('NODE_CHANNEL'))]).toEqual([true, []])
  actor.close()
  while (lives()) await turn()
  expect(readdirSync(dir)).toEqual([])
  expect(await actor.look(handle, never)).toEqual({ kind: 'failed', reason: 'The sketch was lost with its process.' })
  expect(actor.submit(JOB, never)).rejects.toThrow('closed')
})
