/** Hosted media: bytes that never change, under unguessable keys. */
import { free } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import type { ByteRange } from '../../ports/mod.ts'

const file = free({
  name: 'media.file',
  path: '/api/media/{key...}',
  summary: 'A hosted media file',
  tag: 'media',
  hidden: true,
  async answer({ method, params, header }, { objects }) {
    const { key = '' } = params
    const etag = `"${key.replaceAll(/[^\w./-]/g, '')}"`
    const isKnown = header('if-none-match') === etag
    // A range of another version would not match, so If-Range must name this file.
    const isOfThis = (header('if-range') ?? etag) === etag
    const range = method === 'GET' && isOfThis && !isKnown ? rangeIn(header('range')) : undefined
    const found = await objects.get(key, range)
    if (!found)
      return json(404, { error: 'Not found', message: 'There is no such media file.' }, { 'cache-control': 'no-store' })
    const { size, type, body, part } = found
    const headers = {
      'content-type': type,
      'cache-control': 'public, max-age=31536000, immutable',
      etag,
      'accept-ranges': 'bytes',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    }
    if (part === null)
      return json(
        416,
        { error: 'Range not satisfiable', message: `The file has ${size} bytes.` },
        { 'cache-control': 'no-store', 'content-range': `bytes */${size}` },
      )
    if (part) {
      const { first, last } = part
      return {
        status: 206,
        headers: {
          ...headers,
          'content-length': String(last - first + 1),
          'content-range': `bytes ${first}-${last}/${size}`,
        },
        body,
      }
    }
    if (!isKnown) return { status: 200, headers: { ...headers, 'content-length': String(size) }, body }
    if (body instanceof ReadableStream) await body.cancel()
    return { status: 304, headers, body: null }
  },
})

/**
 * Parses a single range. Undefined for an invalid header and for several ranges, which both get the whole file (RFC
 * 9110, 14.2).
 */
function rangeIn(text: string | null): ByteRange | undefined {
  const [, from = '', to = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(text?.trim() ?? '') ?? []
  const [first, last] = [Number(from), Number(to)]
  if (from === '') return to === '' ? undefined : fromEnd(last)
  if (to === '') return { first }
  return first <= last ? { first, last } : undefined
}

/** The last `count` bytes. Zero bytes cannot be satisfied. */
const fromEnd = (count: number): ByteRange => ({ first: count === 0 ? Number.MAX_SAFE_INTEGER : -count })

export const media = [file]
