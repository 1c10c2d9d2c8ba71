/** When an answer has begun: until then nothing is handed out, and a stream that fails is no answer, but a refusal. */
import type { AnswerStream } from '../../../endpoint/mod.ts'
import { ApiError } from '../../../http/errors.ts'
import { MAX_EVENT, parseEvent, tryJson } from './sse.ts'
import { hasContentIn, isSaid } from './empty.ts'
import { type Fields, fieldsOf } from '../../../lib/json.ts'
import type { ChatFormat } from '../../../ports/vendors/chat.ts'

/** What may come before the first real event, in bytes: `response.created` repeats instructions and tools. */
const MAX_HELD = MAX_EVENT

/** A stream that knows whether its first real event has come: words, thoughts, a tool call or a refusal. */
export type Watched = AnswerStream & { hasBegun(): boolean }

/**
 * The same stream, handed out at its first real event. What came before, such as comments and the chunk that names the speaker, is held back and goes
 * out with it, as it came. Rejects, and cancels the stream, where it fails or ends before, or where too much came that says nothing.
 */
export async function begun(stream: Watched, { signal }: { readonly signal: AbortSignal }): Promise<AnswerStream> {
  const held: Uint8Array[] = []
  let size = 0
  let isOver = false
  const leave = () => stream.cancel()
  signal.addEventListener('abort', leave, { once: true })
  if (signal.aborted) leave()
  try {
    while (!stream.hasBegun()) {
      const bytes = await stream.next()
      isOver = bytes === undefined
      if (bytes === undefined) break
      held.push(bytes)
      size += bytes.length
      if (size > MAX_HELD) throw silent(`it sent ${size} bytes that say nothing, and ${MAX_HELD} are allowed`)
    }
    if (!stream.hasBegun()) throw silent('it ended without an answer')
  } catch (error) {
    stream.cancel()
    throw error instanceof ApiError && error.parts.message === BROKEN_OFF ? silent('it broke off') : error
  } finally {
    signal.removeEventListener('abort', leave)
  }
  let isRead = false
  let left = held.length
  return {
    async next() {
      isRead = true
      const first = held.shift()
      if (first) left--
      return first ?? (isOver ? undefined : await stream.next())
    },
    cancel() {
      held.length = 0
      stream.cancel()
    },
    // The first real event is in the last piece that was held.
    hasContent: () => isRead && left === 0 && stream.hasContent(),
    closing: stream.closing,
    usage: stream.usage,
  }
}

const BROKEN_OFF = 'The model broke off its answer.'

export const broken = () => new ApiError('MODEL_UNAVAILABLE', { message: BROKEN_OFF })

const silent = (why: string) =>
  new ApiError('MODEL_UNAVAILABLE', {
    message: `The model did not answer: ${why}. Nothing was charged; the same request may be sent again.`,
  })

// ── the first real event ────────────────────────────────────────────────────────────────────────────────────────────

/** Whether an event says something: words, thoughts, a tool call or a refusal; white space does not. `chat` reads its chunks itself. */
export function isReal(raw: string, wire: Exclude<ChatFormat, 'chat'>): boolean {
  const told = tryJson(parseEvent(raw)?.data ?? '')
  return told !== undefined && real[wire](told)
}

/** Whether an event has something in it that a reader pays for. A block of thoughts that has only begun has not. */
export function isContent(raw: string, wire: Exclude<ChatFormat, 'chat'>): boolean {
  const told = tryJson(parseEvent(raw)?.data ?? '')
  return told !== undefined && hasContentIn[wire](told)
}

const real: Readonly<Record<Exclude<ChatFormat, 'chat'>, (told: Fields) => boolean>> = {
  messages: (told) =>
    hasContentIn.messages(told) ||
    (told.type === 'content_block_start' && fieldsOf(told.content_block).type === 'thinking'),
  responses(told) {
    const { type, item } = told
    const made = fieldsOf(item)
    if (type === 'response.output_item.added') return made.type !== 'message'
    if (type === 'response.output_item.done') return made.type === 'message' && isSaid(made.content)
    return hasContentIn.responses(told)
  },
  generate_content: hasContentIn.generate_content,
}
