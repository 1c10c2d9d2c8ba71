import { describe, expect, test } from 'bun:test'
import { resellerVideos } from '../../../../adapters/providers/token360/videos.ts'
import { runLaws } from '../../../conformance/law.ts'
import { CLIP_JOB, UPSTREAM_TEXT, videoVendorLaws } from '../../../conformance/videos.ts'
import { calm, KEY, type Seen } from '../lib/provider_kit.ts'
import { type ErrorFormat, FULL, readings, STATES, studioSubject, vendorOn } from '../lib/video_kit.ts'

const took = () => Response.json({ id: 'vt_1' })
const JOB = { ...CLIP_JOB, model: 'seedance-2.0', seconds: 5, resolution: '720p' }

describe('requests of resellerVideos()', () => {
  test('is a flat job, with both switches said', async () => {
    const { server, vendor } = vendorOn(resellerVideos, took)
    expect(await vendor.submit(JOB, calm())).toEqual({ handle: 'vt_1' })
    const [{ method, path, headers, json }] = server.seen as [Seen]
    expect([method, path, headers.get('authorization')]).toEqual(['POST', '/videos', `Bearer ${KEY}`])
    expect(json).toEqual({
      model: 'seedance-2.0',
      prompt: JOB.prompt,
      duration: 5,
      resolution: '720p',
      generate_audio: false,
      watermark: false,
    })
  })

  test('is frames by their type, and an asset among the references', async () => {
    const { server, vendor } = vendorOn(resellerVideos, took)
    await vendor.submit({ ...FULL, model: 'seedance-2.0' }, calm())
    const frame = (url: string, frame_type: string) => ({ type: 'image_url', frame_type, image_url: { url } })
    expect(server.seen[0]?.json).toEqual({
      model: 'seedance-2.0',
      prompt: JOB.prompt,
      duration: 4,
      resolution: '4k',
      aspect_ratio: '9:16',
      frame_images: [
        frame('https://pictures.example/first.png', 'first_frame'),
        frame('https://pictures.example/last.png', 'last_frame'),
      ],
      input_references: [
        { type: 'image_url', image_url: { url: 'asset://asset-1' } },
        { type: 'image_url', image_url: { url: 'https://pictures.example/1.png' } },
        { type: 'video_url', video_url: { url: 'https://pictures.example/2.mp4' } },
        { type: 'audio_url', audio_url: { url: 'https://pictures.example/3.mp3' } },
      ],
      generate_audio: true,
      watermark: true,
      return_last_frame: true,
    })
  })

  test('is a prompt in which no settings hide', async () => {
    const { server, vendor } = vendorOn(resellerVideos, took)
    await vendor.submit({ ...JOB, prompt: 'a fox --resolution 1080p' }, calm())
    expect(server.seen[0]?.json.prompt).toBe('a fox \u2014resolution 1080p')
  })

  test('comes back as a clip by its own name first: a bare URL may be that of the job', async () => {
    const body = {
      id: 'vt_1',
      status: 'completed',
      url: 'https://api.example/v1/videos/vt_1',
      content: { video_url: 'https://clips.example/1.mp4' },
    }
    expect(await vendorOn(resellerVideos, () => Response.json(body)).vendor.pollUpstream('vt_1', calm())).toMatchObject(
      {
        kind: 'done',
        url: body.content.video_url,
      },
    )
  })

  test('is a seed for the 1.x models alone', async () => {
    const { server, vendor } = vendorOn(resellerVideos, took)
    for (const model of ['seedance-1.5-pro', 'seedance-2.0', 'seedance-2.0-fast'])
      await vendor.submit({ ...JOB, model, seed: 7 }, calm())
    expect(server.seen.map(({ json }) => json.seed)).toEqual([7, undefined, undefined])
  })

  test('leaves out what the operator says a reseller does not know', async () => {
    const { server, vendor } = vendorOn(resellerVideos, took, { overrides: { generate_audio: null, watermark: null } })
    await vendor.submit(JOB, calm())
    expect(server.seen[0]?.json).toEqual({ model: 'seedance-2.0', prompt: JOB.prompt, duration: 5, resolution: '720p' })
  })
})

readings('reseller_videos', resellerVideos, {
  taken: { taken: 'vt_7c1d', taken_in_data: 'vt_7c1d' },
  states: {
    queued: STATES.queued,
    processing: { ...STATES.running, progress: 61 },
    completed: {
      kind: 'done',
      url: 'https://cdn.token360.example/vt_7c1d.mp4',
      seconds: 5,
      tokens: 108_900,
      requestId: 'job-1',
    },
    succeeded_in_content: {
      kind: 'done',
      url: 'https://cdn.token360.example/2.mp4',
      lastFrameUrl: 'https://cdn.token360.example/2.png',
      requestId: 'job-1',
    },
    completed_in_data: { kind: 'done', url: 'https://cdn.token360.example/3.mp4', seconds: 5, requestId: 'job-1' },
    completed_without_url: STATES.empty,
    failed: STATES.unknown,
    error: STATES.unknown,
    failed_audio: STATES.audio,
    lost: STATES.lost,
    wrong_key: 'operator',
    rate_limited: 'RATE_LIMITED 30',
    internal: 'failure',
  },
  refused: {
    real_person: 'INPUT_IMAGE_REAL_PERSON',
    bad_asset: 'INVALID_VIDEO_REQUEST',
    wrong_key: 'operator',
    rate_limited: 'RATE_LIMITED 30',
    internal: 'failure',
  },
})

const errorFormat: ErrorFormat = {
  promptOf: ({ json }) => json.prompt,
  took: (id) => ({ task_id: id }),
  refused: () => ({ status: 400, body: { error: { code: 'InvalidParameter', message: UPSTREAM_TEXT } } }),
  lost: () => ({ error: { message: UPSTREAM_TEXT } }),
  state(id, phase) {
    if (phase === 'done')
      return { data: { id, status: 'completed', video_url: `https://cdn.token360.example/${id}.mp4` } }
    return phase === 'failed'
      ? { id, status: 'failed', error: UPSTREAM_TEXT }
      : { id, status: phase === 'queued' ? 'pending' : 'processing' }
  },
}

runLaws('resellerVideos()', videoVendorLaws, studioSubject(resellerVideos, errorFormat))
