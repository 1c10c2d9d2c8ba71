/**
 * Holds a stream back until the answer starts, so that an error before it can still be sent as an HTTP error (decision
 * 95).
 */
import type { Clock } from '../../../lib/clock.ts'
import type { AnswerStream } from '../../../endpoint/mod.ts'
import { ApiError } from '../../../http/errors.ts'
import { deadlinesOf } from '../../../lib/timers.ts'
import { MAX_EVENT } from '../../../lib/event_splitter.ts'
import { parseEvent, tryJson } from './sse.ts'
import { hasContentIn, isNonBlank } from './empty_answer.ts'
import { type Fields, fieldsOf } from '../../../lib/json.ts'
import type { ChatFormat } from '../../../ports/vendors/chat.ts'

/** Most bytes buffered before the answer starts. `response.created` repeats instructions and tools, so it is large. */
const MAX_BUFFERED = MAX_EVENT

/** A stream that knows whether its answer has started: with text, reasoning, a tool call or a refusal. */
export type TrackedStream = AnswerStream & { hasStarted(): boolean }

/** `beginsBy`: latest start of the answer, in milliseconds since 1970, whatever comments come before it. */
type Start = { readonly signal: AbortSignal; readonly clock: Clock; readonly beginsBy?: number | undefined }

/**
 * Resolves with the stream when its answer starts. Earlier bytes (comments, the chunk that names the role) are buffered
 * and sent with it, unchanged. Rejects and cancels the stream where it fails or ends before, or where `MAX_BUFFERED`
 * bytes arrive without content.
 */
export async function whenAnswerStarts(
  stream: TrackedStream,
  { signal, clock, beginsBy }: Start,
): Promise<AnswerStream> {
  const buffered: Uint8Array[] = []
  let size = 0
  let isOver = false
  const cancel = () => stream.cancel()
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  let isLate = false
  const started =
    beginsBy === undefined
      ? () => {}
      : deadlinesOf(clock).after(Math.max(0, beginsBy - clock.now()), () => {
          isLate = true
          stream.cancel()
        })
  try {
    while (!stream.hasStarted()) {
      const bytes = await stream.next()
      isOver = bytes === undefined
      if (bytes === undefined) break
      buffered.push(bytes)
      size += bytes.length
      if (size > MAX_BUFFERED) throw noAnswer(`it sent ${size} bytes without content, and the limit is ${MAX_BUFFERED}`)
    }
    if (!stream.hasStarted()) throw noAnswer('it ended without an answer')
  } catch (error) {
    stream.cancel()
    if (isLate) throw late()
    throw error instanceof ApiError && error.parts.message === BROKEN_OFF
      ? noAnswer('the stream was interrupted')
      : error
  } finally {
    started()
    signal.removeEventListener('abort', cancel)
  }
  let isRead = false
  let remaining = buffered.length
  return {
    next() {
      isRead = true
      if (remaining === 0 && !isOver) return stream.next()
      const first = buffered.shift()
      if (first) remaining--
      return first || isOver ? Promise.resolve(first) : stream.next()
    },
    cancel() {
      buffered.length = 0
      stream.cancel()
    },
    // The answer starts in the last buffered piece.
    hasContent: () => isRead && remaining === 0 && stream.hasContent(),
    closing: stream.closing,
    usage: stream.usage,
    nextSequence: () => stream.nextSequence?.() ?? 0,
    isCostly: () => stream.isCostly?.() ?? false,
  }
}

const late = () =>
  new ApiError('UPSTREAM_TIMEOUT', { message: 'The model did not begin its answer in time. Nothing was charged.' })

const BROKEN_OFF = 'The model ended its answer early.'

export const brokenOff = () => new ApiError('MODEL_UNAVAILABLE', { message: BROKEN_OFF })

const noAnswer = (why: string) =>
  new ApiError('MODEL_UNAVAILABLE', {
    message: `The model did not answer: ${why}. Nothing was charged. Send the same request again.`,
  })

// ── the start of an answer ──────────────────────────────────────────────────────────────────────────────────────────

/**
 * Whether an event starts the answer: non-blank text, reasoning, a tool call or a refusal. Chunks of `chat` are read
 * elsewhere.
 */
export function isAnswerStart(raw: string, format: Exclude<ChatFormat, 'chat'>): boolean {
  const event = tryJson(parseEvent(raw)?.data ?? '')
  return event !== undefined && isStart[format](event)
}

/** Whether an event has content that is charged for. The start of an empty thinking block is not. */
export function isContentEvent(raw: string, format: Exclude<ChatFormat, 'chat'>): boolean {
  const event = tryJson(parseEvent(raw)?.data ?? '')
  return event !== undefined && hasContentIn[format](event)
}

const isStart: Readonly<Record<Exclude<ChatFormat, 'chat'>, (event: Fields) => boolean>> = {
  messages: (event) =>
    hasContentIn.messages(event) ||
    (event.type === 'content_block_start' && fieldsOf(event.content_block).type === 'thinking'),
  responses(event) {
    const { type } = event
    const item = fieldsOf(event.item)
    if (type === 'response.output_item.added') return item.type !== 'message'
    if (type === 'response.output_item.done') return item.type === 'message' && isNonBlank(item.content)
    return hasContentIn.responses(event)
  },
  generate_content: hasContentIn.generate_content,
}
