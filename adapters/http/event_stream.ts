/** Streamed replies: the first bytes, an error in them, and the rest as it arrives. */
import type { ChatStream, SseEvent } from '../../core/mod.ts'
import { record, type ErrorReply, errorReplyIn } from './error_replies.ts'

type Reader = ReadableStreamDefaultReader<Uint8Array>

/** Reads the first bytes of a body; undefined for an empty one. Rejects when the connection breaks. */
export async function firstBytes(reader: Reader | undefined): Promise<Uint8Array | undefined> {
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    if (done || value.length > 0) return value
  }
}

/** The `data` line of the first event, after any comments. */
const FIRST_DATA = /^data:[ \t]*([^\r\n]*)/m
/** The start of an error event, even of one that is cut off. */
const ERROR_BEGINS = /^event:[ \t]*error\b|^data:[ \t]*\{\s*"error"\s*:\s*[{"]/m

/**
 * Returns the error that a stream begins with, in its first chunk: `data: {"error": …}` or `event: error`. Parses only
 * a first event with a member of that name; a quote inside generated text is escaped, so it never looks like one.
 */
export function firstError(first: Uint8Array, headers: Headers): ErrorReply | undefined {
  const text = new TextDecoder().decode(first)
  const match = FIRST_DATA.exec(text)
  const data = match?.[1] ?? ''
  const isNamed = ERROR_BEGINS.test(match ? text.slice(0, match.index + match[0].length) : text)
  if (!isNamed && !data.includes('"error"')) return undefined
  const body = parseJson(data)
  return errorReplyIn(body, headers) ?? (isNamed ? { status: 500, headers, body } : undefined)
}

/** Returns the error in an event that precedes the model's output; `response.failed` nests it one level deeper. */
export function errorOfEvent({ event, data }: SseEvent, headers: Headers): ErrorReply | undefined {
  const body = parseJson(data)
  const isNamed = event === 'error' || event === 'response.failed'
  return (
    errorReplyIn(body, headers) ??
    errorReplyIn(record(body).response, headers) ??
    (isNamed ? { status: 500, headers, body } : undefined)
  )
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

type StreamOptions = {
  readonly signal: AbortSignal
  /** Ends the upstream call. */
  readonly controller: AbortController
  /** Calls `late` after this many milliseconds, unless the returned function is called first. */
  readonly after: (ms: number, late: () => void) => () => void
  /** Creates the error to throw when the connection breaks. */
  readonly broken: (reason: unknown) => Error
  readonly apiErrorOf?: ChatStream['apiErrorOf']
  /** Called when nothing more is read of it, maybe more than once. */
  readonly onEnd?: () => void
}

/** How long, and for how many bytes, the end of a reply is read after its last event; a connection is worth no more. */
const MAX_END_MS = 1_000
const MAX_REST_BYTES = 65_536

/**
 * The chunks of a body whose first chunk was read. Nothing is read ahead, copied or parsed. `cancel` ends it, pending
 * reads included; an abort of `signal` rejects with its reason.
 */
export function chatStream(
  { reader, first }: { reader: Reader; first: Uint8Array },
  { signal, controller, after, broken, apiErrorOf, onEnd }: StreamOptions,
): ChatStream {
  let buffered: Uint8Array | undefined = first
  let isReading = false
  let isOver = false
  const onAbort = () => {
    controller.abort(signal.reason)
    onEnd?.()
  }
  signal.addEventListener('abort', onAbort, { once: true })

  return {
    // Chained and not awaited: a stream has hundreds of pieces, and each frame of an async function costs.
    next() {
      if (isReading) return Promise.reject(new Error('a read of this stream is still pending'))
      if (signal.aborted && !isOver) return Promise.reject(signal.reason)
      const bytes = buffered
      buffered = undefined
      if (bytes || isOver) return Promise.resolve(bytes)
      isReading = true
      return reader.read().then(onRead, onBroken)
    },

    cancel() {
      end()
      buffered = undefined
      controller.abort('canceled')
      reader.cancel().catch(() => {})
    },

    finish() {
      if (isOver) return
      end()
      buffered = undefined
      const cancelDeadline = after(MAX_END_MS, () => controller.abort('stays open'))
      readRest().then(cancelDeadline, cancelDeadline)
    },

    ...(apiErrorOf && { apiErrorOf }),
  }

  function onRead({ done, value }: Awaited<ReturnType<Reader['read']>>): Uint8Array | undefined {
    isReading = false
    if (done) end()
    return isOver ? undefined : value
  }

  function onBroken(error: unknown): undefined {
    isReading = false
    onEnd?.()
    if (isOver) return undefined
    throw signal.aborted ? signal.reason : broken(error)
  }

  /** Reads up to the end of the reply, which usually came with the last event. */
  async function readRest(): Promise<void> {
    for (let size = 0; size <= MAX_REST_BYTES;) {
      const { done, value } = await reader.read()
      if (done) return
      size += value.length
    }
    controller.abort('goes on')
  }

  function end(): void {
    isOver = true
    onEnd?.()
    signal.removeEventListener('abort', onAbort)
  }
}
