/** Forwards vendor streams: bytes pass unchanged, and only relevant events are parsed (decision 25). */
import { ApiError } from '../../../http/errors.ts'
import { type Json, type Fields, fieldsOf, given, isFields, objectsOf, textOf } from '../../../lib/json.ts'
import { brokenOff, isAnswerStart, isContentEvent, type TrackedStream } from './answer_start.ts'
import { CR, eventBoundary } from './event_boundary.ts'
import { isEmpty, isNonBlank } from './empty_answer.ts'
import { type EventSplitter, eventSplitter, MAX_EVENT } from '../../../lib/event_splitter.ts'
import { parseEvent, sseJson, tryJson } from './sse.ts'
import { thinkSplitter } from './think_tags.ts'
import { isCounted, usageOf, withoutReasoningTokens } from './usage.ts'
import type { SseEvent, ChatFormat, ChatStream } from '../../../ports/vendors/chat.ts'

/** Matches text that must be parsed. No pattern can match inside a JSON string, where quotes are escaped. */
const INTERESTING: Readonly<Record<ChatFormat, RegExp>> = {
  chat: /"(?:usage": ?\{|error":|reasoning": ?"|finish_reason": ?"|object": ?"error")|\[DONE\]|event: error/,
  messages: /event: (?:error|message_delta|message_start|message_stop)|"type": ?"error"/,
  responses: /event: (?:error|response\.(?:completed|incomplete|failed))|"type": ?"error"/,
  generate_content: /"error":|event: error/,
}

/** Matches events that may have content that is charged for. In `chat` the first chunks are parsed instead. */
const CONTENT: Readonly<Record<Exclude<ChatFormat, 'chat'>, RegExp>> = {
  messages: /content_block_(?:start|delta)/,
  responses: /\.delta"|"response\.(?:output_text|refusal|function_call_arguments)\.done"/,
  generate_content: /"parts":/,
}

/** Every chunk of generate_content carries usage, so it is parsed only when requested. */
const COUNTED = '"usageMetadata"'
/** The last event of generate_content has a finish reason, or the reason why there is no answer. */
const ENDED = /"(?:finishReason|finish_reason|blockReason)": ?"/

export type StreamFormat = {
  readonly format: ChatFormat
  /**
   * The upstream model id (the first chunk may name another, such as a dated one) and the public id that replaces it.
   */
  readonly model?: { readonly upstream: string; readonly publicId: string }
  /** Whether usage counts reasoning separately (contract 6.23). */
  readonly showsReasoningTokens?: boolean
  /** Estimates usage from the number of characters when the vendor reports none (contract 6.65). */
  readonly estimate?: (characters: number) => Fields
}

/**
 * Forwards a vendor's stream in the format that the caller reads. Complete events are passed on as the bytes received,
 * or in the contract's spelling where the vendor's differs. `[DONE]` and its equivalents are held back as the closing
 * events, and end the stream. Throws an ApiError for an error event, after the events before it, and for a stream that
 * is interrupted.
 */
export function forwardedStream(
  upstream: ChatStream,
  { format, model, showsReasoningTokens = true, estimate }: StreamFormat,
): TrackedStream {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  let rename = model && model.upstream !== model.publicId ? renamer(model.upstream, model.publicId) : undefined
  let currentModel = model?.upstream
  const marks = INTERESTING[format]
  const readEvent = { chat, messages, responses, generate_content: generateContent }[format]
  const boundary = eventBoundary()
  /** Set for a vendor with unusual spacing or line ends, detected at the first event with data. */
  let splitter: EventSplitter | undefined
  let isSpacingKnown = false
  let hasContent = false
  let hasStarted = false
  /**
   * Chunks of chat are parsed until text or a tool call arrives: reasoning alone becomes the text at the end (contract
   * 6.28).
   */
  let isOpening = format === 'chat'
  let reasoning = ''
  let usage: Json = null
  let lastCounts = ''
  /** Whether a finish reason has arrived, and whether the stream is over. */
  let isFinished = false
  let isOver = false
  let failure: ApiError | undefined
  /** Splits inline reasoning from the text of each choice that has had a tag. */
  const splitters = new Map<number, ReturnType<typeof thinkSplitter>>()
  let isSplitting = false
  /** The first text of the stream, and its total number of characters. */
  const samples: string[] = []
  let sampled = 0
  let passed = 0
  let closing = ''
  /** The last text with a numbered event. */
  let lastNumbered = ''

  return {
    next,
    cancel() {
      const hasEnded = isFinished && closing !== '' && upstream.finish !== undefined
      isOver = true
      if (hasEnded) upstream.finish?.()
      else upstream.cancel()
    },
    hasContent: () => hasContent,
    hasStarted: () => hasStarted,
    closing: () => closing,
    usage: () => usage ?? lastUsage(lastCounts),
    nextSequence: () => sequenceAfter(lastNumbered),
  }

  /** Chained and not awaited: a stream has hundreds of pieces, and each frame of an async function costs. */
  function next(): Promise<Uint8Array | undefined> {
    if (failure) return Promise.reject(failure)
    return isOver ? Promise.resolve(undefined) : upstream.next().then(onPiece)
  }

  function onPiece(bytes: Uint8Array | undefined): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    // Cancelled in the meantime: the outcome is irrelevant.
    if (isOver) return undefined
    const out = bytes === undefined ? onEnd() : onBytes(bytes)
    return out && out.length > 0 ? out : next()
  }

  function onBytes(bytes: Uint8Array): Uint8Array | undefined {
    if (!splitter && !isSpacingKnown && bytes.includes(CR)) return normalizeFrom(bytes)
    if (splitter) return normalized(splitter.push(bytes))
    const whole = boundary.push(bytes)
    return whole && processBytes(whole)
  }

  /** From here on events are split and serialized again. */
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
    // An incomplete event is dropped; a complete one may lack its blank line.
    const out = data === '[DONE]' || (data !== undefined && tryJson(data)) ? normalized([buffered]) : undefined
    isOver = true
    if (!isFinished) failure ??= brokenOff()
    if (!isFinished || format !== 'chat' || closing !== '') return out
    closing = DONE
    const counted = estimated()
    if (counted === '') return out
    const text = new TextDecoder().decode(out ?? NOTHING) + counted
    return encoder.encode(rename ? rename(text) : text)
  }

  /** Processes complete events. */
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
    const passing = plainLength(text)
    const read = passing === text.length ? text : text.slice(0, passing) + processEvents(text.slice(passing))
    if (estimate) sample(read)
    // The end often comes in one piece with the last words, which count.
    const out = closing === DONE ? read + estimated() : read
    if (format === 'chat') hasStarted ||= hasContent
    else {
      hasContent ||= CONTENT[format].test(out) && out.split(EVENT_END).some((raw) => isContentEvent(raw, format))
      hasStarted ||= hasContent || out.split(EVENT_END).some((raw) => isAnswerStart(raw, format))
    }
    if (format === 'responses' && out.includes(SEQUENCE)) lastNumbered = out
    return rename ? rename(out) : out
  }

  /** Length of the plain events at the start of a text, which pass as they are; what follows is read event by event. */
  function plainLength(text: string): number {
    if (isOpening || isTagged(text)) return 0
    const marked = text.search(marks)
    // The mark may be in the name of an event, before its data.
    const end = marked < 0 ? text.length : text.lastIndexOf('\n\n', marked - 1) + 2
    if (end < 2) return 0
    const plain = end === text.length ? text : text.slice(0, end)
    return isOnePlain(plain) || PLAIN[format].test(plain) ? end : 0
  }

  /** Processes event by event. Events before an error are still sent; events after the last one are not. */
  function processEvents(text: string): string {
    let out = ''
    for (const raw of text.split(EVENT_END)) {
      try {
        // Most events that arrived together need no parsing.
        const isPlain = PLAIN[format].test(raw)
        const event = isOpening || !isPlain || isTagged(raw) || marks.test(raw) ? parseEvent(raw) : undefined
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
    const thought = withoutThinkTags(withReasoningContent(payload))
    const before = isOpening ? openingChunk(thought) : ''
    const finish = FINISH.exec(data)?.[1]
    if (finish === 'error') throw upstreamFailure({ event, data })
    if (finish !== undefined) isFinished = true
    if (finish === 'content_filter') hasContent = true
    if (isFields(thought.usage))
      usage = showsReasoningTokens ? usageOf(thought.usage) : withoutReasoningTokens(usageOf(thought.usage))
    const out = isFields(thought.usage) ? { ...thought, usage } : thought
    return before + (out === payload ? raw : sseJson(out))
  }

  /** Whether a text may hold a `<think>` tag, or the rest of one. */
  function isTagged(text: string): boolean {
    return format === 'chat' && (text.includes('<') || text.includes('\\u003c') || isSplitting)
  }

  function withoutThinkTags(chunk: Fields): Fields {
    const choices = objectsOf(chunk.choices)
    const split = choices.map(splitChoice)
    isSplitting = [...splitters.values()].some((splitter) => splitter.isOpen())
    return split.every((choice, index) => choice === choices[index]) ? chunk : { ...chunk, choices: split }
  }

  function splitChoice(choice: Fields): Fields {
    const delta = isFields(choice.delta) ? choice.delta : {}
    const { content, reasoning_content: reported, ...rest } = delta
    const piece = typeof content === 'string' ? content : ''
    const index = typeof choice.index === 'number' ? choice.index : 0
    const known = splitters.get(index)
    if (!known && !piece.includes('<')) return choice
    const splitter = known ?? thinkSplitter()
    splitters.set(index, splitter)
    const first = splitter.push(piece)
    const last = typeof choice.finish_reason === 'string' ? splitter.end() : { content: '', reasoning: '' }
    const [visibleText, thought] = [first.content + last.content, first.reasoning + last.reasoning]
    if (visibleText === piece && thought === '') return choice
    const reasoningContent = (typeof reported === 'string' ? reported : '') + thought
    return {
      ...choice,
      delta: {
        ...rest,
        ...(visibleText !== '' && { content: visibleText }),
        ...(reasoningContent !== '' && { reasoning_content: reasoningContent }),
      },
    }
  }

  function sample(text: string): void {
    passed += text.length
    if (sampled >= SAMPLE) return
    sampled += text.length
    samples.push(text)
  }

  /** A chunk with the estimated usage; '' when the vendor has reported usage, or when nothing is estimated. */
  function estimated(): string {
    if (!estimate || (isFields(usage) && isCounted(usage))) return ''
    const chunks = samples
      .join('')
      .split(EVENT_END)
      .flatMap((raw): Fields[] => [tryJson(parseEvent(raw)?.data ?? '') ?? {}])
    const length = chunks.reduce(
      (sum, { choices }) => sum + objectsOf(choices).reduce((all, { delta }) => all + deltaLength(delta), 0),
      0,
    )
    usage = estimate(Math.ceil((length * passed) / Math.max(1, sampled)))
    const { id, created, model: named } = chunks[0] ?? {}
    return sseJson(given({ id, object: 'chat.completion.chunk', created, model: named, choices: [], usage }))
  }

  /** Handles a chunk before the first text. Returns the text to send before it. */
  function openingChunk(chunk: Fields): string {
    const choices = objectsOf(chunk.choices)
    const [choice] = choices
    const deltas = choices.map(({ delta }) => (isFields(delta) ? delta : {}))
    const thought = deltas[0]?.reasoning_content
    if (typeof thought === 'string' && reasoning.length < MAX_EVENT) reasoning += thought
    if (deltas.some((delta) => isNonBlank(delta.reasoning_content))) hasContent = true
    // Hidden reasoning (OpenRouter): the answer has started, but without content that is charged for.
    if (deltas.some((delta) => isNonBlank(delta.reasoning_details))) hasStarted = true
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
    if (isFields(payload?.delta) && payload.delta.stop_reason === 'refusal') hasContent = hasStarted = true
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
    if (!isEmpty(response, 'responses')) hasContent = hasStarted = true
    return last(raw)
  }

  function generateContent({ event, data }: SseEvent, raw: string): string {
    if (event === 'error' || tryJson(data)?.error !== undefined) throw upstreamFailure({ event, data })
    return raw
  }

  /** Before the answer starts, a failing stream is an ordinary error, classified by its vendor. */
  function upstreamFailure({ event, data }: { readonly event: string | undefined; readonly data: string }): ApiError {
    const refusal =
      hasStarted || hasContent ? undefined : upstream.apiErrorOf?.({ data, ...(event !== undefined && { event }) })
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

// ── chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const isError = ({ error, object }: Fields): boolean => (error !== undefined && error !== null) || object === 'error'

const FINISH = /"finish_reason": ?"(\w*)/
/** Members of a delta that are part of the answer; `function_call` is legacy. */
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

/** Characters of a stream that are kept to estimate its usage. */
const SAMPLE = 65_536

/** Characters of an answer in one delta. */
function deltaLength(delta: Json | undefined): number {
  if (!isFields(delta)) return 0
  const calls = objectsOf(delta.tool_calls).map((call) => fieldsOf(call.function))
  return [delta.content, delta.reasoning_content, ...calls.flatMap(({ name, arguments: args }) => [name, args])].reduce(
    (sum: number, text) => sum + textOf(text).length,
    0,
  )
}

export const SEQUENCE = '"sequence_number":'

/** The number after that of the last numbered event of a text. Quotes inside of JSON strings are escaped. */
export function sequenceAfter(text: string): number {
  const at = text.lastIndexOf(SEQUENCE)
  return at < 0 ? 0 : Number.parseInt(text.slice(at + SEQUENCE.length), 10) + 1
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
  const [ownClose, ownSpaced] = [`"model":${ownName}`, `"model": ${ownName}`]
  return (text) => {
    const at = text.indexOf(close)
    return at < 0
      ? replaced(text, spaced, { by: ownSpaced, at: text.indexOf(spaced) })
      : replaced(text, close, { by: ownClose, at })
  }
}

/** The text with each `word` replaced; `at` is the first, or -1. By hand: replaceAll takes three times as long. */
function replaced(text: string, word: string, { by, at: first }: { by: string; at: number }): string {
  let [out, from] = ['', 0]
  for (let at = first; at >= 0; at = text.indexOf(word, from)) {
    out += text.slice(from, at) + by
    from = at + word.length
  }
  return from === 0 ? text : out + text.slice(from)
}

// ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const NOTHING = new Uint8Array()
const DONE = 'data: [DONE]\n\n'
const DATA = /^data:/m
/** Complete events whose data look like a JSON object, and nothing else. */
const NAMELESS = /^(?:data: \{[^\n]*\}\n\n)+$/
const NAMED = /^(?:event: [\w.]+\ndata: \{[^\n]*\}\n\n)+$/
const PLAIN: Readonly<Record<ChatFormat, RegExp>> = {
  chat: NAMELESS,
  messages: NAMED,
  responses: NAMED,
  generate_content: NAMELESS,
}

/** Whether a text is one nameless event as in NAMELESS, as most pieces are. */
const isOnePlain = (text: string): boolean =>
  text.startsWith('data: {') && text.indexOf('\n') === text.length - 2 && text.endsWith('}\n\n')

/** Comments are keep-alives; their text is not forwarded. */
const keepAlive = (raw: string): string => (raw.trim() === '' ? '' : ': working\n\n')

/** A line without exactly one space after its name. */
const UNUSUAL_SPACING = /^(?:data|event|id|retry):(?! )/m
const EVENT_END = /(?<=\n\r?\n)(?!\r?\n)/

/** Normalizes the spacing of a line. */
const normalizedLine = (line: string): string => line.replace(/^(\w+): ?/, '$1: ')
