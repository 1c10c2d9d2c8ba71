/** The demo video vendor: films of the demo's pictures, which say what they are in every frame. */
import { randomUUID } from 'node:crypto'
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import type { Log, PortraitVendor, VideoJob, VideoState, VideoVendor } from '../../../core/mod.ts'
import { type FilmOrder, frameSize } from './film.ts'
import { type ThreadOptions, workshop } from './threads.ts'

/** `keptBytes` is how much of finished films stays; `log` hears why one failed. */
export type DemoVideosOptions = ThreadOptions & { readonly cacheBytes?: number; readonly log?: Log }

const MAX_SECONDS = 30
const READ = 1_000
/** How many jobs are remembered after they ended. */
const REMEMBERED = 1_024
const CHUNK = 1 << 18

type Film = { state: VideoState; bytes?: Uint8Array | undefined; read: boolean }

const failed = (reason: string): VideoState => ({ kind: 'failed', reason })
const LOST = failed('The demo film was lost with its process.')
const DROPPED = failed('The demo film was not collected in time, and is gone.')

/**
 * Films without sound, one at a time, in memory; the same film for the same job. Handles end with this process. A clip
 * can be read again until newer ones take its place, those first that were read.
 */
export function demoVideos({ cacheBytes = 1 << 28, log, ...options }: DemoVideosOptions = {}): VideoVendor & {
  close(): void
} {
  const threads = workshop({ threads: 1, waiting: 32, limitMs: 300_000, ...options })
  const films = new Map<string, Film>()

  async function make(film: Film, order: FilmOrder): Promise<void> {
    const progress = (percent: number) => {
      film.state = { kind: 'running', status: 'in_progress', progress: percent }
    }
    try {
      const { bytes, url } = await threads.run(order, { progress, weight: weightOf(order) })
      Object.assign(film, { bytes, state: { kind: 'done', seconds: order.seconds, ...(url && { lastFrameUrl: url }) } })
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      const isLate = reason.includes('took too long')
      film.state = failed(isLate ? 'The demo film took too long to make.' : 'The demo film could not be made.')
      log?.warn('a demo film failed', { error: reason, prompt: order.prompt.slice(0, 80) })
    }
    tidy()
  }

  /**
   * Drops films that are too much to keep, those first that were read, then the oldest; and forgets the oldest jobs.
   */
  function tidy(): void {
    const done = [...films.values()].filter(({ bytes }) => bytes).toSorted((a, b) => Number(b.read) - Number(a.read))
    let size = done.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0)
    for (const film of done) {
      if (size <= cacheBytes) break
      size -= film.bytes?.length ?? 0
      Object.assign(film, { bytes: undefined, state: DROPPED })
    }
    const ended = [...films].filter(([, { state, bytes }]) => state.kind !== 'running' && !bytes)
    for (const [handle] of ended.slice(0, Math.max(0, ended.length - REMEMBERED))) films.delete(handle)
  }

  return {
    async submit(job, { signal }) {
      signal.throwIfAborted()
      const order = orderOf(job)
      threads.admit()
      const handle = randomUUID()
      const film: Film = { state: { kind: 'running', status: 'queued' }, read: false }
      films.set(handle, film)
      void make(film, order)
      return { handle }
    },
    async pollUpstream(handle, { signal }) {
      signal.throwIfAborted()
      return films.get(handle)?.state ?? LOST
    },
    async clip(handle, { signal }) {
      signal.throwIfAborted()
      const film = films.get(handle)
      const bytes = film?.bytes
      if (!bytes) throw new Error('there is no such demo film to read')
      let at = 0
      const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
        signal.throwIfAborted()
        controller.enqueue(bytes.slice(at, (at += CHUNK)))
        if (at < bytes.length) return
        film.read = true
        controller.close()
      }
      const body = new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 })
      return { body, type: 'video/mp4', size: bytes.length }
    },
    /** Ends what is made or waits, and forgets every film. */
    close() {
      threads.close()
      films.clear()
    },
  }
}

/**
 * What the worker needs of a job. Throws for what it cannot film; links are not followed, only named in the caption.
 */
function orderOf(job: VideoJob): FilmOrder {
  const { seconds, resolution, aspectRatio, seed, image, lastFrame, returnLastFrame = false } = job
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > MAX_SECONDS) {
    throw new Error(`the demo films 1 to ${MAX_SECONDS} whole seconds, not ${seconds}`)
  }
  frameSize(job)
  const references = [job.referenceImages, job.referenceVideos, job.referenceAudios].flatMap(
    (list) => list ?? [],
  ).length
  const unseen = [...(job.asset ? ['character'] : []), ...(references > 0 ? [`${references} references`] : [])]
  const prompt = job.prompt.slice(0, READ)
  return { kind: 'film', prompt, seconds, resolution, aspectRatio, seed, image, lastFrame, unseen, returnLastFrame }
}

function weightOf(order: FilmOrder): number {
  const { width, height } = frameSize(order)
  return width * height * 16
}

// ── characters ──────────────────────────────────────────────────────────────────────────────────────────────────────

const LINK_SECONDS = 120

const PAGE = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>No liveness check on devnet</title>
<h1>No liveness check is done on devnet</h1>
<p>On a gateway with a vendor, this link opens a check of about one minute that a living person is in front of the camera.
This gateway looks at no camera and at no face, and counts every check as passed at once.</p>
<p>You can close this page, and finish with <code>POST /api/v1/realface/enroll</code>.</p>
</html>
`

/**
 * Characters are enrolled here and nowhere else. Nobody looks at a picture, and nobody is checked; the page says so.
 * The same picture has the same asset id, and a token the same group, in any process. `random` makes tokens.
 */
export function demoCharacters({ random }: { random(bytes: number): Uint8Array }): PortraitVendor {
  return {
    page: PAGE,
    async enroll({ image }, { signal }) {
      signal.throwIfAborted()
      return { kind: 'enrolled', assetId: named('asset', image) }
    },
    async session(_name, { signal }) {
      signal.throwIfAborted()
      return { token: `local-${bytesToHex(random(16))}`, expiresInSeconds: LINK_SECONDS }
    },
    async status(token, { signal }) {
      signal.throwIfAborted()
      return { kind: 'active', groupId: named('group', token) }
    },
    async face(_group, { image }, { signal }) {
      signal.throwIfAborted()
      return { kind: 'enrolled', assetId: named('asset', image) }
    },
  }
}

const named = (kind: string, what: string): string =>
  `local-${kind}-${bytesToHex(sha256(utf8ToBytes(what))).slice(0, 24)}`
