/** The bytes of a clip on their way from a vendor's API, read as they come and never held whole. */
import type { MediaStream } from '../../core/mod.ts'
import { headOf, orAbort, toldType } from './media.ts'

export type ClipOptions = {
  readonly signal: AbortSignal
  /** Ends the upstream call. */
  readonly cut: AbortController
  readonly mostBytes: number
}

/**
 * Resolves when the first bytes have told what it is. Undefined for a reply that is no media, whatever it claims: an error page with status 200,
 * or nothing at all. A body that breaks off, or is too long, errors.
 */
export async function clipStream(response: Response, { signal, cut, mostBytes }: ClipOptions): Promise<MediaStream | undefined> {
  const isPlain = (response.headers.get('content-encoding') ?? 'identity') === 'identity'
  const declared = Number((isPlain ? response.headers.get('content-length') : null) ?? Number.NaN)
  const pieces = response.body && declared !== 0 && !(declared > mostBytes) ? piecesOf(response.body.getReader(), { declared, mostBytes }) : undefined
  const head = pieces && (await orAbort(headOf(pieces), signal).catch(cutOff))
  const type = head && toldType(head, response.headers.get('content-type'))
  if (!type || !/^(?:video|audio|image)\//.test(type)) {
    cut.abort('no media')
    return undefined
  }
  let release = () => {}
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      const leave = () => {
        controller.error(signal.reason)
        cut.abort(signal.reason)
      }
      signal.addEventListener('abort', leave, { once: true })
      release = () => signal.removeEventListener('abort', leave)
      if (signal.aborted) leave()
    },
    async pull(controller) {
      try {
        const value = head.shift() ?? (await pieces.next()).value
        if (signal.aborted) return
        if (value) return controller.enqueue(value)
        release()
        controller.close()
      } catch (error) {
        if (signal.aborted) return
        end('broken off')
        controller.error(error)
      }
    },
    cancel: () => end('not wanted'),
  })
  return { body, type, ...(Number.isSafeInteger(declared) && { size: declared }) }

  function cutOff(error: unknown): never {
    cut.abort('broken off')
    throw error
  }

  function end(reason: string): void {
    release()
    cut.abort(reason)
  }
}

/** Throws, in our words, where the body breaks off or goes on for too long. */
async function* piecesOf(reader: ReadableStreamDefaultReader<Uint8Array>, { declared, mostBytes }: { declared: number; mostBytes: number }): AsyncGenerator<Uint8Array, undefined> {
  for (let length = 0; ; ) {
    const { done, value } = await reader.read().catch(() => {
      throw new Error('the clip broke off')
    })
    if (done && length < declared) throw new Error('the clip broke off')
    if (done) return
    length += value.length
    if (length > mostBytes) throw new Error(`the clip has more than ${mostBytes} bytes`)
    yield value
  }
}
