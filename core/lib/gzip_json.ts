/**
 * Compresses long texts for storage: writing a list of eight megabytes blocks the process for 80 ms, and takes its
 * space on disk for an hour.
 */
import { fromBase64, toBase64 } from './base64.ts'
import type { Json } from './json.ts'
import { concurrencyLimiter } from './limiter.ts'

/** Minimum length in characters; a database handles shorter texts well. */
const LONG = 1 << 16

/** Texts compressed at a time: each takes several times its size in memory. */
const AT_ONCE = 2

/** Compresses a long text and returns other values unchanged. Concurrent calls with the same text share the work. */
export function gzipJson(): (made: Json) => Promise<Json> {
  const turn = concurrencyLimiter(AT_ONCE)
  const under = new Map<string, Promise<Json>>()

  return async (made) => {
    if (typeof made !== 'string' || made.length < LONG) return made
    const known = under.get(made)
    if (known) return await known
    const work = turn(() => gzipped(made)).finally(() => under.delete(made))
    under.set(made, work)
    return await work
  }
}

async function gzipped(made: string): Promise<Json> {
  const squeezed = new Blob([made]).stream().pipeThrough(new CompressionStream('gzip'))
  return { gzip: toBase64(new Uint8Array(await new Response(squeezed).arrayBuffer())) }
}

/** Decompresses what `gzipJson` compressed and returns other values unchanged. */
export async function gunzipJson(stored: Json): Promise<Json> {
  const gzip = typeof stored === 'object' && stored !== null ? (stored as { readonly gzip?: Json }).gzip : undefined
  if (typeof gzip !== 'string') return stored
  return await new Response(
    new Blob([fromBase64(gzip) as BlobPart]).stream().pipeThrough(new DecompressionStream('gzip')),
  ).text()
}
