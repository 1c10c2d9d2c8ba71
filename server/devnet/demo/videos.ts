/** The demo video vendor: still films of the demo's pictures, each frame labelled as demo. */
import { randomUUID } from 'node:crypto'
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { concurrencyLimiter } from '../../../core/lib/mod.ts'
import type { Log, PortraitVendor, VideoJob, VideoState, VideoVendor } from '../../../core/mod.ts'
import { film, frameSize } from './film.ts'
import { busy, dataUri } from './queue.ts'

/** `waiting` films may queue, `maxFilms` stay in memory; `makeFilm` is for tests. */
export type DemoVideosOptions = {
  readonly waiting?: number
  readonly maxFilms?: number
  readonly log?: Log
  readonly makeFilm?: typeof film
}

const [MAX_SECONDS, MAX_PROMPT, MAX_WAITING, MAX_FILMS] = [30, 1_000, 32, 12]

type Film = { state: VideoState; mp4?: Uint8Array }

const failed = (reason: string): VideoState => ({ kind: 'failed', reason })

/**
 * Silent films, made one at a time; equal jobs make equal films. Only the newest stay in memory, and can be read again.
 */
export function demoVideos(options: DemoVideosOptions = {}): VideoVendor {
  const { waiting = MAX_WAITING, maxFilms = MAX_FILMS, log, makeFilm = film } = options
  const limit = concurrencyLimiter(1)
  const films = new Map<string, Film>()

  async function make(made: Film, handle: string, order: VideoJob): Promise<void> {
    made.state = { kind: 'running', status: 'in_progress', progress: 50 }
    try {
      const { mp4, lastFrame } = await makeFilm(order)
      const more = lastFrame && { lastFrameUrl: dataUri(lastFrame, 'image/png') }
      Object.assign(made, { mp4, state: { kind: 'done', seconds: order.seconds, requestId: handle, ...more } })
    } catch (cause) {
      made.state = failed('The demo film could not be made.')
      log?.warn('a demo film failed', { error: String(cause), prompt: order.prompt.slice(0, 80) })
    }
    const ended = [...films].filter(([, { state }]) => state.kind !== 'running')
    for (const [handle] of ended.slice(0, -maxFilms)) films.delete(handle)
  }

  const queued = () => [...films.values()].filter(({ state }) => 'status' in state && state.status === 'queued').length
  return {
    isFull: () => queued() > waiting / 2, // the rest is for calls that are being opened
    async submit(job, { signal }) {
      signal.throwIfAborted()
      const { seconds } = job
      if (!Number.isInteger(seconds) || seconds < 1 || seconds > MAX_SECONDS)
        throw new Error(`the demo films 1 to ${MAX_SECONDS} whole seconds, not ${seconds}`)
      const order = { ...job, prompt: job.prompt.slice(0, MAX_PROMPT) }
      frameSize(order)
      if (queued() >= waiting) throw busy(waiting)
      const [handle, made] = [randomUUID(), { state: { kind: 'running', status: 'queued' } } as Film]
      films.set(handle, made)
      void limit(() => make(made, handle, order))
      return { handle }
    },
    async pollUpstream(handle, { signal }) {
      signal.throwIfAborted()
      return films.get(handle)?.state ?? failed('The demo film was deleted, or lost with its process.')
    },
    async clip(handle, { signal }) {
      signal.throwIfAborted()
      const bytes = films.get(handle)?.mp4
      if (!bytes) throw new Error(`there is no demo film ${handle}`)
      const body = new Blob([new Uint8Array(bytes)]).stream()
      return { body, type: 'video/mp4', size: bytes.length }
    },
  }
}

const LINK_SECONDS = 120
const PAGE = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>No liveness check on devnet</title>
<h1>No liveness check is done on devnet</h1>
<p>With a vendor, this link opens a check that a living person is in front of the camera. This gateway looks at no camera
and passes every check. Close this page, and finish with <code>POST /api/v1/realface/enroll</code>.</p>
</html>
`

/**
 * Enrols every picture without looking at it; the page says so. Equal pictures have equal asset ids, and equal tokens
 * equal groups, in any process. `random` makes tokens.
 */
export function demoCharacters({ random }: { random(bytes: number): Uint8Array }): PortraitVendor {
  const idOf = (kind: string, of: string) => `local-${kind}-${bytesToHex(sha256(utf8ToBytes(of))).slice(0, 24)}`
  const enroll: PortraitVendor['enroll'] = async ({ image }, { signal }) => {
    signal.throwIfAborted()
    return { kind: 'enrolled', assetId: idOf('asset', image) }
  }
  return {
    page: PAGE,
    enroll,
    face: async (_group, picture, at) => await enroll(picture, at),
    async session(_name, { signal }) {
      signal.throwIfAborted()
      return { token: `local-${bytesToHex(random(16))}`, expiresInSeconds: LINK_SECONDS }
    },
    async status(token, { signal }) {
      signal.throwIfAborted()
      return { kind: 'active', groupId: idOf('group', token) }
    },
  }
}
