/** The bytes of a clip on their way from a vendor's API, read as they come and never held whole. */
import type { MediaStream } from '../../core/mod.ts'

export type ClipOptions = {
  readonly signal: AbortSignal
  /** Ends the upstream call. */
  readonly cut: AbortController
  readonly mostBytes: number
}

/** Undefined for a reply that is no media: an error page with status 200, or nothing at all. A body that breaks off, or is too long, errors. */
export function clipStream(response: Response, { signal, cut, mostBytes }: ClipOptions): MediaStream | undefined {
  const reader = response.body?.getReader()
  const type = response.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() || 'application/octet-stream'
  const isPlain = (response.headers.get('content-encoding') ?? 'identity') === 'identity'
  const declared = Number((isPlain ? response.headers.get('content-length') : null) ?? Number.NaN)
  const isMedia = /^(video|audio|image)\/|^(application|binary)\/octet-stream$/.test(type) && declared !== 0 && !(declared > mostBytes)
  if (!reader || !isMedia) {
    cut.abort('no media')
    return undefined
  }
  let length = 0
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
        const { done, value } = await reader.read()
        if (signal.aborted) return
        length += value?.length ?? 0
        if (length > mostBytes) throw new Error(`the clip has more than ${mostBytes} bytes`)
        if (done && length < declared) throw new Error('the clip broke off')
        if (!done) return controller.enqueue(value)
        release()
        controller.close()
      } catch (error) {
        if (signal.aborted) return
        end('broken off')
        controller.error(error instanceof Error && error.message.startsWith('the clip ') ? error : new Error('the clip broke off'))
      }
    },
    cancel: () => end('not wanted'),
  })
  return { body, type, ...(Number.isSafeInteger(declared) && { size: declared }) }

  function end(reason: string): void {
    release()
    cut.abort(reason)
  }
}
