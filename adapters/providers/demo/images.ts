/** The demo image vendor: pictures drawn from a prompt's hash, edits that tint, and both say so. */
import type { ImageEdit, ImageJob, ImageVendor } from '../../../core/mod.ts'
import { sourceOf } from '../lib/fitting.ts'
import { type EditOrder, labelOf, type PictureOrder } from './drawing.ts'
import { type ThreadOptions, workshop } from './threads.ts'

const LARGEST_SIDE = 4096
const MAX_IMAGES = 16
/** Only this much of a prompt is read; its hash is of all of it. */
const READ = 2_000

/**
 * The same job makes the same pictures, each of exactly the asked size. Every picture, edit and file says that no model
 * made it.
 */
export function demoImages(options: ThreadOptions = {}): ImageVendor & { close(): void } {
  const threads = workshop({ waiting: 256, ...options })

  async function all(job: ImageJob, more: Pick<EditOrder, 'images' | 'mask'> | undefined, signal: AbortSignal) {
    const { width, height, n } = job
    signal.throwIfAborted()
    check(job)
    threads.admit(n)
    const sources = more?.images.reduce((sum, source) => sum + source.width * source.height, 0) ?? 0
    const weight = width * height * (more ? 40 : 12) + 8 * sources
    const prompt = job.prompt.length > READ ? `${job.prompt.slice(0, READ)} ${Bun.hash(job.prompt)}` : job.prompt
    const made = await Promise.all(
      Array.from({ length: n }, (_, variant) => {
        const order = { prompt, width, height, variant }
        return threads.run(
          more ? { kind: 'edit', ...order, ...more } : ({ kind: 'picture', ...order } satisfies PictureOrder),
          { signal, weight },
        )
      }),
    )
    return made.map(({ url = '' }) => url)
  }

  return {
    async generate(job, { signal }) {
      return (await all(job, undefined, signal)).map((url) => ({ url }))
    },
    async edit(job, { signal }) {
      const revisedPrompt = `${labelOf('edit')}: ${Array.from(job.prompt.slice(0, 400)).slice(0, 200).join('')}`
      return (await all(job, sourcesOf(job), signal)).map((url) => ({ url, revisedPrompt }))
    },
    close: threads.close,
  }
}

/** Throws INVALID_IMAGE with what is accepted, naming the image that is not. */
function sourcesOf({ images, mask }: ImageEdit): Pick<EditOrder, 'images' | 'mask'> {
  const named = (index: number) => (images.length > 1 ? `Image ${index + 1}` : 'The image')
  if (images.length < 1 || images.length > MAX_IMAGES)
    throw new Error(`the demo edits 1 to ${MAX_IMAGES} images, not ${images.length}`)
  const sources = images.map((uri, index) => sourceOf(uri, named(index)))
  return { images: sources, ...(mask !== undefined && { mask: sourceOf(mask, 'The mask', ['PNG']) }) }
}

function check({ width, height, n }: ImageJob): void {
  const fits = (side: number) => Number.isInteger(side) && side >= 64 && side <= LARGEST_SIDE
  if (!fits(width) || !fits(height))
    throw new Error(`the demo draws 64 to ${LARGEST_SIDE} pixels a side, not ${width}x${height}`)
  if (!Number.isInteger(n) || n < 1 || n > MAX_IMAGES)
    throw new Error(`the demo draws 1 to ${MAX_IMAGES} images, not ${n}`)
}
