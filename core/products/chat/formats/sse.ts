/** Server-sent events: writing and parsing. `core/lib/event_splitter.ts` splits a stream into them. */
import type { Fields } from '../../../lib/json.ts'
import type { SseEvent } from '../../../ports/vendors/chat.ts'

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
