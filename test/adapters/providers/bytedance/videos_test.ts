import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { PIXEL } from '../../../fakes/images.ts'
import { seedance } from '../../../../adapters/providers/bytedance/videos.ts'
import { type ApiError, plain } from '../../../../core/http/errors.ts'
import { runLaws } from '../../../conformance/law.ts'
import { CLIP_JOB, UPSTREAM_TEXT, videoVendorLaws } from '../../../conformance/videos.ts'
import { calm, KEY, outcome, recorded, replay, type Seen, setup } from '../lib/provider_kit.ts'
import { type ErrorFormat, FULL, readings, STATES, studioSubject, vendorOn } from '../lib/video_kit.ts'

const took = () => Response.json({ id: 'cgt-1' })
const JOB = { ...CLIP_JOB, model: 'dreamina-seedance-2-0-260128', seconds: 5, resolution: '720p' }
const TEXT = { type: 'text', text: JOB.prompt }

describe('requests of seedance()', () => {
  test('is a task of parts, with both switches said', async () => {
    const { server, vendor } = vendorOn(seedance, took)
    expect(await vendor.submit(JOB, calm())).toEqual({ handle: 'cgt-1' })
    const [{ method, path, headers, json }] = server.seen as [Seen]
    expect([method, path, headers.get('authorization')]).toEqual([
      'POST',
      '/contents/generations/tasks',
      `Bearer ${KEY}`,
    ])
    expect(json).toEqual({
      model: JOB.model,
      content: [TEXT],
      resolution: '720p',
      duration: 5,
      generate_audio: false,
      watermark: false,
    })
  })

  test('is every part under its role, the text first', async () => {
    const { server, vendor } = vendorOn(seedance, took)
    await vendor.submit({ ...FULL, model: JOB.model }, calm())
    const image = (url: string, role: string) => ({ type: 'image_url', image_url: { url }, role })
    expect(server.seen[0]?.json).toEqual({
      model: JOB.model,
      content: [
        TEXT,
        image('https://pictures.example/first.png', 'first_frame'),
        image('https://pictures.example/last.png', 'last_frame'),
        image('asset://asset-1', 'reference_image'),
        image('https://pictures.example/1.png', 'reference_image'),
        { type: 'video_url', video_url: { url: 'https://pictures.example/2.mp4' }, role: 'reference_video' },
        { type: 'audio_url', audio_url: { url: 'https://pictures.example/3.mp3' }, role: 'reference_audio' },
      ],
      resolution: '4k',
      ratio: '9:16',
      duration: 4,
      generate_audio: true,
      watermark: true,
      return_last_frame: true,
    })
  })

  test('is a prompt in which no settings hide, for they would outdo those that were paid for', async () => {
    const { server, vendor } = vendorOn(seedance, took)
    const sent = async (prompt: string) => (
      await vendor.submit({ ...JOB, prompt }, calm()),
      server.seen.at(-1)?.json.content[0].text
    )
    for (const setting of [
      '--duration 12',
      '--dur 12',
      '--RS 1080p',
      '-- resolution 1080p',
      'fox--wm true',
      '---fps 60',
    ])
      expect([setting, (await sent(`a fox ${setting}`)).includes('--')]).toEqual([setting, false])
    expect(await sent('a well-known fox - at 5-10 m, -- 3 of them')).toBe('a well-known fox - at 5-10 m, -- 3 of them')
  })

  test.each([
    ['seedance-1-5-pro-251215', 7],
    ['doubao-seedance-1-0-pro-250528', 7],
    ['dreamina-seedance-2-0-260128', undefined],
    ['dreamina-seedance-2-5-260628', undefined],
  ])('for %s is the seed %p', async (model, seed) => {
    const { server, vendor } = vendorOn(seedance, took)
    await vendor.submit({ ...JOB, model, seed: 7 }, calm())
    expect(server.seen[0]?.json.seed).toBe(seed as number)
  })

  test('is a data URI as it came, and an asset under its scheme once', async () => {
    const { server, vendor } = vendorOn(seedance, took)
    await vendor.submit({ ...JOB, image: PIXEL }, calm())
    await vendor.submit({ ...JOB, asset: 'asset://asset-2' }, calm())
    expect(server.seen.map(({ json }) => json.content[1].image_url.url)).toEqual([PIXEL, 'asset://asset-2'])
  })

  test('is a look at one task', async () => {
    const { server, vendor } = vendorOn(seedance, () => replay(recorded('seedance', 'running')))
    await vendor.pollUpstream('cgt-1', calm())
    expect([server.seen[0]?.method, server.seen[0]?.path]).toEqual(['GET', '/contents/generations/tasks/cgt-1'])
  })
})

readings('seedance', seedance, {
  taken: { taken: 'cgt-20261120080000-abcde' },
  states: {
    queued: STATES.queued,
    running: STATES.running,
    succeeded: {
      kind: 'done',
      url: 'https://ark-content-generation-ap-southeast-1.tos-ap-southeast-1.volces.com/dreamina-seedance-2-0/clip.mp4?X-Tos-Expires=86400',
      seconds: 5,
      tokens: 108_900,
      requestId: 'job-1',
    },
    succeeded_with_last_frame: {
      kind: 'done',
      url: 'https://ark.example/clip.mp4',
      lastFrameUrl: 'https://ark.example/last.png',
      seconds: 4,
      tokens: 49_005,
      requestId: 'job-1',
    },
    succeeded_without_url: STATES.empty,
    failed: STATES.unknown,
    failed_audio: STATES.audio,
    failed_video: STATES.policy,
    failed_person: STATES.person,
    failed_task_type: STATES.request,
    expired: STATES.expired,
    cancelled: STATES.cancelled,
    lost: STATES.lost,
    no_model: 'operator',
    wrong_key: 'operator',
    bad_parameter: 'operator',
    rate_limited: 'RATE_LIMITED 30',
    internal: 'failure',
  },
  refused: {
    real_person: 'INPUT_IMAGE_REAL_PERSON',
    video_person: 'CONTENT_POLICY',
    prompt_sensitive: 'CONTENT_POLICY',
    image_policy: 'CONTENT_POLICY',
    bad_parameter: 'INVALID_VIDEO_REQUEST',
    missing_parameter: 'INVALID_VIDEO_REQUEST',
    task_type: 'INVALID_VIDEO_REQUEST',
    unreachable_image: 'INVALID_IMAGE',
    wrong_key: 'operator',
    overdue: 'operator',
    not_open: 'operator',
    no_model: 'operator',
    rate_limited: 'RATE_LIMITED 30',
    overloaded: 'RATE_LIMITED 9',
    quota: 'operator',
    queue_full: 'RATE_LIMITED 30',
    internal: 'failure',
  },
})

test('a real face and a bad parameter are 400 under the codes of contract 12.49', async () => {
  const bodiesOf = async (name: string) => {
    const apiError = await vendorOn(seedance, () => replay(recorded('seedance', name)))
      .vendor.submit(JOB, calm())
      .catch((error: ApiError) => error)
    const { status, body } = plain(apiError as ApiError)
    return [status, JSON.parse(body).code]
  }
  expect([await bodiesOf('real_person'), await bodiesOf('bad_parameter')]).toEqual([
    [400, 'INPUT_IMAGE_REAL_PERSON'],
    [400, 'INVALID_VIDEO_REQUEST'],
  ])
})

const errorFormat: ErrorFormat = {
  promptOf: ({ json }) => json.content[0].text,
  took: (id) => ({ id }),
  refused: () => ({ status: 400, body: { error: { code: 'InvalidParameter', message: UPSTREAM_TEXT } } }),
  lost: () => ({ error: { code: 'ResourceNotFound', message: UPSTREAM_TEXT } }),
  state(id, phase) {
    if (phase === 'done')
      return {
        id,
        status: 'succeeded',
        content: { video_url: `https://ark.example/${id}.mp4` },
        usage: { total_tokens: 10 },
      }
    return phase === 'failed'
      ? { id, status: 'failed', error: { code: 'InternalServiceError', message: UPSTREAM_TEXT } }
      : { id, status: phase }
  },
}

runLaws('seedance()', videoVendorLaws, studioSubject(seedance, errorFormat))

/** A stand-in that this project did not write. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0, bytePlusVideo: { pollsBeforeInProgress: 1, pollsBeforeCompleted: 2 } })
  mock.on(
    { endpoint: 'video', userMessage: /fox/ },
    {
      json: {
        id: 'cgt-x',
        status: 'succeeded',
        content: { video_url: 'https://ark.example/fox.mp4' },
        usage: { total_tokens: 108_900 },
      },
    },
  )
  mock.on(
    { endpoint: 'video', userMessage: /song/ },
    {
      json: {
        id: 'cgt-y',
        status: 'failed',
        error: { code: 'OutputAudioSensitiveContentDetected.PolicyViolation', message: 'copyright' },
      },
    },
  )
  mock.on(
    { endpoint: 'video', userMessage: /person/ },
    {
      error: { code: 'InputImageSensitiveContentDetected.PrivacyInformation', message: 'may contain real person' },
      status: 400,
    },
  )
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(`${mock.url}/api/v3`)
  const vendor = seedance(config)

  test('a task is submitted, looked at, and done', async () => {
    const { handle } = await vendor.submit(JOB, calm())
    expect(await vendor.pollUpstream(handle, calm())).toMatchObject({ kind: 'running' })
    expect(await vendor.pollUpstream(handle, calm())).toEqual({
      kind: 'done',
      url: 'https://ark.example/fox.mp4',
      tokens: 108_900,
      requestId: handle,
    })
    expect(await vendor.pollUpstream('cgt-unknown', calm())).toEqual(STATES.lost)
  })

  test('its refusals are read, at once and late', async () => {
    expect(await outcome(vendor.submit({ ...JOB, prompt: 'a person' }, calm()), log)).toBe('INPUT_IMAGE_REAL_PERSON')
    const { handle } = await vendor.submit({ ...JOB, prompt: 'a song' }, calm())
    await vendor.pollUpstream(handle, calm())
    expect(await vendor.pollUpstream(handle, calm())).toEqual(STATES.audio)
  })
})
