/** When an answer has begun: until then nothing is handed out, and a stream that fails is no answer, but a refusal. */
import type { AnswerStream } from '../../../endpoint/mod.ts'
import { ApiError } from '../../../http/errors.ts'
import { MAX_EVENT, parseEvent, tryJson } from './sse.ts'
import { type Fields, fieldsOf, objectsOf, textOf } from '../../../lib/json.ts'
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

/** Whether an event says something: words, thoughts, a tool call or a refusal. In `chat` its chunks are read anyway. */
export function isReal(raw: string, wire: Exclude<ChatFormat, 'chat'>): boolean {
  const told = tryJson(parseEvent(raw)?.data ?? '')
  return told !== undefined && real[wire](told)
}

const isSaid = (value: unknown): boolean =>
  typeof value === 'string' || Array.isArray(value) ? value.length > 0 : typeof value === 'object' && value !== null

/** Whether any member but these says something. */
const saysBeside = (fields: Fields, names: readonly string[]): boolean =>
  Object.entries(fields).some(([name, value]) => !names.includes(name) && isSaid(value))

const real: Readonly<Record<Exclude<ChatFormat, 'chat'>, (told: Fields) => boolean>> = {
  messages({ type, content_block, delta }) {
    const block = fieldsOf(content_block)
    if (type === 'content_block_start') return block.type !== 'text' || isSaid(block.text)
    return type === 'content_block_delta' && saysBeside(fieldsOf(delta), ['type'])
  },
  responses({ type, delta, item, text, refusal, arguments: given }) {
    const made = fieldsOf(item)
    if (type === 'response.output_item.added') return made.type !== 'message'
    if (type === 'response.output_item.done') return made.type === 'message' && objectsOf(made.content).length > 0
    const name = textOf(type)
    return name.endsWith('.delta') ? isSaid(delta) : name.endsWith('.done') && [text, refusal, given].some(isSaid)
  },
  generate_content: ({ candidates }) =>
    objectsOf(candidates).some(({ content }) =>
      objectsOf(fieldsOf(content).parts).some((part) => saysBeside(part, ['thought'])),
    ),
}
