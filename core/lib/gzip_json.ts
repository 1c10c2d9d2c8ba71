/**
 * Long texts as storage keeps them: compressed, for a list of eight megabytes takes 80 ms of everybody's time to write,
 * and its place on disk for an hour.
 */
import { fromBase64, toBase64 } from './base64.ts'
import type { Json } from './json.ts'
import { concurrencyLimiter } from './limiter.ts'

/** Of what is shorter a database makes nothing, in characters. */
const LONG = 1 << 16

/** Texts that are compressed at a time: each takes several times its room. */
const AT_ONCE = 2

/** Packs a long text, and leaves all else as it is. Those who pack the same text at the same time share the work. */
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

/** What was packed, letter by letter; what was not, as it is. */
export async function gunzipJson(stored: Json): Promise<Json> {
  const gzip = typeof stored === 'object' && stored !== null ? (stored as { readonly gzip?: Json }).gzip : undefined
  if (typeof gzip !== 'string') return stored
  return await new Response(
    new Blob([fromBase64(gzip) as BlobPart]).stream().pipeThrough(new DecompressionStream('gzip')),
  ).text()
}
