/** Forwards vendor streams: bytes pass unchanged, and only relevant events are parsed (decision 25). */
import type { ApiError } from '../../../http/errors.ts'
import { brokenOff, isAnswerStart, isContentEvent, type TrackedStream } from './answer_start.ts'
import { chatReader } from './chat_chunks.ts'
import { CR, eventBoundary } from './event_boundary.ts'
import { type EventSplitter, eventSplitter } from '../../../lib/event_splitter.ts'
import { nativeReader } from './native_events.ts'
import { parseEvent, tryJson } from './sse.ts'
import {
  DONE,
  EVENT_END,
  type EventReader,
  newProgress,
  type StreamFormat,
  type StreamProgress,
} from './stream_progress.ts'
import type { ChatFormat, ChatStream } from '../../../ports/vendors/chat.ts'

/** Matches events that may have content that is charged for. In `chat` the first chunks are parsed instead. */
const CONTENT: Readonly<Record<Exclude<ChatFormat, 'chat'>, RegExp>> = {
  messages: /content_block_(?:start|delta)/,
  responses: /\.delta"|"response\.(?:output_text|refusal|function_call_arguments)\.done"/,
  generate_content: /"parts":/,
}

type Forwarding = {
  readonly upstream: ChatStream
  readonly format: ChatFormat
  readonly reader: EventReader
  readonly progress: StreamProgress
  readonly boundary: ReturnType<typeof eventBoundary>
  readonly decoder: TextDecoder
  readonly encoder: TextEncoder
  /** Set for a vendor with unusual spacing or line ends, detected at the first event with data. */
  splitter: EventSplitter | undefined
  isSpacingKnown: boolean
  failure: ApiError | undefined
  /** The last text with a numbered event. */
  lastNumbered: string
}

/**
 * Forwards a vendor's stream in the format that the caller reads. Complete events are passed on as the bytes received,
 * or in the contract's spelling where the vendor's differs. `[DONE]` and its equivalents are held back as the closing
 * events, and end the stream; generate_content has none, so that an event with a finish reason is held back until
 * another one follows. Throws an ApiError for an error event, after the events before it, and for a stream that
 * is interrupted.
 */
export function forwardedStream(upstream: ChatStream, options: StreamFormat): TrackedStream {
  const { format } = options
  const progress = newProgress()
  const reader =
    format === 'chat' ? chatReader(upstream, progress, options) : nativeReader(format, { upstream, progress })
  const forwarding: Forwarding = {
    upstream,
    format,
    reader,
    progress,
    boundary: eventBoundary(),
    decoder: new TextDecoder(),
    encoder: new TextEncoder(),
    splitter: undefined,
    isSpacingKnown: false,
    failure: undefined,
    lastNumbered: '',
  }
  const onPiece = (bytes: Uint8Array | undefined) => {
    // Cancelled in the meantime: the outcome is irrelevant.
    if (progress.isOver) return undefined
    const out = bytes === undefined ? onEnd(forwarding) : onBytes(forwarding, bytes)
    return out && out.length > 0 ? out : next()
  }
  /** Chained and not awaited: a stream has hundreds of pieces, and each frame of an async function costs. */
  const next = (): Promise<Uint8Array | undefined> => {
    if (forwarding.failure) return Promise.reject(forwarding.failure)
    return progress.isOver ? Promise.resolve(undefined) : upstream.next().then(onPiece)
  }
  return {
    next,
    cancel() {
      const hasEnded = progress.isFinished && progress.closing !== '' && upstream.finish !== undefined
      progress.isOver = true
      if (hasEnded) upstream.finish?.()
      else upstream.cancel()
    },
    hasContent: () => progress.hasContent,
    hasStarted: () => progress.hasStarted,
    closing: () => progress.closing,
    usage: () => progress.usage ?? reader.lastUsage?.() ?? null,
    nextSequence: () => sequenceAfter(forwarding.lastNumbered),
  }
}

function onBytes(forwarding: Forwarding, bytes: Uint8Array): Uint8Array | undefined {
  const { splitter, isSpacingKnown, boundary } = forwarding
  if (!splitter && !isSpacingKnown && bytes.includes(CR)) return normalizeFrom(forwarding, bytes)
  if (splitter) return normalized(forwarding, splitter.push(bytes))
  const whole = boundary.push(bytes)
  return whole && processBytes(forwarding, whole)
}

/** From here on events are split and serialized again. */
function normalizeFrom(forwarding: Forwarding, bytes: Uint8Array): Uint8Array | undefined {
  const splitter = eventSplitter()
  forwarding.splitter = splitter
  const buffered = forwarding.boundary.rest()
  return normalized(forwarding, [...(buffered ? splitter.push(buffered) : []), ...splitter.push(bytes)])
}

function normalized(forwarding: Forwarding, events: readonly string[]): Uint8Array | undefined {
  if (events.length === 0) return undefined
  const text = events.map((event) => `${event.split('\n').map(normalizedLine).join('\n')}\n\n`).join('')
  return forwarding.encoder.encode(processed(forwarding, text))
}

function onEnd(forwarding: Forwarding): Uint8Array | undefined {
  const { splitter, decoder, boundary, progress, reader, encoder } = forwarding
  const buffered = splitter ? splitter.flush() : decoder.decode(boundary.rest() ?? NOTHING).trim()
  const data = parseEvent(buffered)?.data
  // An incomplete event is dropped; a complete one may lack its blank line.
  const out =
    data === '[DONE]' || (data !== undefined && tryJson(data)) ? normalized(forwarding, [buffered]) : undefined
  progress.isOver = true
  if (!progress.isFinished) forwarding.failure ??= brokenOff()
  trackContent(forwarding, progress.closing)
  if (!progress.isFinished || forwarding.format !== 'chat' || progress.closing !== '') return out
  progress.closing = DONE
  const ending = reader.ending?.() ?? ''
  if (ending === '') return out
  const text = new TextDecoder().decode(out ?? NOTHING) + ending
  return encoder.encode(reader.renamed?.(text) ?? text)
}

/** Processes complete events. */
function processBytes(forwarding: Forwarding, bytes: Uint8Array): Uint8Array | undefined {
  const { decoder, encoder, boundary } = forwarding
  const text = decoder.decode(bytes)
  if (!forwarding.isSpacingKnown) {
    if (UNUSUAL_SPACING.test(text)) return normalizeFrom(forwarding, boundary.withBuffered(bytes))
    forwarding.isSpacingKnown = DATA.test(text)
  }
  const out = processed(forwarding, text)
  return out === text ? bytes : encoder.encode(out)
}

function processed(forwarding: Forwarding, text: string): string {
  const { format, reader, progress } = forwarding
  const passing = plainLength(forwarding, text)
  const read = passing === text.length ? text : text.slice(0, passing) + processEvents(forwarding, text.slice(passing))
  reader.sent?.(read)
  // The end often comes in one piece with the last words, which count.
  const isEnding = progress.closing === DONE || forwarding.failure !== undefined
  const out = isEnding ? read + (reader.ending?.() ?? '') : read
  trackContent(forwarding, out)
  if (format === 'responses' && out.includes(SEQUENCE)) forwarding.lastNumbered = out
  return reader.renamed?.(out) ?? out
}

function trackContent({ format, progress }: Forwarding, out: string): void {
  if (format === 'chat') return
  progress.hasContent ||= CONTENT[format].test(out) && out.split(EVENT_END).some((raw) => isContentEvent(raw, format))
  progress.hasStarted ||= progress.hasContent || out.split(EVENT_END).some((raw) => isAnswerStart(raw, format))
}

/** Length of the plain events at the start of a text, which pass as they are; what follows is read event by event. */
function plainLength({ format, reader }: Forwarding, text: string): number {
  if (reader.isRead(text)) return 0
  const marked = text.search(reader.marks)
  // The mark may be in the name of an event, before its data.
  const end = marked < 0 ? text.length : text.lastIndexOf('\n\n', marked - 1) + 2
  if (end < 2) return 0
  const plain = end === text.length ? text : text.slice(0, end)
  return isOnePlain(plain) || PLAIN[format].test(plain) ? end : 0
}

/** Processes event by event. Events before an error are still sent; events after the last one are not. */
function processEvents(forwarding: Forwarding, text: string): string {
  const { format, reader, progress } = forwarding
  let out = ''
  for (const raw of text.split(EVENT_END)) {
    try {
      // Most events that arrived together need no parsing.
      const isPlain = PLAIN[format].test(raw)
      const event = !isPlain || reader.isRead(raw) || reader.marks.test(raw) ? parseEvent(raw) : undefined
      if (event && !isPlain && event.data !== '[DONE]' && !tryJson(event.data)) throw brokenOff()
      if (event) out += reader.read(event, raw)
      if (!event) out += isPlain ? raw : keepAlive(raw, format)
    } catch (error) {
      forwarding.failure = error as ApiError
    }
    if (forwarding.failure || progress.isOver) break
  }
  return out
}

export const SEQUENCE = '"sequence_number":'

/** The number after that of the last numbered event of a text. Quotes inside of JSON strings are escaped. */
export function sequenceAfter(text: string): number {
  const at = text.lastIndexOf(SEQUENCE)
  return at < 0 ? 0 : Number.parseInt(text.slice(at + SEQUENCE.length), 10) + 1
}

// ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const NOTHING = new Uint8Array()
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

/** Comments are keep-alives; their text is not forwarded, and nothing of them where clients cannot read comments. */
const keepAlive = (raw: string, format: ChatFormat): string =>
  raw.trim() === '' || format === 'generate_content' ? '' : ': working\n\n'

/** A line without exactly one space after its name. */
const UNUSUAL_SPACING = /^(?:data|event|id|retry):(?! )/m

/** Normalizes the spacing of a line. */
const normalizedLine = (line: string): string => line.replace(/^(\w+): ?/, '$1: ')
