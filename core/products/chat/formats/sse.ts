/** Server-sent events: writing, splitting a byte stream into events, and parsing. */
import type { Fields } from '../../../lib/json.ts'
import type { SseEvent } from '../../../ports/vendors/chat.ts'

/** Most characters of one event. */
export const MAX_EVENT = 4 * 1024 * 1024

const LINE_END = /\r\n|\n|\r/

/** Serializes an event. Each line of `data` becomes a data line. */
export function sseText({ event, data }: SseEvent): string {
  const name = event === undefined ? '' : `event: ${event}\n`
  if (!data.includes('\n') && !data.includes('\r')) return `${name}data: ${data}\n\n`
  const lines = data.split(LINE_END).map((line) => `data: ${line}\n`)
  return `${name}${lines.join('')}\n`
}

/** Serializes an event whose data is `value` as JSON. */
export function sseJson(value: unknown, event?: string): string {
  const data = JSON.stringify(value)
  return event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`
}

export type EventSplitter = {
  /**
   * The events that these bytes complete, without the blank line, line ends normalized to \n. Throws a RangeError past
   * `MAX_EVENT`.
   */
  push(bytes: Uint8Array): string[]
  /** The incomplete event left at the end, or ''. Call once, last. */
  flush(): string
}

/** Splits a byte stream into events. Chunks may break anywhere: inside a character, a line end or a blank line. */
export function eventSplitter(): EventSplitter {
  const decoder = new TextDecoder()
  // Only new text is searched, so that an event in many small chunks costs no more than in one.
  let pending = ''
  let lineEnded = false
  let carriageReturned = false

  function normal(text: string): string {
    if (text === '') return text
    const whole = carriageReturned && text.startsWith('\n') ? text.slice(1) : text
    carriageReturned = text.endsWith('\r')
    return whole.includes('\r') ? whole.replace(/\r\n?/g, '\n') : whole
  }

  function append(text: string): void {
    if (pending.length + text.length > MAX_EVENT)
      throw new RangeError(`an event is longer than ${MAX_EVENT} characters`)
    pending += text
  }

  function takePending(): string {
    const event = pending.replace(/^\n+|\n+$/g, '')
    pending = ''
    return event
  }

  function split(text: string): string[] {
    if (text === '') return []
    const events: string[] = []
    let from = 0
    if (lineEnded && text.startsWith('\n')) {
      events.push(takePending())
      from = 1
    }
    for (let at = text.indexOf('\n\n', from); at >= 0; at = text.indexOf('\n\n', from)) {
      append(text.slice(from, at))
      events.push(takePending())
      from = at + 2
    }
    append(text.slice(from))
    lineEnded = pending.endsWith('\n')
    return events.filter((event) => event !== '')
  }

  return {
    push: (bytes) => split(normal(decoder.decode(bytes, { stream: true }))),
    flush() {
      append(normal(decoder.decode()))
      return takePending()
    },
  }
}

/** Parses one event. Undefined for a comment and for anything else without a data line. */
export function parseEvent(text: string): SseEvent | undefined {
  let event: string | undefined
  const data: string[] = []
  for (const line of text.split(LINE_END)) {
    const [name, value] = field(line)
    if (name === 'event') event = value
    if (name === 'data') data.push(value)
  }
  if (data.length === 0) return undefined
  return event === undefined ? { data: data.join('\n') } : { event, data: data.join('\n') }
}

/** Name and value of a line. The name of a comment is ''. */
function field(line: string): [string, string] {
  const colon = line.indexOf(':')
  if (colon < 0) return [line, '']
  const value = line.slice(colon + 1)
  return [line.slice(0, colon), value.startsWith(' ') ? value.slice(1) : value]
}

/** Parses a JSON object. Undefined for anything else, arrays and scalars included. */
export function tryJson(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined
  } catch {
    return undefined
  }
}
