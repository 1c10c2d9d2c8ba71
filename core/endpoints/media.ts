/** Hosted media: bytes that never change, under unguessable keys. */
import { free, json } from '../endpoint.ts'

const file = free({
  name: 'media.file',
  path: '/api/media/{key...}',
  summary: 'A hosted media file',
  tag: 'media',
  hidden: true,
  async answer({ params, header }, { objects }) {
    const { key = '' } = params
    const etag = `"${key.replaceAll(/[^\w./-]/g, '')}"`
    const found = await objects.get(key)
    if (!found) return json(404, { error: 'Not found', message: 'There is no such media file.' }, { 'cache-control': 'no-store' })
    const headers = {
      'content-type': found.type,
      'cache-control': 'public, max-age=31536000, immutable',
      etag,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    }
    if (header('if-none-match') !== etag) return { status: 200, headers: { ...headers, 'content-length': String(found.size) }, body: found.body }
    if (found.body instanceof ReadableStream) await found.body.cancel()
    return { status: 304, headers, body: null }
  },
})

export const media = [file]
