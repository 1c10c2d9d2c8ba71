/** Splits a stream of server-sent events: for replies of vendors, and for buyers who read those of a gateway. */

/** Most characters of one event. */
export const MAX_EVENT = 4 * 1024 * 1024

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
