/** Streams the bytes of a clip from a vendor's API, with its type detected from the first bytes. */
import { declaredLength } from './read_body.ts'
import { type MediaStream, NoMedia } from '../../core/mod.ts'
import { checkedStream } from './media_download.ts'

type ClipOptions = {
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

/** The same chunks, with errors in our words. */
async function* withOwnErrors(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of body) yield chunk
  } catch {
    throw new Error('the clip broke off')
  }
}
