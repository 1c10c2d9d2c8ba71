/**
 * Streams on their way through: bytes pass untouched, and are read only where they say something that matters (decision
 * 25).
 */
import { concatBytes } from '../../../lib/bytes.ts'
import { ApiError } from '../../../http/errors.ts'
import { type Json, type Fields, isFields, objectsOf } from '../../../lib/json.ts'
import { brokenOff, isAnswerStart, isContentEvent, type TrackedStream } from './begun.ts'
import { isEmpty, isNonBlank } from './empty.ts'
import { type EventSplitter, eventSplitter, MAX_EVENT, parseEvent, sseJson, tryJson } from './sse.ts'
import { usageOf } from './usage.ts'
import type { StreamTranslator } from './rewriter.ts'
import type { SseEvent, ChatFormat, ChatStream } from '../../../ports/vendors/chat.ts'

/**
 * Where the text of a format has to be looked at. None of these can stand inside a JSON string: its quotes would be
 * escaped.
 */
const INTERESTING: Readonly<Record<ChatFormat, RegExp>> = {
  chat: /"(?:usage": ?\{|error":|reasoning": ?"|finish_reason": ?"|object": ?"error")|\[DONE\]|event: error/,
  messages: /event: (?:error|message_delta|message_start|message_stop)|"type": ?"error"/,
  responses: /event: (?:error|response\.(?:completed|incomplete|failed))|"type": ?"error"/,
  generate_content: /"error":|event: error/,
}

/** Where an event may hold what a reader would pay for. In `chat` the first chunks are read one by one instead. */
const CONTENT: Readonly<Record<Exclude<ChatFormat, 'chat'>, RegExp>> = {
  messages: /content_block_(?:start|delta)/,
  responses: /\.delta"|"response\.(?:output_text|refusal|function_call_arguments)\.done"/,
  generate_content: /"parts":/,
}

/** Chunks of generate_content all tell their usage, so they are not read for it until somebody asks. */
const COUNTED = '"usageMetadata"'
/** The last event of generate_content says so, or why there is no answer. */
const ENDED = /"(?:finishReason|finish_reason|blockReason)": ?"/

export type StreamFormat = {
  readonly format: ChatFormat
  /**
   * The upstream's model id, or what its first chunk says instead, such as a dated one; and ours, which takes its
   * place.
   */
  readonly model?: { readonly upstream: string; readonly publicId: string }
}

/**
 * A vendor's stream in the format of its reader. An event is passed on when it is whole, as the bytes that came, or in
 * the contract's spelling where its vendor has another one. `[DONE]` and its like are held back as the closing events,
 * and end the stream. Throws a Fault for an error among the events, after what came before it, and for a stream that
 * breaks off.
 */
export function passedThrough(upstream: ChatStream, { format, model }: StreamFormat): TrackedStream {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  let rename = model && model.upstream !== model.publicId ? renamer(model.upstream, model.publicId) : undefined
  let currentModel = model?.upstream
  const marks = INTERESTING[format]
  const readEvent = { chat, messages, responses, generate_content: generateContent }[format]
  const boundary = eventBoundary()
  /** Of a vendor that writes its lines in another way; known from the first event with data. */
  let splitter: EventSplitter | undefined
  let isSpacingKnown = false
  let hasContent = false
  let hasBegun = false
  /**
   * Until a text or a tool call has come, chunks of chat are read: reasoning alone becomes the text in the end
   * (contract 6.28).
   */
  let isOpening = format === 'chat'
  let reasoning = ''
  let usage: Json = null
  let lastCounts = ''
  /** Said what an answer must say at least; and all that it has to say. */
  let isFinished = false
  let isOver = false
  let failure: ApiError | undefined
  let closing = ''

  return {
    async next() {
      for (;;) {
        if (failure) throw failure
        if (isOver) return undefined
        const bytes = await upstream.next()
        // Cancelled meanwhile: nobody wants to know how it ended.
        if (isOver) return undefined
        const out = bytes === undefined ? onEnd() : onBytes(bytes)
        if (out && out.length > 0) return out
      }
    },
    cancel() {
      isOver = true
      upstream.cancel()
    },
    hasContent: () => hasContent,
    hasBegun: () => hasBegun,
    closing: () => closing,
    usage: () => usage ?? lastUsage(lastCounts),
  }

  function onBytes(bytes: Uint8Array): Uint8Array | undefined {
    if (!splitter && !isSpacingKnown && bytes.includes(CR)) return normalizeFrom(bytes)
    if (splitter) return normalized(splitter.push(bytes))
    const whole = boundary.push(bytes)
    return whole && processBytes(whole)
  }

  /** From here on events are cut out, and written down anew. */
  function normalizeFrom(bytes: Uint8Array): Uint8Array | undefined {
    splitter = eventSplitter()
    const buffered = boundary.rest()
    return normalized([...(buffered ? splitter.push(buffered) : []), ...splitter.push(bytes)])
  }

  function normalized(events: readonly string[]): Uint8Array | undefined {
    return events.length === 0
      ? undefined
      : encoder.encode(
          processed(events.map((event) => `${event.split('\n').map(normalizedLine).join('\n')}\n\n`).join('')),
        )
  }

  function onEnd(): Uint8Array | undefined {
    const buffered = splitter ? splitter.flush() : decoder.decode(boundary.rest() ?? NOTHING).trim()
    const data = parseEvent(buffered)?.data
    // Half an event is none; a whole one may lack its blank line.
    const out = data === '[DONE]' || (data !== undefined && tryJson(data)) ? normalized([buffered]) : undefined
    isOver = true
    if (!isFinished) failure ??= brokenOff()
    if (isFinished && format === 'chat') closing = DONE
    return out
  }

  /** Whole events, as they may go on. */
  function processBytes(bytes: Uint8Array): Uint8Array | undefined {
    const text = decoder.decode(bytes)
    if (!isSpacingKnown) {
      if (UNUSUAL_SPACING.test(text)) return normalizeFrom(boundary.withBuffered(bytes))
      isSpacingKnown = DATA.test(text)
    }
    const out = processed(text)
    return out === text ? bytes : encoder.encode(out)
  }

  function processed(text: string): string {
    if (format === 'generate_content') count(text)
    const out = isOpening || marks.test(text) || !PLAIN[format].test(text) ? processEvents(text) : text
    if (format === 'chat') hasBegun ||= hasContent
    else {
      hasContent ||= CONTENT[format].test(out) && out.split(EVENT_END).some((raw) => isContentEvent(raw, format))
      hasBegun ||= hasContent || out.split(EVENT_END).some((raw) => isAnswerStart(raw, format))
    }
    return rename ? rename(out) : out
  }

  /** Event by event. What came before an error is still passed on; what comes after the last event is not. */
  function processEvents(text: string): string {
    let out = ''
    for (const raw of text.split(EVENT_END)) {
      try {
        // Of those that came together, most say nothing that matters.
        const isPlain = PLAIN[format].test(raw)
        const event = isOpening || !isPlain || marks.test(raw) ? parseEvent(raw) : undefined
        if (event && !isPlain && event.data !== '[DONE]' && !tryJson(event.data)) throw brokenOff()
        if (event) out += readEvent(event, raw)
        if (!event) out += isPlain ? raw : keepAlive(raw)
      } catch (error) {
        failure = error as ApiError
      }
      if (failure || isOver) break
    }
    return out
  }

  function chat({ event, data }: SseEvent, raw: string): string {
    if (data === '[DONE]') {
      isFinished = true
      isOver = true
      closing = DONE
      return ''
    }
    const payload = tryJson(data)
    if (event === 'error' || (payload && isError(payload))) throw upstreamFailure({ event, data })
    if (!payload) throw brokenOff()
    if (model && typeof payload.model === 'string' && payload.model !== currentModel) {
      currentModel = payload.model
      rename = currentModel === model.publicId ? undefined : renamer(currentModel, model.publicId)
    }
    const thought = withReasoningContent(payload)
    const before = isOpening ? openingChunk(thought) : ''
    const finish = FINISH.exec(data)?.[1]
    if (finish === 'error') throw upstreamFailure({ event, data })
    if (finish !== undefined) isFinished = true
    if (finish === 'content_filter') hasContent = true
    if (isFields(thought.usage)) usage = usageOf(thought.usage)
    const out = isFields(thought.usage) ? { ...thought, usage } : thought
    return before + (out === payload ? raw : sseJson(out))
  }

  /** A chunk before the first text. Answers with what has to go before it. */
  function openingChunk(chunk: Fields): string {
    const choices = objectsOf(chunk.choices)
    const [choice] = choices
    const deltas = choices.map(({ delta }) => (isFields(delta) ? delta : {}))
    const thought = deltas[0]?.reasoning_content
    if (typeof thought === 'string' && reasoning.length < MAX_EVENT) reasoning += thought
    if (deltas.some((delta) => isNonBlank(delta.reasoning_content))) hasContent = true
    // Thoughts that are not shown (OpenRouter): it is at work, and a reader pays for nothing yet.
    if (deltas.some((delta) => isNonBlank(delta.reasoning_details))) hasBegun = true
    if (deltas.some((delta) => ANSWER_FIELDS.some((name) => isNonBlank(delta[name])))) {
      hasContent = true
      isOpening = false
      return ''
    }
    if (typeof choice?.finish_reason !== 'string' || !isNonBlank(reasoning)) return ''
    isOpening = false
    const { usage: _usage, ...same } = chunk
    return sseJson({ ...same, choices: [{ index: 0, delta: { content: reasoning }, finish_reason: null }] })
  }

  function messages({ event, data }: SseEvent, raw: string): string {
    const payload =
      event === 'message_start' || event === 'message_delta' || event === 'error' || data.includes('"error"')
        ? tryJson(data)
        : undefined
    if (event === 'error' || payload?.type === 'error') throw upstreamFailure({ event, data })
    const counts = isFields(payload?.message) ? payload.message.usage : payload?.usage
    if (isFields(counts)) usage = { ...(isFields(usage) ? usage : {}), ...counts }
    if (isFields(payload?.delta) && payload.delta.stop_reason === 'refusal') hasContent = hasBegun = true
    return event === 'message_stop' ? last(raw) : raw
  }

  function responses({ event, data }: SseEvent, raw: string): string {
    if (event === 'error' || event === 'response.failed') throw upstreamFailure({ event, data })
    const isLast = event === 'response.completed' || event === 'response.incomplete'
    const payload = isLast || data.includes('"error"') ? tryJson(data) : undefined
    if (payload?.type === 'error') throw upstreamFailure({ event, data })
    if (!isLast) return raw
    const response = isFields(payload?.response) ? payload.response : {}
    usage = response.usage ?? null
    if (!isEmpty(response, 'responses')) hasContent = hasBegun = true
    return last(raw)
  }

  function generateContent({ event, data }: SseEvent, raw: string): string {
    if (event === 'error' || tryJson(data)?.error !== undefined) throw upstreamFailure({ event, data })
    return raw
  }

  /**
   * Before its first real event a stream that fails is a refusal like any other, in the class that its vendor names.
   */
  function upstreamFailure({ event, data }: { readonly event: string | undefined; readonly data: string }): ApiError {
    const refusal =
      hasBegun || hasContent ? undefined : upstream.apiErrorOf?.({ data, ...(event !== undefined && { event }) })
    return refusal instanceof ApiError ? refusal : brokenOff()
  }

  function count(text: string): void {
    if (text.includes(COUNTED)) lastCounts = text
    isFinished ||= ENDED.test(text)
  }

  function last(raw: string): string {
    isFinished = true
    isOver = true
    closing = rename ? rename(raw) : raw
    return ''
  }
}

/**
 * A vendor's stream in `chat`, for a reader of another format. The reader's closing events are those with which the
 * rewriter ends.
 */
export function translated(upstream: ChatStream, rewriter: StreamTranslator): TrackedStream {
  const encoder = new TextEncoder()
  const inner = passedThrough(upstream, { format: 'chat' })
  const splitter = eventSplitter()
  let closing = ''
  return {
    async next() {
      for (;;) {
        const bytes = await inner.next()
        if (bytes === undefined) {
          if (inner.closing() !== '') closing += translate('data: [DONE]') + rewriter.end()
          return undefined
        }
        const out = withoutClosing(splitter.push(bytes).map(translate).join(''))
        if (out !== '') return encoder.encode(out)
      }
    },
    cancel: inner.cancel,
    hasContent: inner.hasContent,
    hasBegun: inner.hasBegun,
    closing: () => closing,
    usage: inner.usage,
  }

  function translate(raw: string): string {
    const event = parseEvent(raw)
    return event ? rewriter.on(event) : ''
  }

  /** A rewriter may know that it is at its end before its vendor says so. */
  function withoutClosing(payload: string): string {
    const at = closing === '' ? payload.search(LAST) : 0
    if (at < 0) return payload
    closing += payload.slice(at)
    return payload.slice(0, at)
  }
}

/** The line with which the last event begins in the formats that have one. */
const LAST = /^event: (?:message_stop|response\.(?:completed|incomplete|failed))$/m

// ── chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const isError = ({ error, object }: Fields): boolean => (error !== undefined && error !== null) || object === 'error'

const FINISH = /"finish_reason": ?"(\w*)/
/** Members of a delta that are an answer; `function_call` is that of old clients. */
const ANSWER_FIELDS = ['content', 'tool_calls', 'refusal', 'function_call', 'images', 'audio'] as const

const isNonEmpty = (value: Json | undefined): boolean => typeof value === 'string' && value !== ''

/** Renames `reasoning` (vLLM, OpenRouter) to the contract's `reasoning_content` (contract 6.25). */
function withReasoningContent(chunk: Fields): Fields {
  const isNamed = ({ delta }: Fields) =>
    isFields(delta) && isNonEmpty(delta.reasoning) && !isNonEmpty(delta.reasoning_content)
  const choices = objectsOf(chunk.choices)
  if (!choices.some(isNamed)) return chunk
  const renamed = choices.map((choice) => {
    if (!isNamed(choice)) return choice
    const { reasoning, ...delta } = choice.delta as Fields
    return { ...choice, delta: { ...delta, reasoning_content: reasoning as Json } }
  })
  return { ...chunk, choices: renamed }
}

function lastUsage(text: string): Json {
  const [event] = text
    .split(EVENT_END)
    .filter((raw) => raw.includes(COUNTED))
    .slice(-1)
  return tryJson(parseEvent(event ?? '')?.data ?? '')?.usageMetadata ?? null
}

function renamer(upstream: string, publicId: string): (text: string) => string {
  const [upstreamName, ownName] = [JSON.stringify(upstream), JSON.stringify(publicId)]
  const [close, spaced] = [`"model":${upstreamName}`, `"model": ${upstreamName}`]
  return (text) =>
    text.includes(close) ? text.replaceAll(close, `"model":${ownName}`) : text.replaceAll(spaced, `"model": ${ownName}`)
}

// ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const LF = 10
const CR = 13
const NOTHING = new Uint8Array()
const DONE = 'data: [DONE]\n\n'
const DATA = /^data:/m
/** Whole events that each hold a JSON object by the look of it, and nothing else. */
const NAMELESS = /^(?:data: \{[^\n]*\}\n\n)+$/
const NAMED = /^(?:event: [\w.]+\ndata: \{[^\n]*\}\n\n)+$/
const PLAIN: Readonly<Record<ChatFormat, RegExp>> = {
  chat: NAMELESS,
  messages: NAMED,
  responses: NAMED,
  generate_content: NAMELESS,
}

/** A comment says only that the upstream lives; its words are not ours to pass on. */
const keepAlive = (raw: string): string => (raw.trim() === '' ? '' : ': working\n\n')

/** A line without the one space after its name. */
const UNUSUAL_SPACING = /^(?:data|event|id|retry):(?! )/m
const EVENT_END = /(?<=\n\r?\n)(?!\r?\n)/

/** A line in the contract's spelling. */
const normalizedLine = (line: string): string => line.replace(/^(\w+): ?/, '$1: ')

/**
 * Cuts bytes after the last blank line in them, which most chunks end with, and holds the rest. What it held is not
 * searched again.
 */
function eventBoundary() {
  let buffered: Uint8Array[] = []
  let size = 0
  /** The last three bytes held: a blank line may be cut anywhere. */
  let tail: readonly number[] = []

  function buffer(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    buffered.push(bytes)
    size += bytes.length
    tail = [...tail, ...bytes.subarray(-3)].slice(-3)
    if (size > MAX_EVENT) throw brokenOff()
  }

  function rest(): Uint8Array | undefined {
    const [only] = buffered
    const bytes = buffered.length > 1 ? concatBytes(buffered, size) : only
    buffered = []
    size = 0
    tail = []
    return bytes
  }

  return {
    push(bytes: Uint8Array): Uint8Array | undefined {
      const end =
        lastEventEnd(bytes) ||
        (tail.length > 0 ? Math.max(0, lastEventEnd([...tail, ...bytes.subarray(0, 3)]) - tail.length) : 0)
      if (end === 0) {
        buffer(bytes)
        return undefined
      }
      if (buffered.length === 0 && end === bytes.length) return bytes
      buffer(bytes.subarray(0, end))
      const whole = rest()
      buffer(bytes.subarray(end))
      return whole
    },
    rest,
    /** The bytes, and all that is held: as if they had never been cut. */
    withBuffered(bytes: Uint8Array): Uint8Array {
      const more = rest()
      return more ? concatBytes([bytes, more], bytes.length + more.length) : bytes
    },
  }
}

/** Where the last blank line ends; 0 where there is none. */
function lastEventEnd(bytes: Uint8Array | readonly number[]): number {
  for (let at = bytes.lastIndexOf(LF); at > 0; at = bytes.lastIndexOf(LF, at - 1)) {
    if (bytes[at - 1] === LF || (bytes[at - 1] === CR && bytes[at - 2] === LF)) return at + 1
  }
  return 0
}
