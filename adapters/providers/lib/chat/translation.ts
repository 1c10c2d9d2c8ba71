/** Streams of vendors with wires of their own, told in chat as they come, and whole answers told as streams. */
import {
  type ChatAnswer,
  type ChatStream,
  type Clock,
  ApiError,
  type Fields,
  type Rewriter,
  type SseEvent,
} from '../../../../core/mod.ts'
import { eventSplitter, parseEvent, sseJson, tryJson } from '../../../../core/products/chat/formats/sse.ts'
import type { VendorHttp } from '../../../http/fetch.ts'
import { type Judge, type Refusal, refusalIn } from '../../../http/refusals.ts'

/** How one stream of a wire is read. */
export type Reading = {
  readonly rewriter: Rewriter
  /** The refusal that an event is; undefined for any other. Asked of every event, so it looks before it parses. */
  errorIn(event: SseEvent): Refusal | undefined
  /** Whether an answer may end after this event. One that ends without such an event has been broken off. */
  isEnding(event: SseEvent): boolean
  /** Whether an event comes before the model has begun, so that an error after it is still a refusal. */
  isPrelude?(event: SseEvent): boolean
}

export type Circumstances = {
  readonly name: string
  readonly http: VendorHttp
  readonly judge: Judge
  readonly clock: Clock
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** Tells who waits that the upstream is alive, and has said nothing that chat has a word for. */
const ALIVE = ': working\n\n'

/**
 * A vendor's stream in chat, read only when asked. Resolves at its first chunk, within `timeoutMs`; an error before is a refusal. A later one
 * is a last event in our words, and a stream that ends before its end rejects: neither is ever followed by `[DONE]`.
 */
export async function translatedStream(
  upstream: ChatStream,
  reading: Reading,
  circumstances: Circumstances,
): Promise<ChatStream> {
  const { name, http, judge, clock, timeoutMs, signal } = circumstances
  const { rewriter, errorIn, isEnding, isPrelude = () => false } = reading
  const encoder = new TextEncoder()
  const splitter = eventSplitter()
  /** Whether a chunk is there that the model itself has said, and whether the stream has been handed out. */
  let hasBegun = false
  let isAnswered = false
  let isLate = false
  let mayEnd = false
  let isOver = false
  let isCancelled = false
  let held = ''
  let broken: Error | undefined
  let refused: ApiError | undefined

  await begin()
  isAnswered = true
  return { next, cancel, apiErrorOf: () => refused }

  async function begin(): Promise<void> {
    const done = new AbortController()
    void clock.wait(timeoutMs, done.signal).then(() => {
      if (done.signal.aborted) return
      isLate = true
      upstream.cancel()
    })
    try {
      while (!hasBegun && !isOver) held += await read()
      if (!hasBegun) throw http.refusal('failed', `${name} ended its stream before it said anything`)
    } catch (error) {
      upstream.cancel()
      throw error
    } finally {
      done.abort()
    }
  }

  async function next(): Promise<Uint8Array | undefined> {
    const isDone = () => isCancelled || (isOver && held === '')
    while (!isDone()) {
      signal.throwIfAborted()
      const text = held || (await read())
      held = ''
      if (text !== '' && !isCancelled) return encoder.encode(text)
    }
    return undefined
  }

  function cancel(): void {
    isCancelled = true
    upstream.cancel()
  }

  /** What the next bytes come to; '' for a part of an event. */
  async function read(): Promise<string> {
    const bytes = await upstream.next()
    if (isCancelled) return ''
    if (isLate) throw http.refusal('timeout', `${name} did not begin within ${timeoutMs} ms`)
    if (bytes === undefined) return finish()
    const events = cut(bytes)
    const text = events.map(tell).join('')
    return text === '' && events.length > 0 && isAnswered ? ALIVE : text
  }

  function cut(bytes: Uint8Array): string[] {
    try {
      return splitter.push(bytes)
    } catch {
      upstream.cancel()
      throw http.refusal('failed', `${name} sent an event that is too long`)
    }
  }

  function tell(raw: string): string {
    const event = isOver ? undefined : parseEvent(raw)
    if (!event) return ''
    const error = errorIn(event)
    if (error) return fail(http.refused(error, judge))
    mayEnd ||= isEnding(event)
    const text = rewriter.on(event)
    hasBegun ||= text !== '' && !isPrelude(event)
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
    const rest = tell(splitter.rest())
    if (isOver) return rest
    if (!mayEnd) throw (broken ??= http.refusal('failed', `${name} ended its stream before its last event`))
    isOver = true
    return rest + rewriter.end()
  }
}

/** The refusal that an event is in the manner of most vendors: `event: error`, `{"error": …}` or `{"type": "error"}`. */
export function errorEvent({ event, data }: SseEvent): Refusal | undefined {
  if (event !== 'error' && !data.includes('"error"')) return undefined
  const body = tryJson(data)
  return refusalIn(body) ?? (event === 'error' ? { status: 500, headers: new Headers(), body } : undefined)
}

/** A whole chat completion as a stream, for a server that does not stream. */
export function atOnce({ choices, usage, ...head }: Fields): ChatAnswer {
  const base = { ...head, object: 'chat.completion.chunk' }
  const chunks = (choices as readonly Fields[]).flatMap(({ message, finish_reason = 'stop', index = 0, ...rest }) => [
    { ...base, choices: [{ ...rest, index, delta: delta(message as Fields), finish_reason: null }] },
    { ...base, choices: [{ index, delta: {}, finish_reason }] },
  ])
  const all = [...chunks, ...(usage === undefined ? [] : [{ ...base, choices: [], usage }])]
  return told(`${all.map((chunk) => sseJson(chunk)).join('')}data: [DONE]\n\n`)
}

/** A stream that holds these events, and ends. */
export function told(events: string): ChatAnswer {
  let held: Uint8Array | undefined = new TextEncoder().encode(events)
  const take = () => {
    const bytes = held
    held = undefined
    return bytes
  }
  return { kind: 'stream', stream: { next: async () => take(), cancel: () => void take() } }
}

/** The parts of a tool call are told apart by `index` in a stream. */
function delta({ tool_calls, ...message }: Fields): Fields {
  if (!Array.isArray(tool_calls)) return message
  return { ...message, tool_calls: (tool_calls as readonly Fields[]).map((call, index) => ({ index, ...call })) }
}
