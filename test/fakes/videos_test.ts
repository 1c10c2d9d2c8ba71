import { describe, expect, test } from 'bun:test'
import { CLIP, CLIP_BYTES, clipOf, inTurn, type ScriptedVideo, scriptedVideo } from './videos.ts'
import { ApiError, type VideoState } from '../../core/mod.ts'
import { brokenVideoVendors, reels } from '../conformance/broken_videos.ts'
import { runBroken, runLaws } from '../conformance/law.ts'
import { BARRED, CLIP_JOB, DOOMED, ENDLESS, videoVendorLaws } from '../conformance/videos.ts'
import { calm } from '../adapters/providers/lib/provider_kit.ts'

/** Told what the prompts of the laws ask for. */
function obedient(): ScriptedVideo {
  const usual = inTurn({ kind: 'running', status: 'queued' }, { kind: 'done', url: CLIP })
  return scriptedVideo({
    async submit({ prompt }, { attempt }) {
      if (prompt === BARRED) throw new ApiError('CONTENT_POLICY')
      return `job-${attempt}`
    },
    async pollUpstream(job, at) {
      if (!job) return { kind: 'failed', reason: 'The model lost this job.' }
      if (job.prompt === ENDLESS) return { kind: 'running', status: 'in_progress' }
      return job.prompt === DOOMED
        ? { kind: 'failed', reason: 'The model could not make this clip.' }
        : await usual(job, at)
    },
  })
}

runLaws('reel vendor', videoVendorLaws, reels())
runLaws('scriptedVideo()', videoVendorLaws, async () => {
  const vendor = obedient()
  return { open: async () => vendor, close: async () => {} }
})
runLaws('scriptedVideo() untold', videoVendorLaws, async () => {
  const vendor = scriptedVideo()
  return { open: async () => vendor, close: async () => {} }
})
runLaws('scriptedVideo() with a clip and no URL', videoVendorLaws, async () => {
  const vendor = scriptedVideo({
    pollUpstream: async (job) => (job ? { kind: 'done' } : { kind: 'failed', reason: 'The model lost this job.' }),
  })
  return { open: async () => vendor, close: async () => {} }
})
runBroken('video vendors', videoVendorLaws, brokenVideoVendors)

describe('scriptedVideo()', () => {
  test('keeps every job and every look, and has states in turn', async () => {
    const states: VideoState[] = [
      { kind: 'running', status: 'queued' },
      { kind: 'done' },
      { kind: 'running', status: 'in_progress' },
    ]
    const vendor = scriptedVideo({ pollUpstream: inTurn(...states) })
    const { handle } = await vendor.submit(CLIP_JOB, calm())
    const seen = []
    for (let times = 0; times < 4; times++) seen.push(await vendor.pollUpstream(handle, calm()))
    expect(seen).toEqual([...states, states[2]] as VideoState[])
    expect([vendor.jobs, vendor.polls]).toEqual([[CLIP_JOB], [handle, handle, handle, handle]])
  })

  test('brings a clip as a stream, which may break off', async () => {
    const clip = await scriptedVideo().clip('job-1', calm())
    expect([clip.type, clip.size, [...new Uint8Array(await new Response(clip.body).arrayBuffer())]]).toEqual([
      'video/mp4',
      CLIP_BYTES.length,
      [...CLIP_BYTES],
    ])
    const broken = clipOf([CLIP_BYTES, new Error('broken off')])
    expect(broken).not.toHaveProperty('size')
    await expect(new Response(broken.body).arrayBuffer()).rejects.toThrow('broken off')
  })
})
