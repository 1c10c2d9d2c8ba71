import { expect } from 'bun:test'
import { ApiError, type VideoJob, type VideoState, type VideoVendor } from '../../core/mod.ts'
import { never, stopped, turn } from './abort.ts'
import { law, portLaw, type Law } from './law.ts'

/**
 * The fate of a job is in its prompt, for vendors that can be told: one behind a stand-in reads these words, and
 * puts VENDOR_SAYS into all that it says of a refusal or a failure. A vendor that makes what it is asked for may make
 * these as well.
 */
export const ENDLESS = 'never ends'
export const DOOMED = 'fails in the end'
export const BARRED = 'is refused at once'
export const UPSTREAM_TEXT = 'upstream text zebra-7431'

export const CLIP_JOB: VideoJob = { model: 'any', prompt: 'a red fox in the snow', seconds: 4, resolution: '480p' }
const OTHER: VideoJob = { ...CLIP_JOB, prompt: 'a lighthouse at night', seconds: 8 }

/** Looks until the job has ended, however long this machine takes; the state that ended it. */
async function ended(vendor: VideoVendor, handle: string): Promise<Exclude<VideoState, { kind: 'running' }>> {
  for (;;) {
    const state = await vendor.pollUpstream(handle, never())
    if (state.kind !== 'running') return state
    await turn()
  }
}

const made = async (vendor: VideoVendor, job: VideoJob) =>
  await ended(vendor, (await vendor.submit(job, never())).handle)

/** Its own text, its members' members included. */
function allOf(error: unknown): string {
  const { message, stack, parts, cause } = error as Error & Partial<ApiError>
  return [String(error), message, stack, JSON.stringify(parts), String(cause)].join('\n')
}

export const videoVendorLaws: readonly Law<VideoVendor>[] = [
  law('a job is found by its handle from another instance of the adapter', async (subject) => {
    const { handle } = await (await subject.open()).submit(CLIP_JOB, never())
    expect([typeof handle, handle.trim()]).toEqual(['string', handle])
    expect(await ended(await subject.open(), handle)).toMatchObject({ kind: 'done' })
  }),
  portLaw('a job that runs is queued or in progress, by a percentage or none', async (vendor) => {
    const { handle } = await vendor.submit({ ...CLIP_JOB, prompt: ENDLESS }, never())
    for (let times = 0; times < 5; times++) {
      const state = await vendor.pollUpstream(handle, never())
      if (state.kind !== 'running') return
      const { status, progress = 0 } = state
      expect([['queued', 'in_progress'].includes(status), progress >= 0 && progress <= 100]).toEqual([true, true])
    }
  }),
  portLaw('a finished job has a clip, by its URL or by its bytes', async (vendor) => {
    const { handle } = await vendor.submit(CLIP_JOB, never())
    const state = await ended(vendor, handle)
    if (state.kind !== 'done') throw new Error(`the job failed: ${state.reason}`)
    if (state.url !== undefined) return expect(state.url).toMatch(/^https?:\/\/[^/]|^data:video\/\w+;base64,./)
    const clip = await vendor.clip?.(handle, never())
    const bytes = new Uint8Array(await new Response(clip?.body ?? null).arrayBuffer())
    expect([clip?.type.split('/')[0], bytes.length > 16, clip?.size ?? bytes.length]).toEqual([
      'video',
      true,
      bytes.length,
    ])
  }),
  law('a failed job says why, in words that are not the vendor’s', async (subject) => {
    const state = await made(await subject.open(), { ...CLIP_JOB, prompt: DOOMED })
    if (state.kind === 'done') return
    expect(state.reason).toMatch(/^[A-Z][^{}<>]{8,200}\.$/)
    expect(state.reason).not.toContain(UPSTREAM_TEXT)
  }),
  portLaw('a job that is refused is a fault, in words that are not the vendor’s', async (vendor) => {
    const error = await vendor.submit({ ...CLIP_JOB, prompt: BARRED }, never()).catch((reason: unknown) => reason)
    if (!(error instanceof Error)) return
    expect([error instanceof ApiError, allOf(error).includes(UPSTREAM_TEXT)]).toEqual([true, false])
  }),
  portLaw('what has ended stays as it was, however often it is looked at', async (vendor) => {
    for (const prompt of [CLIP_JOB.prompt, DOOMED]) {
      const { handle } = await vendor.submit({ ...CLIP_JOB, prompt }, never())
      const first = await ended(vendor, handle)
      for (let times = 0; times < 3; times++) expect(await vendor.pollUpstream(handle, never())).toEqual(first)
    }
  }),
  law('a job that nobody knows has failed, or is an error, but never runs', async (subject) => {
    const state = await (
      await subject.open()
    )
      .pollUpstream('no-such-job', never())
      .catch(() => ({ kind: 'thrown' }) as const)
    expect(['failed', 'thrown']).toContain(state.kind)
  }),
  portLaw('jobs at the same time have handles of their own, and ends of their own', async (vendor) => {
    const jobs = [CLIP_JOB, { ...OTHER, prompt: DOOMED }, OTHER]
    const alone: string[] = []
    for (const job of jobs) alone.push((await made(vendor, job)).kind)
    const handles = await Promise.all(jobs.map(async (job) => (await vendor.submit(job, never())).handle))
    expect(new Set(handles).size).toBe(jobs.length)
    expect((await Promise.all(handles.map((handle) => ended(vendor, handle)))).map(({ kind }): string => kind)).toEqual(
      alone,
    )
  }),
  portLaw('takes words in any script, of any length that is sold', async (vendor) => {
    for (const prompt of ['狐と雪 🦊', '\u202e<svg onload=x>', '\ud800', '"; --', 'a red fox '.repeat(400)]) {
      expect((await vendor.submit({ ...CLIP_JOB, prompt }, never())).handle).toMatch(/./)
    }
  }),
  law('a job is read, never changed', async (subject) => {
    const job = Object.freeze({ ...CLIP_JOB })
    await (await subject.open()).submit(job, never())
    expect(job).toEqual(CLIP_JOB)
  }),
  portLaw(
    'an aborted signal ends a submission and a look with its reason, before they begin and while they run',
    async (vendor) => {
      const reason = new Error('out of time')
      const { handle } = await vendor.submit(CLIP_JOB, never())
      for (const begin of [
        (at: { signal: AbortSignal }) => vendor.submit(CLIP_JOB, at),
        (at: { signal: AbortSignal }) => vendor.pollUpstream(handle, at),
      ]) {
        expect(await begin({ signal: AbortSignal.abort(reason) }).catch((error: unknown) => error)).toBe(reason)
        expect([reason, 'made']).toContain((await stopped(begin, reason)) as Error)
      }
      expect(await ended(vendor, handle)).toMatchObject({ kind: 'done' })
    },
  ),
]
