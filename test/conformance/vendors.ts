import { expect } from 'bun:test'
import { decodeDataUri } from '../../core/lib/base64.ts'
import type { ImageJob, ImageVendor, MadeImage } from '../../core/mod.ts'
import { never, stopped, turn } from './abort.ts'
import { law, portLaw, type Law } from './law.ts'

const SMALL: ImageJob = { model: 'any', prompt: 'a red fox in the snow', width: 96, height: 64, n: 1 }
const TALL: ImageJob = { ...SMALL, prompt: 'a lighthouse at night', width: 64, height: 96 }

/** Width x height of a PNG; undefined for what would need another reader. */
function sizeOf({ url }: MadeImage): string | undefined {
  const bytes = decodeDataUri(url)?.bytes
  if (!bytes || new TextDecoder('latin1').decode(bytes.subarray(1, 4)) !== 'PNG') return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  return `${view.getUint32(16)}x${view.getUint32(20)}`
}

export const imageVendorLaws: readonly Law<ImageVendor>[] = [
  portLaw('makes as many images as were asked for', async (vendor) => {
    for (const n of [1, 2, 4]) expect(await vendor.generate({ ...SMALL, n }, never())).toHaveLength(n)
  }),
  law('an image is an http(s) URL or a data URI of image bytes, with a revised prompt or none', async (subject) => {
    for (const { url, revisedPrompt } of await (await subject.open()).generate({ ...SMALL, n: 2 }, never())) {
      expect(revisedPrompt === undefined || revisedPrompt.trim().length > 0).toBe(true)
      if (/^https?:\/\/./.test(url)) continue
      const decoded = decodeDataUri(url)
      expect([decoded?.type.split('/')[0], (decoded?.bytes.length ?? 0) > 16]).toEqual(['image', true])
    }
  }),
  portLaw('an image has the size that was asked for', async (vendor) => {
    for (const job of [SMALL, TALL]) {
      const [image] = await vendor.generate(job, never())
      expect(image && (sizeOf(image) ?? `${job.width}x${job.height}`)).toBe(`${job.width}x${job.height}`)
    }
  }),
  portLaw('draws from words in any script, of any length that is sold', async (vendor) => {
    for (const prompt of ['狐と雪 🦊', '\u202e<svg onload=x>', '\ud800', 'a red fox '.repeat(3_200)]) {
      expect(await vendor.generate({ ...SMALL, prompt }, never())).toHaveLength(1)
    }
  }),
  portLaw('jobs at the same time do not mix', async (vendor) => {
    const alone = []
    for (const job of [SMALL, TALL]) alone.push((await vendor.generate(job, never())).map(sizeOf))
    const together = await Promise.all([SMALL, TALL, SMALL, TALL].map((job) => vendor.generate(job, never())))
    expect(together.map((images) => images.map(sizeOf))).toEqual([...alone, ...alone])
  }),
  law('a job is read, never changed', async (subject) => {
    const job = Object.freeze({ ...SMALL })
    await (await subject.open()).generate(job, never())
    expect(job).toEqual(SMALL)
  }),
  portLaw('an aborted signal ends the work with its reason, before it begins and while it runs', async (vendor) => {
    const reason = new Error('out of time')
    const before = await vendor.generate(SMALL, { signal: AbortSignal.abort(reason) }).catch((error: unknown) => error)
    expect(before).toBe(reason)
    expect([reason, 'made']).toContain((await stopped((at) => vendor.generate(SMALL, at), reason)) as Error)
  }),
  portLaw('an abort ends its own job only', async (vendor) => {
    const controller = new AbortController()
    const doomed = vendor.generate(SMALL, controller).catch(() => [])
    const other = vendor.generate(TALL, never())
    await turn()
    controller.abort(new Error('gone'))
    expect(await other).toHaveLength(1)
    await doomed
  }),
  portLaw('a job that was stopped does not wear its vendor out', async (vendor) => {
    for (let times = 0; times < 3; times++) await stopped((at) => vendor.generate(SMALL, at), new Error('gone'))
    expect(await vendor.generate(SMALL, never())).toHaveLength(1)
  }),
]
