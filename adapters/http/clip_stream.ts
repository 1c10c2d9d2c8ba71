/** The bytes of a clip on their way from a vendor's API: known by the first of them, read as they come and never held whole. */
import { type MediaStream, NoMedia } from '../../core/mod.ts'
import { judgedStream } from './media_download.ts'

export type ClipOptions = {
  readonly signal: AbortSignal
  /** Hangs up on the vendor when the body is left. */
  readonly cut: AbortController
  readonly mostBytes: number
}

/**
 * Undefined for a reply that is no media: an error page with status 200, whatever it says that it is, or nothing at all. Rejects where the connection
 * breaks before the first bytes; a body that breaks off later, or is too long, errors.
 */
export async function clipStream(
  response: Response,
  { signal, cut, mostBytes }: ClipOptions,
): Promise<MediaStream | undefined> {
  const { body, headers } = response
  const size = declaredLength(headers)
  const end = () => cut.abort('not wanted')
  if (!body || (size !== undefined && size > mostBytes)) return void end()
  try {
    const media = await judgedStream({
      chunks: told(body),
      claimed: headers.get('content-type'),
      size,
      maxBytes: mostBytes,
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

/** The length that a body says it has; undefined where it says none, or comes in pieces, whatever else its header says (RFC 9112, 6.3). */
export function declaredLength(headers: Headers): number | undefined {
  const isPlain = (headers.get('content-encoding') ?? 'identity') === 'identity' && !headers.has('transfer-encoding')
  const declared = isPlain ? Number(headers.get('content-length') ?? Number.NaN) : Number.NaN
  return Number.isSafeInteger(declared) ? declared : undefined
}

/** The same pieces; what goes wrong with them is told in our words. */
async function* told(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of body) yield chunk
  } catch {
    throw new Error('the clip broke off')
  }
}
