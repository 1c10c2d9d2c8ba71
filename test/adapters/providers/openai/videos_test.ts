import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { clipStream } from '../../../../adapters/http/clip_stream.ts'
import type { FetchMedia } from '../../../../adapters/http/media_download.ts'
import { openaiVideos } from '../../../../adapters/providers/openai/videos.ts'
import { pictureResizer } from '../../../../adapters/providers/lib/resize.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { CLIP_BYTES, clipOf } from '../../../fakes/videos.ts'
import { ApiError } from '../../../../core/mod.ts'
import { recognize } from '../../../../core/lib/image_bytes.ts'
import { runLaws } from '../../../conformance/law.ts'
import { CLIP_JOB, UPSTREAM_TEXT, videoVendorLaws } from '../../../conformance/videos.ts'
import { calm, flood, greyImages, HEIC, KEY, outcome, type Seen, setup, until } from '../lib/provider_kit.ts'
import { type ErrorFormat, FULL, readings, STATES, studioSubject, vendorOn } from '../lib/video_kit.ts'

const took = () => Response.json({ id: 'video_1', status: 'queued' })
const JOB = { ...CLIP_JOB, model: 'sora-2', resolution: '720p' }
const grey = (size: string) => `data:image/png;base64,${greyImages(size)[0]}`
const MP4 = new TextDecoder('latin1').decode(CLIP_BYTES)
const bytesOf = (uri: string) => Buffer.from(uri.slice(uri.indexOf(',') + 1), 'base64')

/** Fields of a form, files as their type and size. */
function fieldsOf({ form }: Seen): Record<string, string> {
  return Object.fromEntries(
    [...(form as FormData)].map(([name, value]) => [
      name,
      typeof value === 'string' ? value : `${value.type} ${value.size}`,
    ]),
  )
}

describe('requests of openaiVideos()', () => {
  test('is a form, its seconds as text and landscape without a reason for portrait', async () => {
    const { server, vendor } = vendorOn(openaiVideos, took)
    expect(await vendor.submit(JOB, calm())).toEqual({ handle: 'video_1' })
    const [seen] = server.seen as [Seen]
    expect([seen.method, seen.path, seen.headers.get('authorization')]).toEqual(['POST', '/videos', `Bearer ${KEY}`])
    expect(fieldsOf(seen)).toEqual({ model: 'sora-2', prompt: JOB.prompt, seconds: '4', size: '1280x720' })
  })

  test.each([
    ['9:16', undefined, '720x1280'],
    ['3:4', undefined, '720x1280'],
    ['16:9', undefined, '1280x720'],
    ['1:1', undefined, '1280x720'],
    ['adaptive', undefined, '1280x720'],
    [undefined, '64x96', '720x1280'],
    ['16:9', '64x96', '720x1280'],
    ['9:16', '96x64', '1280x720'],
  ])('for the aspect ratio %p and a seed of %p is the size %s', async (aspectRatio, seed, size) => {
    const { server, vendor } = vendorOn(openaiVideos, took)
    await vendor.submit({ ...JOB, ...(aspectRatio && { aspectRatio }), ...(seed && { image: grey(seed) }) }, calm())
    expect(server.seen[0]?.form?.get('size')).toBe(size)
  })

  test('is portrait for a photo that lies on its side in its file', async () => {
    const wide = await new Bun.Image(bytesOf(grey('96x64'))).jpeg().bytes()
    const exif = Buffer.from(
      'ffe1002245786966000049492a00080000000100120103000100000006000000000000000000',
      'hex',
    ).subarray(0, 36)
    const turned = Buffer.concat([wide.subarray(0, 2), exif, wide.subarray(2)])
    const { server, vendor } = vendorOn(openaiVideos, took, { resize: pictureResizer() })
    for (const jpeg of [wide, turned])
      await vendor.submit({ ...JOB, image: `data:image/jpeg;base64,${Buffer.from(jpeg).toString('base64')}` }, calm())
    expect(server.seen.map(({ form }) => form?.get('size'))).toEqual(['1280x720', '720x1280'])
  })

  test('is nothing that the protocol has no word for', async () => {
    const { server, vendor } = vendorOn(openaiVideos, took)
    await vendor.submit({ ...FULL, image: PIXEL }, calm())
    expect(Object.keys(fieldsOf(server.seen[0] as Seen))).toEqual([
      'model',
      'prompt',
      'seconds',
      'size',
      'input_reference',
    ])
  })

  test('is the seed picture as a file with its type, as it came where nobody resizes', async () => {
    const { server, vendor } = vendorOn(openaiVideos, took)
    await vendor.submit({ ...JOB, image: PIXEL }, calm())
    const file = server.seen[0]?.form?.get('input_reference') as unknown as File
    expect([file.type, file.name, Buffer.from(await file.arrayBuffer())]).toEqual([
      'image/png',
      'seed.png',
      bytesOf(PIXEL),
    ])
  })

  test.each([
    ['64x96', '720x1280'],
    ['1000x100', '1280x720'],
    ['1280x720', '1280x720'],
  ])('is a seed of %s resized to %s (contract 12.9)', async (from, to) => {
    const { server, vendor } = vendorOn(openaiVideos, took, { resize: pictureResizer() })
    await vendor.submit({ ...JOB, image: grey(from) }, calm())
    const file = server.seen[0]?.form?.get('input_reference') as unknown as File
    const { type, width, height } = recognize(new Uint8Array(await file.arrayBuffer())) ?? {
      type: '',
      width: 0,
      height: 0,
    }
    expect([type, `${width}x${height}`, server.seen[0]?.form?.get('size')]).toEqual(['image/png', to, to])
  })

  test("is a seed by URL, fetched through the guard as a stranger's", async () => {
    const requests: unknown[] = []
    const media: FetchMedia = async (url, { foreign }) => {
      requests.push([url, foreign])
      return { bytes: bytesOf(grey('64x96')), type: 'image/png' }
    }
    const { server, vendor } = vendorOn(openaiVideos, took, { media })
    await vendor.submit({ ...JOB, image: 'https://pictures.example/1.png' }, calm())
    expect([requests, server.seen[0]?.form?.get('size')]).toEqual([
      [['https://pictures.example/1.png', true]],
      '720x1280',
    ])
    const guarded = vendorOn(openaiVideos, took)
    expect(
      await outcome(guarded.vendor.submit({ ...JOB, image: 'http://127.0.0.1:1/x.png' }, calm()), guarded.log),
    ).toBe('INVALID_IMAGE')
    expect(guarded.server.seen).toEqual([])
  })

  test.each([
    ['HEIC, where it cannot be decoded', HEIC],
    ['no picture', 'data:image/png;base64,aGVsbG8='],
    ['no data URI', 'data:,'],
  ])('a seed that is %s is refused before anything is sent', async (_, image) => {
    const { server, vendor, log } = vendorOn(openaiVideos, took, { resize: pictureResizer() })
    expect(await outcome(vendor.submit({ ...JOB, image }, calm()), log)).toBe('INVALID_IMAGE')
    expect(server.seen).toEqual([])
  })

  test('takes the operator’s parameters below the order and overrides above it', async () => {
    const { server, vendor } = vendorOn(openaiVideos, took, {
      parameters: { num_inference_steps: 40 },
      overrides: { model: null, extra: { a: 1 } },
    })
    await vendor.submit(JOB, calm())
    expect(fieldsOf(server.seen[0] as Seen)).toEqual({
      num_inference_steps: '40',
      prompt: JOB.prompt,
      seconds: '4',
      size: '1280x720',
      extra: '{"a":1}',
    })
  })
})

describe('a clip of openaiVideos()', () => {
  const clip = (answer: Parameters<typeof vendorOn>[1]) => {
    const made = vendorOn(openaiVideos, answer)
    return {
      ...made,
      fetch: (at = calm()) =>
        made.vendor.clip?.('video_1', at) as NonNullable<ReturnType<NonNullable<typeof made.vendor.clip>>>,
    }
  }
  const video = (body: BodyInit | null, headers: Record<string, string> = {}) =>
    new Response(body, { headers: { 'content-type': 'video/mp4', ...headers } })

  test('is asked for with the key, and comes with its type and size', async () => {
    const { fetch, server } = clip(() => video(CLIP_BYTES as BodyInit))
    const { body, type, size } = await fetch()
    expect([type, size, [...new Uint8Array(await new Response(body).arrayBuffer())]]).toEqual([
      'video/mp4',
      CLIP_BYTES.length,
      [...CLIP_BYTES],
    ])
    expect(server.seen.map(({ method, path, headers }) => [method, path, headers.get('authorization')])).toEqual([
      ['GET', '/videos/video_1/content', `Bearer ${KEY}`],
    ])
  })

  test.each([
    ['a page', 'failure', () => new Response('<html>', { headers: { 'content-type': 'text/html' } })],
    ['JSON', 'failure', () => Response.json({ error: { message: 'no' } })],
    ['nothing', 'failure', () => video(null)],
    ['nothing, of no declared length', 'failure', () => video(clipOf([]).body)],
    ['a page that claims to be a clip', 'failure', () => video('<!doctype html><title>Gateway time-out</title>')],
    [
      'bytes of no kind',
      'failure',
      () => new Response(new Uint8Array(200), { headers: { 'content-type': 'application/octet-stream' } }),
    ],
    ['a 404', 'operator', () => new Response(null, { status: 404 })],
    ['a 429', 'RATE_LIMITED 30', () => new Response(null, { status: 429 })],
    ['a redirect', 'operator', () => Response.redirect('https://other.example/', 302)],
    ['a bare 500', 'failure', () => new Response(null, { status: 500 })],
  ])('that is %s is a %s', async (_, expected, answer) => {
    const { fetch, log } = clip(answer)
    expect(await outcome(fetch(), log)).toBe(expected)
  })

  test('is known by its first bytes, however they are cut and whatever its server calls it', async () => {
    const pieces = [...CLIP_BYTES].map((byte) => Uint8Array.of(byte))
    const { fetch } = clip(() => video(clipOf(pieces).body, { 'content-type': 'application/octet-stream' }))
    const { body, type } = await fetch()
    expect([type, [...new Uint8Array(await new Response(body).arrayBuffer())]]).toEqual(['video/mp4', [...CLIP_BYTES]])
  })

  test('without end is read only as far as it is asked for, and let go of', async () => {
    const { state, body } = flood(MP4)
    const reader = (await clip(() => video(body)).fetch()).body.getReader()
    for (let times = 0; times < 4; times++) expect((await reader.read()).value?.length).toBeGreaterThan(0)
    await reader.cancel()
    await until(() => state.cancelled)
  })

  test.each([
    ['breaks off', 'the clip broke off', {}, [...Array(3).fill(CLIP_BYTES), new Error('cut')]],
    ['breaks off at its head', 'the clip broke off', {}, [CLIP_BYTES, new Error('cut')]],
    ['ends before its declared length', 'ended after 24 of 50 bytes', { 'content-length': '50' }, [CLIP_BYTES]],
    ['goes on for ever', 'more than 100 bytes', {}, Array(9).fill(CLIP_BYTES)],
  ])('that %s errors, in our words', async (_, words, headers, pieces) => {
    const cut = new AbortController()
    const read = async () =>
      await new Response(
        (
          await clipStream(video(clipOf(pieces as Uint8Array[]).body, headers as Record<string, string>), {
            ...calm(),
            controller: cut,
            maxBytes: 100,
          })
        )?.body ?? null,
      ).arrayBuffer()
    await expect(read()).rejects.toThrow(words)
    expect(cut.signal.aborted).toBe(true)
  })

  test('that ends after its header is a failure of the vendor', async () => {
    const { vendor, log } = vendorOn(openaiVideos, took, {
      fetch: async () => video(clipOf([CLIP_BYTES, new Error('cut')]).body),
    })
    expect(await outcome(vendor.clip?.('video_1', calm()) as Promise<unknown>, log)).toBe('failure')
  })

  test('that is too large by its header is refused', async () => {
    const cut = new AbortController()
    expect([
      await clipStream(video(CLIP_BYTES as BodyInit, { 'content-length': '101' }), {
        ...calm(),
        controller: cut,
        maxBytes: 100,
      }),
      cut.signal.aborted,
    ]).toEqual([undefined, true])
  })

  test('ends with its signal, and with its reason, also in the middle', async () => {
    const reason = new Error('out of time')
    const { fetch } = clip(() => video(flood(MP4).body))
    await expect(fetch({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    const controller = new AbortController()
    const reader = (await fetch(controller)).body.getReader()
    await reader.read()
    controller.abort(reason)
    await expect(reader.read()).rejects.toBe(reason)
  })
})

readings('openai_videos', openaiVideos, {
  taken: { taken: 'video_68e7f0c2' },
  states: {
    queued: { ...STATES.queued, progress: 0 },
    in_progress: { ...STATES.running, progress: 33 },
    completed: { kind: 'done', seconds: 4, requestId: 'job-1' },
    completed_vllm_omni: { kind: 'done', seconds: 5, requestId: 'job-1' },
    failed: STATES.unknown,
    failed_moderation: STATES.policy,
    lost: STATES.lost,
    shut_down: 'operator',
    wrong_key: 'operator',
    rate_limited: 'RATE_LIMITED 21',
    server_error: 'failure',
  },
  refused: {
    wrong_size: 'INVALID_IMAGE',
    moderation_blocked: 'CONTENT_POLICY',
    bad_seconds: 'INVALID_VIDEO_REQUEST',
    unprocessable_vllm_omni: 'INVALID_VIDEO_REQUEST',
    insufficient_quota: 'operator',
    rate_limited: 'RATE_LIMITED 21',
    wrong_key: 'operator',
    shut_down: 'operator',
    server_error: 'failure',
  },
})

const errorFormat: ErrorFormat = {
  promptOf: ({ form }) => String(form?.get('prompt')),
  took: (id) => ({ id, object: 'video', status: 'queued' }),
  refused: () => ({
    status: 400,
    body: { error: { message: UPSTREAM_TEXT, type: 'invalid_request_error', param: 'seconds', code: null } },
  }),
  lost: () => ({ error: { message: UPSTREAM_TEXT, type: 'not_found' } }),
  state(id, phase) {
    const status = { queued: 'queued', running: 'in_progress', done: 'completed', failed: 'failed' }[phase]
    return {
      id,
      object: 'video',
      status,
      progress: 50,
      seconds: '4',
      error: phase === 'failed' ? { code: 'x', message: UPSTREAM_TEXT } : null,
    }
  },
}

runLaws('openaiVideos()', videoVendorLaws, studioSubject(openaiVideos, errorFormat))

describe('pictureResizer()', () => {
  test('does not stop at a picture that it refused', async () => {
    const resize = pictureResizer()
    const [bad, good] = await Promise.allSettled([
      resize(PIXEL.replace('AAEAAAAB', 'AAEAAAAC'), { width: 1280, height: 720 }),
      resize(PIXEL, { width: 720, height: 1280 }),
    ])
    expect([bad.status, good.status]).toEqual(['rejected', 'fulfilled'])
  })

  test('refuses what cannot be decoded, in words for the buyer', async () => {
    const error = await pictureResizer()(PIXEL.replace('AAEAAAAB', 'AAEAAAAC'), { width: 1280, height: 720 }).catch(
      (reason: unknown) => reason,
    )
    expect(error instanceof ApiError && [error.code, error.parts.details]).toEqual([
      'INVALID_IMAGE',
      expect.any(String),
    ])
  })
})

/** A stand-in that this project did not write; it knows no clips, and its jobs are final at once. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  mock.on({ endpoint: 'video', userMessage: /fox/ }, { video: { id: 'video_9', status: 'completed' } })
  mock.on({ endpoint: 'video', userMessage: /storm/ }, { video: { id: 'video_8', status: 'failed' } })
  mock.on(
    { endpoint: 'video', userMessage: /gore/ },
    { error: { message: 'rejected', code: 'moderation_blocked' }, status: 400 },
  )
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(`${mock.url}/v1`)
  const vendor = openaiVideos(config)

  test('a job is submitted with a picture, looked at, and done', async () => {
    const { handle } = await vendor.submit({ ...JOB, image: PIXEL }, calm())
    expect(await vendor.pollUpstream(handle, calm())).toEqual({ kind: 'done', requestId: handle })
    expect(await vendor.pollUpstream('video_unknown', calm())).toEqual(STATES.lost)
  })

  test('its refusals are read, at once and late', async () => {
    expect(await outcome(vendor.submit({ ...JOB, prompt: 'gore' }, calm()), log)).toBe('CONTENT_POLICY')
    const { handle } = await vendor.submit({ ...JOB, prompt: 'a storm' }, calm())
    expect(await vendor.pollUpstream(handle, calm())).toEqual(STATES.unknown)
  })
})
