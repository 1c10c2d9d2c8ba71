/** A reply that is read bit by bit: its first bytes, what they refuse, and the rest as it comes. */
import type { ChatStream, SseEvent } from '../../core/mod.ts'
import { record, type Refusal, refusalIn } from './refusals.ts'

type Reader = ReadableStreamDefaultReader<Uint8Array>

/** The first bytes of a body; undefined where there are none. Rejects as the connection does. */
export async function firstBytes(reader: Reader | undefined): Promise<Uint8Array | undefined> {
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    if (done || value.length > 0) return value
  }
}

/** The `data` line of the first event, comments skipped. */
const FIRST_DATA = /^data:[ \t]*([^\r\n]*)/m
/** So an error begins, even one that is cut off. */
const ERROR_BEGINS = /^event:[ \t]*error\b|^data:[ \t]*\{\s*"error"\s*:\s*[{"]/m

/**
 * The error that a stream begins with, in the first chunk: `data: {"error": …}` or `event: error`. Costs a parse only where the first event
 * has a member of that name; a quote inside generated text is escaped, and so never looks like one.
 */
export function firstRefusal(first: Uint8Array, headers: Headers): Refusal | undefined {
  const text = new TextDecoder().decode(first)
  const match = FIRST_DATA.exec(text)
  const data = match?.[1] ?? ''
  const isNamed = ERROR_BEGINS.test(match ? text.slice(0, match.index + match[0].length) : text)
  if (!isNamed && !data.includes('"error"')) return undefined
  const body = parsed(data)
  return refusalIn(body, headers) ?? (isNamed ? { status: 500, headers, body } : undefined)
}

/** The refusal that an event is which comes before the model's first word; `response.failed` has it a level deeper. */
export function refusalOfEvent({ event, data }: SseEvent, headers: Headers): Refusal | undefined {
  const body = parsed(data)
  const isNamed = event === 'error' || event === 'response.failed'
  return (
    refusalIn(body, headers) ??
    refusalIn(record(body).response, headers) ??
    (isNamed ? { status: 500, headers, body } : undefined)
  )
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export type Cut = {
  readonly signal: AbortSignal
  /** Ends the upstream call. */
  readonly cut: AbortController
  /** What to throw when the connection breaks. */
  readonly broken: (reason: unknown) => Error
  readonly apiErrorOf?: ChatStream['apiErrorOf']
}

/**
 * The chunks of a body, the first one already read. Nothing is read ahead, copied or parsed. After `cancel` it ends, also for a read that
 * waits; an abort of `signal` rejects with its reason.
 */
export function chatStream(
  { reader, first }: { reader: Reader; first: Uint8Array },
  { signal, cut, broken, apiErrorOf }: Cut,
): ChatStream {
  let held: Uint8Array | undefined = first
  let isReading = false
  let isOver = false
  const leave = () => cut.abort(signal.reason)
  signal.addEventListener('abort', leave, { once: true })

  return {
    async next() {
      if (isReading) throw new Error('a read of this stream is still pending')
      if (signal.aborted && !isOver) throw signal.reason
      const bytes = held
      held = undefined
      if (bytes || isOver) return bytes
      isReading = true
      try {
        const { done, value } = await reader.read()
        if (done) end()
        return isOver ? undefined : value
      } catch (error) {
        if (isOver) return undefined
        throw signal.aborted ? signal.reason : broken(error)
      } finally {
        isReading = false
      }
    },

    cancel() {
      end()
      held = undefined
      cut.abort('canceled')
      reader.cancel().catch(() => {})
    },

    ...(apiErrorOf && { apiErrorOf }),
  }

  function end(): void {
    isOver = true
    signal.removeEventListener('abort', leave)
  }
}
