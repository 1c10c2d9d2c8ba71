/** Streams on their way through: bytes pass untouched, and are read only where they say something that matters (house decision 13). */
import { Fault } from '../faults.ts'
import type { LiveStream } from '../endpoint.ts'
import type { ChatStream, Json } from '../ports.ts'
import { eventSplitter, MAX_EVENT, parseEvent, sseJson, tryJson } from './sse.ts'
import { usageOf } from './usage.ts'
import type { Fields, Rewriter, SseEvent, Wire } from './wire.ts'

/** Where the text of a wire has to be looked at. None of these can stand inside a JSON string: its quotes would be escaped. */
const MARKS: Readonly<Record<Wire, RegExp>> = {
  chat: /"(?:usage": ?\{|error":|finish_reason": ?")|\[DONE\]/,
  messages: /event: ?(?:error|message_delta|message_start|message_stop)/,
  responses: /event: ?(?:error|response\.(?:completed|incomplete|failed|created))/,
  generate_content: /"(?:usageMetadata|error)":/,
}

/** What a reader would pay for. In `chat` the first chunks are read one by one instead, for they hold an empty text. */
const CONTENT: Readonly<Record<Wire, RegExp>> = {
  chat: /(?!)/,
  messages: /content_block_delta/,
  responses: /"type": ?"response\.\w+\.delta"|\.delta"/,
  generate_content: /"parts":/,
}

export type Watching = {
  readonly wire: Wire
  /** The upstream's model id and ours, which takes its place. */
  readonly model?: { readonly upstream: string; readonly ours: string }
}

/**
 * A vendor's stream in the wire of its reader. An event is passed on when it is whole, as the bytes that came. `[DONE]` and its like are held
 * back as the closing events. Throws a Fault for an error among the events, and for a stream that breaks off.
 */
export function watched(upstream: ChatStream, { wire, model }: Watching): LiveStream {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  const rename = model && model.upstream !== model.ours ? renamer(model) : undefined
  const marks = MARKS[wire]
  const read = { chat, messages, responses, generate_content: generateContent }[wire]
  let tail: Uint8Array | undefined
  let hasContent = false
  /** Until a text or a tool call has come, chunks of chat are read: reasoning alone becomes the text in the end (spec 2, rule 3). */
  let isOpening = wire === 'chat'
  let reasoning = ''
  let usage: Json = null
  let isFinished = false
  let isOver = false
  let closing = ''

  return {
    async next() {
      for (;;) {
        if (isOver) return undefined
        const bytes = await upstream.next()
        if (bytes === undefined) {
          isOver = true
          if (tail !== undefined) return checked(encoder.encode(`${decoder.decode(tail)}\n\n`)) ?? finish()
          return finish()
        }
        const whole = tail ? joined(tail, bytes) : bytes
        const cut = lastEventEnd(whole)
        tail = cut < whole.length ? whole.subarray(cut) : undefined
        if (tail && tail.length > MAX_EVENT) throw broken()
        if (cut === 0) continue
        const out = checked(cut === whole.length ? whole : whole.subarray(0, cut))
        if (out) return out
      }
    },
    cancel() {
      isOver = true
      upstream.cancel()
    },
    hasContent: () => hasContent,
    closing: () => closing,
    usage: () => usage,
  }

  function finish(): undefined {
    if (isFinished || wire === 'generate_content') {
      if (wire === 'chat') closing = 'data: [DONE]\n\n'
      return undefined
    }
    throw broken()
  }

  /** Whole events, as they may go on. */
  function checked(bytes: Uint8Array): Uint8Array | undefined {
    const text = decoder.decode(bytes)
    if (!isOpening && !marks.test(text)) {
      hasContent ||= CONTENT[wire].test(text)
      return rename ? encoder.encode(rename(text)) : bytes
    }
    hasContent ||= CONTENT[wire].test(text)
    const out = eventsOf(text).map(passed).join('')
    return out === '' ? undefined : encoder.encode(rename ? rename(out) : out)
  }

  function passed(raw: string): string {
    const event = parseEvent(raw)
    if (!event) return `${raw}\n\n`
    return read(event, `${raw}\n\n`)
  }

  function chat({ data }: SseEvent, raw: string): string {
    if (data === '[DONE]') {
      isFinished = true
      return ''
    }
    const chunk = tryJson(data)
    if (!chunk) return raw
    if (chunk.error !== undefined && chunk.error !== null) throw broken()
    const before = isOpening ? opening(chunk) : ''
    if (data.includes('"finish_reason":"') || data.includes('"finish_reason": "')) isFinished = true
    if (!isFieldsLike(chunk.usage)) return before + raw
    usage = usageOf(chunk.usage)
    return before + sseJson({ ...chunk, usage })
  }

  /** A chunk before the first text. Answers with what has to go before it. */
  function opening(chunk: Fields): string {
    const [choice] = Array.isArray(chunk.choices) ? (chunk.choices as readonly Fields[]) : []
    const delta = isFieldsLike(choice?.delta) ? choice.delta : {}
    const thought = delta.reasoning_content ?? delta.reasoning
    if (typeof thought === 'string' && thought !== '') {
      hasContent = true
      if (reasoning.length < MAX_EVENT) reasoning += thought
    }
    const isTool = Array.isArray(delta.tool_calls) && delta.tool_calls.length > 0
    if (isTool || (typeof delta.content === 'string' && delta.content !== '') || (typeof delta.refusal === 'string' && delta.refusal !== '')) {
      hasContent = true
      isOpening = false
      return ''
    }
    if (typeof choice?.finish_reason !== 'string' || reasoning === '') return ''
    isOpening = false
    const { usage: _, ...same } = chunk
    return sseJson({ ...same, choices: [{ index: 0, delta: { content: reasoning }, finish_reason: null }] })
  }

  function messages({ event, data }: SseEvent, raw: string): string {
    if (event === 'error') throw broken()
    const told = event === 'message_start' || event === 'message_delta' ? tryJson(data) : undefined
    const counted = isFieldsLike(told?.message) ? told.message.usage : told?.usage
    if (isFieldsLike(counted)) usage = { ...(isFieldsLike(usage) ? usage : {}), ...counted }
    if (event === 'message_delta') hasContent = true
    if (event !== 'message_stop') return raw
    return last(raw)
  }

  function responses({ event, data }: SseEvent, raw: string): string {
    if (event === 'error' || event === 'response.failed') throw broken()
    if (event !== 'response.completed' && event !== 'response.incomplete') return raw
    const told = tryJson(data)
    const response = isFieldsLike(told?.response) ? told.response : {}
    usage = response.usage ?? null
    hasContent = true
    return last(raw)
  }

  function generateContent({ data }: SseEvent, raw: string): string {
    const told = tryJson(data)
    if (told?.error !== undefined) throw broken()
    usage = told?.usageMetadata ?? usage
    return raw
  }

  function last(raw: string): string {
    isFinished = true
    closing = rename ? rename(raw) : raw
    return ''
  }

}

/** A vendor's stream in `chat`, for a reader of another wire. The reader's closing events are those with which the rewriter ends. */
export function rewritten(upstream: ChatStream, rewriter: Rewriter): LiveStream {
  const encoder = new TextEncoder()
  const inner = watched(upstream, { wire: 'chat' })
  const splitter = eventSplitter()
  let closing = ''
  return {
    async next() {
      for (;;) {
        const bytes = await inner.next()
        if (bytes === undefined) {
          if (inner.closing() !== '') closing ||= tell(`data: [DONE]`) + rewriter.end()
          return undefined
        }
        const out = splitter.push(bytes).map(tell).join('')
        if (out !== '') return encoder.encode(out)
      }
    },
    cancel: inner.cancel,
    hasContent: inner.hasContent,
    closing: () => closing,
    usage: inner.usage,
  }

  function tell(raw: string): string {
    const event = parseEvent(raw)
    return event ? rewriter.on(event) : ''
  }
}

const broken = () => new Fault('MODEL_UNAVAILABLE', { message: 'The model broke off its answer.' })

const isFieldsLike = (value: Json | undefined): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

function renamer({ upstream, ours }: NonNullable<Watching['model']>): (text: string) => string {
  const [theirs, own] = [JSON.stringify(upstream), JSON.stringify(ours)]
  return (text) => text.replaceAll(`"model":${theirs}`, `"model":${own}`).replaceAll(`"model": ${theirs}`, `"model":${own}`)
}

const LF = 10
const CR = 13

/** Where the last blank line of these bytes ends; 0 where there is none. Most chunks end with one. */
function lastEventEnd(bytes: Uint8Array): number {
  for (let end = bytes.length; end > 1; end--) {
    if (bytes[end - 1] !== LF) continue
    if (bytes[end - 2] === LF || (bytes[end - 2] === CR && bytes[end - 3] === LF)) return end
  }
  return 0
}

function eventsOf(text: string): string[] {
  return text.split(/\r?\n\r?\n/).filter((event) => event !== '')
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(one.length + other.length)
  bytes.set(one)
  bytes.set(other, one.length)
  return bytes
}
