import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { PIXEL } from '../../../fakes/images.ts'
import { xaiVideos } from '../../../../adapters/providers/xai/videos.ts'
import { runLaws } from '../../../conformance/law.ts'
import { CLIP_JOB, UPSTREAM_TEXT, videoVendorLaws } from '../../../conformance/videos.ts'
import { calm, KEY, outcome, type Seen, setup } from '../lib/provider_kit.ts'
import { type ErrorFormat, FULL, readings, STATES, studioSubject, vendorOn } from '../lib/video_kit.ts'

const took = () => Response.json({ request_id: 'r1' })
const JOB = { ...CLIP_JOB, model: 'grok-imagine-video', seconds: 8, resolution: '720p' }

describe('requests of xaiVideos()', () => {
  test('is a job with its duration and tier, and nothing that was not ordered', async () => {
    const { server, vendor } = vendorOn(xaiVideos, took)
    expect(await vendor.submit(JOB, calm())).toEqual({ handle: 'r1' })
    const [{ method, path, headers, json }] = server.seen as [Seen]
    expect([method, path, headers.get('authorization')]).toEqual(['POST', '/videos/generations', `Bearer ${KEY}`])
    expect(json).toEqual({ model: 'grok-imagine-video', prompt: CLIP_JOB.prompt, duration: 8, resolution: '720p' })
  })

  test('is never sound, a seed, a character, a watermark or a reference', async () => {
    const { server, vendor } = vendorOn(xaiVideos, took)
    await vendor.submit({ ...FULL, resolution: '1080p', image: PIXEL }, calm())
    expect(server.seen[0]?.json).toEqual({
      model: 'any',
      prompt: CLIP_JOB.prompt,
      duration: 4,
      resolution: '1080p',
      aspect_ratio: '9:16',
      image: { url: PIXEL },
    })
  })

  test('is a look with the key, its handle as one segment of the path', async () => {
    const { server, vendor } = vendorOn(xaiVideos, () => new Response(null, { status: 202 }))
    expect(await vendor.pollUpstream('a/b?c', calm())).toEqual(STATES.running)
    expect(server.seen.map(({ method, path, headers }) => [method, path, headers.get('authorization')])).toEqual([
      ['GET', '/videos/a%2Fb%3Fc', `Bearer ${KEY}`],
    ])
  })

  test('takes the operator’s parameters below the order and overrides above it', async () => {
    const { server, vendor } = vendorOn(xaiVideos, took, {
      parameters: { user: 'me', prompt: 'no' },
      overrides: { resolution: null },
    })
    await vendor.submit(JOB, calm())
    expect(server.seen[0]?.json).toEqual({ user: 'me', model: JOB.model, prompt: JOB.prompt, duration: 8 })
  })
})

describe('a look of xaiVideos() that is', () => {
  test.each([
    ['202 and empty', () => new Response(null, { status: 202 })],
    ['202 and a page', () => new Response('<html>', { status: 202 })],
    ['202 and no status', () => Response.json({}, { status: 202 })],
    ['a status that nobody knows', () => Response.json({ status: 'rendering' })],
  ])('%s says that the job runs', async (_, answer) => {
    expect(await vendorOn(xaiVideos, answer).vendor.pollUpstream('r1', calm())).toEqual(STATES.running)
  })

  test('202 and a finished job is finished', async () => {
    const { vendor } = vendorOn(xaiVideos, () =>
      Response.json({ status: 'done', video: { url: 'https://x.example/1.mp4' } }, { status: 202 }),
    )
    expect(await vendor.pollUpstream('r1', calm())).toEqual({
      kind: 'done',
      url: 'https://x.example/1.mp4',
      requestId: 'r1',
    })
  })
})

readings('xai_videos', xaiVideos, {
  job: { ...JOB, image: PIXEL },
  taken: { taken: '0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0' },
  states: {
    pending: { ...STATES.running, progress: 42 },
    done: {
      kind: 'done',
      url: 'https://vidgen.x.ai/xai-vidgen-bucket/xai-video-0f1e2d3c.mp4',
      seconds: 8,
      requestId: 'job-1',
    },
    done_without_status: {
      kind: 'done',
      url: 'https://vidgen.x.ai/xai-vidgen-bucket/xai-video-1.mp4',
      seconds: 5,
      requestId: 'job-1',
    },
    done_without_url: STATES.empty,
    moderated: STATES.policy,
    failed: STATES.unknown,
    failed_moderation: STATES.policy,
    failed_text: STATES.unknown,
    expired: STATES.expired,
    lost: STATES.lost,
    usage_guidelines: STATES.policy,
    wrong_key: 'operator',
    rate_limited: 'RATE_LIMITED 12',
    internal: 'failure',
  },
  refused: {
    usage_guidelines: 'CONTENT_POLICY',
    bad_image: 'INVALID_IMAGE',
    bad_duration: 'INVALID_VIDEO_REQUEST',
    unknown_field: 'operator',
    wrong_key: 'operator',
    no_credits: 'operator',
    rate_limited: 'RATE_LIMITED 12',
    internal: 'failure',
  },
})

const errorFormat: ErrorFormat = {
  promptOf: ({ json }) => json.prompt,
  took: (id) => ({ request_id: id }),
  refused: () => ({ status: 400, body: { code: 'Client specified an invalid argument', error: UPSTREAM_TEXT } }),
  lost: () => ({ code: 'not-found', error: UPSTREAM_TEXT }),
  state(id, phase) {
    if (phase === 'queued') return new Response(null, { status: 202 })
    if (phase === 'running') return Response.json({ status: 'pending', progress: 50 }, { status: 202 })
    return phase === 'done'
      ? { status: 'done', video: { url: `https://x.example/${id}.mp4`, duration: 4 } }
      : { status: 'failed', error: { code: 'x', message: UPSTREAM_TEXT } }
  },
}

runLaws('xaiVideos()', videoVendorLaws, studioSubject(xaiVideos, errorFormat))

/** A stand-in that this project did not write. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0, grokVideo: { pollsBeforeInProgress: 1, pollsBeforeCompleted: 2 } })
  mock.on(
    { endpoint: 'video', userMessage: /fox/ },
    { video: { id: 'v', status: 'completed', url: 'https://cdn.x.ai/fox.mp4', duration: 8 } },
  )
  mock.on(
    { endpoint: 'video', userMessage: /storm/ },
    { video: { id: 'v', status: 'failed', error: 'it went wrong upstream' } },
  )
  mock.on({ endpoint: 'video', userMessage: /slow/ }, { error: { message: 'slow' }, status: 429, retryAfter: 17 })
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(`${mock.url}/v1`)
  const vendor = xaiVideos(config)

  test('a job is submitted, looked at, and done', async () => {
    const { handle } = await vendor.submit(JOB, calm())
    expect(await vendor.pollUpstream(handle, calm())).toMatchObject({ kind: 'running', status: 'in_progress' })
    expect(await vendor.pollUpstream(handle, calm())).toEqual({
      kind: 'done',
      url: 'https://cdn.x.ai/fox.mp4',
      seconds: 8,
      requestId: handle,
    })
    expect(await vendor.pollUpstream('unknown', calm())).toEqual(STATES.lost)
  })

  test('a failure and a rate limit are read', async () => {
    const { handle } = await vendor.submit({ ...JOB, prompt: 'a storm' }, calm())
    await vendor.pollUpstream(handle, calm())
    expect(await vendor.pollUpstream(handle, calm())).toEqual(STATES.unknown)
    expect(await outcome(vendor.submit({ ...JOB, prompt: 'slow' }, calm()), log)).toBe('RATE_LIMITED 17')
  })
})
