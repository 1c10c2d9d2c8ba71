/** Resizes seed images to the size of their clip. Needs Bun. */
import { fitted, sourceOf } from './fitting.ts'
import { encodePng } from './png.ts'
import type { Resize } from './video_provider.ts'

/**
 * Returns a resizer to a PNG of exactly the given size: cropped where little is lost, else placed over a blurred copy
 * of itself, never stretched. Throws INVALID_IMAGE for files that cannot be decoded, such as HEIC and AVIF.
 */
export function pictureResizer(): Resize {
  // One at a time: decoding the largest image takes hundreds of megabytes.
  let last: Promise<unknown> = Promise.resolve()
  return async (dataUri, size) => {
    const source = sourceOf(dataUri, 'The image')
    const work = last.then(async () => ({ bytes: await encodePng(await fitted(source, size)), type: 'image/png' }))
    last = work.catch(() => {})
    return await work
  }
}
