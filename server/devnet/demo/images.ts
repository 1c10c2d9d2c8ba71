/** The demo image vendor: pictures and tinted edits, labelled as demo. */
import type { ImageEdit, ImageJob, ImageVendor } from '../../../core/mod.ts'
import { orAbort } from '../../../adapters/http/or_abort.ts'
import { sourceOf } from '../../../adapters/providers/lib/fitting.ts'
import { editedPicture, type EditOrder, labelOf, picture } from './drawing.ts'
import { dataUri, demoQueue } from './queue.ts'

const [MIN_SIDE, MAX_SIDE, MAX_WAITING] = [64, 4096, 1_024]

/** Equal jobs make equal pictures, each of exactly the ordered size. Full when a quarter of `waiting` orders wait. */
export function demoImages({ waiting = MAX_WAITING }: { readonly waiting?: number } = {}): ImageVendor {
  const limit = demoQueue(waiting)
  let orders = 0

  async function make(job: ImageJob, sources: Pick<EditOrder, 'images' | 'mask'> | undefined, signal: AbortSignal) {
    const { prompt, width, height, n } = job
    if (Math.min(width, height) < MIN_SIDE || Math.max(width, height) > MAX_SIDE)
      throw new Error(`the demo draws ${MIN_SIDE} to ${MAX_SIDE} pixels a side, not ${width}x${height}`)
    orders++
    const work = limit(async () => {
      const urls: string[] = []
      for (let variant = 0; variant < n; variant++) {
        signal.throwIfAborted()
        const order = { prompt, width, height, variant }
        const png = sources ? await editedPicture({ ...order, ...sources }) : await picture(order)
        urls.push(dataUri(png, 'image/png'))
      }
      return urls
    }, signal).finally(() => orders--)
    return await orAbort(work, signal)
  }

  return {
    isFull: () => orders > waiting / 4, // the rest is for calls that are being opened
    async generate(job, { signal }) {
      return (await make(job, undefined, signal)).map((url) => ({ url }))
    },
    async edit(job, { signal }) {
      const revisedPrompt = `${labelOf('edit')}: ${Array.from(job.prompt.slice(0, 400)).slice(0, 200).join('')}`
      return (await make(job, sourcesOf(job), signal)).map((url) => ({ url, revisedPrompt }))
    },
  }
}

/** Throws INVALID_IMAGE with what is accepted, naming the wrong image. */
function sourcesOf({ images, mask }: ImageEdit): Pick<EditOrder, 'images' | 'mask'> {
  const nameOf = (index: number) => (images.length > 1 ? `Image ${index + 1}` : 'The image')
  const sources = images.map((uri, index) => sourceOf(uri, nameOf(index)))
  return { images: sources, ...(mask !== undefined && { mask: sourceOf(mask, 'The mask', ['PNG']) }) }
}
