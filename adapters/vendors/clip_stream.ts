/** The bytes of a clip on their way from a vendor's API: known by the first of them, read as they come and never held whole. */
import type { MediaStream } from '../../core/mod.ts'
import { headOf, judgedType, pouring } from './media.ts'

export type ClipOptions = {
  readonly signal: AbortSignal
  /** Ends the upstream call. */
  readonly cut: AbortController
  readonly mostBytes: number
}

/**
 * Undefined for a reply that is no media: an error page with status 200, whatever it says that it is, or nothing at all. Rejects where the connection
 * breaks before the first bytes; a body that breaks off later, or is too long, errors.
 */
export async function clipStream(response: Response, { signal, cut, mostBytes }: ClipOptions): Promise<MediaStream | undefined> {
  const { body, headers } = response
  const claimed = headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() || 'application/octet-stream'
  const size = declaredLength(headers)
  const isMedia = /^(video|audio|image)\/|^(application|binary)\/octet-stream$/.test(claimed) && size !== 0 && !(size !== undefined && size > mostBytes)
  if (!body || !isMedia) return none()
  const chunks = told(body)
  const head = await headOf(chunks)
  const type = typeOf(Buffer.concat(head), claimed)
  if (type === undefined) return none()
  const end = () => cut.abort('not wanted')
  signal.addEventListener('abort', end, { once: true })
  return { type, body: pouring({ head, chunks, size, maxBytes: mostBytes, signal, end }), ...(size !== undefined && { size }) }

  function none(): undefined {
    cut.abort('no media')
  }
}

/** The length that a body says it has; undefined where it says none, or comes in pieces, whatever else its header says (RFC 9112, 6.3). */
export function declaredLength(headers: Headers): number | undefined {
  const isPlain = (headers.get('content-encoding') ?? 'identity') === 'identity' && !headers.has('transfer-encoding')
  const declared = isPlain ? Number(headers.get('content-length') ?? Number.NaN) : Number.NaN
  return Number.isSafeInteger(declared) ? declared : undefined
}

function typeOf(head: Uint8Array, claimed: string): string | undefined {
  try {
    return head.length > 0 ? judgedType(head, claimed) : undefined
  } catch {
    return undefined
  }
}

/** The same pieces; what goes wrong with them is told in our words. */
async function* told(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of body) yield chunk
  } catch {
    throw new Error('the clip broke off')
  }
}
