/** Streams the bytes of a clip from a vendor's API, with its type detected from the first bytes. */
import { type MediaStream, NoMedia } from '../../core/mod.ts'
import { checkedStream } from './media_download.ts'

export type ClipOptions = {
  readonly signal: AbortSignal
  /** Aborts the vendor's reply when the body is cancelled. */
  readonly controller: AbortController
  readonly maxBytes: number
}

/**
 * Returns undefined for a reply that is not media: an error page with status 200, whatever type it claims, or an empty
 * body. Rejects when the connection breaks before the first bytes; later breaks and excess bytes error the body.
 */
export async function clipStream(
  response: Response,
  { signal, controller, maxBytes }: ClipOptions,
): Promise<MediaStream | undefined> {
  const { body, headers } = response
  const size = declaredLength(headers)
  const end = () => controller.abort('not wanted')
  if (!body || (size !== undefined && size > maxBytes)) return void end()
  try {
    const media = await checkedStream({
      chunks: withOwnErrors(body),
      claimed: headers.get('content-type'),
      size,
      maxBytes,
      signal,
      end,
    })
    if (/^(?:video|audio|image)\//.test(media.type)) return media
  } catch (error) {
    end()
    if (!(error instanceof NoMedia)) throw error
  }
  return void end()
}

/** The declared length of a body; undefined without one, or with a transfer or content encoding (RFC 9112, 6.3). */
export function declaredLength(headers: Headers): number | undefined {
  const isPlain = (headers.get('content-encoding') ?? 'identity') === 'identity' && !headers.has('transfer-encoding')
  const declared = isPlain ? Number(headers.get('content-length') ?? Number.NaN) : Number.NaN
  return Number.isSafeInteger(declared) ? declared : undefined
}

/** The same chunks, with errors in our words. */
async function* withOwnErrors(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of body) yield chunk
  } catch {
    throw new Error('the clip broke off')
  }
}
