/** A scripted video vendor for tests. */
import type { MediaStream, VideoJob, VideoState, VideoVendor } from '../../core/mod.ts'
import { orAbort } from '../../adapters/http/or_abort.ts'

export type VideoScript = {
  /** The handle of a job; by default `job-1`, `job-2` and so on. */
  submit?(job: VideoJob, at: { signal: AbortSignal; attempt: number }): Promise<string>
  /**
   * The result of one poll, the first with `times` 1; by default queued, half done, done. The job is undefined when it
   * was not submitted here.
   */
  pollUpstream?(
    job: VideoJob | undefined,
    at: { handle: string; signal: AbortSignal; times: number },
  ): Promise<VideoState>
  clip?(handle: string, at: { signal: AbortSignal }): Promise<MediaStream>
}

export type ScriptedVideo = Required<VideoVendor> & {
  readonly jobs: readonly VideoJob[]
  /** Handles in the order of their polls. */
  readonly polls: readonly string[]
}

/** The first bytes of an MP4 file, enough to be recognised. */
export const CLIP_BYTES: Uint8Array = Uint8Array.from(Buffer.from('\0\0\0\x18ftypmp42\0\0\0\0mp42isom', 'latin1'))
export const CLIP = `data:video/mp4;base64,${Buffer.from(CLIP_BYTES).toString('base64')}`

/** Polls return these states in turn; the last one repeats. */
export function inTurn(...states: readonly VideoState[]): NonNullable<VideoScript['pollUpstream']> {
  return async (_, { times }) => states[Math.min(times, states.length) - 1] ?? { kind: 'running', status: 'queued' }
}

const usual = inTurn(
  { kind: 'running', status: 'queued' },
  { kind: 'running', status: 'in_progress', progress: 50 },
  { kind: 'done', url: CLIP },
)

/** A stream of these chunks. An error among them breaks it. */
export function clipOf(pieces: readonly (Uint8Array | Error)[] = [CLIP_BYTES], type = 'video/mp4'): MediaStream {
  const left = [...pieces]
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = left.shift()
      if (piece === undefined) return controller.close()
      if (piece instanceof Error) return controller.error(piece)
      controller.enqueue(piece)
    },
  })
  const sizes = pieces.map((piece) => (piece instanceof Error ? Number.NaN : piece.length))
  const size = sizes.reduce((sum, length) => sum + length, 0)
  return { body, type, ...(Number.isSafeInteger(size) && { size }) }
}

/**
 * Records every job and every poll. Rejects at once when the signal aborts, whatever the script does.
 *
 * @example
 * const videos = scriptedVideo()
 */
export function scriptedVideo(script: VideoScript = {}): ScriptedVideo {
  const jobs: VideoJob[] = []
  const polls: string[] = []
  const byHandle = new Map<string, VideoJob>()
  const {
    submit = async (_, { attempt }) => `job-${attempt}`,
    pollUpstream = usual,
    clip = async () => clipOf(),
  } = script

  return {
    jobs,
    polls,
    isFull: () => false,
    async submit(job, { signal }) {
      signal.throwIfAborted()
      const attempt = jobs.push(job)
      const handle = await orAbort(submit(job, { signal, attempt }), signal)
      byHandle.set(handle, job)
      return { handle }
    },
    pollUpstream(handle, { signal }) {
      polls.push(handle)
      const times = polls.filter((each) => each === handle).length
      const job = byHandle.get(handle)
      if (!job && !script.pollUpstream)
        return orAbort(Promise.resolve({ kind: 'failed', reason: 'The model lost this job.' }), signal)
      return orAbort(pollUpstream(job, { handle, signal, times }), signal)
    },
    clip: (handle, { signal }) => orAbort(clip(handle, { signal }), signal),
  }
}
