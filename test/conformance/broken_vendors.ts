import { crc32, deflateSync } from 'node:zlib'
import type { ImageJob, ImageVendor, MadeImage } from '../../core/mod.ts'
import { breaking, type Broken } from './law.ts'

/** A grey PNG of the asked size. */
function grey({ width, height }: Pick<ImageJob, 'width' | 'height'>): string {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
    const ends = Buffer.alloc(8)
    ends.writeUInt32BE(data.length, 0)
    ends.writeUInt32BE(crc32(body), 4)
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)])
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header[8] = 8
  const png = [
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.alloc((width + 1) * height))),
    chunk('IEND', Buffer.alloc(0)),
  ]
  return `data:image/png;base64,${Buffer.concat(png).toString('base64')}`
}

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

/** Grey images, as many and as large as asked for. */
export const greys = (job: ImageJob): readonly MadeImage[] => Array.from({ length: job.n }, () => ({ url: grey(job) }))

/** Keeps every law; takes a few turns, so that an abort can come in between. */
export function greyVendor(): ImageVendor {
  return {
    async generate(job, { signal }) {
      for (let turn = 0; turn < 6; turn++) {
        signal.throwIfAborted()
        await turns(1)
      }
      return greys(job)
    },
  }
}

const breakingOne = breaking<ImageVendor>(greyVendor)
const broken = (law: string, but: string, wrap: (good: ImageVendor) => ImageVendor['generate']) =>
  breakingOne(law, but, (good) => ({ generate: wrap(good) }))

export const brokenImageVendors: readonly Broken<ImageVendor>[] = [
  broken(
    'makes as many images as were asked for',
    'makes one, however many were asked for',
    (good) => (job, at) => good.generate({ ...job, n: 1 }, at),
  ),
  broken(
    'an image is an http(s) URL or a data URI of image bytes, with a revised prompt or none',
    'calls its image a text',
    (good) => async (job, at) =>
      (await good.generate(job, at)).map(({ url }) => ({ url: url.replace('image/png', 'text/plain') })),
  ),
  broken(
    'an image has the size that was asked for',
    'makes them all 16 by 16',
    (good) => (job, at) => good.generate({ ...job, width: 16, height: 16 }, at),
  ),
  broken(
    'draws from words in any script, of any length that is sold',
    'reads ASCII only',
    (good) => (job, at) =>
      /^[ -~]*$/.test(job.prompt) ? good.generate(job, at) : Promise.reject(new Error('unreadable')),
  ),
  broken('jobs at the same time do not mix', 'draws the newest job for all', (good) => {
    let newest: ImageJob | undefined
    return async (job, at) => {
      newest = job
      await turns(1)
      return await good.generate(newest, at)
    }
  }),
  broken('a job is read, never changed', 'writes into its job', (good) => (job, at) => {
    Object.assign(job, { model: job.model })
    return good.generate(job, at)
  }),
  broken(
    'an aborted signal ends the work with its reason, before it begins and while it runs',
    'does not look up from its work',
    () => async (job) => {
      await turns(40)
      return greys(job)
    },
  ),
  broken('an abort ends its own job only', 'drops all its work at an abort', (good) => {
    const running = new Set<AbortController>()
    return async (job, { signal }) => {
      const own = new AbortController()
      running.add(own)
      signal.throwIfAborted()
      signal.addEventListener('abort', () => running.forEach((each) => each.abort(signal.reason)))
      return await good.generate(job, own).finally(() => running.delete(own))
    }
  }),
  broken('a job that was stopped does not wear its vendor out', 'keeps the seat of a job that was stopped', (good) => {
    let seats = 3
    return async (job, at) => {
      if (seats === 0) throw new Error('no seat is free')
      return await good.generate(job, at).catch((error: unknown) => {
        seats--
        throw error
      })
    }
  }),
]
