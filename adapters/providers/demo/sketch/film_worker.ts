/** Draws one film in a process of its own, or in a thread inside a compiled binary. */
import { writeFile } from 'node:fs/promises'
import { parentPort } from 'node:worker_threads'
import type { FilmJob } from './film_plan.ts'

/** What is asked: a film into a new file, or only whether the encoder can be loaded. */
export type Order = { readonly job?: FilmJob; readonly path: string }
/** `ready` ends an order without a job; a film ends with `bytes`, and either with `error`. */
export type Answer = { ready: true } | { progress: number } | { bytes: number; lastFrame?: string } | { error: string }

const say = (answer: Answer): void => {
  if (parentPort) return parentPort.postMessage(answer)
  process.send?.(answer)
}

async function answerTo({ job, path }: Order): Promise<Answer> {
  const { createH264MP4Encoder } = await import('h264-mp4-encoder')
  const encoder = await createH264MP4Encoder()
  if (!job) return { ready: true }
  const { filmOf } = await import('./film.ts')
  const { mp4, lastFrame } = await filmOf(job, { encoder, progress: (progress) => say({ progress }) })
  await writeFile(path, mp4, { flag: 'wx' })
  return {
    bytes: mp4.length,
    ...(lastFrame && { lastFrame: `data:image/png;base64,${Buffer.from(lastFrame).toString('base64')}` }),
  }
}

const take = (order: Order): void => {
  answerTo(order).then(say, (cause: unknown) => say({ error: cause instanceof Error ? cause.message : String(cause) }))
}

if (parentPort) parentPort.on('message', take)
if (!parentPort && process.send) {
  process.on('disconnect', () => process.exit())
  process.on('message', take)
}
