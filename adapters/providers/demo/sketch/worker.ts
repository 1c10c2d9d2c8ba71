import { parentPort } from 'node:worker_threads'
import { ApiError } from '../../../../core/http/errors.ts'
import { editOf, type Edit } from './edit.ts'
import { labelled } from './png.ts'
import { drawnPng } from './render.ts'
import { LABEL, sceneOf, type Sketch } from './scene.ts'

/** One answer per task, in order: the picture as a data URI, why there is none, or what is wrong with the images to edit. */
export type Answer = { url: string } | { error: string } | { refused: string }

parentPort?.on('message', async (task: Sketch | Edit) => {
  parentPort?.postMessage(await answerTo(task))
})

async function answerTo(task: Sketch | Edit): Promise<Answer> {
  try {
    const png = 'images' in task ? await editOf(task) : labelled(await drawnPng(sceneOf(task)), LABEL, task.prompt)
    return { url: `data:image/png;base64,${Buffer.from(png).toString('base64')}` }
  } catch (cause) {
    if (cause instanceof ApiError) return { refused: String(cause.parts.details) }
    return { error: cause instanceof Error ? cause.message : String(cause) }
  }
}
