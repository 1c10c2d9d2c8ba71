/** Seed pictures brought to the size of the clip that they begin. Needs Bun. */
import { fitted, sourceOf } from './fitting.ts'
import { encodePng } from './png.ts'
import type { Resize } from './video_provider.ts'

/**
 * The whole picture as a PNG of exactly that size: cut at its edges where little is lost, else over a blurred copy of itself, never stretched.
 * Throws INVALID_IMAGE for what cannot be decoded, HEIC and AVIF among it.
 */
export function pictureResizer(): Resize {
  // One at a time: the largest picture takes hundreds of megabytes while it is decoded.
  let last: Promise<unknown> = Promise.resolve()
  return async (dataUri, size) => {
    const source = sourceOf(dataUri, 'The image')
    const work = last.then(async () => ({ bytes: await encodePng(await fitted(source, size)), type: 'image/png' }))
    last = work.catch(() => {})
    return await work
  }
}
