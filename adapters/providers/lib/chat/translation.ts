/** Translates vendors' streams to chat chunks as they arrive, and whole replies to streams. */
import {
  ApiError,
  type ChatAnswer,
  type ChatStream,
  type Clock,
  type Fields,
  type Rewriter,
  type SseEvent,
} from '../../../../core/mod.ts'
import { eventSplitter } from '../../../../core/lib/mod.ts'
import { parseEvent, sseJson, tryJson } from '../../../../core/products/chat/mod.ts'
import type { VendorHttp } from '../../../http/fetch.ts'
import { type ErrorClassifier, type ErrorReply, errorReplyIn } from '../../../http/error_replies.ts'

/** Reads one stream of a native format. */
export type StreamTranslation = {
  readonly rewriter: Rewriter
  /** Returns the error in an event, else undefined. Called for every event, so it looks before it parses. */
  errorIn(event: SseEvent): ErrorReply | undefined
  /** Whether an answer may end after this event. A stream that ends without one is incomplete. */
  isEnding(event: SseEvent): boolean
  /** Whether the event precedes the model's output, so that an error after it still fails the request. */
  isPrelude?(event: SseEvent): boolean
}

export type TranslationOptions = {
  readonly name: string
  readonly http: VendorHttp
  readonly classify: ErrorClassifier
  readonly clock: Clock
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** Comment that keeps the connection alive while upstream events have no equivalent in chat. */
const ALIVE = ': working\n\n'

/**
 * Translates a vendor's stream to chat chunks, read on demand. Resolves with the first chunk, within `timeoutMs`; an
 * earlier error is thrown. A later error becomes a last event in our words, and a stream that ends early rejects:
 * neither is ever followed by `[DONE]`.
 */
export async function translatedStream(
  upstream: ChatStream,
  translation: StreamTranslation,
  options: TranslationOptions,
): Promise<ChatStream> {
  const { name, http, classify, clock, timeoutMs, signal } = options
  const { rewriter, errorIn, isEnding, isPrelude = () => false } = translation
  const encoder = new TextEncoder()
  const splitter = eventSplitter()
  /** Whether the model has produced a chunk, and whether the stream was returned to the caller. */
  let hasStarted = false
  let isAnswered = false
  let isLate = false
  let mayEnd = false
  let isOver = false
  let isCancelled = false
  let buffered = ''
  let broken: Error | undefined
  let refused: ApiError | undefined

  await begin()
  isAnswered = true
  return {
    next,
    cancel,
    apiErrorOf: () => refused,
    ...(upstream.beginsBy !== undefined && { beginsBy: upstream.beginsBy }),
  }

  async function begin(): Promise<void> {
    const done = new AbortController()
    void clock.wait(timeoutMs, done.signal).then(() => {
      if (done.signal.aborted) return
      isLate = true
      upstream.cancel()
    })
    try {
      while (!hasStarted && !isOver) buffered += await read()
      if (!hasStarted) throw http.failure('failed', `${name} ended its stream before it said anything`)
    } catch (error) {
      upstream.cancel()
      throw error
    } finally {
      done.abort()
    }
  }

  async function next(): Promise<Uint8Array | undefined> {
    const isDone = () => isCancelled || (isOver && buffered === '')
    while (!isDone()) {
      signal.throwIfAborted()
      const text = buffered || (await read())
      buffered = ''
      if (text !== '' && !isCancelled) return encoder.encode(text)
    }
    return undefined
  }

  function cancel(): void {
    isCancelled = true
    upstream.cancel()
  }

  /** Translates the next bytes; '' for an incomplete event. */
  async function read(): Promise<string> {
    const bytes = await upstream.next()
    if (isCancelled) return ''
    if (isLate) throw http.failure('timeout', `${name} did not begin within ${timeoutMs} ms`)
    if (bytes === undefined) return finish()
    const events = splitEvents(bytes)
    const text = events.map(translateEvent).join('')
    return text === '' && events.length > 0 && isAnswered ? ALIVE : text
  }

  function splitEvents(bytes: Uint8Array): string[] {
    try {
      return splitter.push(bytes)
    } catch {
      upstream.cancel()
      throw http.failure('failed', `${name} sent an event that is too long`)
    }
  }

  function translateEvent(raw: string): string {
    const event = isOver ? undefined : parseEvent(raw)
    if (!event) return ''
    const error = errorIn(event)
    if (error) return fail(http.errorFrom(error, classify))
    mayEnd ||= isEnding(event)
    const text = rewriter.on(event)
    hasStarted ||= text !== '' && !isPrelude(event)
    return text
  }

  function fail(apiError: Error): string {
    if (!isAnswered) throw apiError
    isOver = true
    upstream.cancel()
    if (apiError instanceof ApiError) refused = apiError
    const code = refused?.code ?? 'MODEL_UNAVAILABLE'
    return sseJson({ error: { message: apiError.message, type: 'upstream_error', param: null, code } })
  }

  function finish(): string {
    const rest = translateEvent(splitter.flush())
    if (isOver) return rest
    if (!mayEnd) throw (broken ??= http.failure('failed', `${name} ended its stream before its last event`))
    isOver = true
    return rest + rewriter.end()
  }
}

/** The error in an event as most vendors write it: `event: error`, `{"error": …}` or `{"type": "error"}`. */
export function errorEvent({ event, data }: SseEvent): ErrorReply | undefined {
  if (event !== 'error' && !data.includes('"error"')) return undefined
  const body = tryJson(data)
  return errorReplyIn(body) ?? (event === 'error' ? { status: 500, headers: new Headers(), body } : undefined)
}

/** Converts a whole chat completion to a stream, for a server that does not stream. */
export function asStream({ choices, usage, ...head }: Fields): ChatAnswer {
  const base = { ...head, object: 'chat.completion.chunk' }
  const chunks = (choices as readonly Fields[]).flatMap(({ message, finish_reason = 'stop', index = 0, ...rest }) => [
    { ...base, choices: [{ ...rest, index, delta: delta(message as Fields), finish_reason: null }] },
    { ...base, choices: [{ index, delta: {}, finish_reason }] },
  ])
  const all = [...chunks, ...(usage === undefined ? [] : [{ ...base, choices: [], usage }])]
  return streamOf(`${all.map((chunk) => sseJson(chunk)).join('')}data: [DONE]\n\n`)
}

/** A stream of these events. */
export function streamOf(events: string): ChatAnswer {
  let buffered: Uint8Array | undefined = new TextEncoder().encode(events)
  const take = () => {
    const bytes = buffered
    buffered = undefined
    return bytes
  }
  return { kind: 'stream', stream: { next: async () => take(), cancel: () => void take() } }
}

/** Adds the `index` by which a stream identifies tool calls. */
function delta({ tool_calls, ...message }: Fields): Fields {
  if (!Array.isArray(tool_calls)) return message
  return { ...message, tool_calls: (tool_calls as readonly Fields[]).map((call, index) => ({ index, ...call })) }
}
