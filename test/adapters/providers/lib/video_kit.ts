/**
 * For tests of video vendors: a studio on loopback that takes jobs in any protocol, and tables of what recorded replies
 * read as.
 */
import { describe, expect, test } from 'bun:test'
import type { VideoVendorConfig } from '../../../../adapters/providers/lib/video_provider.ts'
import { CLIP_BYTES } from '../../../fakes/videos.ts'
import type { VideoJob, VideoState, VideoVendor } from '../../../../core/mod.ts'
import type { Subject } from '../../../conformance/law.ts'
import { BARRED, CLIP_JOB, DOOMED, ENDLESS } from '../../../conformance/videos.ts'
import {
  type Answer,
  calm,
  outcome,
  quoted,
  recorded,
  replay,
  errorText,
  type Seen,
  setup,
  standIn,
  testRecordings,
} from './provider_kit.ts'

type Make = (config: VideoVendorConfig) => VideoVendor

/** One with every member, which each protocol sends or leaves out. */
export const FULL: VideoJob = {
  ...CLIP_JOB,
  resolution: '4K',
  aspectRatio: '9:16',
  image: 'https://pictures.example/first.png',
  lastFrame: 'https://pictures.example/last.png',
  asset: 'asset-1',
  referenceImages: ['https://pictures.example/1.png'],
  referenceVideos: ['https://pictures.example/2.mp4'],
  referenceAudios: ['https://pictures.example/3.mp3'],
  generateAudio: true,
  seed: 7,
  watermark: true,
  returnLastFrame: true,
}

export function vendorOn(make: Make, answer: Answer, more: Partial<VideoVendorConfig> = {}) {
  const server = standIn(answer)
  const { config, log, clock } = setup(server.url)
  return { server, log, clock, vendor: make({ ...config, ...more }) }
}

// ── the studio ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Phase = 'queued' | 'running' | 'done' | 'failed'

/** How a protocol says it. */
export type ErrorFormat = {
  promptOf(seen: Seen): string
  took(id: string): unknown
  /** The body of a look, or a reply where its status matters. */
  state(id: string, phase: Phase): unknown
  refused(): { readonly status: number; readonly body: unknown }
  lost(): unknown
}

/** Takes jobs, and does with them what the prompts of the laws ask for. A job is done at its third look. */
function studio({ promptOf, took, state, refused, lost }: ErrorFormat): Answer {
  const jobs = new Map<string, { prompt: string; polls: number }>()
  const written = (body: unknown) => (body instanceof Response ? body : Response.json(body))
  return (seen) => {
    if (seen.method === 'POST') {
      const prompt = promptOf(seen)
      if (prompt === BARRED) return Response.json(refused().body, { status: refused().status })
      const id = `job/${jobs.size + 1}`
      jobs.set(id, { prompt, polls: 0 })
      return written(took(id))
    }
    const [last = '', before = ''] = seen.path.split('/').reverse()
    const id = decodeURIComponent(last === 'content' ? before : last)
    const job = jobs.get(id)
    if (!job) return Response.json(lost(), { status: 404 })
    if (last === 'content') return new Response(CLIP_BYTES as BodyInit, { headers: { 'content-type': 'video/mp4' } })
    return written(state(id, phaseOf(job.prompt, ++job.polls)))
  }
}

function phaseOf(prompt: string, polls: number): Phase {
  if (polls < 3 || prompt === ENDLESS) return polls < 2 ? 'queued' : 'running'
  return prompt === DOOMED ? 'failed' : 'done'
}

/** Each opening is another instance of the adapter, as in another process. */
export function studioSubject(make: Make, errorFormat: ErrorFormat): () => Promise<Subject<VideoVendor>> {
  const { url } = standIn(studio(errorFormat))
  return async () => ({ open: async () => make(setup(url).config), close: async () => {} })
}

// ── recordings ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** A state, or what is thrown: `operator`, `failure`, `RATE_LIMITED 12`. */
type PolledState = VideoState | string

type Readings = {
  /** Handles that a recorded reply to a submission reads as. */
  readonly taken: Readonly<Record<string, string>>
  readonly states: Readonly<Record<string, PolledState>>
  /** The outcome of a submission that gets this reply; `job` makes it another job than CLIP_JOB. */
  readonly refused: Readonly<Record<string, string>>
  readonly job?: VideoJob
}

/**
 * One test for each recorded reply: what it reads as, that it quotes nothing, and that no recording is left out or
 * without a source.
 */
export function readings(protocol: string, make: Make, { taken, states, refused, job = CLIP_JOB }: Readings): void {
  const on = (name: string) => vendorOn(make, () => replay(recorded(protocol, name)))
  const quotes = (words: string, name: string) => quoted(words, recorded(protocol, name))

  describe(`a reply of ${protocol}`, () => {
    test.each(Object.entries(taken))('to a submission, %s, is the handle %s', async (name, handle) => {
      expect(await on(name).vendor.submit(CLIP_JOB, calm())).toEqual({ handle })
    })

    test.each(Object.entries(states))(
      'to a look, %s, reads as it should, and quotes nothing',
      async (name, expected) => {
        const { vendor, log } = on(name)
        const work = vendor.pollUpstream('job-1', calm())
        if (typeof expected === 'string') expect(await outcome(work, log)).toBe(expected)
        else expect(await work).toEqual(expected)
        expect(
          quotes(
            typeof expected === 'string'
              ? await errorText(work, log)
              : JSON.stringify(['reason' in expected && expected.reason, log.lines]),
            name,
          ),
        ).toEqual([])
      },
    )

    test.each(Object.entries(refused))('to a submission, %s, is %s, and quotes nothing', async (name, expected) => {
      const { vendor, log } = on(name)
      const work = vendor.submit(job, calm())
      expect(await outcome(work, log)).toBe(expected)
      expect(quotes(await errorText(work, log), name)).toEqual([])
    })

    testRecordings(
      protocol,
      [taken, states, refused].flatMap(Object.keys),
      'is used wherever it is recorded, and names its document and how sure it is',
    )
  })
}

/** The states that all protocols share. */
export const STATES = {
  queued: { kind: 'running', status: 'queued' },
  running: { kind: 'running', status: 'in_progress' },
  policy: { kind: 'failed', reason: 'The safety system of the model refused this clip.', code: 'content_policy' },
  person: {
    kind: 'failed',
    reason: 'An input image contains a real person; enroll the face and use its asset id instead.',
    code: 'content_policy',
  },
  audio: {
    kind: 'failed',
    reason: 'The soundtrack that the model made may infringe a copyright; the same request without audio can succeed.',
    code: 'output_audio_moderation',
  },
  request: { kind: 'failed', reason: 'The model did not accept this request.' },
  expired: { kind: 'failed', reason: 'The model did not finish this job in time.' },
  cancelled: { kind: 'failed', reason: 'This job was cancelled at the model.' },
  empty: { kind: 'failed', reason: 'The model finished without a clip.' },
  lost: { kind: 'failed', reason: 'The model lost this job.' },
  unknown: { kind: 'failed', reason: 'The model could not make this clip.' },
} as const satisfies Record<string, VideoState>
