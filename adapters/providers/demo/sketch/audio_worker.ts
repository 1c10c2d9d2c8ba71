/** Makes one sound in a process of its own, or in a thread inside a compiled binary. */
import { parentPort } from 'node:worker_threads'
import { type AudioAnswer, type AudioOrder, audioOf } from './audio_work.ts'

const say = (answer: AudioAnswer): void => {
  if (parentPort) return parentPort.postMessage(answer)
  process.send?.(answer)
}

const take = (order: AudioOrder): void => {
  audioOf(order).then(say, (cause: unknown) => say({ error: cause instanceof Error ? cause.message : String(cause) }))
}

if (parentPort) parentPort.on('message', take)
if (!parentPort && process.send) {
  process.on('disconnect', () => process.exit())
  process.on('message', take)
}
