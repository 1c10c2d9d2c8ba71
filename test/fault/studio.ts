/**
 * A stand-in for xAI that films when it is told to, and that can be stopped in the middle of taking a job or of giving
 * a clip away.
 */
import { CLIP_BYTES } from '../fakes/videos.ts'

type Step = 'submit' | 'clip'

export type Studio = {
  readonly origin: string
  /** Its result of every job. */
  readonly clip: Uint8Array
  /** Every job that it has taken is done from now on. */
  finish(): void
  /** The next one that comes to this place is kept there: `reached` when it is, until `release`. */
  hold(step: Step): { readonly reached: Promise<void>; release(): void }
  stop(): Promise<void>
}

const CLIP_SIZE = 1 << 20

export function studio(): Studio {
  const clip = new Uint8Array(CLIP_SIZE).fill(7)
  clip.set(CLIP_BYTES)
  const holds = new Map<Step, { reach(): void; readonly released: Promise<void> }>()
  const done = new Set<string>()
  let taken = 0

  /** Waits where somebody is held. */
  async function pass(step: Step): Promise<void> {
    const hold = holds.get(step)
    holds.delete(step)
    hold?.reach()
    await hold?.released
  }

  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, origin } = new URL(request.url)
      if (pathname === '/videos/generations') {
        await pass('submit')
        return Response.json({ request_id: `r-${++taken}` })
      }
      const [, room, id = ''] = pathname.split('/')
      if (room === 'clips')
        return new Response(inHalves(), {
          headers: { 'content-type': 'video/mp4', 'content-length': String(clip.length) },
        })
      return Response.json(
        done.has(id)
          ? { status: 'done', video: { url: `${origin}/clips/${id}.mp4`, duration: 1 } }
          : { status: 'pending' },
      )
    },
  })

  function inHalves(): ReadableStream<Uint8Array> {
    const halves = [clip.subarray(0, CLIP_SIZE / 2), clip.subarray(CLIP_SIZE / 2)]
    return new ReadableStream({
      async pull(controller) {
        if (halves.length === 1) await pass('clip')
        const half = halves.shift()
        if (half) return controller.enqueue(half)
        controller.close()
      },
    })
  }

  return {
    origin: server.url.origin,
    clip,
    finish() {
      for (let job = 1; job <= taken; job++) done.add(`r-${job}`)
    },
    hold(step) {
      const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      holds.set(step, { reach: reached.resolve, released: released.promise })
      return { reached: reached.promise, release: released.resolve }
    },
    stop: () => server.stop(true),
  }
}
