import { ApiError, type VideoJob, type VideoState, type VideoVendor } from '../../core/mod.ts'
import type { Broken, Subject } from './law.ts'
import { BARRED, CLIP_JOB, DOOMED, ENDLESS, UPSTREAM_TEXT } from './videos.ts'

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

type StoredJob = { readonly job: VideoJob; polls: number }

/** State that another instance sees as well. */
type Jobs = Map<string, StoredJob>

const CLIP_URL = 'https://clips.example/'

function stateOf(handle: string, { job, polls }: StoredJob): VideoState {
  if (job.prompt === ENDLESS || polls < 3)
    return { kind: 'running', status: polls < 2 ? 'queued' : 'in_progress', progress: Math.min(polls * 10, 90) }
  if (job.prompt === DOOMED) return { kind: 'failed', reason: 'The model could not make this clip.' }
  return { kind: 'done', url: `${CLIP_URL}${handle}.mp4`, seconds: job.seconds }
}

/** Keeps every law; takes a few turns, so that an abort can come in between. */
function reelVendor(jobs: Jobs = new Map()): VideoVendor {
  return {
    async submit(job, { signal }) {
      await work(signal)
      if (job.prompt === BARRED) throw new ApiError('INVALID_VIDEO_REQUEST')
      const handle = `reel-${jobs.size + 1}`
      jobs.set(handle, { job, polls: 0 })
      return { handle }
    },
    async pollUpstream(handle, { signal }) {
      await work(signal)
      const job = jobs.get(handle)
      if (!job) return { kind: 'failed', reason: 'The model lost this job.' }
      job.polls++
      return stateOf(handle, job)
    },
  }
}

async function work(signal: AbortSignal): Promise<void> {
  for (let turn = 0; turn < 4; turn++) {
    signal.throwIfAborted()
    await turns(1)
  }
}

/** Instances that share what the upstream has taken. */
export function reels(make: (jobs: Jobs) => VideoVendor = reelVendor): () => Promise<Subject<VideoVendor>> {
  return async () => {
    const jobs: Jobs = new Map()
    return { open: async () => make(jobs), close: async () => {} }
  }
}

const broken = (
  law: string,
  but: string,
  spoil: (good: VideoVendor, jobs: Jobs) => Partial<VideoVendor>,
): Broken<VideoVendor> => ({
  law,
  but,
  make: reels((jobs) => {
    const good = reelVendor(jobs)
    return { ...good, ...spoil(good, jobs) }
  }),
})

/** Says something else of a state. */
const seeing = (law: string, but: string, spoil: (state: VideoState) => VideoState) =>
  broken(law, but, (good) => ({ pollUpstream: async (handle, at) => spoil(await good.pollUpstream(handle, at)) }))

export const brokenVideoVendors: readonly Broken<VideoVendor>[] = [
  {
    law: 'a job is found by its handle from another instance of the adapter',
    but: 'remembers its jobs itself',
    make: async () => ({ open: async () => reelVendor(), close: async () => {} }),
  },
  seeing(
    'a job that runs is queued or in progress, by a percentage or none',
    'counts its progress in thousandths',
    (state) => (state.kind === 'running' ? { ...state, progress: (state.progress ?? 0) * 10 + 100 } : state),
  ),
  seeing('a finished job has a clip, by its URL or by its bytes', 'has neither the one nor the other', (state) =>
    state.kind === 'done' ? { kind: 'done' } : state,
  ),
  seeing('a failed job says why, in words that are not the vendor’s', 'passes on what the vendor said', (state) =>
    state.kind === 'failed' ? { ...state, reason: `The vendor said: ${UPSTREAM_TEXT}.` } : state,
  ),
  broken(
    'a job that is refused is a fault, in words that are not the vendor’s',
    'passes on what the vendor said',
    (good) => ({
      submit: (job, at) => (job.prompt === BARRED ? Promise.reject(new Error(UPSTREAM_TEXT)) : good.submit(job, at)),
    }),
  ),
  broken('what has ended stays as it was, however often it is looked at', 'throws once it has told the end', (good) => {
    const reported = new Set<string>()
    return {
      async pollUpstream(handle, at) {
        if (reported.has(handle)) throw new Error('gone')
        const state = await good.pollUpstream(handle, at)
        if (state.kind !== 'running') reported.add(handle)
        return state
      },
    }
  }),
  broken(
    'a job that nobody knows has failed, or is an error, but never runs',
    'takes silence for work',
    (good, jobs) => ({
      pollUpstream: async (handle, at) =>
        jobs.has(handle) ? await good.pollUpstream(handle, at) : { kind: 'running', status: 'in_progress' },
    }),
  ),
  broken(
    'jobs at the same time have handles of their own, and ends of their own',
    'numbers its jobs before it waits',
    (_, jobs) => ({
      async submit(job, { signal }) {
        const handle = `reel-${jobs.size + 1}`
        await work(signal)
        if (job.prompt === BARRED) throw new ApiError('INVALID_VIDEO_REQUEST')
        jobs.set(handle, { job, polls: 0 })
        return { handle }
      },
    }),
  ),
  broken('takes words in any script, of any length that is sold', 'reads ASCII only', (good) => ({
    submit: (job, at) => (/^[ -~]*$/.test(job.prompt) ? good.submit(job, at) : Promise.reject(new Error('unreadable'))),
  })),
  broken('a job is read, never changed', 'writes into its job', (good) => ({
    async submit(job, at) {
      at.signal.throwIfAborted()
      if (job.prompt === CLIP_JOB.prompt) Object.assign(job, { model: job.model })
      return await good.submit(job, at)
    },
  })),
  broken(
    'an aborted signal ends a submission and a look with its reason, before they begin and while they run',
    'does not look up from a look',
    (good) => ({
      async pollUpstream(handle) {
        await turns(40)
        return await good.pollUpstream(handle, { signal: new AbortController().signal })
      },
    }),
  ),
]
