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

type TranslationOptions = {
  readonly name: string
  readonly http: VendorHttp
  readonly classify: ErrorClassifier
  readonly clock: Clock
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** Comment that keeps the connection alive while upstream events have no equivalent in chat. */
const ALIVE = ': working\n\n'

/** A translation in progress. */
type Translating = TranslationOptions & {
  readonly upstream: ChatStream
  readonly translation: StreamTranslation
  readonly splitter: ReturnType<typeof eventSplitter>
  /** Whether the model has produced a chunk, and whether the stream was returned to the caller. */
  hasStarted: boolean
  isAnswered: boolean
  isLate: boolean
  mayEnd: boolean
  isOver: boolean
  isCancelled: boolean
  buffered: string
  broken: Error | undefined
  refused: ApiError | undefined
}

const encoder = new TextEncoder()

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
  const state: Translating = {
    ...options,
    upstream,
    translation,
    splitter: eventSplitter(),
    hasStarted: false,
    isAnswered: false,
    isLate: false,
    mayEnd: false,
    isOver: false,
    isCancelled: false,
    buffered: '',
    broken: undefined,
    refused: undefined,
  }
  await begin(state)
  state.isAnswered = true
  return {
    next: () => next(state),
    cancel() {
      state.isCancelled = true
      upstream.cancel()
    },
    apiErrorOf: () => state.refused,
    ...(upstream.beginsBy !== undefined && { beginsBy: upstream.beginsBy }),
  }
}

async function begin(state: Translating): Promise<void> {
  const { upstream, clock, timeoutMs, http, name } = state
  const done = new AbortController()
  void clock.wait(timeoutMs, done.signal).then(() => {
    if (done.signal.aborted) return
    state.isLate = true
    upstream.cancel()
  })
  try {
    while (!state.hasStarted && !state.isOver) {
      const text = await read(state)
      state.buffered += text
    }
    if (!state.hasStarted) throw http.failure('failed', `${name} ended its stream before it said anything`)
  } catch (error) {
    upstream.cancel()
    throw error
  } finally {
    done.abort()
  }
}

async function next(state: Translating): Promise<Uint8Array | undefined> {
  const isDone = () => state.isCancelled || (state.isOver && state.buffered === '')
  while (!isDone()) {
    state.signal.throwIfAborted()
    const text = state.buffered || (await read(state))
    state.buffered = ''
    if (text !== '' && !state.isCancelled) return encoder.encode(text)
  }
  return undefined
}

/** Translates the next bytes; '' for an incomplete event. */
async function read(state: Translating): Promise<string> {
  const { upstream, http, name, timeoutMs } = state
  const bytes = await upstream.next()
  if (state.isCancelled) return ''
  if (state.isLate) throw http.failure('timeout', `${name} did not begin within ${timeoutMs} ms`)
  if (bytes === undefined) return finish(state)
  const events = splitEvents(state, bytes)
  const text = events.map((event) => translateEvent(state, event)).join('')
  return text === '' && events.length > 0 && state.isAnswered ? ALIVE : text
}

function splitEvents({ splitter, upstream, http, name }: Translating, bytes: Uint8Array): string[] {
  try {
    return splitter.push(bytes)
  } catch {
    upstream.cancel()
    throw http.failure('failed', `${name} sent an event that is too long`)
  }
}

function translateEvent(state: Translating, raw: string): string {
  const { translation, http, classify } = state
  const event = state.isOver ? undefined : parseEvent(raw)
  if (!event) return ''
  const error = translation.errorIn(event)
  if (error) return fail(state, http.errorFrom(error, classify))
  state.mayEnd ||= translation.isEnding(event)
  const text = translation.rewriter.on(event)
  state.hasStarted ||= text !== '' && !(translation.isPrelude?.(event) ?? false)
  return text
}

function fail(state: Translating, apiError: Error): string {
  if (!state.isAnswered) throw apiError
  state.isOver = true
  state.upstream.cancel()
  if (apiError instanceof ApiError) state.refused = apiError
  const code = state.refused?.code ?? 'MODEL_UNAVAILABLE'
  return sseJson({ error: { message: apiError.message, type: 'upstream_error', param: null, code } })
}

function finish(state: Translating): string {
  const { translation, splitter, http, name } = state
  const rest = translateEvent(state, splitter.flush())
  if (state.isOver) return rest
  if (!state.mayEnd) throw (state.broken ??= http.failure('failed', `${name} ended its stream before its last event`))
  state.isOver = true
  return rest + translation.rewriter.end()
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
