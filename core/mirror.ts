/** From a vendor's short-lived or inline media to durable, hosted objects. */
import { within } from './calls.ts'
import type { Hosted, Made } from './endpoint.ts'
import { decodeDataUri } from './intake.ts'
import type { Ports } from './ports.ts'
import { newSecret } from './tickets.ts'

/** What is mirrored, and how its files are called. Any other type is passed on, never hosted under our origin. */
const EXTENSIONS: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/webp': 'webp',
  'image/gif': 'gif',
  'image/avif': 'avif',
}

const FETCH_MS = 60_000

export type Mirroring = { readonly ports: Pick<Ports, 'objects' | 'vendors' | 'clock' | 'log' | 'random'>; readonly maxBytes: number }

/**
 * Stores every piece of media under a key that nobody can guess, least of all from the job's id: buyers know that before they pay.
 * A piece that fails keeps its upstream value; this never throws.
 */
export async function mirror({ ports, maxBytes }: Mirroring, id: string, media: Made['media']): Promise<readonly Hosted[]> {
  if (!media) return []
  const day = new Date(ports.clock.now()).toISOString().slice(0, 10)
  const secret = newSecret(ports.random)
  return await Promise.all(media.urls.map(host))

  async function host(url: string, index: number): Promise<Hosted> {
    try {
      const { bytes, type } = await load(url)
      const extension = EXTENSIONS[type]
      if (!extension) throw new Error(`media of type ${type} is not hosted`)
      const key = `${media?.folder}/${day}/${secret}-${index}.${extension}`
      await ports.objects.put(key, bytes, type)
      return { key, url: null, source: sourceOf(url) }
    } catch (error) {
      ports.log.warn('media could not be mirrored', { call: id, error: (error as Error).message })
      return { key: null, url, source: sourceOf(url) }
    }
  }

  async function load(url: string): Promise<{ bytes: Uint8Array; type: string }> {
    if (!url.startsWith('data:')) return await within(ports.clock, FETCH_MS, (signal) => ports.vendors.media(url, { signal, maxBytes }))
    const decoded = decodeDataUri(url)
    if (!decoded) throw new Error('the data URI does not decode')
    return decoded
  }
}

/** For inline media only the type is kept, never the payload (spec 1, `source_url`). */
function sourceOf(url: string): string {
  if (!url.startsWith('data:')) return url
  return /^data:[^;,]*/.exec(url)?.[0] ?? 'data:'
}
