/** Media of a result in the reply itself, for clients that ask for base64 in place of URLs. */
import type { Hosted } from '../../endpoint/mod.ts'
import { decodeDataUri, toBase64 } from '../../lib/base64.ts'
import { concurrencyLimiter } from '../../lib/limiter.ts'
import type { Objects } from '../../ports/objects.ts'
import type { Log } from '../../ports/log.ts'

/** Most bytes of media in one reply; what is beyond has its URL alone. */
const MAX_EMBEDDED = 24 * 1024 * 1024
/** Replies that are filled at once: each has all of its media in memory. */
const turn = concurrencyLimiter(2)

/**
 * Base64 of each file, in order: of what the vendor sent inline, else of what is stored. Undefined for a file that
 * cannot be read: it is paid for, and has its URL. Never rejects.
 */
export function embeddedMedia(
  ports: { readonly objects: Objects; readonly log: Log },
  media: readonly Hosted[],
  raw: readonly string[] = [],
): Promise<readonly (string | undefined)[]> {
  return turn(async () => {
    const embedded: (string | undefined)[] = []
    let left = MAX_EMBEDDED
    for (const [index, { key, url }] of media.entries()) {
      const inline = decodeDataUri(raw[index] ?? url ?? '')
      const bytes = inline?.bytes ?? (key === null ? undefined : await bytesOf(ports, key, left))
      const fits = bytes !== undefined && bytes.length <= left
      if (fits) left -= bytes.length
      embedded.push(fits ? toBase64(bytes) : undefined)
    }
    return embedded
  })
}

async function bytesOf(
  { objects, log }: { readonly objects: Objects; readonly log: Log },
  key: string,
  most: number,
): Promise<Uint8Array | undefined> {
  try {
    const found = await objects.get(key)
    if (!found) return undefined
    const { body, size } = found
    if (size <= most) return body instanceof Uint8Array ? body : new Uint8Array(await new Response(body).arrayBuffer())
    if (!(body instanceof Uint8Array)) await body.cancel()
  } catch (error) {
    log.warn('media could not be read for a reply; it has its URL', { error: (error as Error).message })
  }
  return undefined
}
